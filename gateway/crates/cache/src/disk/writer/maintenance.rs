//! Maintenance by the writer between two batches: it evicts chunks beyond the capacity, and frees
//! space for other programs on the file system. If the files were deleted, it begins an empty log.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tracing::warn;

use super::{FULL_RETRY_PAUSE, Writer};

impl Writer {
    /// Does all work but writing. Begins a new log if the files were deleted, and gives back the
    /// space of removed chunks. Then it evicts chunks beyond the capacity, or frees space for others,
    /// a segment at a time. `true`: there is more to do.
    pub(super) fn maintain(&mut self, now: Instant) -> io::Result<bool> {
        if self.log.take_deleted() {
            self.restart_empty();
        }
        if self.log.health.writes_off() {
            return Ok(false);
        }
        self.punch_holes()?;
        // A change of a pin that cannot be written is lost at the next start.
        let _ = self.write_pin_changes();
        if self.log.segments.taken() > self.log.capacity() {
            return self.evict_one();
        }
        let more = self.free_for_others(now);
        if !matches!(more, Ok(true)) {
            self.hand_steps = 0;
        }
        more
    }

    /// Frees space below `min_free`: evicts until a quarter more than that is free, or nothing is
    /// left. The need is asked once and then counted down, because a file system may report freed
    /// space late.
    fn free_for_others(&mut self, now: Instant) -> io::Result<bool> {
        let log = Arc::clone(&self.log);
        if !log.health.is_full() || self.retry.is_some_and(|retry| now < retry) {
            return Ok(false);
        }
        self.retry = None;
        let mut given = false;
        if self.to_free > 0 {
            let before = log.segments.taken();
            if self.evict_one()? {
                let less = before.saturating_sub(log.segments.taken());
                self.to_free = self.to_free.saturating_sub(less);
                if self.to_free > 0 {
                    return Ok(true);
                }
            }
            (self.to_free, given) = (0, true);
        }
        let free = log.files.space(&log.dir)?.free;
        let empty = log.segments.len() == 0;
        if free >= log.resume_free() || empty && free >= log.min_free() {
            log.health.set_full(false, free);
            return Ok(false);
        }
        if given || empty {
            // Freed space may not show yet.
            self.retry = Some(now + FULL_RETRY_PAUSE);
            return Ok(false);
        }
        self.to_free = log.resume_free() - free;
        Ok(true)
    }

    /// Begins an empty log in place of the deleted files.
    fn restart_empty(&mut self) {
        let log = Arc::clone(&self.log);
        self.current = None;
        self.clocks.clear();
        self.sparse.clear();
        self.survivors.clear();
        log.segments.clear();
        log.index.clear();
        log.take_holes();
        warn!(path = %log.dir.display(), "the files of the cache disk were deleted; it begins anew");
        if let Err(error) = log.layout.relock() {
            log.health.record_write_failure(&error);
        } else if let Err(error) = log.files.make_dir(&log.dir) {
            log.health.record_write_failure(&error);
        }
    }
}
