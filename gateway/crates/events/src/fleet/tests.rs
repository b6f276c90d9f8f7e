use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tidegate_plan::{ChangeKind, ObjectKey, Timestamp};
use tokio::time::advance;

use super::*;

/// Counts what it is told, and fails on demand.
#[derive(Default)]
struct Seen {
    applied: Mutex<Vec<FleetChange>>,
    doubts: AtomicUsize,
    hooks: Mutex<Vec<HookChange>>,
    fails: AtomicBool,
}

impl FleetSink for Seen {
    fn apply<'a>(&'a self, change: &'a FleetChange) -> BoxFuture<'a, Result<bool, ApplyError>> {
        if self.fails.load(Ordering::Relaxed) {
            return Box::pin(async { Err(ApplyError("the disk is full".to_owned())) });
        }
        self.applied.lock().recover().push(change.clone());
        Box::pin(async { Ok(true) })
    }

    fn doubt(&self) -> BoxFuture<'_, Result<(), ApplyError>> {
        self.doubts.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(()) })
    }

    fn call_hooks(&self, change: &HookChange) {
        self.hooks.lock().recover().push(change.clone());
    }
}

/// A member whose messages a test carries.
struct Member {
    fleet: Arc<Fleet>,
    outgoing: Outgoing,
    seen: Arc<Seen>,
}

impl Member {
    fn new() -> Self {
        Self::named(None)
    }

    fn named(name: Option<&str>) -> Self {
        let seen = Arc::new(Seen::default());
        let clock: Clock = Arc::new(|| Timestamp(1000));
        let made = Fleet::new(
            name.map(str::to_owned),
            seen.clone(),
            clock,
            FleetMetrics::default(),
        );
        let (fleet, outgoing) = made.expect("chance");
        fleet.set_buckets(vec!["media".to_owned()]);
        fleet.connected();
        let doubts = fleet.clone();
        tokio::spawn(async move { doubts.doubt_on_request().await });
        Self {
            fleet,
            outgoing,
            seen,
        }
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.outgoing.try_recv().ok()).collect()
    }

    async fn receive(&self, messages: &[Vec<u8>]) {
        for message in messages {
            if let Some(change) = self.fleet.take(message) {
                self.fleet.apply(change).await;
            }
        }
        // The doubts have their turn, and their pause.
        advance(DOUBT_PAUSE * 2).await;
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    }

    fn doubts(&self) -> usize {
        self.seen.doubts.load(Ordering::Relaxed)
    }

    fn hooks(&self) -> usize {
        self.seen.hooks.lock().recover().len()
    }
}

fn changed(key: &str) -> FleetChange {
    FleetChange::Changed {
        bucket: "media".to_owned(),
        key: ObjectKey::new(key).expect("a key"),
        kind: ChangeKind::Created,
    }
}

