use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tidegate_plan::tags::Tag;
use tidegate_plan::{ChangeKind, ObjectKey, Timestamp};
use tokio::time::advance;

use super::doubts::DOUBT_PAUSE;
use super::*;

mod hook_calls;
mod pins;

/// Counts what it is told, and fails on demand.
#[derive(Default)]
struct SequenceCheck {
    applied: Mutex<Vec<FleetChange>>,
    doubts: AtomicUsize,
    hooks: Mutex<Vec<KeyChange>>,
    folders: Mutex<Vec<FolderChange>>,
    hook_delay: Mutex<Duration>,
    fails: AtomicBool,
}

impl FleetSink for SequenceCheck {
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

    fn call_hooks(&self, change: &KeyChange) {
        self.hooks.lock().recover().push(change.clone());
    }

    fn call_hooks_below(&self, changes: &FolderChange) {
        self.folders.lock().recover().push(changes.clone());
    }

    fn hook_delay(&self, _: &KeyChange) -> Option<Duration> {
        Some(*self.hook_delay.lock().recover())
    }
}

/// A member whose messages a test carries.
struct Member {
    fleet: Arc<Fleet>,
    seen: Arc<SequenceCheck>,
}

impl Member {
    fn new() -> Self {
        Self::named(None)
    }

    fn named(name: Option<&str>) -> Self {
        let seen = Arc::new(SequenceCheck::default());
        let clock: Clock = Arc::new(|| Timestamp(1000));
        let made = Fleet::new(
            name.map(str::to_owned),
            seen.clone(),
            clock,
            FleetMetrics::default(),
        );
        let fleet = made.expect("chance");
        fleet.set_buckets(vec!["media".to_owned()]);
        fleet.connected();
        let doubts = fleet.clone();
        tokio::spawn(async move { doubts.doubt_on_request().await });
        Self { fleet, seen }
    }

    fn sent(&self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.fleet.next_message()).collect()
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

fn key_change(key: &str) -> KeyChange {
    let key = ObjectKey::new(key).expect("a key");
    KeyChange::of("media", &key, ChangeKind::Created)
}

fn changed(key: &str) -> FleetChange {
    FleetChange::Changed(key_change(key))
}

/// All gateways are alone without NATS: the number of the others is no memory.
#[tokio::test(start_paused = true)]
async fn no_gateway_is_counted_without_a_connection() {
    let (a, b) = (Member::new(), Member::new());
    b.receive(&a.sent()).await;
    b.fleet.tick();
    assert_eq!(b.fleet.metrics.peers.get(), 1);
    b.fleet.disconnected();
    b.fleet.tick();
    assert_eq!(b.fleet.metrics.peers.get(), 0);
    b.fleet.connected();
    b.receive(&a.sent()).await;
    b.fleet.tick();
    assert_eq!(b.fleet.metrics.peers.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_change_is_applied_by_the_others_and_not_by_its_gateway() {
    let (a, b) = (Member::new(), Member::new());
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
    let [a, c] = ["a.example", "c.example"].map(|name| Member::named(Some(name)));
    let unnamed = Member::new();
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
    let (a, b) = (Member::new(), Member::new());
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

/// NATS comes back, and one gateway is connected before the other has subscribed again.
#[tokio::test(start_paused = true)]
async fn what_is_sent_before_another_has_subscribed_is_doubted_by_it() {
    for (is_known, leaves) in [(true, false), (true, true), (false, false)] {
        let (a, b) = (Member::new(), Member::new());
        if is_known {
            b.receive(&a.sent()).await;
        }
        a.fleet.disconnected();
        b.fleet.disconnected();
        a.fleet.publish(changed("while NATS was away"));
        a.fleet.connected();
        if leaves {
            a.fleet.leave();
        }
        assert!(a.sent().len() > 1, "nothing of it is heard");
        let before = b.doubts();
        b.fleet.connected();
        for _ in 0..6 {
            advance(HEARTBEAT).await;
            if !leaves {
                a.fleet.tick();
            }
            b.fleet.tick();
            b.receive(&a.sent()).await;
        }
        assert_eq!(b.doubts(), before + 1, "{is_known} {leaves}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_overflow_is_doubted_by_the_others() {
    let (a, b) = (Member::new(), Member::new());
    b.receive(&a.sent()).await;
    for n in 0..2 * outgoing::MAX_WAITING {
        a.fleet.publish(changed(&n.to_string()));
    }
    let messages = a.sent();
    assert_eq!(messages.len(), outgoing::MAX_WAITING);
    b.receive(&messages[..1]).await;
    assert_eq!(b.doubts(), 2, "the first one says that others are missing");
    b.receive(&messages[1..]).await;
    a.fleet.tick();
    b.receive(&a.sent()).await;
    assert_eq!(b.doubts(), 2, "once");
    a.fleet.publish(changed("x"));
    b.receive(&a.sent()).await;
    assert_eq!(b.doubts(), 2);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_hard_purges_reach_all_gateways() {
    let (a, b) = (Member::new(), Member::new());
    b.receive(&a.sent()).await;
    let purge = |extents: Vec<Extent>, soft| FleetChange::Purged {
        bucket: "media".to_owned(),
        extents,
        soft,
    };
    let extent = |n| match n % 3 {
        0 => Extent::Prefix(format!("a folder/{n}/")),
        1 => Extent::Tag(Tag::new(&format!("post-{n}")).expect("a tag")),
        _ => Extent::Key(ObjectKey::new(&format!("a folder/\u{1}{n}")).expect("a key")),
    };
    let extents: Vec<_> = (0..10_000).map(extent).collect();
    for extent in &extents {
        a.fleet.publish(purge(vec![extent.clone()], false));
    }
    let after = [purge(vec![extents[0].clone()], true), changed("x")];
    after
        .iter()
        .for_each(|change| a.fleet.publish(change.clone()));
    assert_eq!(a.fleet.metrics.dropped.get(), 0);
    let messages = a.sent();
    assert!(messages.len() < 100, "{}", messages.len());
    assert!(messages.iter().all(|one| one.len() <= MAX_MESSAGE));
    b.receive(&messages).await;
    let applied = b.seen.applied.lock().recover().clone();
    let (hard, last) = applied.split_at(applied.len() - 2);
    assert_eq!(last, after);
    let purged = hard.iter().flat_map(|change| match change {
        FleetChange::Purged {
            extents,
            soft: false,
            ..
        } => extents,
        other => panic!("{other:?}"),
    });
    assert!(purged.eq(&extents));
    assert_eq!(b.doubts(), 1, "the sender was not known");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_falls_silent_is_doubted_and_one_that_leaves_is_not() {
    for (leaves, doubts) in [(false, 2), (true, 1)] {
        let (a, b) = (Member::new(), Member::new());
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
async fn hostile_messages_are_skipped() {
    let b = Member::new();
    let long = vec![b' '; MAX_MESSAGE + 1];
    b.receive(&[vec![], b"{}".to_vec(), long, vec![0xff; 100]])
        .await;
    assert_eq!((b.doubts(), b.seen.applied.lock().recover().len()), (0, 0));
}
