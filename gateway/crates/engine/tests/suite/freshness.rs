//! The freshness of a version, its confirmation, and the answers while the origin fails.

use std::time::Duration;

use futures_util::future::join_all;
use http::header::CONTENT_TYPE;
use tidegate_engine::{Coverage, Error, ForwardReason, OpenOptions};
use tidegate_origin::fake::Fault;
use tidegate_plan::RangeSpec;

use crate::support::*;

mod failing_origin;
mod forced;

/// Builds `web` without background confirmations: after a minute the origin is asked first.
fn strict() -> World {
    Setup::profile(|p| p.stale_while_revalidate = Duration::ZERO).build()
}

fn forced() -> OpenOptions {
    OpenOptions {
        revalidate: true,
        ..first(RangeSpec::From(0))
    }
}

fn only_if_cached() -> OpenOptions {
    OpenOptions {
        only_if_cached: true,
        ..first(RangeSpec::From(0))
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_of_a_healthy_origin_that_no_reader_caused() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, 3 * MIB));
    world.read(KEY).await.expect("read");
    let asked = world.asked();
    pass(secs(30 * 24 * 3600)).await;
    assert_eq!((world.asked(), world.bucket.probes()), (asked, 0));
}

#[tokio::test(start_paused = true)]
async fn fresh_asks_nothing_and_stale_is_confirmed_with_one_empty_request() {
    let world = strict();
    let bytes = sample(1, 3 * CHUNK);
    world.bucket.put(KEY, bytes.clone());
    world.read(KEY).await.expect("read");
    pass(secs(59)).await;
    same(&world.read(KEY).await.expect("read"), &bytes);
    assert_eq!(world.asked(), (1, 0));
    pass(secs(2)).await;
    let object = world.get(KEY).await.expect("open");
    assert_eq!(object.outcome().forward, Some(ForwardReason::Revalidated));
    same(&whole(&object).await.expect("read"), &bytes);
    assert_eq!((world.asked(), world.bucket.bytes()), ((2, 0), 3 * CHUNK));
    // The version is fresh again for a minute.
    pass(secs(59)).await;
    world.read(KEY).await.expect("read");
    assert_eq!(world.asked(), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn many_that_find_it_stale_ask_once() {
    let world = strict();
    world.bucket.put(KEY, sample(1, 100));
    world.read(KEY).await.expect("read");
    pass(secs(61)).await;
    world.bucket.set_faults([Fault::Latency(secs(1))]);
    for got in join_all((0..50).map(|_| world.read(KEY))).await {
        same(&got.expect("read"), &sample(1, 100));
    }
    assert_eq!(world.asked(), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_changed_object_comes_with_the_request_that_found_out() {
    let world = strict();
    world.bucket.put(KEY, sample(1, 100));
    world.read(KEY).await.expect("read");
    for (version, size) in [(2, 3 * CHUNK), (3, 50), (4, CHUNK)] {
        world.bucket.put(KEY, sample(version, size));
        pass(secs(61)).await;
        let asked = world.bucket.gets();
        let object = world.get(KEY).await.expect("open");
        assert_eq!(object.outcome().forward, Some(ForwardReason::Stale));
        same(&whole(&object).await.expect("read"), &sample(version, size));
        assert_eq!((world.bucket.gets() - asked, world.bucket.heads()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_416_on_confirming_means_changed_and_shorter() {
    let world = strict();
    world.bucket.put(KEY, sample(1, MIB));
    world.read(KEY).await.expect("read");
    world.bucket.put(KEY, sample(2, 10));
    pass(secs(61)).await;
    let object = world
        .open(KEY, first(RangeSpec::From(MIB / 2)))
        .await
        .expect("open");
    assert_eq!(object.version().size, 10);
    same(&whole(&object).await.expect("read"), &sample(2, 10));
    // The object changes to an empty one.
    world.bucket.put(KEY, "");
    pass(secs(61)).await;
    assert_eq!(world.get(KEY).await.expect("open").version().size, 0);
    // An empty object is confirmed like any other.
    let asked = world.asked();
    pass(secs(61)).await;
    assert_eq!(world.get(KEY).await.expect("open").version().size, 0);
    assert_eq!(world.asked(), (asked.0 + 1, asked.1));
}

#[tokio::test(start_paused = true)]
async fn stale_while_revalidate_answers_at_once_and_asks_once_behind() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, 100));
    world.read(KEY).await.expect("read");
    pass(secs(61)).await;
    world.bucket.put(KEY, sample(2, 200));
    world.bucket.set_faults([Fault::Latency(secs(1))]);
    let since = tokio::time::Instant::now();
    for got in join_all((0..50).map(|_| world.read(KEY))).await {
        same(&got.expect("read"), &sample(1, 100));
    }
    assert!(
        since.elapsed() < Duration::from_millis(100),
        "nobody waited"
    );
    pass(secs(2)).await;
    assert_eq!(world.asked(), (2, 0), "one request behind them");
    same(&world.read(KEY).await.expect("read"), &sample(2, 200));
    assert_eq!(world.asked(), (2, 0), "which brought the bytes along");
    assert_eq!(world.used(), 0);
    // After the window the origin is asked first.
    world.bucket.put(KEY, sample(3, 300));
    pass(secs(661)).await;
    same(&world.read(KEY).await.expect("read"), &sample(3, 300));
}

#[tokio::test(start_paused = true)]
async fn a_mended_content_type_costs_one_head_and_replaces_the_headers() {
    let world = strict();
    world
        .bucket
        .put_with(KEY, sample(1, 3 * CHUNK), &[("content-type", "text/plain")]);
    world.read(KEY).await.expect("read");
    world.bucket.mend(KEY, &[("content-type", "audio/mpeg")]);
    pass(secs(61)).await;
    let object = world.get(KEY).await.expect("open");
    assert_eq!(object.version().header(&CONTENT_TYPE), Some("audio/mpeg"));
    same(&whole(&object).await.expect("read"), &sample(1, 3 * CHUNK));
    assert_eq!(
        (world.asked(), world.bucket.bytes()),
        ((2, 1), 3 * CHUNK),
        "no bytes again"
    );
    pass(secs(61)).await;
    world.read(KEY).await.expect("read");
    assert_eq!(world.asked(), (3, 1), "once");
}

#[tokio::test(start_paused = true)]
async fn no_store_and_private_are_not_stored() {
    for says in ["no-store", "private", "private, max-age=3600"] {
        let world = World::plain();
        world
            .bucket
            .put_with(KEY, sample(1, 3 * MIB), &[("cache-control", says)]);
        for round in 1..=2 {
            let object = world.get(KEY).await.expect("open");
            assert!(!object.outcome().stored);
            same(&whole(&object).await.expect("read"), &sample(1, 3 * MIB));
            assert_eq!(world.bucket.bytes(), round * 3 * MIB, "{says}");
            drop(object);
            pass(secs(11)).await;
        }
        assert_eq!((world.store.held_bytes(), world.used()), (0, 0));
        // A cached object is forgotten when it becomes uncacheable.
        world.bucket.put("kept", sample(2, 100));
        world.read("kept").await.expect("read");
        world
            .bucket
            .put_with("kept", sample(3, 100), &[("cache-control", says)]);
        world.open("kept", forced()).await.expect("open");
        let now = world.open("kept", only_if_cached()).await;
        assert_eq!(now.err(), Some(Error::NotCached));
    }
}

#[tokio::test(start_paused = true)]
async fn no_cache_is_confirmed_each_time_and_force_ttl_overrules() {
    let world = World::plain();
    world
        .bucket
        .put_with(KEY, sample(1, 100), &[("cache-control", "no-cache")]);
    for n in 1..=3 {
        same(&world.read(KEY).await.expect("read"), &sample(1, 100));
        assert_eq!((world.asked(), world.bucket.bytes()), ((n, 0), 100));
        pass(Duration::from_millis(2)).await;
    }
    let world = Setup::profile(|p| p.force_ttl = true).build();
    world
        .bucket
        .put_with(KEY, sample(1, 100), &[("cache-control", "no-store")]);
    for _ in 0..3 {
        same(&world.read(KEY).await.expect("read"), &sample(1, 100));
    }
    assert_eq!(world.asked(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn immutable_needs_no_confirmation() {
    let world = strict();
    let says = [("cache-control", "public, max-age=31536000, immutable")];
    world.bucket.put_with(KEY, sample(1, 100), &says);
    world.read(KEY).await.expect("read");
    pass(secs(300 * 24 * 3600)).await;
    world.read(KEY).await.expect("read");
    assert_eq!(world.asked(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn only_if_cached_asks_nothing() {
    let world = strict();
    world.bucket.put(KEY, sample(1, 100));
    let cold = world.open(KEY, only_if_cached()).await;
    assert_eq!(cold.err(), Some(Error::NotCached));
    assert_eq!(world.asked(), (0, 0));
    world.read(KEY).await.expect("read");
    let hot = world.open(KEY, only_if_cached()).await.expect("cached");
    assert!(matches!(hot.locate(all(&hot)), Coverage::All(_)));
    pass(secs(61)).await;
    let stale = world.open(KEY, only_if_cached()).await;
    assert_eq!(stale.err(), Some(Error::NotCached));
    assert_eq!(world.asked(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn only_if_cached_takes_a_stale_answer_that_may_be_served_and_asks_nothing() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, 100));
    world.read(KEY).await.expect("read");
    pass(secs(61)).await;
    world.open(KEY, only_if_cached()).await.expect("cached");
    pass(secs(5)).await;
    assert_eq!(world.asked(), (1, 0));
}

/// An entry that the state disk had too late for the look-up is no answer to it.
#[tokio::test(start_paused = true)]
async fn an_entry_that_comes_late_is_judged_by_its_age() {
    let world = strict();
    world.bucket.put(KEY, sample(1, 100));
    world.read(KEY).await.expect("read");
    world.bucket.put(KEY, sample(2, 100));
    world.meta.be_late();
    same(&world.read(KEY).await.expect("fresh"), &sample(1, 100));
    pass(secs(61)).await;
    world.meta.be_late();
    same(&world.read(KEY).await.expect("read"), &sample(2, 100));
}
