//! The blocks of a draft that are written past the file cache: their checksums, so that a part's
//! needs no reading, and their bytes until they are sent, as far as there is memory. The disk has
//! the same bytes at the same places, or will have them; until then the bytes stay here.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use tidegate_cache::direct::BufferPool;
use tidegate_engine::budget::{Budget, Charge};
use tidegate_origin::Sums;
use tidegate_plan::ByteRange;
use tidegate_telemetry::locks::Recover as _;

/// The maximum size of a single write.
pub(super) const BLOCK_BYTES: u64 = 1 << 20;

/// Memory reserved from both budgets, released on drop.
pub(super) type MemoryCharge = [Charge; 2];

/// Spare buffers kept for reuse: parts are sent in bursts.
const MAX_SPARE_BLOCKS: usize = 64;

/// The smallest copy that takes a buffer of a whole block.
const MIN_POOLED_COPY: usize = 256 << 10;

/// The budgets for blocks: the writers' common share of the budget, and the budget itself.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    share: Budget,
    budget: Budget,
    pub(super) blocks: Arc<BufferPool>,
}

impl Memory {
    pub(crate) fn new(share: Budget, budget: Budget) -> Self {
        let block = usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX);
        Self {
            share,
            budget,
            blocks: BufferPool::new(block, MAX_SPARE_BLOCKS),
        }
    }

    /// Copies bytes. The copy of a whole block can be written without another copy.
    pub(crate) fn copy(&self, bytes: &[u8]) -> Bytes {
        if !(MIN_POOLED_COPY as u64..=BLOCK_BYTES).contains(&(bytes.len() as u64)) {
            return Bytes::copy_from_slice(bytes);
        }
        let mut block = self.blocks.take();
        block.push(bytes);
        Bytes::from_owner(block)
    }

    /// Copies a block with a hole of zeros. The copy can be written without another copy.
    pub(super) fn punched(&self, bytes: &[u8], hole: Range<usize>) -> Bytes {
        let mut block = self.blocks.take();
        block.push(bytes);
        block.set_len(bytes.len())[hole].fill(0);
        Bytes::from_owner(block)
    }

    /// Reserves memory, at once or not at all. A caller without memory writes another way.
    pub(super) fn take(&self, bytes: u64) -> Option<MemoryCharge> {
        Some([self.share.ahead(bytes)?, self.budget.ahead(bytes)?])
    }
}

/// See the module documentation. The keys are the blocks' first offsets; no two blocks overlap.
#[derive(Debug, Default)]
pub(super) struct Blocks(Mutex<BTreeMap<u64, Block>>);

#[derive(Debug)]
struct Block {
    length: u64,
    sums: Sums,
    bytes: Option<(Bytes, MemoryCharge)>,
    disk: BlockState,
}

/// The state of a block on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockState {
    Has,
    Will,
    /// Will, and the memory is released then.
    WillAlone,
}

impl Blocks {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Block>> {
        self.0.lock().recover()
    }

    /// Records a block that was just written, in place of earlier ones.
    pub(super) fn note(&self, at: ByteRange, sums: Sums, bytes: Option<(Bytes, MemoryCharge)>) {
        self.put(at, sums, bytes, BlockState::Has);
    }

    /// Records a block that will be written. Its bytes stay until [`Self::written`].
    pub(super) fn note_behind(&self, at: ByteRange, sums: Sums, bytes: (Bytes, MemoryCharge)) {
        self.put(at, sums, Some(bytes), BlockState::Will);
    }

    fn put(
        &self,
        at: ByteRange,
        sums: Sums,
        bytes: Option<(Bytes, MemoryCharge)>,
        disk: BlockState,
    ) {
        self.forget(at);
        let block = Block {
            length: at.len(),
            sums,
            bytes,
            disk,
        };
        self.lock().insert(at.start, block);
    }

    /// Replaces the bytes of a block that waits to be written, or was just written.
    pub(super) fn replace(&self, start: u64, sums: Sums, bytes: Bytes) {
        if let Some(block) = self.lock().get_mut(&start) {
            block.sums = sums;
            if let Some((old, _)) = &mut block.bytes {
                *old = bytes;
            }
        }
    }

    /// Records that the disk has the block that begins at `start`.
    pub(super) fn written(&self, start: u64) {
        if let Some(block) = self.lock().get_mut(&start) {
            if block.disk == BlockState::WillAlone {
                block.bytes = None;
            }
            block.disk = BlockState::Has;
        }
    }

    /// Returns the first bytes of a range, if they are in memory. Otherwise returns the offset of
    /// the next bytes in memory, or the end of the range.
    pub(super) fn first(&self, range: ByteRange) -> Result<Bytes, u64> {
        let blocks = self.lock();
        if let Some((start, block)) = blocks.range(..=range.start).next_back()
            && let Some((bytes, _)) = &block.bytes
        {
            let end = start + block.length;
            if range.start < end {
                let found = ByteRange::new(range.start, range.end.min(end));
                return Ok(bytes.slice(found.within(*start)));
            }
        }
        let mut next = blocks.range(range.start..range.end);
        let next = next.find(|(start, block)| block.bytes.is_some() && **start > range.start);
        Err(next.map_or(range.end, |(start, _)| *start))
    }

    /// Returns the length and checksums of the block at the start of a range, if it lies in the
    /// range.
    pub(super) fn at(&self, range: ByteRange) -> Option<(u64, Sums)> {
        let blocks = self.lock();
        let block = blocks.get(&range.start)?;
        (block.length <= range.len()).then_some((block.length, block.sums))
    }

    /// Returns the end of the last block; 0 without one.
    pub(super) fn end(&self) -> u64 {
        let blocks = self.lock();
        let last = blocks.last_key_value();
        last.map_or(0, |(start, block)| start + block.length)
    }

    /// Releases the bytes of blocks that a range overlaps, once the disk has them.
    pub(super) fn let_go(&self, range: ByteRange) {
        let mut blocks = self.lock();
        let first = first_of(&blocks, range);
        for (_, block) in blocks.range_mut(first..range.end.max(first)) {
            match block.disk {
                BlockState::Has => block.bytes = None,
                BlockState::Will | BlockState::WillAlone => block.disk = BlockState::WillAlone,
            }
        }
    }

    /// Forgets blocks that a range overlaps, because their bytes change. A block that will be
    /// written and reaches out of the range stays, because its bytes are only here: it was replaced
    /// before.
    pub(super) fn forget(&self, range: ByteRange) {
        if range.is_empty() {
            return;
        }
        let mut blocks = self.lock();
        let first = first_of(&blocks, range);
        let goes = |start: &u64, block: &mut Block| {
            let lies_in = *start >= range.start && *start + block.length <= range.end;
            lies_in || block.disk == BlockState::Has
        };
        let gone = blocks.extract_if(first..range.end.max(first), goes);
        gone.for_each(drop);
    }
}

/// Returns the start of the first block that a range may overlap.
fn first_of(blocks: &BTreeMap<u64, Block>, range: ByteRange) -> u64 {
    let before = blocks.range(..range.start).next_back();
    let before = before.filter(|(start, it)| *start + it.length > range.start);
    before.map_or(range.start, |(start, _)| *start)
}

#[cfg(test)]
mod tests;
