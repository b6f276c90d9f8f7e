//! Failures of a shared fetch: all that wait are told, and nothing is remembered.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use tidegate_engine::{Error, OpenOptions};
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_plan::ByteRange;

use super::{GRACE, slow};
use crate::support::*;

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
    let object = world.open(KEY, OpenOptions::default()).await.expect("open");
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
    let object = world.open(KEY, OpenOptions::default()).await.expect("open");
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

/// The bucket refuses the request for the head, or the origin's client panics in it.
#[tokio::test(start_paused = true)]
async fn a_head_that_fails_is_told_and_the_chunk_not_kept() {
    let refusal = Fault::Refuse(OriginError::Forbidden);
    for (fault, error) in [
        (refusal, Error::Forbidden),
        (Fault::Panic, Error::Unavailable),
    ] {
        let (world, bytes) = slow(4 * MIB, 64 * KIB);
        let object = world.open(KEY, OpenOptions::default()).await.expect("open");
        let at = 5 * CHUNK + 100 * KIB;
        let range = ByteRange::new(at, at + 1000);
        let early = ByteRange::new(5 * CHUNK, 5 * CHUNK + 1000);
        world.bucket.fail_next([Fault::Latency(secs(1))]);
        world.bucket.fail_next([Fault::Latency(secs(1)), fault]);
        let (tail, head) = tokio::join!(collect(object.read_at(range)), async {
            settle().await;
            tokio::time::timeout(secs(600), collect(object.read_at(early))).await
        });
        same(&tail.expect("read"), &slice(&bytes, range));
        assert_eq!(head.expect("it is told"), Err(error));
        assert_eq!(world.store.held_bytes(), 0);
        world.bucket.set_faults([]);
        same(
            &collect(object.read_at(early)).await.expect("read"),
            &slice(&bytes, early),
        );
    }
}

/// Refusals come at once. If they counted as first bytes, each request after them would look late.
#[tokio::test(start_paused = true)]
async fn opens_that_fail_tell_nothing_about_the_time_of_a_first_byte() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, 4 * MIB));
    let answers = Fault::Latency(Duration::from_millis(100));
    world.bucket.set_faults([answers.clone()]);
    let object = world.get(KEY).await.expect("open");
    world
        .bucket
        .set_faults([Fault::Refuse(OriginError::Forbidden)]);
    for _ in 0..30 {
        assert_eq!(world.get("other").await.err(), Some(Error::Forbidden));
    }
    world.bucket.set_faults([answers]);
    let gets = world.bucket.gets();
    let range = ByteRange::new(2 * MIB, 2 * MIB + 10);
    collect(object.read_at(range)).await.expect("read");
    assert_eq!(world.bucket.gets(), gets + 1, "no hedge");
}

#[tokio::test(start_paused = true)]
async fn a_head_whose_part_fails_behind_the_tail_is_told() {
    let (world, bytes) = slow(4 * MIB, 64 * KIB);
    let object = world.open(KEY, OpenOptions::default()).await.expect("open");
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
