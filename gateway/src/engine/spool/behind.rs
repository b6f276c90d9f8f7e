//! Blocks that whoever wrote them does not wait for: in memory, and on their way to the disk.
//!
//! They are written in the order in which they came, one at a time: by a thread of their own, or by
//! whoever cannot go on before they are. One that cannot be written stays the first in line. Whoever needs
//! the disk next tries it again, and is told why it cannot be.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::plan::ByteRange;

/// So many wait at most: that a disk is slow is for its writers to feel, not for who closes the file.
pub(super) const MOST: usize = 16;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Behind {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    blocks: VecDeque<(ByteRange, Bytes)>,
    /// The first is being written.
    is_writing: bool,
    /// Somebody has said that they will see to it.
    is_tended: bool,
    /// The first could not be written.
    has_failed: bool,
}

impl Queue {
    fn has_room(&self) -> bool {
        self.blocks.len() < MOST && !self.has_failed
    }

    fn first_meets(&self, range: ByteRange) -> bool {
        let first = self.blocks.front();
        first.is_some_and(|(first, _)| first.intersect(range).is_some())
    }
}

impl Behind {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until one was written, or could not be.
    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let waited = self.changed.wait(queue);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one could not be written. Does not block.
    pub(super) fn has_failed(&self) -> bool {
        self.queue().has_failed
    }

    /// Whether another may come. Does not block.
    pub(super) fn has_room(&self) -> bool {
        self.queue().has_room()
    }

    /// Whether one of them has bytes of a range. Does not block.
    pub(super) fn meets(&self, range: ByteRange) -> bool {
        let queue = self.queue();
        let mut blocks = queue.blocks.iter();
        blocks.any(|(block, _)| block.intersect(range).is_some())
    }

    /// Puts a block in line that none of those in it meets. Does not block.
    pub(super) fn push(&self, range: ByteRange, block: Bytes) {
        self.queue().blocks.push_back((range, block));
    }

    /// Whether there is something to write that nobody sees to; the caller does from now on ([`Self::tend`]).
    pub(super) fn wants_tending(&self) -> bool {
        let mut queue = self.queue();
        let wants = !queue.blocks.is_empty() && !queue.is_tended && !queue.has_failed;
        queue.is_tended |= wants;
        wants
    }

    /// Has `write` write what there is, as long as that succeeds.
    pub(super) fn tend(&self, write: impl Fn(ByteRange, &Bytes) -> io::Result<()>) {
        let is_over = |queue: &Queue| queue.blocks.is_empty() || queue.has_failed;
        loop {
            // An error is for whoever needs the disk next, and tries it again.
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
        self.until(Queue::has_room, write).map(drop)
    }

    /// Returns once none is left.
    pub(super) fn settle(
        &self,
        write: impl Fn(ByteRange, &Bytes) -> io::Result<()>,
    ) -> io::Result<()> {
        self.until(|queue| queue.blocks.is_empty(), write).map(drop)
    }

    /// Has them written until that is enough.
    fn until(
        &self,
        is_enough: impl Fn(&Queue) -> bool,
        write: impl Fn(ByteRange, &Bytes) -> io::Result<()>,
    ) -> io::Result<MutexGuard<'_, Queue>> {
        let mut queue = self.queue();
        while !is_enough(&queue) {
            queue = self.step(queue, &write)?;
        }
        Ok(queue)
    }

    /// Writes the first, or waits while somebody else does: so nobody waits for a thread to become free.
    fn step<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
        write: impl Fn(ByteRange, &Bytes) -> io::Result<()>,
    ) -> io::Result<MutexGuard<'a, Queue>> {
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

    /// Forgets those that lie in a range, and has `punched` make another of what a block is that reaches out
    /// of it, for the part that it says; gives those. When it returns, none that meets the range is being
    /// written.
    pub(super) fn punch(
        &self,
        range: ByteRange,
        punched: impl Fn(&Bytes, Range<usize>) -> Bytes,
    ) -> Vec<(ByteRange, Bytes)> {
        let mut queue = self.queue();
        let first = queue.blocks.front().map(|(first, _)| *first);
        loop {
            // Before it is waited for what is being written, or the next ones would be meanwhile.
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
        // Where another is the first now, nobody has tried that.
        queue.has_failed &= queue.blocks.front().map(|(first, _)| *first) == first;
        changed
    }

    /// Forgets all.
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

    /// A disk that takes note of what it is given, unless it is full.
    #[derive(Default)]
    struct Disk {
        written: RefCell<Vec<u64>>,
        is_full: Cell<bool>,
    }

    impl Disk {
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

    /// Blocks that were tried on a disk that was full.
    fn refused(blocks: impl IntoIterator<Item = u64>) -> (Behind, Disk) {
        let (behind, disk) = (of(blocks), Disk::default());
        disk.is_full.set(true);
        behind.tend(|range, block| disk.write(range, block));
        (behind, disk)
    }

    #[test]
    fn one_sees_to_it_and_all_are_written_in_order() {
        let (behind, disk) = (of([]), Disk::default());
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
    fn whoever_needs_the_disk_is_told_that_it_is_full_and_nothing_is_lost() {
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
        let (behind, disk) = (of(0..MOST as u64), Disk::default());
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

    /// A block that is cut off while it is being written is written before the file is cut; those behind it
    /// are not.
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
            // It has forgotten those that are not being written, and waits.
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
