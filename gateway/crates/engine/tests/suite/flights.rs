//! Shared fetches: readers that join, leave or see a failure, and fetches that stop.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use tidegate_engine::Error;
use tidegate_origin::fake::Fault;
use tidegate_plan::ByteRange;
use tidegate_plan::profile::DiskUse;

use crate::support::*;

mod failures;
mod seeks;
mod shortage;

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
        let piece = reader.next().await.expect("more").expect("read");
        assert_eq!(piece.len(), 1);
        assert_eq!(reader.keeps() as u64, keeps);
        assert!(reader.next().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_leaves_breaks_no_follower() {
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
async fn a_leader_that_leaves_before_the_answer_breaks_no_follower() {
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
async fn a_question_without_a_waiter_is_dropped() {
    let (world, _) = slow(MIB, MIB);
    let asking = tokio::time::timeout(Duration::from_millis(500), world.get(KEY)).await;
    assert!(asking.is_err());
    settle().await;
    assert_eq!(world.bucket.running(), 0);
}

/// As a kernel reads: each of its reads is a reader, and leaves before the chunk has arrived.
#[tokio::test(start_paused = true)]
async fn a_chunk_is_asked_for_once_however_it_is_read() {
    let (world, bytes) = slow(CHUNK, 64 * KIB);
    for start in [0, CHUNK / 4, CHUNK / 2, CHUNK / 4 * 3] {
        let object = world.get(KEY).await.expect("open");
        let range = ByteRange::new(start, start + CHUNK / 4);
        let read = collect(object.read_at(range)).await.expect("read");
        same(&read, &bytes.slice(start as usize..range.end as usize));
        drop(object);
        pass(Duration::from_millis(300)).await;
    }
    assert_eq!((world.asked(), world.bucket.bytes()), ((1, 0), CHUNK));
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_no_reader_wants_is_stopped() {
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
