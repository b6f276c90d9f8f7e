//! Blocks in memory that wait to be written to the disk; their writers do not wait.
//!
//! They are written one at a time, in the order of their arrival: by a thread of their own, or by a
//! caller that needs them on the disk. A block that cannot be written stays first. The next caller
//! that needs the disk tries it again, and gets the error.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard};

use bytes::Bytes;

use tidegate_plan::ByteRange;
use tidegate_telemetry::locks::Recover as _;

/// The maximum number of waiting blocks. A slow disk must slow its writers, not the caller that
/// closes the file.
pub(super) const MAX_WAITING_BLOCKS: usize = 16;

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct WriteBehindQueue {
    queue: Mutex<BlockQueue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct BlockQueue {
    blocks: VecDeque<(ByteRange, Bytes)>,
    /// Whether the first block is being written.
    is_writing: bool,
    /// Whether a thread has committed itself to write them.
    is_tended: bool,
    /// Whether the last try to write the first block failed.
    has_failed: bool,
}

impl BlockQueue {
    fn has_room(&self) -> bool {
        self.blocks.len() < MAX_WAITING_BLOCKS && !self.has_failed
    }

    fn first_meets(&self, range: ByteRange) -> bool {
        let first = self.blocks.front();
        first.is_some_and(|(first, _)| first.intersect(range).is_some())
    }
}

impl WriteBehindQueue {
    fn queue(&self) -> MutexGuard<'_, BlockQueue> {
        self.queue.lock().recover()
    }

    /// Waits until the current block was written or has failed.
    fn wait<'a>(&self, queue: MutexGuard<'a, BlockQueue>) -> MutexGuard<'a, BlockQueue> {
        let waited = self.changed.wait(queue);
        waited.recover()
    }

    /// Returns whether a block could not be written. Does not block.
    pub(super) fn has_failed(&self) -> bool {
        self.queue().has_failed
    }

    /// Returns whether there is room for another block. Does not block.
    pub(super) fn has_room(&self) -> bool {
        self.queue().has_room()
    }

    /// Returns whether a waiting block overlaps a range. Does not block.
    pub(super) fn meets(&self, range: ByteRange) -> bool {
        let queue = self.queue();
        let mut blocks = queue.blocks.iter();
        blocks.any(|(block, _)| block.intersect(range).is_some())
    }

    /// Appends a block that overlaps no waiting one. Does not block.
    pub(super) fn push(&self, range: ByteRange, block: Bytes) {
        self.queue().blocks.push_back((range, block));
    }

    /// Returns whether there are blocks and no thread writes them. The caller must then do it
    /// ([`Self::tend`]).
    pub(super) fn wants_tending(&self) -> bool {
        let mut queue = self.queue();
        let wants = !queue.blocks.is_empty() && !queue.is_tended && !queue.has_failed;
        queue.is_tended |= wants;
        wants
    }

    /// Writes all blocks with `write`, until one fails.
    pub(super) fn tend(&self, write: impl Fn(ByteRange, &Bytes) -> io::Result<()>) {
        let is_over = |queue: &BlockQueue| queue.blocks.is_empty() || queue.has_failed;
        loop {
            // The next caller that needs the disk gets the error, and tries again.
            if let Ok(mut queue) = self.until(is_over, &write) {
                queue.is_tended = false;
                return;
            }
        }
    }

    /// Returns once there is room for one more.
    pub(super) fn make_room(
        &self,
        write: impl Fn(ByteRange, &Bytes) -> io::Result<()>,
    ) -> io::Result<()> {
        self.until(BlockQueue::has_room, write).map(drop)
    }

    /// Returns once none is left.
    pub(super) fn settle(
        &self,
        write: impl Fn(ByteRange, &Bytes) -> io::Result<()>,
    ) -> io::Result<()> {
        self.until(|queue| queue.blocks.is_empty(), write).map(drop)
    }

    /// Writes blocks until `is_enough` holds.
    fn until(
        &self,
        is_enough: impl Fn(&BlockQueue) -> bool,
        write: impl Fn(ByteRange, &Bytes) -> io::Result<()>,
    ) -> io::Result<MutexGuard<'_, BlockQueue>> {
        let mut queue = self.queue();
        while !is_enough(&queue) {
            queue = self.step(queue, &write)?;
        }
        Ok(queue)
    }

    /// Writes the first block, or waits while another thread does. So no caller waits for a free
    /// thread.
    fn step<'a>(
        &'a self,
        mut queue: MutexGuard<'a, BlockQueue>,
        write: impl Fn(ByteRange, &Bytes) -> io::Result<()>,
    ) -> io::Result<MutexGuard<'a, BlockQueue>> {
        if queue.is_writing {
            return Ok(self.wait(queue));
        }
        let Some((range, block)) = queue.blocks.front().cloned() else {
            return Ok(queue);
        };
        queue.is_writing = true;
        drop(queue);
        let written = write(range, &block);
        let mut queue = self.queue();
        queue.is_writing = false;
        queue.has_failed = written.is_err();
        if written.is_ok() {
            queue.blocks.pop_front();
        }
        self.changed.notify_all();
        written.map(|()| queue)
    }

    /// Discards the blocks inside a range, and replaces overlapping ones by the result of `punched`
    /// for them and their overlap. Returns the replaced blocks. Afterwards no block that meets the
    /// range is being written.
    pub(super) fn punch(
        &self,
        range: ByteRange,
        punched: impl Fn(&Bytes, Range<usize>) -> Bytes,
    ) -> Vec<(ByteRange, Bytes)> {
        let mut queue = self.queue();
        let first = queue.blocks.front().map(|(first, _)| *first);
        loop {
            // Before the wait for the current write; otherwise the next blocks would be written
            // meanwhile.
            let under_way = usize::from(queue.is_writing);
            let mut others = queue.blocks.split_off(under_way);
            others.retain(|(block, _)| block.intersect(range) != Some(*block));
            queue.blocks.append(&mut others);
            if !queue.is_writing || !queue.first_meets(range) {
                break;
            }
            queue = self.wait(queue);
        }
        let mut changed = Vec::new();
        for (block, bytes) in &mut queue.blocks {
            if let Some(hole) = block.intersect(range) {
                *bytes = punched(bytes, hole.within(block.start));
                changed.push((*block, bytes.clone()));
            }
        }
        // If another block is the first now, it has not been tried.
        queue.has_failed &= queue.blocks.front().map(|(first, _)| *first) == first;
        changed
    }

    /// Discards all blocks.
    pub(super) fn discard(&self) {
        self.punch(ByteRange::new(0, u64::MAX), |bytes, _| bytes.clone());
    }
}

#[cfg(test)]
mod tests;
