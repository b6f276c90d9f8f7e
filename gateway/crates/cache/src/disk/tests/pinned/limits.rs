//! The limits of pins: their own, half of the disk, and the free space that others need.

use super::*;

#[test]
fn limits_are_hard_and_what_is_beyond_is_cached_unpinned() {
    let mut rig = Rig::new(CAPACITY);
    let (few, many) = (rig.pin("few", 10 << 12), rig.pin("many", u64::MAX));
    rig.put_pinned(0..20, few);
    assert_eq!(rig.pinned(0..20).len(), 10);
    assert_eq!(rig.count(0..20), 20);
    rig.put_pinned(100..400, many);
    assert_eq!(rig.pinned_bytes(), CAPACITY / 2, "never more than half");
    assert!(
        rig.log.index.find(&key(399)).is_some(),
        "the newest is there"
    );

    // A lower limit releases the excess when the hand comes by.
    rig.pin("many", 20 << 12);
    rig.put_pinned(1000..2000, PinId::NONE);
    assert_eq!(rig.pinned(100..400).len(), 20);
    assert_eq!(rig.pinned(0..20).len(), 10);
}

#[test]
fn a_smaller_capacity_lets_go_of_what_is_more_than_half_of_it() {
    let mut rig = Rig::new(4 * CAPACITY);
    let pin = rig.pin("a", u64::MAX);
    rig.put_pinned(0..500, pin);
    assert_eq!(rig.pinned_bytes(), 500 << 12);
    rig.settings.capacity = CAPACITY;
    assert!(rig.log.resize(CAPACITY));
    rig.come_to_rest();
    assert!(rig.on_disk() <= CAPACITY);
    // The rest is released when its space is needed.
    rig.put_pinned(1000..1400, PinId::NONE);
    assert!(rig.log.index.find(&key(1399)).is_some());
    let pinned = rig.pinned_bytes();
    assert!(pinned <= CAPACITY / 2 && pinned > CAPACITY / 4, "{pinned}");
}

/// Other files fill the file system: they get their space, pinned or not, and eviction ends.
#[test]
fn min_free_goes_before_pins() {
    let mut rig = Rig::new(CAPACITY);
    rig.settings.min_free = 1 << 20;
    rig.reopen();
    let pin = rig.pin("a", u64::MAX);
    rig.put_pinned(0..100, pin);
    rig.put_pinned(1000..1100, PinId::NONE);
    let free = |free: u64| FileFaults {
        free: Some(free),
        ..FileFaults::default()
    };
    rig.wrong(free((1 << 20) - 4096));
    for _ in 0..5 {
        rig.now += Duration::from_secs(1);
        rig.monitor.check(rig.now);
        rig.come_to_rest();
    }
    // There was never enough space, so all chunks went; unpinned ones first.
    assert_eq!(rig.log.index.len(), 0);
    assert_eq!((rig.pinned_bytes(), rig.pins.list()[0].used), (0, 0));
    rig.wrong(FileFaults::default());
    rig.tick();
    rig.put_pinned(0..10, pin);
    assert_eq!(rig.pinned(0..10).len(), 10);
}

/// The file system is full of pinned chunks: each time it reports no space, something is evicted.
#[test]
fn no_space_gives_something_back_though_all_is_pinned() {
    let mut rig = Rig::new(CAPACITY);
    let pin = rig.pin("a", u64::MAX);
    rig.put_pinned(0..100, pin);
    rig.wrong(FileFaults {
        room: Some(0),
        ..FileFaults::default()
    });
    let before = rig.log.segments.taken();
    rig.put(1000).expect("taken");
    rig.come_to_rest();
    assert!(rig.log.segments.taken() < before);
}
