//! Maintenance by the writer between two batches: it evicts chunks beyond the capacity, and frees
//! space for other programs on the file system. If the files were deleted, it begins an empty log.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tracing::warn;

use super::{RETRY, Writer};

impl Writer {
    /// Does all work but writing. Begins a new log if the files were deleted, and gives back the
    /// space of removed chunks. Then it evicts chunks beyond the capacity, or frees space for others,
    /// a segment at a time. `true`: there is more to do.
    pub(super) fn keep_house(&mut self, now: Instant) -> io::Result<bool> {
        if self.log.take_gone() {
            self.start_anew();
        }
        if self.log.health.writes_off() {
            return Ok(false);
        }
        self.make_holes()?;
        // A mark that cannot be written is lost at the next start.
        let _ = self.make_marks();
        if self.log.segments.taken() > self.log.capacity() {
            return self.evict_one();
        }
        let more = self.leave_free(now);
        if !matches!(more, Ok(true)) {
            self.hunt = 0;
        }
        more
    }

    /// Frees space below `min_free`: evicts until a quarter more than that is free, or nothing is
    /// left. The need is asked once and then counted down, because a file system may report freed
    /// space late.
    fn leave_free(&mut self, now: Instant) -> io::Result<bool> {
        let log = Arc::clone(&self.log);
        if !log.health.is_full() || self.retry.is_some_and(|retry| now < retry) {
            return Ok(false);
        }
        self.retry = None;
        let mut given = false;
        if self.to_give > 0 {
            let before = log.segments.taken();
            if self.evict_one()? {
                let less = before.saturating_sub(log.segments.taken());
                self.to_give = self.to_give.saturating_sub(less);
                if self.to_give > 0 {
                    return Ok(true);
                }
            }
            (self.to_give, given) = (0, true);
        }
        let free = log.files.space(&log.dir)?.free;
        let empty = log.segments.len() == 0;
        if free >= log.resume_free() || empty && free >= log.min_free {
            log.health.set_full(false, free);
            return Ok(false);
        }
        if given || empty {
            // Freed space may not show yet.
            self.retry = Some(now + RETRY);
            return Ok(false);
        }
        self.to_give = log.resume_free() - free;
        Ok(true)
    }

    /// Begins an empty log in place of the deleted files.
    fn start_anew(&mut self) {
        let log = Arc::clone(&self.log);
        self.current = None;
        self.clocks.clear();
        self.sparse.clear();
        self.survivors.clear();
        log.segments.clear();
        log.index.clear();
        log.take_holes();
        warn!(path = %log.dir.display(), "somebody deleted the files of the cache disk; it begins anew");
        if let Err(error) = log.layout.lock_anew() {
            log.health.writes_failed(&error);
        } else if let Err(error) = log.files.make_dir(&log.dir) {
            log.health.writes_failed(&error);
        }
    }
}
