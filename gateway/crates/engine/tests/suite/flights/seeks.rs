//! Seeks into a chunk, and ranges in any order: each reader gets its bytes, and the chunk becomes whole.

use tidegate_engine::OpenOptions;
use tidegate_plan::{Profile, RangeSpec};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_seek_into_a_chunk_begins_with_the_wanted_byte_and_completes_the_chunk() {
    let world = World::plain();
    let bytes = sample(1, 4 * MIB);
    world.bucket.put(KEY, bytes.clone());
    let object = world.open(KEY, OpenOptions::default()).await.expect("open");
    // The reader has left when the turn of the head comes.
    let latency = Fault::Latency(Duration::from_millis(20));
    world.bucket.set_faults([latency]);
    let at = 5 * CHUNK + 100 * KIB;
    let range = ByteRange::new(at, at + 1000);
    let got = collect(object.read_at(range)).await.expect("read");
    same(&got, &slice(&bytes, range));
    pass(GRACE).await;
    let log = world.bucket.log();
    let asked: Vec<_> = log.iter().filter_map(|get| get.range).collect();
    let bounded = |first, last| RangeSpec::Bounded { first, last };
    assert_eq!(
        asked,
        [bounded(at, 6 * CHUNK - 1), bounded(5 * CHUNK, at - 1)]
    );
    // The chunk is whole, and right.
    let chunk = ByteRange::new(5 * CHUNK, 6 * CHUNK);
    same(
        &collect(object.read_at(chunk)).await.expect("read"),
        &slice(&bytes, chunk),
    );
    assert_eq!(world.bucket.gets(), 2);
    assert_eq!(world.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn readers_before_behind_and_at_the_base_of_a_seek_all_get_their_bytes() {
    let (world, bytes) = slow(4 * MIB, 64 * KIB);
    let object = world.open(KEY, OpenOptions::default()).await.expect("open");
    let base = 5 * CHUNK + 100 * KIB;
    let reads = [0, 10, 99, 100, 101, 150, 255].map(|kib| {
        let at = 5 * CHUNK + kib * KIB;
        let range = ByteRange::new(at, at + 2000);
        let (object, bytes) = (object.clone(), bytes.clone());
        async move {
            if at != base {
                settle().await;
            }
            same(
                &collect(object.read_at(range)).await.expect("read"),
                &slice(&bytes, range),
            );
        }
    });
    join_all(reads).await;
    assert_eq!(world.asked().1, 1);
    pass(GRACE).await;
    assert_eq!((world.used(), world.bucket.running()), (0, 0));
}

/// No tier keeps a chunk of the profile `backup`, so the head of one in which a seek began is fetched for a reader alone.
#[tokio::test(start_paused = true)]
async fn the_head_of_a_chunk_that_no_tier_keeps_comes_for_a_reader_alone() {
    let (base, end) = (5 * CHUNK + 100 * KIB, 6 * CHUNK);
    let (tail, head) = (
        ByteRange::new(base, end),
        ByteRange::new(5 * CHUNK, 5 * CHUNK + 3000),
    );
    for joins in [false, true] {
        let mut setup = Setup::profile(|profile| *profile = Profile::backup());
        setup.profile.read_ahead = 0;
        setup.assists.hedge = false;
        let world = setup.build();
        let bytes = sample(1, 4 * MIB);
        world.bucket.put(KEY, bytes.clone());
        let object = world.open(KEY, OpenOptions::default()).await.expect("open");
        let read = async |range| {
            let read = collect(object.read_at(range)).await.expect("read");
            same(&read, &slice(&bytes, range));
        };
        world
            .bucket
            .set_faults([Fault::Latency(Duration::from_millis(20)), Fault::Rate(MIB)]);
        let mut first = object.read_at(tail);
        let mut got = take(&mut first, 1).await.to_vec();
        if joins {
            read(head).await;
            assert_eq!(world.bucket.gets(), 2);
            let range = Some(RangeSpec::Bounded {
                first: 5 * CHUNK,
                last: base - 1,
            });
            assert_eq!(world.bucket.log()[1].range, range);
        } else {
            pass(secs(5)).await;
            assert_eq!(world.bucket.gets(), 1);
            // Another reader of the tail joins, and one of the head begins anew.
            read(ByteRange::new(base + 10, end)).await;
            assert_eq!(world.bucket.gets(), 1);
            read(head).await;
            assert_eq!(world.bucket.gets(), 2);
        }
        got.extend_from_slice(&collect_until_error(&mut first).await.0);
        same(&got.into(), &slice(&bytes, tail));
        drop(first);
        pass(GRACE).await;
        assert_eq!((world.used(), world.bucket.running()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn ranges_out_of_order_and_in_parallel_are_right() {
    let (world, bytes) = slow(9 * MIB + 77, 4 * MIB);
    let object = world.open(KEY, OpenOptions::default()).await.expect("open");
    let size = bytes.len() as u64;
    let mut seed = 12345_u64;
    let mut draw = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for _ in 0..20 {
        let ranges: Vec<_> = (0..20)
            .map(|_| {
                let start = draw(size);
                ByteRange::new(start, (start + 1 + draw(600 * KIB)).min(size))
            })
            .collect();
        let reads = ranges.iter().map(|range| collect(object.read_at(*range)));
        for (got, range) in join_all(reads).await.into_iter().zip(&ranges) {
            same(&got.expect("read"), &slice(&bytes, *range));
        }
        world.store.evict_memory();
    }
    pass(GRACE).await;
    assert_eq!((world.used(), world.bucket.running()), (0, 0));
}