fn pin(limit: Option<u64>) -> FleetChange {
    FleetChange::Pinned {
        bucket: "media".to_owned(),
        prefix: "a/".to_owned(),
        limit,
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_is_applied_by_the_others_and_not_by_its_gateway() {
    let (mut a, b) = (Member::new(), Member::new());
    a.fleet.publish(changed("x"));
    let messages = a.sent();
    a.receive(&messages).await;
    b.receive(&messages).await;
    assert_eq!(*a.seen.applied.lock().recover(), []);
    assert_eq!(*b.seen.applied.lock().recover(), [changed("x")]);
    assert_eq!(b.doubts(), 1, "the sender was not known");
}

#[tokio::test(start_paused = true)]
async fn gateways_are_known_by_their_names_until_they_leave() {
    let b = Member::new();
    let [mut a, mut c] = ["a.example", "c.example"].map(|name| Member::named(Some(name)));
    let mut unnamed = Member::new();
    let said = [c.sent(), unnamed.sent(), a.sent()].concat();
    b.receive(&said).await;
    let names = || -> Vec<_> {
        let gateways = b.fleet.gateways().into_iter();
        gateways.map(|one| one.name).collect()
    };
    let [first, last] = ["a.example", "c.example"].map(|name| Some(name.to_owned()));
    assert_eq!(names(), [None, first.clone(), last]);
    let heard = b.fleet.gateways()[1].heard;
    assert_eq!(heard, DOUBT_PAUSE * 2, "as long as the test has waited");
    c.fleet.leave();
    unnamed.fleet.leave();
    b.receive(&[c.sent(), unnamed.sent()].concat()).await;
    assert_eq!(names(), [first]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_message_is_doubted_by_the_next_heartbeat() {
    let (mut a, b) = (Member::new(), Member::new());
    b.receive(&a.sent()).await;
    assert_eq!(b.doubts(), 1);
    a.fleet.publish(changed("lost"));
    assert_eq!(a.sent().len(), 1);
    a.fleet.tick();
    let heartbeat = a.sent();
    b.receive(&heartbeat).await;
    assert_eq!(b.doubts(), 2);
    b.receive(&heartbeat).await;
    assert_eq!(b.doubts(), 2, "once");
}

#[tokio::test(start_paused = true)]
async fn an_overflow_is_doubted_by_the_others() {
    let (mut a, b) = (Member::new(), Member::new());
    b.receive(&a.sent()).await;
    for n in 0..2 * MAX_OUTGOING {
        a.fleet.publish(changed(&n.to_string()));
    }
    let messages = a.sent();
    assert_eq!(messages.len(), MAX_OUTGOING);
    b.receive(&messages).await;
    assert_eq!(b.doubts(), 1);
    a.fleet.tick();
    b.receive(&a.sent()).await;
    assert_eq!(b.doubts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_falls_silent_is_doubted_and_one_that_leaves_is_not() {
    for (leaves, doubts) in [(false, 2), (true, 1)] {
        let (mut a, b) = (Member::new(), Member::new());
        b.receive(&a.sent()).await;
        if leaves {
            a.fleet.leave();
            b.receive(&a.sent()).await;
        }
        advance(peers::PEER_TIMEOUT * 2).await;
        b.fleet.tick();
        b.receive(&[]).await;
        assert_eq!(b.doubts(), doubts, "{leaves}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_gateway_calls_the_hooks_and_another_takes_over_from_a_lost_one() {
    let (mut a, mut b) = (Member::new(), Member::new());
    b.receive(&a.sent()).await;
    a.receive(&b.sent()).await;
    let FleetChange::Changed { bucket, key, kind } = changed("x") else {
        unreachable!()
    };
    a.fleet.publish(changed("x"));
    a.fleet.call_hooks(HookChange { bucket, key, kind });
    b.receive(&a.sent()).await;
    assert_eq!(a.hooks() + b.hooks(), 1);
    // The other one has heard of nothing for too long.
    let survivor = match a.hooks() {
        1 => b,
        _ => a,
    };
    // Within the time for which changes are remembered.
    advance(peers::PEER_TIMEOUT).await;
    survivor.fleet.tick();
    assert_eq!(survivor.hooks(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_without_the_bucket_is_not_chosen_for_its_hooks() {
    let FleetChange::Changed { bucket, key, kind } = changed("x") else {
        unreachable!()
    };
    let change = HookChange { bucket, key, kind };
    // By chance either of two is chosen.
    for _ in 0..20 {
        let (a, mut b) = (Member::new(), Member::new());
        b.fleet.set_buckets(vec!["other".to_owned()]);
        b.fleet.connected();
        a.receive(&b.sent()).await;
        a.fleet.call_hooks(change.clone());
        assert_eq!(a.hooks(), 1);
        // Another that has it until a reload is perhaps chosen, and has perhaps called.
        b.fleet.set_buckets(vec!["media".to_owned()]);
        b.fleet.connected();
        a.receive(&b.sent()).await;
        a.fleet.call_hooks(change.clone());
        b.fleet.set_buckets(Vec::new());
        b.fleet.connected();
        a.receive(&b.sent()).await;
        assert_eq!(a.hooks(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_gateway_whose_bucket_comes_later_is_sent_its_pins_again() {
    let (mut a, mut b) = (Member::new(), Member::new());
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
async fn a_gateway_without_nats_calls_its_own_hooks() {
    let (mut a, mut b) = (Member::new(), Member::new());
    b.receive(&a.sent()).await;
    a.receive(&b.sent()).await;
    for member in [&a, &b] {
        for n in 0..3 {
            let FleetChange::Changed { bucket, key, kind } = changed(&n.to_string()) else {
                unreachable!()
            };
            member.fleet.call_hooks(HookChange { bucket, key, kind });
        }
        member.fleet.disconnected();
        assert_eq!(member.hooks(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn pins_reach_a_gateway_that_was_away() {
    let (mut a, mut b) = (Member::new(), Member::new());
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
    let (mut a, mut b) = (Member::new(), Member::new());
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

#[tokio::test(start_paused = true)]
async fn hostile_messages_are_skipped() {
    let b = Member::new();
    let long = vec![b' '; MAX_MESSAGE + 1];
    b.receive(&[vec![], b"{}".to_vec(), long, vec![0xff; 100]])
        .await;
    assert_eq!((b.doubts(), b.seen.applied.lock().recover().len()), (0, 0));
}
