//! Housekeeping of the writer between two batches: what is over the capacity goes, others on the file
//! system get the space that they need, and an empty log begins where somebody deleted the files.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tracing::warn;

use super::writer::{RETRY, Writer};

impl Writer {
    /// Everything but writing: starts anew where the files were deleted, gives back what was
    /// removed, what is over the capacity, and what others need; the latter two a segment at a
    /// time. `true`: there is more to do.
    pub(super) fn keep_house(&mut self, now: Instant) -> io::Result<bool> {
        if self.log.take_gone() {
            self.start_anew();
        }
        if self.log.health.writes_off() {
            return Ok(false);
        }
        self.make_holes()?;
        // One that cannot be written down is forgotten at the next start.
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

    /// Below `min_free`, evicts until there is a quarter more than that, or nothing is left. How
    /// much that takes is asked once and counted then: a file system may be slow to tell.
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
            // What was given may not show yet.
            self.retry = Some(now + RETRY);
            return Ok(false);
        }
        self.to_give = log.resume_free() - free;
        Ok(true)
    }

    /// Somebody deleted the files: an empty log in their place.
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
