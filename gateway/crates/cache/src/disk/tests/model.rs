//! Random operations and faults against a model of the chunks that may be found.

use std::collections::HashSet;

use proptest::prelude::*;
use rustix::io::Errno;

use super::*;

const CAPACITY: u64 = 512 << 10;

#[derive(Debug, Clone)]
enum Operation {
    Put(u32),
    PutMany(u32),
    Get(u32),
    Remove(u32),
    Step,
    Settle,
    Tick,
    Reopen,
    Close,
    LosePower,
    Fault(u8),
    Heal,
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        10 => (0u32..300).prop_map(Put),
        10 => (0u32..30).prop_map(PutMany),
        20 => (0u32..300).prop_map(Get),
        6 => (0u32..300).prop_map(Remove),
        10 => Just(Step),
        6 => Just(Settle),
        4 => Just(Tick),
        2 => Just(Reopen),
        1 => Just(Close),
        1 => Just(LosePower),
        2 => (0u8..6).prop_map(Fault),
        4 => Just(Heal),
    ]
}

fn fault(number: u8) -> FileFaults {
    let none = FileFaults::default();
    match number {
        0 => FileFaults {
            read: Some(Errno::IO),
            ..none
        },
        1 => FileFaults {
            write: Some(Errno::IO),
            ..none
        },
        2 => FileFaults {
            sync: Some(Errno::IO),
            ..none
        },
        3 => FileFaults {
            room: Some(20_000),
            ..none
        },
        4 => FileFaults {
            punch: Some(Errno::IO),
            ..none
        },
        _ => FileFaults {
            short: true,
            ..none
        },
    }
}

struct Checked {
    rig: Rig,
    /// Chunks put in at least once, and not removed since.
    known: HashSet<u32>,
}

impl Checked {
    fn run(&mut self, operation: &Operation) {
        let rig = &mut self.rig;
        match *operation {
            Operation::Put(n) => self.put(n),
            Operation::PutMany(n) => (n * 10..n * 10 + 10).for_each(|n| self.put(n)),
            Operation::Get(n) => assert!(!rig.get(n) || self.known.contains(&n), "{n}"),
            Operation::Remove(n) => {
                rig.log.remove(&key(n));
                self.known.remove(&n);
                assert!(!rig.get(n));
            }
            Operation::Step => {
                rig.step();
            }
            Operation::Settle => rig.settle(),
            Operation::Tick => rig.tick(),
            Operation::Reopen => self.reopen(),
            Operation::Close => {
                rig.close();
                self.reopen();
            }
            Operation::LosePower => {
                rig.files.lose_power();
                self.reopen();
            }
            Operation::Fault(number) => rig.wrong(fault(number)),
            Operation::Heal => rig.wrong(FileFaults::default()),
        }
        let taken = self.rig.on_disk();
        assert!(taken <= CAPACITY, "{taken} after {operation:?}");
    }

    fn put(&mut self, n: u32) {
        if self.rig.put(n).is_ok() {
            self.known.insert(n);
            assert!(self.rig.get(n), "queued");
        }
    }

    /// Reopens the log. That may undo a removal that was not written down yet; the chunk is right.
    fn reopen(&mut self) {
        self.rig.wrong(FileFaults::default());
        self.rig.reopen();
        self.known = (0..300).collect();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_byte_is_wrong_and_no_byte_too_many(operations in proptest::collection::vec(operation(), 1..120)) {
        let mut checked = Checked {
            rig: Rig::new(CAPACITY),
            known: HashSet::new(),
        };
        for operation in &operations {
            checked.run(operation);
        }
        // The disk recovers from any fault by itself.
        checked.rig.wrong(FileFaults::default());
        for _ in 0..35 {
            checked.rig.tick();
        }
        assert!(checked.rig.log.health.notes().is_empty());
        checked.rig.log.remove(&key(1000));
        assert_eq!(checked.rig.put(1000), Ok(()));
        checked.rig.settle();
        assert!(checked.rig.get(1000));
    }
}
