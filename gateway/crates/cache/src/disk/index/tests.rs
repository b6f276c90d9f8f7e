//! Tests of `index`.

use super::*;

fn key(index: u32) -> ChunkKey {
    ChunkKey {
        version: VersionId(u128::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15_1234_5678)),
        index,
    }
}

fn location(segment: u32, page: u64) -> DiskLocation {
    DiskLocation {
        segment,
        offset: page * PAGE_SIZE,
        len: 100,
        sum: page,
        pin: PinId::NONE,
    }
}

fn empty() -> Index {
    Index::new(PinnedBytes::new(&Default::default(), 0))
}

/// A table of `n` slots holds entries in up to seven eighths of them, and then doubles: the dearest number comes right after.
#[test]
fn chunks_cost_at_most_112_bytes_each_at_any_number() {
    let index = empty();
    let entry = size_of::<(PackedKey, IndexEntry)>() + 1;
    assert_eq!(entry, 49);
    let cost = || {
        let shards = index.shards.iter().map(|shard| {
            let capacity = shard.read().expect("sound").capacity();
            (capacity * 8 / 7).next_power_of_two() * entry + 16 + size_of::<RwLock<Shard>>()
        });
        shards.sum::<usize>() / index.len()
    };
    let mut most = 0;
    for n in 0..200_000 {
        assert!(index.insert(&key(n), &location(n / 1000, u64::from(n % 1000))));
        // Below that number the empty table counts.
        if n >= 10_000 && n % 100 == 0 {
            most = most.max(cost());
        }
    }
    assert_eq!(index.len(), 200_000);
    assert!((100..=112).contains(&most), "{most}");
}

#[test]
fn a_place_stands_until_it_is_taken_out_at_that_place() {
    let index = empty();
    assert!(index.insert(&key(1), &location(1, 1)));
    assert!(!index.insert(&key(1), &location(2, 2)), "the first stays");
    assert!(!index.remove_at(&key(1), &location(2, 2)));
    assert!(!index.relocate(&key(1), &location(2, 2), &location(3, 3)));
    assert!(index.relocate(&key(1), &location(1, 1), &location(3, 3)));
    assert_eq!(index.find(&key(1)), Some(location(3, 3)));
    assert_eq!(index.sample(), Some((key(1), location(3, 3))));
    assert_eq!(index.remove(&key(1)), Some(location(3, 3)));
    assert_eq!(index.sample(), None);
}

#[test]
fn what_was_read_survives_once() {
    let index = empty();
    index.insert(&key(1), &location(1, 1));
    index.insert(&key(2), &location(1, 2));
    assert!(index.touch(&key(1)).is_some() && index.find(&key(2)).is_some());
    assert_eq!(index.visit(&key(1), &location(1, 1), true), Visit::Kept);
    assert_eq!(index.visit(&key(2), &location(1, 2), true), Visit::Evicted);
    assert_eq!(index.visit(&key(2), &location(1, 2), true), Visit::Moved);
    assert_eq!(index.visit(&key(1), &location(1, 1), true), Visit::Evicted);
}

#[test]
fn a_lost_segment_takes_its_own_only() {
    let index = empty();
    for n in 0..100 {
        index.insert(&key(n), &location(n % 3, u64::from(n)));
    }
    assert_eq!(index.drop_segment(1), 33);
    assert_eq!(index.len(), 67);
    index.clear();
    assert_eq!(index.len(), 0);
}
