//! The bytes at the end of a draft that are not in its file yet: up to a block.
//!
//! It begins at a page, and its block ends at a multiple of [`BLOCK_BYTES`], as parts do. So a full one
//! can be written past the file cache in one piece.

use bytes::Bytes;

use super::blocks::{BLOCK_BYTES, Memory, MemoryCharge};
use tidegate_cache::direct::{PAGE_SIZE, PageBuffer};
use tidegate_plan::ByteRange;

/// The length held without a reservation: most files are small.
const SMALL_TAIL_BYTES: usize = 64 << 10;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct Tail {
    at: u64,
    /// A small buffer while that is enough, then one for a block.
    bytes: PageBuffer,
    charged: Option<MemoryCharge>,
}

impl Tail {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// Returns its range in the file.
    pub(super) fn range(&self) -> ByteRange {
        ByteRange::new(self.at, self.at + self.bytes().len() as u64)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Returns whether it reaches the end of its block, and so consists of whole pages.
    pub(super) fn is_full(&self) -> bool {
        !self.is_empty() && self.range().end.is_multiple_of(BLOCK_BYTES)
    }

    /// Returns its bytes from an offset on.
    pub(super) fn from(&self, offset: u64) -> Option<&[u8]> {
        let range = self.range();
        let within = range.start <= offset && offset < range.end;
        let skipped = usize::try_from(offset.wrapping_sub(range.start)).ok();
        skipped.filter(|_| within).map(|skip| &self.bytes()[skip..])
    }

    /// Returns whether bytes at an offset can be appended to it.
    pub(super) fn reaches(&self, offset: u64) -> bool {
        match self.is_empty() {
            true => offset.is_multiple_of(PAGE_SIZE),
            false => offset == self.range().end,
        }
    }

    /// Returns how many bytes its block has room for, at an offset that it reaches.
    pub(super) fn room(offset: u64) -> usize {
        usize::try_from(BLOCK_BYTES - offset % BLOCK_BYTES).unwrap_or(usize::MAX)
    }

    /// Appends bytes, at most [`Self::room`]. `false`: there is no memory for them.
    pub(super) fn push(&mut self, offset: u64, bytes: &[u8], memory: &Memory) -> bool {
        if self.is_empty() {
            self.at = offset;
        }
        let length = self.bytes().len() + bytes.len();
        if length > self.bytes.room() && !self.grow(length, memory) {
            return false;
        }
        self.bytes.push(bytes);
        true
    }

    fn grow(&mut self, length: usize, memory: &Memory) -> bool {
        if !self.charge(length, memory) {
            return false;
        }
        let mut larger = match self.charged {
            Some(_) => memory.blocks.take(),
            None => PageBuffer::new(length.next_power_of_two()),
        };
        larger.push(self.bytes());
        self.bytes = larger;
        true
    }

    /// Reserves memory for its first `length` bytes, at most a block. `false`: there is none.
    pub(super) fn charge(&mut self, length: usize, memory: &Memory) -> bool {
        if self.charged.is_none() && length > SMALL_TAIL_BYTES {
            self.charged = memory.take(BLOCK_BYTES);
        }
        length <= SMALL_TAIL_BYTES || self.charged.is_some()
    }

    /// Removes the last `bytes` bytes.
    pub(super) fn take_back(&mut self, bytes: usize) {
        let left = self.bytes().len().saturating_sub(bytes);
        self.bytes.truncate(left);
    }

    /// Removes a range: bytes in its middle become zero, bytes at its end are cut off.
    pub(super) fn punch(&mut self, range: ByteRange) {
        let tail = self.range();
        let Some(hole) = tail.intersect(range) else {
            return;
        };
        let within = hole.within(tail.start);
        if hole.end == tail.end {
            self.bytes.truncate(within.start);
        } else {
            let length = self.bytes().len();
            self.bytes.set_len(length)[within].fill(0);
        }
    }

    /// Removes all bytes.
    pub(super) fn clear(&mut self) {
        self.bytes.truncate(0);
    }

    /// Empties it; returns the bytes to a caller that has reserved memory for them.
    pub(super) fn take(&mut self) -> Bytes {
        Bytes::from_owner(std::mem::take(&mut self.bytes))
    }
}
