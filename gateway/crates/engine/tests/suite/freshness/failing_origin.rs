//! Stale answers while the origin fails, and what removes an object.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_engine::{Error, ForwardReason, OpenOptions};
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::{forced, strict};
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn stale_if_error_serves_when_the_origin_fails_and_not_when_it_refuses() {
    let down = OriginError::Unavailable("503");
    let slow_down = OriginError::Throttled { retry_after: None };
    let cases = [
        (Fault::Refuse(down), None),
        (Fault::Refuse(slow_down), None),
        (Fault::Refuse(OriginError::NoSuchBucket), None),
        (Fault::Refuse(OriginError::BadAnswer("nonsense")), None),
        (Fault::Latency(secs(3600)), None),
        (Fault::WrongRange, None),
        (
            Fault::Refuse(OriginError::Forbidden),
            Some(Error::Forbidden),
        ),
        (Fault::Refuse(OriginError::NotFound), Some(Error::NotFound)),
    ];
    for (fault, told) in cases {
        let world = strict();
        world.bucket.put(KEY, sample(1, 100));
        world.read(KEY).await.expect("read");
        world.bucket.put(KEY, sample(2, 100));
        pass(secs(61)).await;
        world.bucket.set_faults([fault.clone()]);
        match (world.get(KEY).await, told) {
            (Ok(object), None) => {
                assert_eq!(
                    object.outcome().forward,
                    Some(ForwardReason::Failed),
                    "{fault:?}"
                );
                same(&whole(&object).await.expect("read"), &sample(1, 100));
            }
            (got, told) => assert_eq!(got.err(), told, "{fault:?}"),
        }
        world.bucket.set_faults([]);
        pass(secs(61)).await;
        same(&world.read(KEY).await.expect("read"), &sample(2, 100));
    }
}

/// Counts the warnings of the engine.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target().starts_with("tidegate_engine")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The client has the old bytes without a sign of it, so the log has one: a line for each request that failed.
#[tokio::test(start_paused = true)]
async fn a_wrong_answer_that_a_stale_one_replaces_is_logged() {
    let warnings = Warnings::default();
    let _logging = tracing::subscriber::set_default(warnings.clone());
    let logged = || warnings.0.load(Ordering::SeqCst);
    let wrong = Fault::Refuse(OriginError::BadAnswer("nonsense"));
    let down = Fault::Refuse(OriginError::Unavailable("503"));
    for (world, fault, lines) in [
        (strict(), &wrong, 1),
        (strict(), &down, 0),
        (World::plain(), &wrong, 1),
        (World::plain(), &down, 0),
    ] {
        world.bucket.put(KEY, sample(1, 100));
        world.read(KEY).await.expect("read");
        pass(secs(61)).await;
        world.bucket.set_faults([fault.clone()]);
        let before = logged();
        let (first, second) = tokio::join!(world.read(KEY), world.read(KEY));
        for read in [first, second] {
            same(&read.expect("stale"), &sample(1, 100));
        }
        pass(secs(1)).await;
        assert_eq!(logged() - before, lines, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn stale_if_error_ends_and_is_forbidden_by_must_revalidate() {
    let down = [Fault::Refuse(OriginError::Unavailable("503"))];
    let world = strict();
    world.bucket.put(KEY, sample(1, 100));
    world.read(KEY).await.expect("read");
    world.bucket.set_faults(down.clone());
    pass(secs(24 * 3600)).await;
    same(
        &world.read(KEY).await.expect("within a day"),
        &sample(1, 100),
    );
    pass(secs(120)).await;
    assert_eq!(world.read(KEY).await, Err(Error::Unavailable));

    for forbids in [
        "must-revalidate",
        "proxy-revalidate",
        "s-maxage=10",
        "no-cache",
    ] {
        let world = strict();
        world
            .bucket
            .put_with(KEY, sample(1, 100), &[("cache-control", forbids)]);
        world.read(KEY).await.expect("read");
        world.bucket.set_faults(down.clone());
        pass(secs(61)).await;
        assert_eq!(world.read(KEY).await, Err(Error::Unavailable), "{forbids}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_no_such_key_removes() {
    let world = strict();
    world.bucket.put(KEY, sample(1, 100));
    world.read(KEY).await.expect("read");
    for keeps in [OriginError::Forbidden, OriginError::NoSuchBucket] {
        pass(secs(61)).await;
        world.bucket.fail_next([Fault::Refuse(keeps)]);
        let _ = world.get(KEY).await;
        assert!(world.bucket.bytes() == 100);
        same(
            &world.read(KEY).await.expect("confirmed, not fetched"),
            &sample(1, 100),
        );
        assert_eq!(world.bucket.bytes(), 100);
    }
    world.bucket.delete(KEY);
    pass(secs(61)).await;
    assert_eq!(world.read(KEY).await, Err(Error::NotFound));
    world
        .bucket
        .set_faults([Fault::Refuse(OriginError::Unavailable("503"))]);
    pass(secs(6)).await;
    assert_eq!(
        world.read(KEY).await,
        Err(Error::Unavailable),
        "it is gone for good"
    );
}

#[tokio::test(start_paused = true)]
async fn missing_objects_are_remembered_for_a_while() {
    let world = World::plain();
    assert_eq!(world.read(KEY).await, Err(Error::NotFound));
    world.bucket.put(KEY, sample(1, 100));
    pass(Duration::from_millis(4900)).await;
    assert_eq!(world.read(KEY).await, Err(Error::NotFound));
    let head = world.open(KEY, OpenOptions::default()).await;
    assert_eq!(head.err(), Some(Error::NotFound));
    assert_eq!(world.asked(), (1, 0));
    pass(Duration::from_millis(200)).await;
    same(&world.read(KEY).await.expect("read"), &sample(1, 100));
    // A forced open asks the origin anew.
    assert_eq!(world.read("other").await, Err(Error::NotFound));
    world.bucket.put("other", sample(2, 10));
    world
        .open("other", forced())
        .await
        .expect("it is there now");
    same(&world.read("other").await.expect("read"), &sample(2, 10));
}
