//! Reading the bytes of a draft, wherever they are.

use std::fs::File;
use std::io;

use bytes::Bytes;

use super::super::journal::sync_failed;
use super::super::tail::Tail;
use super::{Data, FRAME_BYTES};
use tidegate_cache::direct;
use tidegate_origin::Sums;
use tidegate_plan::ByteRange;

impl Data {
    /// Reads a range. Bytes that were never written are zero.
    pub(in crate::spool) fn read(&self, range: ByteRange) -> io::Result<Bytes> {
        let first = self.first(range)?;
        if first.len() as u64 == range.len() {
            return Ok(first);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(range.len()).unwrap_or(0));
        bytes.extend_from_slice(&first);
        while (bytes.len() as u64) < range.len() {
            let rest = ByteRange::new(range.start + bytes.len() as u64, range.end);
            bytes.extend_from_slice(&self.first(rest)?);
        }
        Ok(bytes.into())
    }

    /// Reads the first bytes of a range that are in one place. Bytes that are truncated meanwhile
    /// read as zero, or fail with [`io::ErrorKind::UnexpectedEof`].
    pub(in crate::spool) fn first(&self, range: ByteRange) -> io::Result<Bytes> {
        let end = self.end();
        let mut until = match self.in_memory(&end.tail, range) {
            Ok(bytes) => return Ok(bytes),
            Err(until) => until,
        };
        if let Some(kept) = &end.kept {
            let rest = ByteRange::new(range.start, until);
            match kept.range.intersect(rest) {
                Some(within) if within.start == range.start => return kept.read(within),
                Some(within) => until = within.start,
                None => {}
            }
        }
        let range = ByteRange::new(range.start, until);
        // A block there now has left memory, and so is on the disk. A later one may not be.
        let block = self.blocks.at(range);
        drop(end);
        match (block, self.direct.get()) {
            (Some((length, _)), Some(direct)) => self.read_block(direct, range.start, length),
            _ => self.read_file(range),
        }
    }

    /// Reads a block past the cache: it is read once, and the memory is better used elsewhere.
    fn read_block(&self, direct: &File, offset: u64, length: u64) -> io::Result<Bytes> {
        let mut block = self.memory.blocks.take();
        let length = usize::try_from(length).map_err(io::Error::other)?;
        if direct::read(direct, block.set_len(length), offset)? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Bytes::from_owner(block))
    }

    /// Returns the checksums of the first bytes of a range, and the number of those bytes.
    pub(in crate::spool) fn sums(&self, range: ByteRange) -> io::Result<(Sums, u64)> {
        let end = self.end();
        if let Some((length, sums)) = self.blocks.at(range) {
            let block = ByteRange::new(range.start, range.start + length);
            // The tail may have newer bytes of the block.
            if end.tail.range().intersect(block).is_none() {
                return Ok((sums, length));
            }
        }
        drop(end);
        let piece = ByteRange::new(range.start, range.end.min(range.start + FRAME_BYTES));
        let bytes = self.first(piece)?;
        Ok((Sums::of(&bytes), bytes.len() as u64))
    }

    /// Returns the first bytes of a range if they are in memory. Does not block.
    pub(in crate::spool) fn at_hand(&self, range: ByteRange) -> Option<Bytes> {
        let end = self.end_now()?;
        self.in_memory(&end.tail, range).ok()
    }

    /// Returns the first bytes of a range, if they are in memory. Otherwise returns the offset of
    /// the next bytes in memory, or the end of the range.
    fn in_memory(&self, tail: &Tail, range: ByteRange) -> Result<Bytes, u64> {
        if let Some(bytes) = tail.from(range.start) {
            let most = usize::try_from(range.len()).unwrap_or(usize::MAX);
            return Ok(Bytes::copy_from_slice(&bytes[..bytes.len().min(most)]));
        }
        let mut end = range.end;
        if !tail.is_empty() && tail.range().start > range.start {
            end = end.min(tail.range().start);
        }
        self.blocks.first(ByteRange::new(range.start, end))
    }

    fn read_file(&self, range: ByteRange) -> io::Result<Bytes> {
        let length = usize::try_from(range.len()).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        let Some(file) = self.file.get() else {
            return Ok(bytes.into());
        };
        if self.cached().lost.within(range).next().is_some() {
            return Err(sync_failed());
        }
        self.clear(range)?;
        direct::read_full(file, &mut bytes, range.start)?;
        Ok(bytes.into())
    }
}
