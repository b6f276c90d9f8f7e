//! Under paused time: when the breaker opens, the length of its pauses, and what closes it.

use std::time::Duration;

use futures_util::poll;
use tokio::time::{advance, sleep};

use super::*;
use crate::fake::{FakeOrigin, Fault};
use crate::metrics::Metrics;
use crate::testing::{get, key};
use tidegate_plan::retry::Backoff;

const S: fn(u64) -> Duration = Duration::from_secs;
const GONE: OriginError = OriginError::Unavailable("not reached");

fn setup() -> (FakeOrigin, Breaker) {
    let fake = FakeOrigin::new();
    fake.put("k", "bytes");
    let trip = Trip {
        failures: 3,
        span: S(1),
        pause: Backoff {
            base: S(4),
            cap: S(10),
        },
    };
    let meter = Metrics::default().of("test");
    (fake.clone(), Breaker::new(Arc::new(fake), trip, meter))
}

async fn ask(breaker: &Breaker) -> Option<OriginError> {
    breaker.get(get(None)).await.err()
}

/// Fails as many times and for as long as it takes to open.
async fn trip(fake: &FakeOrigin, breaker: &Breaker) {
    fake.set_faults([Fault::Refuse(GONE)]);
    for _ in 0..3 {
        assert_eq!(ask(breaker).await, Some(GONE));
        sleep(Duration::from_millis(501)).await;
    }
    assert_eq!(ask(breaker).await, Some(BREAKER_OPEN));
}

#[tokio::test(start_paused = true)]
async fn opens_after_failures_in_a_row_and_then_asks_nothing() {
    let (fake, breaker) = setup();
    trip(&fake, &breaker).await;
    let asked = fake.gets();
    for _ in 0..100 {
        assert_eq!(ask(&breaker).await, Some(BREAKER_OPEN));
        assert_eq!(breaker.head(&key("k")).await, Err(BREAKER_OPEN));
    }
    assert_eq!((fake.gets(), fake.heads()), (asked, 0));
}

#[tokio::test(start_paused = true)]
async fn failures_of_one_moment_are_one_incident() {
    let (fake, breaker) = setup();
    fake.set_faults([Fault::Refuse(GONE)]);
    for _ in 0..50 {
        assert_eq!(ask(&breaker).await, Some(GONE));
    }
    fake.set_faults([]);
    assert_eq!(ask(&breaker).await, None);
}

#[tokio::test(start_paused = true)]
async fn any_answer_is_a_sign_of_life() {
    let (fake, breaker) = setup();
    for alive in [
        OriginError::NotFound,
        OriginError::Forbidden,
        OriginError::Changed,
        OriginError::StorageFull,
        OriginError::Refused("another write is under way"),
        OriginError::Unsupported,
        OriginError::NoSuchUpload,
        OriginError::InvalidPart,
        OriginError::BadAnswer("unexpected status"),
    ] {
        for error in [GONE, GONE, alive] {
            fake.fail_next([Fault::Refuse(error.clone())]);
            assert_eq!(ask(&breaker).await, Some(error));
            advance(S(2)).await;
        }
    }
    // A request to wait is no evidence either way.
    let throttled = OriginError::Throttled { retry_after: None };
    for error in [
        GONE,
        GONE,
        throttled,
        OriginError::Timeout(Phase::FirstByte),
    ] {
        fake.fail_next([Fault::Refuse(error.clone())]);
        assert_eq!(ask(&breaker).await, Some(error));
        advance(S(2)).await;
    }
    advance(S(2)).await;
    assert_eq!(
        ask(&breaker).await,
        None,
        "the pause is over, and the origin is back"
    );
}

#[tokio::test(start_paused = true)]
async fn one_request_looks_and_pauses_grow_until_it_answers() {
    let (fake, breaker) = setup();
    trip(&fake, &breaker).await;
    for longest in [S(4), S(8), S(10), S(10)] {
        let asked = fake.gets();
        let begun = Instant::now();
        while fake.gets() == asked {
            assert!(ask(&breaker).await.is_some());
            sleep(Duration::from_millis(50)).await;
        }
        let paused = begun.elapsed();
        let least = longest / 2 - S(1);
        assert!(
            (least..=longest + Duration::from_millis(100)).contains(&paused),
            "{paused:?}"
        );
        assert_eq!(fake.gets(), asked + 1);
    }
    fake.set_faults([]);
    sleep(S(10)).await;
    assert_eq!(ask(&breaker).await, None);
    assert_eq!(ask(&breaker).await, None, "closed again");
}

#[tokio::test(start_paused = true)]
async fn while_one_looks_the_others_are_refused() {
    let (fake, breaker) = setup();
    trip(&fake, &breaker).await;
    sleep(S(10)).await;
    fake.set_faults([Fault::Latency(S(1))]);
    let asked = fake.gets();
    let mut look = breaker.get(get(None));
    assert!(poll!(&mut look).is_pending());
    assert_eq!(ask(&breaker).await, Some(BREAKER_OPEN));
    assert_eq!(fake.gets(), asked + 1);
    assert!(look.await.is_ok());
    assert_eq!(ask(&breaker).await, None);
}

/// A write may take minutes. Its success or failure still counts.
#[tokio::test(start_paused = true)]
async fn a_look_that_takes_long_lets_another_one_look() {
    let (fake, breaker) = setup();
    trip(&fake, &breaker).await;
    sleep(S(10)).await;
    fake.set_faults([Fault::Latency(S(300))]);
    let mut look = breaker.get(get(None));
    assert!(poll!(&mut look).is_pending());
    sleep(S(9)).await;
    assert_eq!(ask(&breaker).await, Some(BREAKER_OPEN));
    sleep(S(2)).await;
    let mut second = breaker.get(get(None));
    assert!(poll!(&mut second).is_pending());
    assert_eq!(ask(&breaker).await, Some(BREAKER_OPEN), "one at a time");
    fake.set_faults([]);
    sleep(S(11)).await;
    assert_eq!(ask(&breaker).await, None);
    assert_eq!(ask(&breaker).await, None, "closed again");
    assert!(look.await.is_ok() && second.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_look_given_up_leaves_the_next_one_free() {
    let (fake, breaker) = setup();
    trip(&fake, &breaker).await;
    sleep(S(10)).await;
    fake.set_faults([Fault::Latency(S(1))]);
    let mut look = breaker.get(get(None));
    assert!(poll!(&mut look).is_pending());
    drop(look);
    assert_eq!(ask(&breaker).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_never_refused_and_its_answer_counts() {
    let (fake, breaker) = setup();
    trip(&fake, &breaker).await;
    assert_eq!(breaker.probe().await, Err(GONE));
    assert_eq!(ask(&breaker).await, Some(BREAKER_OPEN));
    fake.set_faults([]);
    assert_eq!(breaker.probe().await, Ok(()));
    assert_eq!(ask(&breaker).await, None);
}
