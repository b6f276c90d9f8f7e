//! Writing blocks and the tail to the file.

use std::io;
use std::os::unix::fs::FileExt as _;

use bytes::Bytes;

use super::super::blocks::BLOCK_BYTES;
use super::super::journal::sync_failed;
use super::super::tail::Tail;
use super::{Data, DataEnd, JournaledBytes, SyncLocation, WriteMode};
use tidegate_cache::direct;
use tidegate_origin::Sums;
use tidegate_plan::ByteRange;

impl Data {
    /// Writes a block without copying it.
    pub(super) fn write_block(
        &self,
        end: &mut DataEnd,
        offset: u64,
        block: Bytes,
    ) -> io::Result<usize> {
        let (length, sums) = (block.len(), Sums::of(&block));
        end.way = self.write_past(offset, &block)?;
        if end.way == WriteMode::PastCache {
            let range = ByteRange::new(offset, offset + length as u64);
            let charged = self.memory.take(BLOCK_BYTES);
            let kept = charged.map(|charged| (block, charged));
            self.blocks.note(range, sums, kept);
        } else {
            self.write_cached(offset, &block)?;
        }
        Ok(length)
    }

    /// Writes the tail to the file: a full one past the cache.
    pub(super) fn put_away(&self, end: &mut DataEnd) -> io::Result<()> {
        let range = end.tail.range();
        if range.is_empty() {
            return Ok(());
        }
        if end.tail.is_full() && end.way != WriteMode::ThroughCache {
            end.way = self.write_past(range.start, end.tail.bytes())?;
            if end.way == WriteMode::PastCache {
                let sums = Sums::of(end.tail.bytes());
                let charged = self.memory.take(BLOCK_BYTES);
                let kept = charged.map(|charged| (end.tail.take(), charged));
                self.blocks.note(range, sums, kept);
                end.tail.clear();
                return Ok(());
            }
        }
        self.write_cached(range.start, end.tail.bytes())?;
        end.tail.clear();
        Ok(())
    }

    /// Writes pages past the cache, if the file system supports that.
    pub(super) fn write_past(&self, offset: u64, bytes: &[u8]) -> io::Result<WriteMode> {
        self.settle()?;
        // Before the write: after a failure half way, neither version is valid.
        self.blocks
            .forget(ByteRange::new(offset, offset + bytes.len() as u64));
        let range = ByteRange::new(offset, offset + bytes.len() as u64);
        self.cached().stale.remove(range);
        match self.direct().and_then(|it| it.write_all_at(bytes, offset)) {
            Ok(()) => {
                self.forget_cached(range);
                Ok(WriteMode::PastCache)
            }
            Err(error) if direct::is_unsupported(&error) => Ok(WriteMode::ThroughCache),
            Err(error) => Err(error),
        }
    }

    /// Returns the function that writes a waiting block.
    pub(super) fn to_disk(&self) -> impl Fn(ByteRange, &Bytes) -> io::Result<()> {
        |range, block| {
            self.cached().stale.remove(range);
            match self.direct()?.write_all_at(block, range.start) {
                Ok(()) => {
                    self.forget_cached(range);
                    self.blocks.written(range.start);
                }
                // The file system took the first block, but not this one.
                Err(error) if direct::is_unsupported(&error) => {
                    self.write_to_cache(range, block)?;
                    self.blocks.forget(range);
                }
                Err(error) => return Err(error),
            }
            Ok(())
        }
    }

    /// Returns once the file has all bytes but the tail.
    pub(super) fn settle(&self) -> io::Result<()> {
        self.behind.settle(self.to_disk())
    }

    /// Returns whether blocks wait and no thread writes them. The caller must then call
    /// [`Self::tend`].
    pub(in crate::spool) fn wants_tending(&self) -> bool {
        self.behind.wants_tending()
    }

    /// Writes the waiting blocks.
    pub(in crate::spool) fn tend(&self) {
        self.behind.tend(self.to_disk());
    }

    /// Makes the written bytes durable. If there is no file, `keep` writes them to a journal.
    pub(in crate::spool) fn sync(
        &self,
        keep: impl FnOnce(ByteRange, &[u8]) -> io::Result<JournaledBytes>,
    ) -> io::Result<SyncLocation> {
        let mut end = self.end();
        if end.is_lost {
            return Err(sync_failed());
        }
        // Once only: an object that is saved again and again would have each version in its
        // journal.
        if !self.has_file() && !end.moved {
            if end.tail.is_empty() {
                return Ok(SyncLocation::InPlace);
            }
            // Until then they stay in memory: a disk may accept bytes and lose them.
            end.kept = Some(keep(end.tail.range(), end.tail.bytes())?);
            end.tail = Tail::default();
            return Ok(SyncLocation::InJournal);
        }
        self.settle()?;
        self.put_away(&mut end)?;
        // Closed drafts that wait for their commit hold no buffers.
        end.tail = Tail::default();
        let moved = end.moved;
        drop(end);
        self.sync_file()?;
        match moved {
            true => Ok(SyncLocation::Moved),
            false => Ok(SyncLocation::InPlace),
        }
    }
}
