//! Bytes in the file cache that the disk may not have, and bytes that could not be removed.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::MutexGuard;

use rustix::fs::{FallocateFlags, fallocate};

use super::Data;
use tidegate_plan::{ByteRange, Extents};
use tidegate_telemetry::locks::Recover as _;

/// Bytes that went through the file cache.
#[derive(Debug, Default)]
pub(super) struct Cached {
    /// The ranges written since the last sync.
    pub(super) unsynced: Extents,
    /// The ranges of a failed sync: reads of them may return anything.
    pub(super) lost: Extents,
    /// Truncated or punched ranges that are still there because the disk failed. They are removed
    /// before the next read.
    pub(super) stale: Extents,
}

impl Data {
    /// Writes bytes through the file cache.
    pub(super) fn write_to_cache(&self, range: ByteRange, bytes: &[u8]) -> io::Result<()> {
        self.cached().stale.remove(range);
        self.file()?.write_all_at(bytes, range.start)?;
        let mut cached = self.cached();
        cached.lost.remove(range);
        cached.unsynced.insert(range);
        Ok(())
    }

    pub(super) fn cached(&self) -> MutexGuard<'_, Cached> {
        self.cached.lock().recover()
    }

    /// Returns once a range permanently reads as it was written. The kernel reports a failed write
    /// of its cache only once; afterwards other bytes may be read there.
    pub(in crate::spool) fn look(&self, range: ByteRange) -> io::Result<()> {
        let is_unsynced = self.cached().unsynced.within(range).next().is_some();
        match is_unsynced {
            true => self.sync_file(),
            false => Ok(()),
        }
    }

    /// Makes the kernel write its cache of the file.
    pub(super) fn sync_file(&self) -> io::Result<()> {
        let file = self.file()?;
        let unsynced = std::mem::take(&mut self.cached().unsynced);
        let synced = file.sync_data();
        if synced.is_err() {
            let mut cached = self.cached();
            for range in unsynced.iter() {
                cached.lost.insert(range);
            }
            drop(cached);
            self.end().is_lost = true;
        }
        synced
    }

    /// Removes a range, which reads as zero from now on.
    pub(in crate::spool) fn punch(&self, range: ByteRange) -> io::Result<()> {
        self.touch(range)?;
        self.blocks.forget(range);
        self.forget_cached(range);
        if range.is_empty() {
            return Ok(());
        }
        self.or_later(range, self.punch_file(range))
    }

    /// Remembers a range that could not be removed, for removal before its next read.
    fn or_later(&self, range: ByteRange, gone: io::Result<()>) -> io::Result<()> {
        if gone.is_err() {
            self.cached().stale.insert(range);
        }
        gone
    }

    /// Removes the parts of a range that could not be removed earlier.
    pub(super) fn clear(&self, range: ByteRange) -> io::Result<()> {
        // Held meanwhile: a writer there announces itself first, and loses nothing afterwards.
        let mut cached = self.cached();
        for hole in Vec::from_iter(cached.stale.within(range)) {
            self.punch_file(hole)?;
            cached.stale.remove(hole);
        }
        Ok(())
    }

    fn punch_file(&self, range: ByteRange) -> io::Result<()> {
        let Some(file) = self.file.get() else {
            return Ok(());
        };
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let end = range.end.min(file.metadata()?.len());
        if end <= range.start {
            return Ok(());
        }
        match fallocate(file, flags, range.start, end - range.start) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes data from `size` on.
    pub(in crate::spool) fn cut(&self, size: u64) -> io::Result<()> {
        let beyond = ByteRange::new(size, u64::MAX);
        self.touch(beyond)?;
        self.blocks.forget(beyond);
        self.forget_cached(beyond);
        self.or_later(beyond, self.cut_file(size))?;
        if size == 0 {
            // Nothing of the failed sync is left.
            self.end().is_lost = false;
        }
        Ok(())
    }

    fn cut_file(&self, size: u64) -> io::Result<()> {
        match self.file.get() {
            Some(file) if file.metadata()?.len() > size => file.set_len(size),
            _ => Ok(()),
        }
    }

    /// Forgets the cache state of a range that is on the disk, or gone.
    pub(super) fn forget_cached(&self, range: ByteRange) {
        let mut cached = self.cached();
        cached.unsynced.remove(range);
        cached.lost.remove(range);
        cached.stale.remove(range);
    }
}
