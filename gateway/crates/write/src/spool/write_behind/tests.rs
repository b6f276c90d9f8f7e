use std::cell::{Cell, RefCell};

use super::*;

fn block(n: u64) -> ByteRange {
    ByteRange::new(n * 4096, (n + 1) * 4096)
}

fn of(blocks: impl IntoIterator<Item = u64>) -> WriteBehindQueue {
    let behind = WriteBehindQueue::default();
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
fn refused(blocks: impl IntoIterator<Item = u64>) -> (WriteBehindQueue, BlockWriter) {
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
    assert!(!behind.wants_tending(), "a task tends it");
    behind.tend(write);
    assert_eq!(*disk.written.borrow(), [3, 1, 2]);
    behind.push(block(4), Bytes::from(vec![4; 4096]));
    assert!(behind.wants_tending(), "no task tends it any more");
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
                begin.send(()).expect("the task waits");
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
