//! Events of the bucket: what they confirm, and what a reported change does.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tidegate_engine::names::NameKind;
use tidegate_engine::{EventCoverage, InvalidationSubscriber, Scope, SubscriptionProof};
use tidegate_origin::Origin as _;
use tidegate_plan::freshness::EventProof;
use tidegate_plan::{ChangeKind, KeyChange, OriginId, Profile, Timestamp};

use crate::support::*;

mod overtaken;

/// The time between two heartbeats, and after the last one until the subscription counts as broken.
const HEARTBEAT: Duration = secs(10);
const BOUND: Duration = secs(30);
const DAY: Duration = secs(86_400);

/// A world whose versions are covered by a subscription, which is broken at first.
struct Covered {
    world: World,
    subscription: Arc<SubscriptionProof>,
}

impl Covered {
    fn new(change: impl FnOnce(&mut Profile)) -> Self {
        let world = Setup::profile(change).build();
        let subscription = Arc::new(SubscriptionProof::default());
        let coverage = EventCoverage {
            subscription: subscription.clone(),
            max_age: DAY,
        };
        world.source.events.store(Some(Arc::new(coverage)));
        Self {
            world,
            subscription,
        }
    }

    /// Lets a heartbeat come back that was written just now.
    fn heartbeat(&self, since: Timestamp) {
        let now = self.world.engine.now();
        self.subscription.set(EventProof {
            since,
            proven: now,
            alive_until: now.plus(BOUND),
        });
    }

    async fn report(&self, key: &str, kind: ChangeKind) {
        let world = &self.world;
        let version = world.bucket.peek(&valid(key)).await.expect("it answers");
        let change = KeyChange {
            etag: version.as_ref().map(|version| version.etag.clone()),
            size: version.as_ref().map(|version| version.size),
            time: version.and_then(|version| version.last_modified),
            ..KeyChange::of("bucket", &valid(key), kind)
        };
        self.apply(&change).await;
    }

    /// Returns the names of a folder.
    async fn list(&self, folder: &str) -> Vec<String> {
        let world = &self.world;
        let page = world.engine.list(&world.source, folder, None).await;
        let page = page.expect("a page");
        assert!(page.next.is_none());
        let mut names: Vec<_> = page.names.into_iter().map(|(name, _)| name).collect();
        names.sort();
        names
    }

    async fn apply(&self, change: &KeyChange) {
        let origin = self.world.source.origin.id();
        self.world.engine.apply_change(origin, change).await;
    }
}

