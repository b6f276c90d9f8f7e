//! Tests of `memory`.

use std::time::Duration;

use super::*;
use tidegate_plan::VersionId;

fn key(index: u32) -> ChunkKey {
    ChunkKey {
        version: VersionId(u128::from(index) << 64 | 5),
        index,
    }
}

fn metrics() -> MemoryMetrics {
    MemoryMetrics {
        evictions: Counter::default(),
        used: Gauge::default(),
        capacity: Gauge::default(),
        eviction_age: Durations::new(Duration::from_secs(1)),
    }
}

fn ignore() -> EvictionCallback {
    Box::new(|_, _, _| {})
}

#[test]
fn never_holds_more_than_it_may_and_counts_what_it_holds() {
    let memory = Memory::new(1 << 20, 4096, metrics(), ignore());
    for index in 0..4096 {
        memory.insert(
            key(index),
            Bytes::from(vec![1; 4096]),
            OfferState::Never,
            PinId::NONE,
        );
    }
    let used = memory.metrics.used.get();
    assert!(used <= 1 << 20, "{used}");
    assert!(used > 900 << 10, "{used}");
    assert_eq!(used, i64::try_from(memory.cache.usage()).expect("small"));
    let evictions = memory.metrics.evictions.get();
    assert!(evictions > 3000);
    let ages = crate::metrics::count_of(&memory.metrics.eviction_age);
    assert_eq!(ages, evictions, "each has an age");
    assert_eq!(memory.metrics.capacity.get(), 1 << 20);

    memory.resize(64 << 10).expect("room for some");
    memory.resize(1000).expect_err("not room for one");
    assert_eq!(memory.capacity(), 64 << 10);
    assert_eq!(memory.metrics.capacity.get(), 64 << 10);
    assert!(memory.metrics.used.get() <= 64 << 10);
    memory.insert(
        key(1),
        Bytes::from_static(b"after"),
        OfferState::Never,
        PinId::NONE,
    );
    assert_eq!(
        memory.get(&key(1)),
        Some((Bytes::from_static(b"after"), false))
    );
}

#[test]
fn what_is_used_twice_survives_a_scan() {
    let memory = Memory::new(4 << 20, 4096, metrics(), ignore());
    for index in 0..100 {
        memory.insert(
            key(index),
            Bytes::from(vec![1; 4096]),
            OfferState::Never,
            PinId::NONE,
        );
        assert!(memory.get(&key(index)).is_some());
    }
    for index in 1000..5000 {
        memory.insert(
            key(index),
            Bytes::from(vec![2; 4096]),
            OfferState::Never,
            PinId::NONE,
        );
    }
    let left = (0..100)
        .filter(|index| memory.contains(&key(*index)))
        .count();
    assert!(left >= 95, "{left}");
}

#[test]
fn no_memory_keeps_nothing_and_a_giant_pushes_nothing_out() {
    let none = Memory::new(0, 4096, metrics(), ignore());
    none.insert(
        key(1),
        Bytes::from_static(b"x"),
        OfferState::Never,
        PinId::NONE,
    );
    assert_eq!(none.get(&key(1)), None);
    assert_eq!(none.metrics.used.get(), 0);

    let small = Memory::new(64 << 10, 4096, metrics(), ignore());
    small.insert(
        key(1),
        Bytes::from_static(b"x"),
        OfferState::Never,
        PinId::NONE,
    );
    small.insert(
        key(2),
        Bytes::from(vec![0; 128 << 10]),
        OfferState::Never,
        PinId::NONE,
    );
    assert!(small.get(&key(1)).is_some() && small.get(&key(2)).is_none());
}

#[test]
fn what_is_wanted_on_disk_is_said_until_it_is_settled() {
    let memory = Memory::new(1 << 20, 4096, metrics(), ignore());
    let disks = [
        OfferState::Wanted,
        OfferState::Taken,
        OfferState::Never,
        OfferState::Later,
    ];
    for (index, disk) in (1..).zip(disks) {
        memory.insert(key(index), Bytes::from_static(b"x"), disk, PinId::NONE);
    }
    let wanted = |index| memory.get(&key(index)).is_some_and(|(_, wanted)| wanted);
    assert!(!wanted(4) && wanted(4) && wanted(4), "at its second use");
    assert!(wanted(1) && wanted(1) && !wanted(2) && !wanted(3));
    memory.settle(&key(1));
    assert!(!wanted(1));
}

#[test]
fn what_was_used_and_may_be_on_disk_is_said_when_it_leaves() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let left = Arc::clone(&seen);
    let on_evict: EvictionCallback = Box::new(move |key, _, _| {
        left.lock().expect("sound").push(key.index);
    });
    let memory = Memory::new(64 << 10, 4096, metrics(), on_evict);
    for index in 0..12 {
        let disk = if index < 6 {
            OfferState::Taken
        } else {
            OfferState::Never
        };
        memory.insert(key(index), Bytes::from(vec![1; 4096]), disk, PinId::NONE);
        if index % 2 == 0 {
            assert!(memory.get(&key(index)).is_some());
        }
    }
    memory.resize(0).expect("empty");
    let mut seen = std::mem::take(&mut *seen.lock().expect("sound"));
    seen.sort_unstable();
    assert_eq!(seen, [0, 2, 4]);
}
