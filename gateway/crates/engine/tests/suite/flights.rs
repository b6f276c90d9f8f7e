//! Shared fetches: readers that join, leave or see a failure, and fetches that stop.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use tidegate_cache::fake::Faults;
use tidegate_engine::{Error, Open};
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_plan::profile::DiskUse;
use tidegate_plan::{ByteRange, RangeSpec};

use crate::support::*;

/// The grace of a cursor, and a little more.
const GRACE: Duration = Duration::from_secs(11);

/// The time for which a cursor holds landed chunks, and a little more.
const HELD: Duration = Duration::from_secs(3);

/// Builds a world with one object of `size` bytes that arrives slowly.
fn slow(size: u64, rate: u64) -> (World, bytes::Bytes) {
    let world = World::plain();
    let bytes = sample(1, size);
    world.bucket.put(KEY, bytes.clone());
    world
        .bucket
        .set_faults([Fault::Latency(secs(1)), Fault::Rate(rate)]);
    (world, bytes)
}

#[tokio::test(start_paused = true)]
async fn bytes_are_read_while_they_arrive() {
    let (world, bytes) = slow(CHUNK, 64 * KIB);
    let object = world.get(KEY).await.expect("open");
    let mut reader = object.read_at(all(&object));
    let since = tokio::time::Instant::now();
    let got = take(&mut reader, 1).await;
    assert!(
        since.elapsed() <= secs(1),
        "a first frame, and not a chunk of four"
    );
    same(&got, &bytes.slice(..got.len()));
}

