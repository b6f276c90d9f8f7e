//! Pinned chunks stay, but never so many or so long that the disk could take nothing more.

use proptest::prelude::*;

use super::*;
use tidegate_plan::{ObjectId, ObjectKey, OriginId};

mod limits;

const ORIGIN: OriginId = OriginId(1);
const CAPACITY: u64 = 1 << 20;

/// More steps than any work here takes: a writer that exceeds them spins.
const STEPS: usize = 20_000;

impl Rig {
    /// Pins a prefix, or changes its limit; returns its number.
    fn pin(&self, prefix: &str, limit: u64) -> PinId {
        self.pins.set(ORIGIN, prefix, limit).expect("room");
        let key = ObjectKey::new(&format!("{prefix}x")).expect("a key");
        let origin = ORIGIN;
        self.pins.covering(&ObjectId { origin, key })
    }

    fn put_pinned(&mut self, numbers: impl IntoIterator<Item = u32>, pin: PinId) {
        for number in numbers {
            // It may be full or present: the test checks the effect, not the answer.
            let _ = self.log.offer(key(number), content(number), pin);
            if number % 8 == 7 {
                self.come_to_rest();
            }
        }
        self.come_to_rest();
    }

    /// Works as [`Rig::settle`], but fails if the writer never comes to rest.
    fn come_to_rest(&mut self) {
        for _ in 0..STEPS {
            match self.step() {
                NextStep::Now => {}
                NextStep::After(time) => self.now += time,
                NextStep::OnWake | NextStep::Ended => return,
            }
        }
        panic!("the writer spins");
    }

    fn pinned(&self, numbers: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let is_pinned = |n: &u32| self.log.index.is_pinned(&key(*n));
        numbers.into_iter().filter(is_pinned).collect()
    }

    fn pinned_bytes(&self) -> u64 {
        self.log.index.pinned_bytes.total()
    }
}

#[test]
fn what_is_pinned_survives_scans_and_restarts_and_goes_when_it_is_unpinned() {
    let mut rig = Rig::new(CAPACITY);
    let pin = rig.pin("a", u64::MAX);
    rig.put_pinned(0..60, pin);
    assert_eq!(rig.pinned(0..60).len(), 60);
    for scan in [1000..2000, 2000..3000] {
        rig.put_pinned(scan, PinId::NONE);
        rig.reopen();
    }
    assert_eq!(rig.pinned(0..3000), (0..60).collect::<Vec<_>>());
    assert_eq!(rig.count(0..60), 60);
    assert_eq!(rig.pins.list()[0].used, 60 << 12);
    assert!(rig.on_disk() <= CAPACITY);

    rig.pins.remove(ORIGIN, "a").expect("it is there");
    assert_eq!((rig.pinned_bytes(), rig.pinned(0..60).len()), (0, 0));
    rig.put_pinned(4000..5000, PinId::NONE);
    assert_eq!(rig.count(0..60), 0, "evicted like any other");
}

#[test]
fn a_chunk_is_pinned_and_let_go_of_where_it_lies() {
    let mut rig = Rig::new(CAPACITY);
    let pin = rig.pin("a", u64::MAX);
    rig.fill(0..40);
    for number in 0..20 {
        rig.log.set_pin(&key(number), pin);
        rig.log.set_pin(&key(number), pin);
    }
    rig.log.set_pin(&key(999), pin);
    rig.come_to_rest();
    rig.reopen();
    assert_eq!(rig.pinned(0..40), (0..20).collect::<Vec<_>>());
    rig.put_pinned(1000..2000, PinId::NONE);
    assert_eq!(rig.count(0..40), 20);
    for number in 0..10 {
        rig.log.set_pin(&key(number), PinId::NONE);
    }
    rig.come_to_rest();
    rig.reopen();
    assert_eq!(rig.pinned(0..40), (10..20).collect::<Vec<_>>());
    rig.log.remove(&key(10));
    assert_eq!(rig.pinned_bytes(), 9 << 12);
    rig.put_pinned(2000..3000, PinId::NONE);
    assert_eq!(rig.count(0..40), 9);
}

/// A waiting chunk counts as found on disk.
#[test]
fn a_chunk_that_waits_is_pinned_and_let_go_of_too() {
    let mut rig = Rig::new(CAPACITY);
    let pin = rig.pin("a", u64::MAX);
    for number in 0..4 {
        let pin = if number < 2 { PinId::NONE } else { pin };
        let offered = rig.log.offer(key(number), content(number), pin);
        offered.expect("taken");
    }
    rig.log.set_pin(&key(0), pin);
    let again = rig.log.offer(key(1), content(1), pin);
    assert_eq!(again, Err(Refusal::Present));
    rig.log.set_pin(&key(2), PinId::NONE);
    rig.come_to_rest();
    assert_eq!(rig.pinned(0..4), [0, 1, 3]);
    rig.reopen();
    assert_eq!(rig.pinned(0..4), [0, 1, 3]);
}

