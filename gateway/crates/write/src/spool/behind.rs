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
pub(super) struct Behind {
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

impl Behind {
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
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    fn block(n: u64) -> ByteRange {
        ByteRange::new(n * 4096, (n + 1) * 4096)
    }

    fn of(blocks: impl IntoIterator<Item = u64>) -> Behind {
        let behind = Behind::default();
        for n in blocks {
            behind.push(block(n), Bytes::from(vec![n as u8; 4096]));
        }
        behind
    }

    /// A disk that records its blocks, unless it is full.
    #[derive(Default)]
    struct BlockWriter {
        written: RefCell<Vec<u64>>,
        is_full: Cell<bool>,
    }

    impl BlockWriter {
        fn write(&self, range: ByteRange, block: &Bytes) -> io::Result<()> {
            assert!(
                block
                    .iter()
                    .all(|byte| u64::from(*byte) == range.start / 4096)
            );
            if self.is_full.get() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.written.borrow_mut().push(range.start / 4096);
            Ok(())
        }
    }

    /// Blocks that were tried on a full disk.
    fn refused(blocks: impl IntoIterator<Item = u64>) -> (Behind, BlockWriter) {
        let (behind, disk) = (of(blocks), BlockWriter::default());
        disk.is_full.set(true);
        behind.tend(|range, block| disk.write(range, block));
        (behind, disk)
    }

    #[test]
    fn one_sees_to_it_and_all_are_written_in_order() {
        let (behind, disk) = (of([]), BlockWriter::default());
        let write = |range, block: &Bytes| disk.write(range, block);
        assert!(!behind.wants_tending());
        for n in [3, 1, 2] {
            behind.push(block(n), Bytes::from(vec![n as u8; 4096]));
        }
        assert!(behind.wants_tending());
        assert!(!behind.wants_tending(), "somebody does");
        behind.tend(write);
        assert_eq!(*disk.written.borrow(), [3, 1, 2]);
        behind.push(block(4), Bytes::from(vec![4; 4096]));
        assert!(behind.wants_tending(), "nobody does any more");
    }

    #[test]
    fn a_write_on_a_full_disk_is_refused_and_nothing_is_lost() {
        let (behind, disk) = refused(0..3);
        let write = |range, block: &Bytes| disk.write(range, block);
        assert!(!behind.has_room() && !behind.wants_tending());
        assert!(behind.make_room(write).is_err());
        assert!(behind.settle(write).is_err());
        disk.is_full.set(false);
        behind.make_room(write).expect("there is room again");
        assert_eq!(*disk.written.borrow(), [0], "no more than needed");
        behind.settle(write).expect("there is room again");
        assert_eq!(*disk.written.borrow(), [0, 1, 2]);
    }

    #[test]
    fn waits_for_room_no_longer_than_it_must() {
        let (behind, disk) = (of(0..MAX_WAITING_BLOCKS as u64), BlockWriter::default());
        assert!(!behind.has_room());
        let write = |range, block: &Bytes| disk.write(range, block);
        behind.make_room(write).expect("it takes them");
        assert_eq!(*disk.written.borrow(), [0]);
    }

    fn zeros(bytes: &Bytes, hole: Range<usize>) -> Bytes {
        let mut bytes = bytes.to_vec();
        bytes[hole].fill(0);
        bytes.into()
    }

    #[test]
    fn what_lies_in_a_range_is_forgotten_and_what_reaches_out_of_it_is_changed() {
        let (behind, _full) = refused(1..5);
        assert!(behind.punch(ByteRange::new(0, 10), zeros).is_empty());
        assert!(behind.has_failed(), "the first is still the first");
        let changed = behind.punch(ByteRange::new(0, 3 * 4096 + 10), zeros);
        let [(range, bytes)] = &changed[..] else {
            panic!("one of them");
        };
        assert_eq!(*range, block(3));
        assert_eq!((bytes[9], bytes[10]), (0, 3));
        assert!(behind.meets(block(3)) && behind.has_room());
        assert!(!behind.meets(ByteRange::new(0, 3 * 4096)));
        let written = RefCell::new(Vec::new());
        let write = |range, block: &Bytes| {
            written.borrow_mut().push((range, block.clone()));
            Ok(())
        };
        behind.settle(write).expect("it takes them");
        let written = written.into_inner();
        assert_eq!(written[0], changed[0]);
        assert_eq!((written.len(), written[1].0), (2, block(4)));
    }

    /// A block that is truncated while it is being written is written before the file is truncated;
    /// the blocks after it are not.
    #[test]
    fn what_is_being_written_is_waited_for_and_no_more_is() {
        let behind = of(0..4);
        let (begin, begun) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = Mutex::new(ended);
        let written = Mutex::new(Vec::new());
        let written_by_now = || written.lock().expect("sound").clone();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                behind.tend(|range, _| {
                    begin.send(()).expect("somebody waits");
                    ended.lock().expect("sound").recv().expect("it ends");
                    written.lock().expect("sound").push(range);
                    Ok(())
                });
            });
            begun.recv().expect("it begins");
            behind.punch(block(1), zeros);
            assert_eq!(written_by_now(), []);
            let all = threads.spawn(|| behind.discard());
            // It has discarded the blocks that are not being written, and waits.
            while behind.meets(block(2)) {
                std::thread::yield_now();
            }
            end.send(()).expect("it waits");
            all.join().expect("it returns");
        });
        assert_eq!(written_by_now(), [block(0)]);
        assert!(!behind.meets(ByteRange::new(0, 1 << 20)));
    }
}