/// The memory tier owns a chunk under a reader that stands still, once it has stored it. The reader finds it there, or
/// has it fetched again.
#[tokio::test(start_paused = true)]
async fn a_reader_that_stands_still_keeps_no_chunk_alive() {
    for evicted in [false, true] {
        let world = Setup::profile(|profile| profile.disk = DiskUse::Off).build();
        let bytes = sample(1, CHUNK);
        world.bucket.put(KEY, bytes.clone());
        world
            .bucket
            .set_faults([Fault::Latency(secs(1)), Fault::Rate(64 * KIB)]);
        let object = world.get(KEY).await.expect("open");
        let mut reader = object.read_at(all(&object));
        let begun = take(&mut reader, 1).await;
        assert!((begun.len() as u64) < CHUNK, "a frame as it arrived");
        assert_eq!(reader.keeps(), begun.len());
        pass(secs(10)).await;
        assert_eq!(world.used(), 0, "memory answers for it");
        if evicted {
            world.store.evict_memory();
        }
        let rest = collect(reader).await.expect("read");
        same(&[begun, rest].concat().into(), &bytes);
        assert_eq!(world.bucket.gets() > 1, evicted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_piece_tells_what_it_keeps_alive() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, CHUNK + 1000));
    world.read(KEY).await.expect("read");
    let object = world.get(KEY).await.expect("open");
    for (range, keeps) in [((5, 6), CHUNK), ((CHUNK + 9, CHUNK + 10), 1000)] {
        let mut reader = object.read_at(ByteRange::new(range.0, range.1));
        reader.prime().await.expect("read");
        assert_eq!(reader.take_primed().map(|piece| piece.len()), Some(1));
        assert_eq!(reader.keeps() as u64, keeps);
        assert!(reader.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_leaves_breaks_nobody() {
    let (world, bytes) = slow(4 * MIB, MIB);
    let leader = tokio::spawn({
        let world = world.clone();
        async move { world.read(KEY).await }
    });
    settle().await;
    let others = join_all((0..5).map(|_| world.read(KEY)));
    let left = async {
        // Before the answer came, and in the other half of the cases in the middle of it.
        pass(Duration::from_millis(1500)).await;
        leader.abort();
    };
    let (others, ()) = tokio::join!(others, left);
    for got in others {
        same(&got.expect("read"), &bytes);
    }
    assert_eq!(world.bucket.bytes(), 4 * MIB);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_leaves_before_the_answer_breaks_nobody() {
    let (world, bytes) = slow(MIB, MIB);
    let leader = tokio::spawn({
        let world = world.clone();
        async move { world.read(KEY).await }
    });
    settle().await;
    let other = world.read(KEY);
    let left = async {
        settle().await;
        leader.abort();
    };
    let (other, ()) = tokio::join!(other, left);
    same(&other.expect("read"), &bytes);
    assert_eq!(world.asked(), (1, 0), "the request went on");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_waits_for_is_dropped() {
    let (world, _) = slow(MIB, MIB);
    let asking = tokio::time::timeout(Duration::from_millis(500), world.get(KEY)).await;
    assert!(asking.is_err());
    settle().await;
    assert_eq!(world.bucket.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_nobody_wants_is_stopped() {
    let (world, _) = slow(64 * MIB, MIB);
    let object = world.get(KEY).await.expect("open");
    let mut reader = object.read_at(all(&object));
    take(&mut reader, 100 * KIB).await;
    assert!(world.bucket.running() > 0);
    drop((reader, object));
    // Read-ahead has not begun, so there is nothing to wait for.
    pass(Duration::from_millis(100)).await;
    assert_eq!(world.bucket.running(), 0);
    assert!(world.bucket.bytes() <= 256 * KIB);

    // With read-ahead under way, running fetches may land within the grace, and no new one starts.
    let object = world.get(KEY).await.expect("open");
    let mut reader = object.read_at(all(&object));
    take(&mut reader, 4 * MIB).await;
    drop((reader, object));
    let (gets, running) = (world.bucket.gets(), world.bucket.running());
    assert!(running > 0, "something is ahead");
    pass(GRACE).await;
    assert_eq!((world.bucket.gets(), world.bucket.running()), (gets, 0));
    assert_eq!(world.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_opened_and_not_read_is_stopped() {
    let (world, _) = slow(64 * MIB, 64 * KIB);
    let object = world.get(KEY).await.expect("open");
    settle().await;
    assert_eq!(world.bucket.running(), 1);
    drop(object);
    settle().await;
    assert_eq!((world.bucket.running(), world.used()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_stays_open_pins_nothing_once_it_is_read() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, MIB));
    let object = world.get(KEY).await.expect("open");
    whole(&object).await.expect("read");
    settle().await;
    assert_eq!(world.used(), 0);
    drop(object);
}

#[tokio::test(start_paused = true)]
async fn an_error_reaches_all_that_wait_and_is_not_remembered() {
    for (refusal, told) in [
        (OriginError::NotFound, Error::NotFound),
        (OriginError::Forbidden, Error::Forbidden),
        (
            OriginError::NoSuchBucket,
            Error::BadOrigin("no such bucket"),
        ),
    ] {
        let world = World::plain();
        let bytes = sample(1, 100);
        world.bucket.put(KEY, bytes.clone());
        world
            .bucket
            .set_faults([Fault::Latency(secs(1)), Fault::Refuse(refusal)]);
        let all = join_all((0..20).map(|_| world.read(KEY))).await;
        assert!(all.iter().all(|got| *got == Err(told.clone())), "{all:?}");
        assert_eq!(world.asked(), (1, 0), "once for all");
        world.bucket.set_faults([]);
        pass(secs(6)).await;
        same(&world.read(KEY).await.expect("read"), &bytes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_chunk_that_fails_fails_for_all_that_wait_and_is_asked_for_anew() {
    let world = World::plain();
    let bytes = sample(1, 4 * MIB);
    world.bucket.put(KEY, bytes.clone());
    let object = world.open(KEY, Open::default()).await.expect("open");
    let down = OriginError::NoSuchBucket;
    world
        .bucket
        .set_faults([Fault::Latency(secs(1)), Fault::Refuse(down)]);
    let range = ByteRange::new(MIB, MIB + 10);
    let all = join_all((0..20).map(|_| collect(object.read_at(range)))).await;
    assert!(
        all.iter()
            .all(|got| *got == Err(Error::BadOrigin("no such bucket")))
    );
    assert_eq!(world.asked(), (1, 1));
    world.bucket.set_faults([]);
    let got = collect(object.read_at(range)).await.expect("read");
    same(&got, &slice(&bytes, range));
    settle().await;
    assert_eq!(world.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_arrived_before_a_failure_is_right_and_the_failure_is_told() {
    let world = World::plain();
    let bytes = sample(1, MIB);
    world.bucket.put(KEY, bytes.clone());
    let object = world.open(KEY, Open::default()).await.expect("open");
    // The fetch breaks at the same place however often it is resumed: after 100 KiB, then at once.
    world.bucket.fail_next([Fault::Reset(100 * KIB)]);
    world.bucket.set_faults([Fault::Reset(0)]);
    let mut reader = object.read_at(all(&object));
    let (mut got, mut error) = (Vec::new(), None);
    while error.is_none() {
        match reader.next().await.expect("an error before the end") {
            Ok(piece) => got.extend_from_slice(&piece),
            Err(e) => error = Some(e),
        }
    }
    assert_eq!(
        (got.len() as u64, error),
        (100 * KIB, Some(Error::Unavailable))
    );
    same(&got.into(), &bytes.slice(..100 << 10));
    world.bucket.set_faults([]);
    same(&whole(&object).await.expect("read"), &bytes);
}

#[tokio::test(start_paused = true)]
async fn broken_bodies_go_on_from_the_byte_they_reached() {
    for fault in [
        Fault::Reset(300 * KIB),
        Fault::Truncate(300 * KIB),
        Fault::Stall(300 * KIB),
        Fault::WrongRange,
    ] {
        let world = World::plain();
        let bytes = sample(1, 3 * MIB);
        world.bucket.put(KEY, bytes.clone());
        world.bucket.fail_next([fault.clone()]);
        same(&world.read(KEY).await.expect("read"), &bytes);
        pass(GRACE).await;
        assert_eq!((world.used(), world.bucket.running()), (0, 0), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_seek_into_a_chunk_begins_with_the_wanted_byte_and_completes_the_chunk() {
    let world = World::plain();
    let bytes = sample(1, 4 * MIB);
    world.bucket.put(KEY, bytes.clone());
    let object = world.open(KEY, Open::default()).await.expect("open");
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
    let object = world.open(KEY, Open::default()).await.expect("open");
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

#[tokio::test(start_paused = true)]
async fn a_head_that_fails_is_told_and_the_chunk_not_kept() {
    let (world, bytes) = slow(4 * MIB, 64 * KIB);
    let object = world.open(KEY, Open::default()).await.expect("open");
    let at = 5 * CHUNK + 100 * KIB;
    let range = ByteRange::new(at, at + 1000);
    let early = ByteRange::new(5 * CHUNK, 5 * CHUNK + 1000);
    world.bucket.fail_next([Fault::Latency(secs(1))]);
    world.bucket.fail_next([
        Fault::Latency(secs(1)),
        Fault::Refuse(OriginError::Forbidden),
    ]);
    let (tail, head) = tokio::join!(collect(object.read_at(range)), async {
        settle().await;
        collect(object.read_at(early)).await
    });
    same(&tail.expect("read"), &slice(&bytes, range));
    assert_eq!(head, Err(Error::Forbidden));
    assert_eq!(world.store.held_bytes(), 0);
    same(
        &collect(object.read_at(early)).await.expect("read"),
        &slice(&bytes, early),
    );
}

#[tokio::test(start_paused = true)]
async fn a_head_whose_part_fails_behind_the_tail_is_told() {
    let (world, bytes) = slow(4 * MIB, 64 * KIB);
    let object = world.open(KEY, Open::default()).await.expect("open");
    let at = 5 * CHUNK + 100 * KIB;
    let range = ByteRange::new(at, at + 2 * CHUNK);
    let early = ByteRange::new(5 * CHUNK, 5 * CHUNK + 1000);
    // The tail of the first chunk arrives; in the next chunk the origin refuses for good.
    world.bucket.fail_next([Fault::Reset(CHUNK)]);
    world
        .bucket
        .set_faults([Fault::Refuse(OriginError::Forbidden)]);
    let (tail, head) = tokio::join!(collect(object.read_at(range)), async {
        settle().await;
        tokio::time::timeout(secs(600), collect(object.read_at(early))).await
    });
    assert!(matches!(tail, Err(Error::Forbidden)));
    assert!(matches!(head.expect("it is told"), Err(Error::Forbidden)));
    world.bucket.set_faults([]);
    same(
        &collect(object.read_at(early)).await.expect("read"),
        &slice(&bytes, early),
    );
}

#[tokio::test(start_paused = true)]
async fn ranges_out_of_order_and_in_parallel_are_right() {
    let (world, bytes) = slow(9 * MIB + 77, 4 * MIB);
    let object = world.open(KEY, Open::default()).await.expect("open");
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

#[tokio::test(start_paused = true)]
async fn the_disk_serves_what_memory_lost() {
    let world = World::plain();
    let bytes = sample(1, 3 * MIB);
    world.bucket.put(KEY, bytes.clone());
    // Far enough away for the disk to be faster.
    let far = [
        Fault::Latency(Duration::from_millis(20)),
        Fault::Rate(20 * MIB),
    ];
    world.bucket.set_faults(far);
    world.read(KEY).await.expect("read");
    let gets = world.bucket.gets();
    for delay in [0, 10] {
        // Chunks that a cursor still holds would be served without the disk.
        pass(HELD).await;
        world.store.evict_memory();
        world.store.set(Faults {
            delay: Duration::from_millis(delay),
            claims: Some((Duration::from_millis(delay), 1 << 30)),
            ..Faults::default()
        });
        let all = join_all((0..5).map(|_| world.read(KEY))).await;
        for got in all {
            same(&got.expect("read"), &bytes);
        }
    }
    assert_eq!(world.bucket.gets(), gets);
    assert_eq!(
        world.store.counts().disk_reads,
        24,
        "every chunk once a time"
    );
    pass(GRACE).await;
    assert_eq!(world.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_the_disk_loses_the_origin_brings() {
    for (read_ahead, delay) in [(0, 0), (0, 50), (8 * MIB, 0), (8 * MIB, 50)] {
        let world = Setup::profile(|p| p.read_ahead = read_ahead).build();
        let bytes = sample(1, 3 * MIB);
        world.bucket.put(KEY, bytes.clone());
        world.read(KEY).await.expect("read");
        world.store.evict_memory();
        world.store.set(Faults {
            lose: true,
            delay: Duration::from_millis(delay),
            ..Faults::default()
        });
        let read = tokio::time::timeout(secs(60), world.read(KEY)).await;
        same(&read.expect("in bounded time").expect("read"), &bytes);
        pass(GRACE).await;
        assert_eq!(world.used(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn stores_that_take_nothing_change_no_byte() {
    for (refuse_memory, refuse_disk) in [(true, false), (true, true), (false, true)] {
        let world = World::plain();
        let bytes = sample(1, 5 * MIB);
        world.bucket.put(KEY, bytes.clone());
        world.store.set(Faults {
            refuse_memory,
            refuse_disk,
            ..Faults::default()
        });
        for _ in 0..2 {
            same(&world.read(KEY).await.expect("read"), &bytes);
        }
        pass(GRACE).await;
        assert_eq!((world.used(), world.bucket.running()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tiny_budget_slows_and_breaks_nothing() {
    for (budget, readers) in [
        (CHUNK, 1),
        (CHUNK, 4),
        (CHUNK + 100 * KIB, 4),
        (MIB, 8),
        (64 * KIB, 2),
    ] {
        let world = Setup {
            budget,
            ..Setup::default()
        }
        .build();
        let objects: Vec<_> = (0..readers).map(|n| sample(n, 5 * MIB + n)).collect();
        for (n, bytes) in objects.iter().enumerate() {
            world.bucket.put(&format!("k{n}"), bytes.clone());
        }
        world.bucket.set_faults([Fault::Rate(64 * MIB)]);
        let world = &world;
        let reads = (0..objects.len()).map(|n| async move { world.read(&format!("k{n}")).await });
        let all = tokio::time::timeout(secs(120), join_all(reads)).await;
        for (got, bytes) in all.expect("no hang").into_iter().zip(&objects) {
            same(&got.expect("read"), bytes);
        }
        pass(GRACE).await;
        assert_eq!(
            (world.used(), world.bucket.running()),
            (0, 0),
            "budget {budget}"
        );
    }
}

/// A reader waits for memory first and for a request second. In the other order, readers that hold one and wait for the
/// other would block each other.
#[tokio::test(start_paused = true)]
async fn slow_readers_short_of_memory_and_of_requests_keep_going() {
    let mut setup = Setup {
        budget: 8 * CHUNK,
        ..Setup::default()
    };
    setup.origin.max_requests = 4;
    let world = setup.build();
    world.store.set(Faults {
        refuse_memory: true,
        refuse_disk: true,
        ..Faults::default()
    });
    let objects: Vec<_> = (0..16).map(|n| sample(n, 2 * MIB)).collect();
    for (n, bytes) in objects.iter().enumerate() {
        world.bucket.put(&format!("k{n}"), bytes.clone());
    }
    let (world, objects, since) = (&world, &objects, tokio::time::Instant::now());
    join_all((0..objects.len()).map(|n| async move {
        let object = world.get(&format!("k{n}")).await.expect("open");
        let (mut reader, mut bytes) = (object.read_at(all(&object)), Vec::new());
        while let Some(piece) = reader.next().await {
            bytes.extend_from_slice(&piece.expect("no error"));
            pass(Duration::from_millis(100)).await;
        }
        assert_eq!(bytes, objects[n]);
    }))
    .await;
    // No reader went on only because another one's timeout of 10 s had passed.
    assert!(since.elapsed() < secs(8), "{:?}", since.elapsed());
    pass(GRACE).await;
    assert_eq!((world.used(), world.bucket.running()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_budget_sheds_and_recovers() {
    let world = Setup {
        budget: CHUNK,
        ..Setup::default()
    }
    .build();
    world.bucket.put("a", sample(1, 2 * CHUNK));
    world.bucket.put("b", sample(2, CHUNK));
    world.bucket.fail_next([Fault::Pause {
        after: 64 * KIB,
        pause: secs(9),
    }]);
    // The second read waits for the first to finish, and gets its turn.
    let (a, b) = tokio::join!(world.read("a"), async {
        settle().await;
        world.read("b").await
    });
    same(&a.expect("read"), &sample(1, 2 * CHUNK));
    same(&b.expect("read"), &sample(2, CHUNK));
    settle().await;
    assert_eq!(world.used(), 0);

    // A client that stands still for ever, on a chunk that memory does not take.
    world.store.set(Faults {
        refuse_memory: true,
        refuse_disk: true,
        ..Faults::default()
    });
    world.store.forget_everything();
    let object = world.get("a").await.expect("open");
    let mut reader = object.read_at(all(&object));
    take(&mut reader, 1).await;
    assert!(matches!(
        world.read("b").await,
        Err(Error::Overloaded { .. })
    ));
    drop((reader, object));
    same(&world.read("b").await.expect("read"), &sample(2, CHUNK));
}

#[tokio::test(start_paused = true)]
async fn closing_stops_everything() {
    let (world, _) = slow(64 * MIB, MIB);
    let object = world.get(KEY).await.expect("open");
    let mut reader = object.read_at(all(&object));
    take(&mut reader, 2 * MIB).await;
    let since = tokio::time::Instant::now();
    world.engine.close(secs(30)).await;
    assert!(since.elapsed() < secs(1), "{:?}", since.elapsed());
    assert_eq!(world.bucket.running(), 0);
    let rest = tokio::time::timeout(secs(30), async {
        while let Some(piece) = reader.next().await {
            piece?;
        }
        Ok(())
    });
    assert_eq!(rest.await.expect("no hang"), Err(Error::Unavailable));
}