/// The keys that a subscriber was told of.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl InvalidationSubscriber for Told {
    fn purged<'a>(&'a self, _: OriginId, scope: &'a Scope) -> BoxFuture<'a, ()> {
        if let Scope::Key(key) = scope {
            self.0
                .lock()
                .expect("no panic")
                .push(key.as_str().to_owned());
        }
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_ten_thousand_unchanged_objects_asks_nothing() {
    let covered = Covered::new(|_| {});
    let world = &covered.world;
    let keys: Vec<_> = (0..10_000).map(|n| format!("k{n}")).collect();
    for key in &keys {
        world.bucket.put(key, sample(1, 100));
    }
    let since = world.engine.now();
    covered.heartbeat(since);
    for key in &keys {
        world.read(key).await.expect("there");
    }
    let missing = world.get("none").await;
    assert!(missing.is_err());
    let before = world.asked();
    let mut left: HashSet<_> = keys.iter().collect();
    for turn in 0..360 {
        pass(HEARTBEAT).await;
        covered.heartbeat(since);
        // Each key comes up three times, at least 20 minutes apart.
        for key in keys.iter().skip(turn % 120).step_by(120) {
            let object = world.get(key).await.expect("there");
            assert_eq!(object.outcome().age, Duration::ZERO);
            assert!(object.outcome().ttl_ms > 0);
            left.remove(key);
        }
        assert!(world.get("none").await.is_err());
    }
    assert_eq!(left.len(), 0, "every object is read");
    assert_eq!(world.asked(), before);

    pass(DAY).await;
    covered.heartbeat(since);
    world.read("k1").await.expect("there");
    assert_eq!(
        world.asked(),
        (before.0 + 1, before.1),
        "after the longest age"
    );
}

#[tokio::test(start_paused = true)]
async fn after_the_last_heartbeat_an_answer_is_as_old_as_the_rules_allow() {
    let covered = Covered::new(|profile| {
        profile.ttl = secs(60);
        profile.stale_while_revalidate = secs(20);
    });
    let world = &covered.world;
    world.bucket.put(KEY, sample(1, 100));
    let since = world.engine.now();
    covered.heartbeat(since);
    world.read(KEY).await.expect("there");
    pass(secs(600)).await;
    covered.heartbeat(since);
    // Events are lost from here on.
    world.bucket.put(KEY, sample(2, 100));
    for (wait, version) in [(29, 1), (30, 1), (20, 1)] {
        pass(secs(wait)).await;
        same(
            &world.read(KEY).await.expect("there"),
            &sample(version, 100),
        );
    }
    // That was 79 s after the heartbeat, within `ttl` and `stale_while_revalidate`; the confirmation has begun.
    pass(secs(1)).await;
    same(&world.read(KEY).await.expect("there"), &sample(2, 100));

    let covered = Covered::new(|_| {});
    let world = &covered.world;
    world.bucket.put(KEY, sample(1, 100));
    covered.heartbeat(world.engine.now());
    world.read(KEY).await.expect("there");
    pass(secs(3600)).await;
    // The subscription begins anew: nothing confirmed before is covered.
    covered.heartbeat(world.engine.now());
    let asked = world.asked();
    world.read(KEY).await.expect("there");
    assert_eq!(world.asked(), (asked.0 + 1, asked.1));
}

#[tokio::test(start_paused = true)]
async fn a_reported_change_is_seen_by_the_next_request_and_readers_end_on_their_version() {
    let covered = Covered::new(|_| {});
    let world = &covered.world;
    world.bucket.put(KEY, sample(1, 100));
    covered.heartbeat(world.engine.now());
    world.read(KEY).await.expect("there");
    let begun = world.get(KEY).await.expect("there");
    world.bucket.put(KEY, sample(2, 300));
    same(&world.read(KEY).await.expect("there"), &sample(1, 100));

    covered.report(KEY, ChangeKind::Created).await;
    same(&world.read(KEY).await.expect("there"), &sample(2, 300));
    same(&whole(&begun).await.expect("cached"), &sample(1, 100));

    world.bucket.delete(KEY);
    covered.report(KEY, ChangeKind::Removed).await;
    assert!(world.get(KEY).await.is_err());
    world.bucket.put(KEY, sample(3, 50));
    covered.report(KEY, ChangeKind::Created).await;
    same(&world.read(KEY).await.expect("there"), &sample(3, 50));
}

#[tokio::test(start_paused = true)]
async fn a_listing_shows_a_reported_change_at_once() {
    let covered = Covered::new(|_| {});
    let world = &covered.world;
    for key in ["f/a", "f/b"] {
        world.bucket.put(key, sample(1, 100));
    }
    covered.heartbeat(world.engine.now());
    assert_eq!(covered.list("f/").await, ["a", "b"]);
    // What no event has reported is not seen while the listing is fresh.
    world.bucket.put("f/c", sample(1, 100));
    assert_eq!(covered.list("f/").await, ["a", "b"]);
    covered.report("f/c", ChangeKind::Created).await;
    assert_eq!(covered.list("f/").await, ["a", "b", "c"]);

    world.bucket.delete("f/a");
    assert_eq!(covered.list("f/").await, ["a", "b", "c"]);
    covered.report("f/a", ChangeKind::Removed).await;
    assert_eq!(covered.list("f/").await, ["b", "c"]);

    // A folder comes with its first key.
    world.bucket.put("f/sub/x", sample(1, 100));
    covered.report("f/sub/x", ChangeKind::Created).await;
    assert_eq!(covered.list("f/").await, ["b", "c", "sub"]);
}

#[tokio::test(start_paused = true)]
async fn a_folder_goes_with_the_last_removal_that_is_reported() {
    let covered = Covered::new(|_| {});
    let world = &covered.world;
    let told = Arc::new(Told::default());
    let subscriber: Arc<dyn InvalidationSubscriber> = told.clone();
    world.engine.subscribe(Arc::downgrade(&subscriber));
    let remove = async |key: &str| {
        world.bucket.delete(key);
        covered.report(key, ChangeKind::Removed).await;
        std::mem::take(&mut *told.0.lock().expect("no panic"))
    };
    let entry = async |path: &str| {
        let answer = world.engine.look_up(&world.source, path, false).await;
        answer.expect("an answer").entry
    };
    for key in ["f/a", "f/many/x", "f/many/y", "f/marked/", "f/marked/x"] {
        world.bucket.put(key, sample(1, 10));
    }
    world.bucket.put("f/marked/", "");
    for deep in ["f/sub/x", "f/deep/er/x"] {
        world.bucket.put(deep, sample(1, 10));
    }
    covered.heartbeat(world.engine.now());
    let all = ["a", "deep", "many", "marked", "sub"];
    assert_eq!(covered.list("f/").await, all);
    for folder in ["f/sub/", "f/many/", "f/marked/", "f/deep/", "f/deep/er/"] {
        assert!(!covered.list(folder).await.is_empty(), "{folder}");
    }

    // Another name of the folder is known: it stays, and no request is needed to know that.
    assert_eq!(remove("f/many/x").await, ["f/many/x"]);
    let lists = world.bucket.lists();
    assert_eq!(covered.list("f/").await, all);
    assert_eq!(world.bucket.lists(), lists);

    assert_eq!(remove("f/sub/x").await, ["f/sub/x", "f/sub/"]);
    assert_eq!(covered.list("f/").await, ["a", "deep", "many", "marked"]);
    assert_eq!(entry("f/sub").await, NameKind::Missing);
    let told = remove("f/deep/er/x").await;
    assert_eq!(told, ["f/deep/er/x", "f/deep/er/", "f/deep/"]);
    assert_eq!(entry("f/deep").await, NameKind::Missing);
    assert_eq!(covered.list("f/").await, ["a", "many", "marked"]);
    remove("f/many/y").await;
    assert_eq!(covered.list("f/").await, ["a", "marked"]);

    // A marker keeps its folder.
    remove("f/marked/x").await;
    assert_eq!(entry("f/marked").await, NameKind::Folder);
    assert_eq!(covered.list("f/").await, ["a", "marked"]);
    remove("f/marked/").await;
    assert_eq!(covered.list("f/").await, ["a"]);
}
