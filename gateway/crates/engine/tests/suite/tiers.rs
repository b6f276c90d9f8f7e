//! Disk and origin side by side: the faster one supplies a chunk, and a failure of either goes unnoticed.

use std::time::Duration;

use bytes::Bytes;
use tidegate_cache::fake::Faults;
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_plan::{ByteRange, Profile};
use tokio::time::Instant;

use crate::support::*;

const LATENCY: Duration = Duration::from_millis(20);

/// The answers of an origin that is down, and of one whose credentials have expired.
const FAILURES: [OriginError; 2] = [OriginError::Unavailable("down"), OriginError::Forbidden];

/// Builds an object that was read before and lies on disk only. The bucket is 20 ms away and yields 20 MiB/s a
/// connection. Its counters start after the first read.
async fn on_disk(size: u64) -> (World, Bytes) {
    let (world, bytes) = far(size, 20 * MIB, |_| {});
    same(&world.read(KEY).await.expect("read"), &bytes);
    settle().await;
    // After this, cursors and their chunks are gone.
    pass(secs(15)).await;
    world.store.evict_memory();
    (world, bytes)
}

fn takes(delay: Duration, claimed: Duration, rate: u64) -> Faults {
    Faults {
        delay,
        claims: Some((claimed, u32::try_from(rate).expect("below 4 GiB"))),
        ..Faults::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_sooner_brings_everything() {
    let (world, bytes) = on_disk(40 * MIB).await;
    let fast = Duration::from_millis(2);
    world.store.set(takes(fast, fast, 1000 * MIB));
    let gets = world.bucket.gets();
    same(&world.read(KEY).await.expect("read"), &bytes);
    assert_eq!(world.bucket.gets(), gets, "nothing is asked of the bucket");
}

#[tokio::test(start_paused = true)]
async fn what_is_waited_for_comes_from_the_origin_where_the_disk_takes_longer() {
    let (world, bytes) = on_disk(40 * MIB).await;
    let slow = Duration::from_millis(500);
    world.store.set(takes(slow, slow, MIB));
    let (reads, began) = (world.store.counts().disk_reads, Instant::now());
    let object = world.get(KEY).await.expect("open");
    let range = ByteRange::new(20 * MIB, 20 * MIB + 100);
    let got = collect(object.read_at(range)).await.expect("read");
    same(&got, &slice(&bytes, range));
    assert!(began.elapsed() < 3 * LATENCY, "{:?}", began.elapsed());
    assert_eq!(world.store.counts().disk_reads, reads);
}

#[tokio::test(start_paused = true)]
async fn a_slow_disk_beside_a_fast_origin_costs_a_sequential_read_nothing() {
    let (world, bytes) = on_disk(64 * MIB).await;
    let began = Instant::now();
    world.store.forget_everything();
    same(&world.read(KEY).await.expect("read"), &bytes);
    let without = began.elapsed();
    pass(secs(15)).await;
    world.store.evict_memory();
    // 256 KiB in 100 ms, one at a time or many: the disk is slow, and reports it.
    let slow = Duration::from_millis(100);
    world.store.set(takes(slow, slow, 2 * MIB));
    let began = Instant::now();
    same(&world.read(KEY).await.expect("read"), &bytes);
    let with = began.elapsed();
    assert!(with <= without.mul_f64(1.02), "{with:?} over {without:?}");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_the_disk_is_late_with_is_raced() {
    let (world, bytes) = on_disk(40 * MIB).await;
    // The disk claims to be fast and is not.
    let claimed = Duration::from_millis(1);
    world.store.set(takes(secs(30), claimed, 1000 * MIB));
    let object = world.get(KEY).await.expect("open");
    let range = ByteRange::new(0, 100);
    let began = Instant::now();
    let got = collect(object.read_at(range)).await.expect("read");
    same(&got, &slice(&bytes, range));
    assert!(began.elapsed() < 4 * LATENCY, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_disk_serves_whatever_it_takes_when_the_origin_is_down() {
    for refusal in FAILURES {
        let (world, bytes) = on_disk(10 * MIB).await;
        let slow = Duration::from_millis(700);
        world.store.set(takes(slow, slow, MIB));
        world.bucket.set_faults([Fault::Refuse(refusal)]);
        same(&world.read(KEY).await.expect("read"), &bytes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_late_is_waited_for_when_the_origin_is_down() {
    for refusal in FAILURES {
        let (world, bytes) = on_disk(10 * MIB).await;
        world.store.set(Faults {
            delay: Duration::from_millis(200),
            late: true,
            ..Faults::default()
        });
        world.bucket.set_faults([Fault::Refuse(refusal)]);
        same(&world.read(KEY).await.expect("read"), &bytes);
    }
}

#[tokio::test(start_paused = true)]
async fn one_missing_chunk_does_not_give_up_the_rest() {
    let (world, bytes) = on_disk(40 * MIB).await;
    let fast = Duration::from_millis(2);
    world.store.set(takes(fast, fast, 1000 * MIB));
    world.store.lose_every(8);
    let fetched = world.bucket.bytes();
    same(&world.read(KEY).await.expect("read"), &bytes);
    let fetched = world.bucket.bytes() - fetched;
    assert_eq!(
        fetched,
        40 * MIB / 8,
        "the missing chunks, and nothing else"
    );
}

/// The cached bytes of an open version are served, however slow the disk is and whatever has replaced the object in the
/// bucket.
#[tokio::test(start_paused = true)]
async fn a_slow_disk_serves_the_version_that_is_open_after_it_has_changed() {
    for (claimed, deleted) in [(700, false), (700, true), (1, false), (1, true)] {
        let (world, bytes) = on_disk(10 * MIB).await;
        let claimed = Duration::from_millis(claimed);
        let slow = Duration::from_millis(700);
        world.store.set(takes(slow, claimed, 1000 * MIB));
        let object = world.get(KEY).await.expect("open");
        match deleted {
            true => world.bucket.delete(KEY),
            false => drop(world.bucket.put(KEY, sample(2, 10 * MIB))),
        }
        same(&whole(&object).await.expect("it is cached"), &bytes);
    }
}

/// The stores close side by side, each with its share of the deadline. If a disk hangs, the metadata still has its
/// turn, and the process ends in time.
#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_at_the_end_takes_no_time_from_the_metadata() {
    let world = World::plain();
    world.store.set(Faults {
        hangs_at_close: true,
        ..Faults::default()
    });
    let since = Instant::now();
    world.engine.close(secs(30)).await;
    assert_eq!(since.elapsed(), secs(15));
    assert!(world.meta.lock().is_closed);
}

/// Bulk on disk is read past memory, each chunk once, also if only a slow disk has it. A small object has no read-ahead.
#[tokio::test(start_paused = true)]
async fn bulk_from_disk_displaces_nothing_in_memory() {
    let mut profile = Profile::stream();
    profile.bulk = true;
    for size in [MIB, 8 * MIB] {
        let setup = Setup {
            profile: profile.clone(),
            ..Setup::default()
        };
        let world = setup.build();
        let bytes = sample(1, size);
        world.bucket.put(KEY, bytes.clone());
        let far = [Fault::Latency(LATENCY), Fault::Rate(20 * MIB)];
        world.bucket.set_faults(far);
        same(&world.read(KEY).await.expect("read"), &bytes);
        settle().await;
        assert_eq!(world.store.in_memory(), 0);
        let gets = world.bucket.gets();
        for late in [false, true] {
            pass(secs(15)).await;
            if late {
                let down = OriginError::Unavailable("down");
                world.bucket.set_faults([Fault::Refuse(down)]);
            }
            world.store.set(Faults {
                late,
                ..Faults::default()
            });
            let before = world.store.counts().disk_reads;
            same(&world.read(KEY).await.expect("read"), &bytes);
            let reads = world.store.counts().disk_reads - before;
            let chunks = usize::try_from(size / CHUNK).expect("few chunks");
            // A late disk is read again, patiently.
            let tries = if late { 2 } else { 1 };
            assert_eq!(reads, tries * chunks, "{size} bytes, {late}");
            assert!(late || world.bucket.gets() == gets, "{size} bytes");
            assert_eq!(world.store.in_memory(), 0, "{late}");
        }
    }
}

/// Two readers of bulk: the first one's window reaches what the second one reads from disk, and the bucket is slow with
/// the chunks that the disk lacks.
#[tokio::test(start_paused = true)]
async fn bulk_that_another_reader_reads_from_disk_is_asked_of_no_bucket() {
    let mut profile = Profile::stream();
    profile.bulk = true;
    let setup = Setup {
        profile,
        ..Setup::default()
    };
    let world = setup.build();
    let bytes = sample(1, 64 * MIB);
    world.bucket.put(KEY, bytes.clone());
    let far = [Fault::Latency(10 * LATENCY), Fault::Rate(20 * MIB)];
    world.bucket.set_faults(far);
    same(&world.read(KEY).await.expect("read"), &bytes);
    settle().await;
    pass(secs(15)).await;
    let fast = Duration::from_millis(2);
    world.store.set(takes(fast, fast, 1000 * MIB));
    world.store.lose_every(8);
    let fetched = world.bucket.bytes();
    let object = world.get(KEY).await.expect("open");
    let (first, second) = tokio::join!(
        whole(&object),
        collect(object.read_at(ByteRange::new(16 * MIB, 64 * MIB))),
    );
    same(&first.expect("read"), &bytes);
    same(&second.expect("read"), &bytes.slice(16 << 20..));
    let fetched = world.bucket.bytes() - fetched;
    assert_eq!(fetched, 64 * MIB / 8, "the missing chunks, once");
}
