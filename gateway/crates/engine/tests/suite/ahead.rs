//! Read-ahead: many streams, few requests, little waste, and none for a reader that stops.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tidegate_engine::Reader;
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_plan::{ByteRange, Profile, RangeSpec};
use tokio::time::Instant;

use crate::support::*;

mod window;

/// Reads to the end at `rate` bytes a second, as a player does.
async fn play(mut reader: Reader, rate: u64) -> Bytes {
    let (mut bytes, began) = (Vec::new(), Instant::now());
    while let Some(piece) = reader.next().await {
        bytes.extend_from_slice(&piece.expect("no error"));
        let due = Duration::from_secs_f64(bytes.len() as f64 / rate as f64);
        pass(due.saturating_sub(began.elapsed())).await;
    }
    bytes.into()
}

#[tokio::test(start_paused = true)]
async fn a_sequential_read_uses_many_streams_and_few_requests() {
    let (world, bytes) = far(96 * MIB, 20 * MIB, |_| {});
    let since = Instant::now();
    let object = world.get(KEY).await.expect("open");
    let watch = tokio::spawn({
        let bucket = world.bucket.clone();
        async move {
            let mut most = 0;
            loop {
                most = most.max(bucket.running());
                pass(Duration::from_millis(1)).await;
                if bucket.running() == 0 {
                    return most;
                }
            }
        }
    });
    let got = play(object.read_at(all(&object)), 200 * MIB).await;
    same(&got, &bytes);
    // Sixteen streams; the next request of each begins shortly before the end of a body.
    let most = watch.await.expect("no panic");
    assert!((5..=32).contains(&most), "{most} at once");
    let rate = 96.0 / since.elapsed().as_secs_f64();
    assert!(rate > 60.0, "{rate} MiB/s, where one connection yields 20");
    assert!(
        world.bucket.gets() <= 128,
        "{} requests",
        world.bucket.gets()
    );
    assert_eq!(
        (world.bucket.bytes(), world.bucket.heads()),
        (96 * MIB, 0),
        "amplification 1"
    );
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_leaves_after_ten_megabytes_costs_at_most_three_times_that() {
    let mut rng = 7_u64;
    for rate in [5 * MIB, 50 * MIB, 1 << 30] {
        let (world, _) = far(256 * MIB, 20 * MIB, |_| {});
        let object = world.get(KEY).await.expect("open");
        let mut reader = object.read_at(all(&object));
        let (mut taken, began) = (0, Instant::now());
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        while taken < 10 * MIB - (rng >> 44) {
            taken += take(&mut reader, 1).await.len() as u64;
            let due = Duration::from_secs_f64(taken as f64 / rate as f64);
            pass(due.saturating_sub(began.elapsed())).await;
        }
        drop((reader, object));
        pass(secs(30)).await;
        let cost = world.bucket.bytes();
        assert!(cost <= 3 * taken, "{taken} read, {cost} fetched");
        assert_eq!((world.bucket.running(), world.used()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_leaves_after_64_kib_costs_at_most_1_mib() {
    for rate in [MIB, 20 * MIB, 1 << 30] {
        let (world, _) = far(256 * MIB, rate, |_| {});
        let object = world.get(KEY).await.expect("open");
        let mut reader = object.read_at(all(&object));
        take(&mut reader, 64 * KIB).await;
        drop((reader, object));
        pass(secs(30)).await;
        let cost = world.bucket.bytes();
        assert!(cost <= MIB, "{rate}: {cost} fetched");
        assert_eq!((world.bucket.running(), world.used()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_ahead_where_that_is_off() {
    let (world, bytes) = far(32 * MIB, 20 * MIB, |setup| setup.profile.read_ahead = 0);
    for start in [0, 3 * MIB, 20 * MIB] {
        for step in 0..8 {
            let first = start + step * 300 * KIB;
            let spec = RangeSpec::Bounded {
                first,
                last: first + 300 * KIB - 1,
            };
            let got = world.range(KEY, spec).await.expect("read");
            same(
                &got,
                &slice(&bytes, ByteRange::new(first, first + 300 * KIB)),
            );
        }
    }
    pass(secs(11)).await;
    let read = 3 * 8 * 300 * KIB;
    assert!(
        world.bucket.bytes() <= read + 3 * 2 * CHUNK,
        "{}",
        world.bucket.bytes()
    );
    let (world, bytes) = far(32 * MIB, 20 * MIB, |setup| setup.profile.read_ahead = 0);
    same(&world.read(KEY).await.expect("read"), &bytes);
    assert_eq!(world.bucket.bytes(), 32 * MIB);
}

#[tokio::test(start_paused = true)]
async fn one_bounded_range_fetches_nothing_beyond_it() {
    let (world, bytes) = far(64 * MIB, 20 * MIB, |_| {});
    let spec = RangeSpec::Bounded {
        first: 8 * MIB,
        last: 20 * MIB - 1,
    };
    same(
        &world.range(KEY, spec).await.expect("read"),
        &bytes.slice(8 << 20..20 << 20),
    );
    pass(secs(11)).await;
    assert_eq!(world.bucket.bytes(), 12 * MIB);
}

#[tokio::test(start_paused = true)]
async fn read_ahead_from_disk_leaves_the_origin_alone() {
    let (world, bytes) = far(16 * MIB, 200 * MIB, |_| {});
    world.read(KEY).await.expect("read");
    let gets = world.bucket.gets();
    // Chunks that a cursor still holds would be served without the disk.
    pass(secs(3)).await;
    world.store.evict_memory();
    world.store.set(tidegate_cache::fake::Faults {
        delay: Duration::from_millis(1),
        ..Default::default()
    });
    same(&world.read(KEY).await.expect("read"), &bytes);
    assert_eq!(world.bucket.gets(), gets);
    assert_eq!(world.store.counts().disk_reads, 64);
    pass(secs(11)).await;
    assert_eq!(world.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn bulk_passes_through_once() {
    let (world, bytes) = far(48 * MIB, 20 * MIB, |setup| {
        setup.profile = Profile::backup()
    });
    same(&world.read(KEY).await.expect("read"), &bytes);
    assert_eq!(
        (world.bucket.bytes(), world.store.held_bytes()),
        (48 * MIB, 0)
    );
    pass(secs(11)).await;
    assert_eq!((world.bucket.running(), world.used()), (0, 0));
}

/// Memory takes no bulk. The second reader finds what the first one has passed all the same, but for the beginning.
#[tokio::test(start_paused = true)]
async fn two_bulk_readers_of_one_object_fetch_it_once() {
    for (rate, apart) in [(MIB, MIB), (20 * MIB, MIB), (20 * MIB, 4 * MIB)] {
        let (world, bytes) = far(64 * MIB, rate, |setup| setup.profile = Profile::backup());
        let object = world.get(KEY).await.expect("open");
        let mut readers = [0, 1].map(|_| object.read_at(all(&object)));
        let mut taken = [0, 0];
        while taken[1] < bytes.len() as u64 {
            let is_first = taken[0] < bytes.len() as u64 && taken[0] < taken[1] + apart;
            let turn = usize::from(!is_first);
            let got = take(&mut readers[turn], 1).await;
            let at = taken[turn] as usize;
            assert!(got == bytes[at..at + got.len()], "other bytes at {at}");
            taken[turn] += got.len() as u64;
        }
        drop(readers);
        let fetched = world.bucket.bytes() / MIB;
        // What the first one read before it had earned read-ahead is fetched twice.
        let most = 64 + apart / MIB;
        assert!(fetched <= most, "{fetched} MiB, {rate} bytes a second");
        pass(secs(11)).await;
        assert_eq!((world.bucket.running(), world.used()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_fails_ahead_disturbs_no_reader() {
    let (world, bytes) = far(16 * MIB, 20 * MIB, |_| {});
    // Two faults: even one request has enough tries for them.
    world.bucket.fail_next([Fault::Rate(20 * MIB)]);
    world.bucket.fail_next([Fault::Reset(100 * KIB)]);
    world.bucket.fail_next([Fault::WrongRange]);
    same(&world.read(KEY).await.expect("read"), &bytes);
    pass(secs(11)).await;
    assert_eq!((world.bucket.running(), world.used()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_goes_down_is_not_asked_for_the_rest_of_the_window() {
    let (world, _) = far(96 * MIB, 20 * MIB, |_| {});
    let object = world.get(KEY).await.expect("open");
    let mut reader = object.read_at(all(&object));
    let mut taken = 0;
    while taken < 20 * MIB {
        taken += take(&mut reader, 1).await.len() as u64;
        pass(Duration::from_millis(5)).await;
    }
    world
        .bucket
        .set_faults([Fault::Refuse(OriginError::Unavailable("down"))]);
    let before = world.bucket.gets();
    assert!(world.bucket.running() > 0, "the test means something");
    pass(secs(2)).await;
    // Requests under way end well, and begin others, one on each stream at most. Those fail, and begin none.
    let more = world.bucket.gets() - before;
    assert!(more <= u64::from(Profile::stream().streams), "{more} more");
    drop((reader, object));
}

/// A case that the reference model found.
#[tokio::test(start_paused = true)]
async fn a_cursor_at_the_end_of_an_object_holds_nothing_that_was_passed() {
    let world = Setup {
        chunk: 4 * KIB,
        budget: 8 * KIB,
        ..Setup::profile(|p| (p.read_ahead, p.streams) = (512 * KIB, 3))
    }
    .build();
    let bytes = sample(1, MIB + 1);
    world.bucket.put(KEY, bytes.clone());
    // Both readers are at one cursor, and the suffix takes all the memory there is.
    let (suffix, whole) = tokio::join!(
        world.range(KEY, RangeSpec::Suffix(256 * KIB)),
        world.read(KEY)
    );
    same(&suffix.expect("read"), &bytes.slice((768 << 10) + 1..));
    same(&whole.expect("its turn comes"), &bytes);
}

/// Reads from a kernel are separate readers, one after the other or two at a time.
#[tokio::test(start_paused = true)]
async fn a_kernels_reads_are_as_fast_as_one_reader() {
    let size = 192 * MIB;
    let (world, _) = far(size, 20 * MIB, |_| {});
    let since = Instant::now();
    world.read(KEY).await.expect("read");
    let one = since.elapsed();
    for (depth, step) in [(1, MIB), (2, MIB), (1, 128 * KIB), (2, 128 * KIB)] {
        let (world, _) = far(size, 20 * MIB, |_| {});
        let since = Instant::now();
        let object = world.get(KEY).await.expect("open");
        let read = |n: u64| {
            let object = object.clone();
            let range = ByteRange::new(n * step, (n + 1) * step);
            tokio::spawn(async move { collect(object.read_at(range)).await.map(drop) })
        };
        let mut under_way: VecDeque<_> = (0..depth).map(read).collect();
        for next in depth.. {
            let Some(first) = under_way.pop_front() else {
                break;
            };
            first.await.expect("no panic").expect("read");
            if next < size / step {
                under_way.push_back(read(next));
            }
        }
        let kernel = since.elapsed();
        let slower = kernel.as_secs_f64() / one.as_secs_f64();
        assert!(slower < 1.15, "{depth} of {step}: {slower}");
    }
}
