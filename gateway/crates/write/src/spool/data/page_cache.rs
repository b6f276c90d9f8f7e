//! Bytes in the file cache that the disk may not have, and bytes that could not be removed.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::MutexGuard;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::super::journal::sync_failed;
use super::Data;
use tidegate_plan::{ByteRange, Extents};
use tidegate_telemetry::locks::Recover as _;

/// Bytes that went through the file cache.
#[derive(Debug, Default)]
pub(super) struct PageCacheRanges {
    /// The ranges written since the last sync began.
    pub(super) unsynced: Extents,
    /// The ranges that the sync under way is to make durable.
    pub(super) syncing: Extents,
    /// The ranges of a failed sync: reads of them may return anything.
    pub(super) lost: Extents,
    /// Truncated or punched ranges that are still there because the disk failed. They are removed
    /// before the next read.
    pub(super) stale: Extents,
}

impl PageCacheRanges {
    /// Returns whether the disk may not have some of a range.
    pub(super) fn awaits_disk(&self, range: ByteRange) -> bool {
        let mut waiting = self
            .unsynced
            .within(range)
            .chain(self.syncing.within(range));
        waiting.next().is_some()
    }

    pub(super) fn begin_sync(&mut self) {
        self.syncing = std::mem::take(&mut self.unsynced);
    }

    /// Notes the result of a sync.
    pub(super) fn end_sync(&mut self, is_durable: bool) {
        let synced = std::mem::take(&mut self.syncing);
        if !is_durable {
            for range in synced.iter() {
                self.lost.insert(range);
            }
        }
    }
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

    pub(super) fn cached(&self) -> MutexGuard<'_, PageCacheRanges> {
        self.cached.lock().recover()
    }

    /// Returns once a range permanently reads as it was written, or its reads fail. The kernel reports a failed write of its
    /// cache only once; afterwards other bytes may be read there. So it also waits for a sync that another thread has
    /// begun.
    pub(in crate::spool) fn look(&self, range: ByteRange) -> io::Result<()> {
        if !self.cached().awaits_disk(range) {
            return Ok(());
        }
        let turn = self.sync_turn.lock().recover();
        let still_awaits = self.cached().awaits_disk(range);
        match still_awaits {
            true => self.sync_in_turn(&turn),
            false => Ok(()),
        }
    }

    /// Makes the kernel write its cache of the file. Waits for a sync that is under way.
    pub(super) fn sync_file(&self) -> io::Result<()> {
        self.sync_in_turn(&self.sync_turn.lock().recover())
    }

    fn sync_in_turn(&self, _turn: &MutexGuard<'_, ()>) -> io::Result<()> {
        let file = self.file()?;
        if self.end().is_lost {
            return Err(sync_failed());
        }
        self.cached().begin_sync();
        let synced = file.sync_data();
        self.cached().end_sync(synced.is_ok());
        if synced.is_err() {
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
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            // As NFS before 4.2: the room stays taken, but the bytes are gone.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, range.start..end),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes data from `size` on.
    pub(in crate::spool) fn cut(&self, size: u64) -> io::Result<()> {
        let beyond = ByteRange::new(size, u64::MAX);
        self.touch(beyond)?;
        self.blocks.forget(beyond);
        self.forget_cached(beyond);
        // A waiting block that reaches beyond has zeros there by now. Cut off behind its write, it could not be read whole.
        let whole = size.max(self.blocks.end());
        self.or_later(beyond, self.cut_file(whole))?;
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
        cached.syncing.remove(range);
        cached.lost.remove(range);
        cached.stale.remove(range);
    }
}

/// The zeros of one write, in bytes.
const ZEROS: usize = 64 << 10;

/// Makes a range read as zeros where no hole can be punched.
fn write_zeros(file: &File, range: Range<u64>) -> io::Result<()> {
    let zeros = [0; ZEROS];
    for start in range.clone().step_by(ZEROS) {
        let length = (range.end - start).min(ZEROS as u64) as usize;
        file.write_all_at(&zeros[..length], start)?;
    }
    Ok(())
}
