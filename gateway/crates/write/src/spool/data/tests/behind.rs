//! Readers do not notice whether a block is on the disk yet.

use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

mod waits;

/// An operation on the first few blocks.
#[derive(Debug, Clone)]
enum Step {
    /// A write of a block's length, as the kernel sends it: mostly a whole block.
    Large(u64),
    /// Sequential writes of `count` pieces.
    Pieces {
        at: u64,
        piece: u64,
        count: u64,
    },
    LetGo(ByteRange),
    Punch(ByteRange),
    Cut(u64),
    Sync,
    Tend,
}

const BLOCKS: u64 = 5;
const ALL: u64 = BLOCKS * MIB;

fn range() -> impl Strategy<Value = ByteRange> {
    // Mostly of whole blocks, as parts are.
    let edge = prop_oneof![4 => (0..=BLOCKS).prop_map(|n| n * MIB), 1 => 0..ALL];
    (edge.clone(), edge).prop_map(|(one, other)| ByteRange::new(one.min(other), one.max(other)))
}

fn step() -> impl Strategy<Value = Step> {
    let at = prop_oneof![
        (0..BLOCKS).prop_map(|n| n * MIB),
        (0..ALL / 4096).prop_map(|n| n * 4096),
        0..ALL,
    ];
    let piece = prop_oneof![
        (Just(128 << 10), 1..12u64),
        (Just(1000), 1..12u64),
        (1..300_000u64, 1..12u64),
        (Just(MIB), 1..4u64),
    ];
    let pieces = (at, piece).prop_map(|(at, (piece, count))| Step::Pieces { at, piece, count });
    let large = prop_oneof![
        3 => (0..BLOCKS).prop_map(|n| n * MIB),
        1 => (0..BLOCKS * 16).prop_map(|n| n << 16),
    ];
    prop_oneof![
        8 => large.prop_map(Step::Large),
        3 => pieces,
        1 => range().prop_map(Step::LetGo),
        2 => range().prop_map(Step::Punch),
        2 => (0..ALL).prop_map(Step::Cut),
        1 => Just(Step::Sync),
        2 => Just(Step::Tend),
    ]
}

impl Truth<'_> {
    fn take(&mut self, step: &Step, seed: u64) {
        match step {
            Step::Large(at) => self.write(*at, &pattern(seed, MIB)),
            Step::Pieces { at, piece, count } => {
                for n in 0..*count {
                    self.write(at + n * piece, &pattern(seed + n, *piece));
                }
            }
            Step::LetGo(range) => self.0.let_go(*range),
            Step::Punch(range) => {
                self.0.punch(*range).expect("punched");
                let end = self.1.len().min(range.end as usize);
                self.1[(range.start as usize).min(end)..end].fill(0);
            }
            Step::Cut(size) => {
                self.0.cut(*size).expect("cut");
                let kept = self.1.len().min(*size as usize);
                self.1[kept..].fill(0);
            }
            Step::Sync => {
                let durable = self.0.sync(|_, _| Err(io::ErrorKind::Unsupported.into()));
                // Data without a file has a journal, but not here.
                assert!(durable.is_ok() || !self.0.has_file());
            }
            Step::Tend => self.0.tend(),
        }
        self.reads();
    }
}

/// Runs the steps with memory for a few blocks, and checks the disk at the end.
fn holds(data: &Data, steps: &[Step]) {
    let mut truth = Truth(data, Vec::new());
    // From here on blocks can be written in the background.
    truth.put(0, &pattern(0, MIB));
    for (seed, step) in steps.iter().enumerate() {
        truth.take(step, seed as u64);
    }
    truth.holds();
    data.sync(no_journal).expect("durable");
    data.let_go(ByteRange::new(0, u64::MAX));
    assert!(!data.behind.meets(ByteRange::new(0, u64::MAX)));
    truth.holds();
    let on_disk = std::fs::read(&data.path).expect("there is a file");
    let known = on_disk.len().min(truth.1.len());
    assert!(on_disk[..known] == truth.1[..known]);
    assert!(truth.1[known..].iter().all(|byte| *byte == 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Blocks are written by the callers that need them on the disk, or by explicit steps.
    #[test]
    fn is_what_was_written(
        steps in proptest::collection::vec(step(), 1..24),
        memory in prop_oneof![Just(3 * MIB), Just(64 * MIB)],
    ) {
        let directory = tempfile::tempdir().expect("a folder");
        holds(&data(directory.path(), memory), &steps);
    }

    /// The same, with a thread that writes the blocks meanwhile, and another that reads.
    #[test]
    fn is_what_was_written_whichever_side_is_faster(
        steps in proptest::collection::vec(step(), 1..24),
        lets_go in proptest::collection::vec(any::<Index>(), 1..8),
    ) {
        let directory = tempfile::tempdir().expect("a folder");
        let data = data(directory.path(), 64 * MIB);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if data.wants_tending() {
                        data.tend();
                    }
                    std::thread::yield_now();
                }
            });
            threads.spawn(|| {
                for block in lets_go.iter().cycle() {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let at = block.index(BLOCKS as usize) as u64 * MIB;
                    data.let_go(ByteRange::new(at, at + MIB));
                    // A sender of a part reads at the same time as a truncation of it.
                    match data.first(ByteRange::new(at, at + MIB)) {
                        Ok(read) => assert!(!read.is_empty()),
                        Err(error) => assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof),
                    }
                    std::thread::yield_now();
                }
            });
            let over = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                holds(&data, &steps);
            }));
            is_over.store(true, Ordering::Relaxed);
            if let Err(panic) = over {
                std::panic::resume_unwind(panic);
            }
        });
    }
}

