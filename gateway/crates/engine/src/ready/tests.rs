use super::*;
use tidegate_origin::fake::{FakeOrigin, Fault};
use tidegate_origin::{List, Metrics, Settings, stack};
use tidegate_plan::ObjectKey;
use tokio::time::advance;

#[tokio::test(start_paused = true)]
async fn names_every_origin_that_does_not_answer_in_bounded_time() {
    let (well, hung, down) = (FakeOrigin::new(), FakeOrigin::new(), FakeOrigin::new());
    hung.set_faults([Fault::Latency(Duration::from_secs(3600))]);
    down.set_faults([Fault::Refuse(OriginError::Unavailable("refused"))]);
    let named = |name: &str, origin: &FakeOrigin| -> (String, Arc<dyn Origin>) {
        (name.to_owned(), Arc::new(origin.clone()))
    };
    let origins = vec![
        named("well", &well),
        named("hung", &hung),
        named("down", &down),
    ];
    let readiness = Readiness::default();
    readiness.set(origins);
    let began = Instant::now();
    let missing = readiness
        .check(Err("loading".to_owned()))
        .await
        .unwrap_err();
    assert_eq!(missing.len(), 3, "{missing:?}");
    assert!(missing[0] == "loading" && missing[1].contains("`hung`"));
    assert!(missing[2].contains("`down`"));
    assert_eq!(began.elapsed(), PROBE_TIMEOUT);
    // Within the time that a result is used again, no origin is asked.
    readiness.check(Ok(())).await.unwrap_err();
    assert_eq!(well.probes(), 1);
    // A caller that wants a newer result causes a new probe.
    let stands = Duration::from_secs(1);
    tokio::time::advance(stands).await;
    assert!(readiness.reachable(well.id(), stands).await.is_ok());
    assert!(readiness.reachable(well.id(), stands).await.is_ok());
    assert_eq!(well.probes(), 2);
    down.set_faults([]);
}

#[tokio::test(start_paused = true)]
async fn a_probe_ahead_of_an_open_counts_if_it_succeeds_and_keeps_no_open_waiting() {
    let fake = FakeOrigin::new();
    let metrics = Metrics::default();
    let origin = stack(Arc::new(fake.clone()), &Settings::new("m", "m"), &metrics);
    let readiness = Readiness::default();
    readiness.set(vec![("m".to_owned(), origin)]);
    let stands = Duration::from_secs(1);
    let ahead = || readiness.reach_ahead(fake.id(), stands);
    let reachable = || readiness.reachable(fake.id(), stands);
    fake.set_faults([Fault::Refuse(OriginError::Forbidden)]);
    ahead().await;
    assert_eq!(fake.probes(), 1);
    fake.set_faults([]);
    ahead().await;
    assert_eq!((reachable().await, fake.probes()), (Ok(()), 2));
    advance(stands).await;
    fake.set_faults([Fault::Latency(Duration::from_secs(3600))]);
    let begun = Instant::now();
    let (_, _, found) = tokio::join!(ahead(), ahead(), reachable());
    assert!(found.is_err());
    assert_eq!((begun.elapsed(), fake.probes()), (PROBE_TIMEOUT, 4));
    // The open that has just failed would fail at once: no look-up asks again.
    ahead().await;
    assert_eq!(fake.probes(), 4);
}

#[tokio::test(start_paused = true)]
async fn any_good_answer_counts_as_a_probe_until_a_request_fails() {
    let fake = FakeOrigin::new();
    fake.put("k", "bytes");
    let metrics = Metrics::default();
    let origin = stack(Arc::new(fake.clone()), &Settings::new("m", "m"), &metrics);
    let readiness = Readiness::default();
    readiness.set(vec![("m".to_owned(), origin.clone())]);
    let stands = Duration::from_secs(1);
    let reachable = async || readiness.reachable(fake.id(), stands).await;
    let key = ObjectKey::new("k").expect("a key");
    for _ in 0..10 {
        origin.head(&key).await.expect("a version");
        advance(stands / 2).await;
        assert_eq!(reachable().await, Ok(()));
    }
    assert_eq!(fake.probes(), 0, "an answer of half a second ago counts");
    advance(stands / 2).await;
    assert_eq!(reachable().await, Ok(()));
    assert_eq!(fake.probes(), 1, "the answer is too old");
    let gone = OriginError::Unavailable("not reached");
    fake.set_faults([Fault::Refuse(gone.clone())]);
    origin.head(&key).await.expect_err("down");
    advance(stands).await;
    assert_eq!(reachable().await, Err(gone.clone()));
    assert_eq!(reachable().await, Err(gone));
    assert_eq!(fake.probes(), 2, "a failed probe is not repeated");
    fake.set_faults([]);
    // Longer than the breaker's pause.
    advance(Duration::from_secs(60)).await;
    origin.list(page()).await.expect("a page");
    assert_eq!(reachable().await, Ok(()));
    assert_eq!(fake.probes(), 2, "an answer since the failed probe counts");
}

#[tokio::test(start_paused = true)]
async fn an_answer_before_a_probe_that_failed_does_not_count() {
    let fake = FakeOrigin::new();
    let metrics = Metrics::default();
    let origin = stack(Arc::new(fake.clone()), &Settings::new("m", "m"), &metrics);
    let readiness = Readiness::default();
    readiness.set(vec![("m".to_owned(), origin.clone())]);
    origin.list(page()).await.expect("a page");
    fake.set_faults([Fault::Latency(Duration::from_secs(3600))]);
    readiness.check(Ok(())).await.unwrap_err();
    let late = OriginError::Timeout(Phase::Total);
    let stands = PROBE_TIMEOUT * 2;
    assert_eq!(readiness.reachable(fake.id(), stands).await, Err(late));
    assert_eq!(fake.probes(), 1);
}

fn page() -> List {
    List {
        prefix: String::new(),
        delimiter: true,
        after: None,
        limit: 1,
    }
}
