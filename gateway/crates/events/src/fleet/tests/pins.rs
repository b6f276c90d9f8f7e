//! Pins reach each gateway of the fleet, whenever it comes, and are the same on all.

use super::super::incoming::PIN_RETRY;
use super::*;

fn pin(limit: Option<u64>) -> FleetChange {
    FleetChange::Pinned {
        bucket: "media".to_owned(),
        prefix: "a/".to_owned(),
        limit,
    }
}

#[tokio::test(start_paused = true)]
async fn a_gateway_whose_bucket_comes_later_is_sent_its_pins_again() {
    let (a, b) = (Member::new(), Member::new());
    b.fleet.set_buckets(Vec::new());
    b.fleet.tick();
    b.sent();
    a.sent();
    a.fleet.publish(pin(Some(5)));
    b.receive(&a.sent()).await;
    b.fleet.set_buckets(vec!["media".to_owned()]);
    b.fleet.tick();
    a.receive(&b.sent()).await;
    a.fleet.tick();
    b.receive(&a.sent()).await;
    let applied = b.seen.applied.lock().recover();
    assert_eq!(*applied, [pin(Some(5)), pin(Some(5))]);
}

#[tokio::test(start_paused = true)]
async fn pins_reach_a_gateway_that_was_away() {
    let (a, b) = (Member::new(), Member::new());
    a.fleet.publish(pin(Some(5)));
    assert_eq!(a.sent().len(), 2, "both are lost");
    a.receive(&b.sent()).await;
    a.fleet.tick();
    let resent = a.sent();
    b.receive(&resent).await;
    assert_eq!(*b.seen.applied.lock().recover(), [pin(Some(5))]);
    b.receive(&resent).await;
    assert_eq!(b.seen.applied.lock().recover().len(), 1, "the same again");
}

#[tokio::test(start_paused = true)]
async fn a_pin_that_was_not_applied_is_asked_for_again() {
    let (a, b) = (Member::new(), Member::new());
    b.receive(&a.sent()).await;
    a.receive(&b.sent()).await;
    a.fleet.tick();
    b.receive(&a.sent()).await;
    let doubts = b.doubts();
    b.seen.fails.store(true, Ordering::Relaxed);
    a.fleet.publish(pin(Some(5)));
    b.receive(&a.sent()).await;
    assert_eq!(*b.seen.applied.lock().recover(), []);
    assert_eq!(b.doubts(), doubts, "no version is in doubt");

    b.seen.fails.store(false, Ordering::Relaxed);
    advance(PIN_RETRY).await;
    b.fleet.tick();
    a.receive(&b.sent()).await;
    a.fleet.tick();
    let resent = a.sent();
    b.receive(&resent).await;
    b.receive(&resent).await;
    assert_eq!(*b.seen.applied.lock().recover(), [pin(Some(5))], "once");
}

/// Two gateways change one pin at a time: both end with the same one, whichever of both is later.
#[tokio::test(start_paused = true)]
async fn two_changes_of_a_pin_at_a_time_leave_one_on_both() {
    for other_is_later in [false, true] {
        let (a, b) = (Member::new(), Member::new());
        b.receive(&a.sent()).await;
        a.receive(&b.sent()).await;
        let (stored, storing) = tokio::sync::oneshot::channel();
        let own = a.fleet.clone();
        let changing = tokio::spawn(async move {
            let store = async { storing.await.map_err(|_| ()) };
            own.change_pin(pin(Some(5)), store).await
        });
        tokio::task::yield_now().await;
        // The clock of all is 1000: of two changes at one time, the one with the larger limit counts.
        let limit = if other_is_later { Some(7) } else { None };
        b.fleet.publish(pin(limit));
        let taken = b.sent().iter().find_map(|message| a.fleet.take(message));
        let other = a.fleet.clone();
        let applying = tokio::spawn(async move { other.apply(taken.expect("a pin")).await });
        tokio::task::yield_now().await;
        stored.send(()).expect("the store is waited for");
        let changed = changing.await.expect("no panic");
        assert_eq!(changed, Ok(()));
        applying.await.expect("no panic");
        b.receive(&a.sent()).await;
        // The pin that `change_pin` has stored, and then what was applied over it.
        let last = |all: &[FleetChange], first| all.last().cloned().unwrap_or(first);
        let on_a = last(&a.seen.applied.lock().recover(), pin(Some(5)));
        let on_b = last(&b.seen.applied.lock().recover(), pin(limit));
        assert_eq!(on_a, on_b, "{other_is_later}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pin_that_was_not_stored_is_told_to_none() {
    let a = Member::new();
    a.sent();
    let refused = a
        .fleet
        .change_pin(pin(Some(5)), async { Err::<(), _>("the disk is full") });
    assert_eq!(refused.await, Err("the disk is full"));
    assert_eq!(a.sent().len(), 0);
}