/// The origin delivered it again, for a pin set later.
#[test]
fn a_chunk_that_is_offered_again_is_pinned_where_it_lies() {
    let mut rig = Rig::new(CAPACITY);
    rig.fill(0..2);
    let gone = rig.pin("a", u64::MAX);
    rig.pins.remove(ORIGIN, "a").expect("it is there");
    let pin = rig.pin("a", u64::MAX);
    for (number, pin) in [(0, pin), (0, gone), (1, PinId::NONE)] {
        let again = rig.log.offer(key(number), content(number), pin);
        assert_eq!(again, Err(Refusal::Present));
    }
    rig.come_to_rest();
    rig.reopen();
    assert_eq!(rig.pinned(0..2), [0]);
}

/// Large enough that a segment takes up little beside its chunks, as on any real disk.
const ROOMY: u64 = 4 << 20;

#[derive(Debug, Clone)]
enum Operation {
    Put(u32, usize),
    Touch(u32),
    Mark(u32, usize),
    Remove(u32),
    Unpin(usize),
    Limit(usize, u64),
    Resize(u64),
    Reopen,
    Renew,
}

const PREFIXES: [&str; 3] = ["a", "b", "c"];

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        20 => (0u32..80, 0usize..4).prop_map(|(n, pin)| Put(n, pin)),
        4 => (0u32..2000).prop_map(Touch),
        4 => (0u32..2000, 0usize..4).prop_map(|(n, pin)| Mark(n, pin)),
        4 => (0u32..2000).prop_map(Remove),
        1 => (0usize..3).prop_map(Unpin),
        3 => (0usize..3, 1u64..1200).prop_map(|(pin, pages)| Limit(pin, pages << 12)),
        2 => (2u64..8).prop_map(|part| Resize(part * ROOMY / 4)),
        1 => Just(Reopen),
        1 => Just(Renew),
    ]
}

/// Returns the pin of a prefix; none if the index is beyond the last, or the prefix is not pinned.
fn number(rig: &Rig, prefix: usize) -> PinId {
    let Some(prefix) = PREFIXES.get(prefix) else {
        return PinId::NONE;
    };
    let key = ObjectKey::new(&format!("{prefix}x")).expect("a key");
    let origin = ORIGIN;
    rig.pins.covering(&ObjectId { origin, key })
}

fn run(rig: &mut Rig, operation: &Operation) {
    match *operation {
        Operation::Put(n, pin) => {
            let pin = number(rig, pin);
            rig.put_pinned(n * 25..n * 25 + 25, pin);
        }
        Operation::Touch(n) => {
            rig.get(n);
        }
        Operation::Mark(n, pin) => rig.log.set_pin(&key(n), number(rig, pin)),
        Operation::Remove(n) => rig.log.remove(&key(n)),
        // The pin may be missing.
        Operation::Unpin(pin) => drop(rig.pins.remove(ORIGIN, PREFIXES[pin])),
        Operation::Limit(pin, limit) => {
            rig.pin(PREFIXES[pin], limit);
        }
        Operation::Resize(capacity) => {
            rig.settings.capacity = capacity;
            assert!(rig.log.resize(capacity));
        }
        Operation::Reopen => rig.reopen(),
        Operation::Renew => drop(rig.pins.renew(|_, _| true)),
    }
    rig.come_to_rest();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn pins_hold_within_limits_and_the_disk_takes_more_whatever_happens(
        operations in proptest::collection::vec(operation(), 1..80)
    ) {
        let mut rig = Rig::new(ROOMY);
        for operation in &operations {
            run(&mut rig, operation);
            let capacity = rig.settings.capacity;
            assert!(rig.on_disk() <= capacity, "{} after {operation:?}", rig.on_disk());
            let pages = |n: &u32| u64::try_from(content(*n).len()).expect("small").next_multiple_of(4096);
            let kept: u64 = rig.pinned(0..2000).iter().map(pages).sum();
            let counted = rig.pinned_bytes();
            assert!(kept <= counted, "{kept} of {counted}");
            let listed: u64 = rig.pins.list().iter().map(|pin| pin.used).sum();
            assert_eq!(listed, counted, "after {operation:?}");
        }
        // After scans of the whole disk, the pinned chunks are there, and so is the end of each scan.
        let pinned = rig.pinned(0..2000);
        let half = rig.settings.capacity / 2;
        let length = u32::try_from(rig.settings.capacity / 4096).expect("small");
        let is_beyond = |rig: &Rig| {
            let listed = rig.pins.list();
            rig.pinned_bytes() > half || listed.iter().any(|pin| pin.used > pin.limit)
        };
        for scan in 1.. {
            let numbers = 5000 + (scan - 1) * length..5000 + scan * length;
            rig.put_pinned(numbers.clone(), PinId::NONE);
            assert_eq!(rig.pinned(pinned.iter().copied()), pinned);
            assert!(rig.log.index.find(&key(numbers.end - 1)).is_some(), "it takes more");
            let rest = numbers.filter(|n| rig.log.index.find(&key(*n)).is_some());
            assert!(rest.count() > 100);
            if !is_beyond(&rig) {
                break;
            }
            // A hand releases the excess when it comes by; in one of eight turns it takes a proven
            // segment.
            assert!(scan < 16, "{} of {half}, {:?}", rig.pinned_bytes(), rig.pins.list());
        }
    }
}