/// Returns data on a disk that takes blocks past the cache, if there is one here.
fn direct_data() -> Option<(tempfile::TempDir, Data)> {
    let directory = tempfile::tempdir().expect("a folder");
    let data = data(directory.path(), 64 * MIB);
    can_direct(directory.path()).then_some((directory, data))
}

/// Writes whole blocks. The first shows that the disk takes them past the cache.
fn blocks(data: &Data, count: u64) {
    for n in 0..count {
        let block = data.memory.copy(&pattern(n, MIB));
        let is_taken = data.take_in(n * MIB, &block);
        assert_eq!(is_taken, n > 0, "{n}");
        if !is_taken {
            data.write(n * MIB, block).expect("written");
        }
    }
}

/// Bytes that are truncated or punched out of a waiting block do not come back.
#[test]
fn what_goes_in_part_stays_away() {
    let directory = tempfile::tempdir().expect("a folder");
    let data = data(directory.path(), 64 * MIB);
    let mut truth = Truth(&data, Vec::new());
    for n in 0..4 {
        truth.write(n * MIB, &pattern(n, MIB));
    }
    truth.take(&Step::Cut(3 * MIB + 5000), 0);
    truth.take(&Step::Large(3 * MIB), 4);
    let punched = ByteRange::new(2 * MIB + 4096, 3 * MIB + 4096);
    truth.take(&Step::Punch(punched), 0);
    truth.take(&Step::Tend, 0);
    truth.take(&Step::Sync, 0);
    data.let_go(ByteRange::new(0, u64::MAX));
    truth.holds();
}

/// Taken bytes exist nowhere else: they stay until a disk has them, and the next caller gets the
/// error.
#[test]
fn a_full_disk_loses_nothing_of_what_was_taken_in() {
    let Some((_directory, mut data)) = direct_data() else {
        return;
    };
    blocks(&data, 4);
    let full = OpenOptions::new().write(true).open("/dev/full");
    let full = full.expect("there is one");
    let other = full.try_clone().expect("cloned");
    let (file, direct) = (data.file.take(), data.direct.take());
    exchange(&mut data, Some(full), Some(other));
    assert!(data.wants_tending());
    data.tend();
    data.let_go(ByteRange::new(0, u64::MAX));
    let some = ByteRange::new(2 * MIB, 3 * MIB);
    assert!(data.read(some).expect("in memory") == pattern(2, MIB));
    let next = data.memory.copy(&pattern(4, MIB));
    assert!(!data.take_in(4 * MIB, &next), "its writer is told");
    assert!(data.write(4 * MIB, next.clone()).is_err());
    assert!(data.sync(no_journal).is_err());
    assert!(
        !data.take_in(4 * MIB, &Bytes::from_static(b"a little")),
        "so is this one"
    );
    // It can be truncated, also inside a block, and the truncated bytes do not come back when it
    // grows.
    data.cut(2 * MIB + 5000)
        .expect("nothing is written for that");
    let grown = data.read(some).expect("in memory");
    let cut = [&pattern(2, 5000)[..], &vec![0; MIB as usize - 5000]].concat();
    assert!(grown == cut);

    exchange(&mut data, file, direct);
    data.write(3 * MIB, next).expect("there is room again");
    data.sync(no_journal).expect("there is room again");
    let truth = [pattern(0, MIB), pattern(1, MIB), cut, pattern(4, MIB)].concat();
    assert!(std::fs::read(&data.path).expect("a file") == truth);
}

/// A thread may write a waiting block just before the file is cut within it. The block is read whole later.
#[test]
fn a_cut_leaves_the_file_as_long_as_the_block_that_waits_there() {
    let Some((_directory, data)) = direct_data() else {
        return;
    };
    blocks(&data, 3);
    data.tend();
    assert_eq!(length(&data), Some(3 * MIB));
    let again = data.memory.copy(&pattern(9, MIB));
    assert!(data.take_in(MIB, &again));
    let size = MIB + 5000;
    data.cut(size).expect("cut");
    assert_eq!(length(&data), Some(2 * MIB), "it is written whole");
    data.tend();
    data.let_go(ByteRange::new(0, 3 * MIB));
    let zeros = vec![0; (MIB - 5000) as usize];
    let all = [pattern(0, MIB), pattern(9, 5000), zeros].concat();
    assert!(data.read(ByteRange::new(0, 2 * MIB)).expect("read") == all);
    data.cut(0).expect("cut");
    assert_eq!(length(&data), Some(0));
}
