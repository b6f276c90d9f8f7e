//! Purges of keys, prefixes and tags, hard and soft.

use std::sync::{Arc, Mutex};

use tidegate_engine::{ChangeObserver, Error, PurgeKind, Scope};
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_plan::tags::Tag;
use tidegate_plan::{ChangeKind, ObjectKey, OriginId};

use crate::support::*;

mod tags;

/// A minute fresh, then served for ten minutes while it is confirmed, for an hour if the origin fails.
fn world() -> World {
    Setup::profile(|p| {
        p.ttl = secs(60);
        p.stale_while_revalidate = secs(600);
        p.stale_if_error = secs(3600);
        p.negative_ttl = secs(60);
    })
    .build()
}

fn tag(text: &str) -> Scope {
    Scope::Tag(Tag::new(text).expect("a tag"))
}

fn prefix(text: &str) -> Scope {
    Scope::Prefix(text.into())
}

#[tokio::test(start_paused = true)]
async fn softened_is_served_while_it_is_confirmed() {
    let world = world();
    let (old, new) = (sample(1, 3 * CHUNK), sample(2, 2 * CHUNK));
    world.bucket.put(KEY, old.clone());
    same(&world.read(KEY).await.expect("read"), &old);
    world.bucket.put(KEY, new.clone());
    world.soften(KEY).await;
    let object = world.get(KEY).await.expect("open");
    assert!(object.outcome().ttl_ms <= 0, "{:?}", object.outcome());
    same(&whole(&object).await.expect("read"), &old);
    pass(secs(1)).await;
    same(&world.read(KEY).await.expect("read"), &new);
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_makes_softened_fresh_again_and_its_chunks_stay() {
    let world = world();
    let bytes = sample(1, 3 * CHUNK);
    world.bucket.put(KEY, bytes.clone());
    world.read(KEY).await.expect("read");
    for target in [Scope::Key(valid(KEY)), prefix("")] {
        pass(secs(1)).await;
        let (gets, _) = world.asked();
        world.purge_by(target, PurgeKind::Soft).await;
        pass(secs(1)).await;
        same(&world.read(KEY).await.expect("read"), &bytes);
        pass(secs(1)).await;
        assert_eq!(world.asked(), (gets + 1, 0), "one confirmation");
        same(&world.read(KEY).await.expect("read"), &bytes);
        pass(secs(1)).await;
        assert_eq!(world.asked(), (gets + 1, 0), "it is fresh");
        assert_eq!(world.bucket.bytes(), 3 * CHUNK);
    }
}

#[tokio::test(start_paused = true)]
async fn softened_is_served_while_the_origin_fails_counted_from_the_purge() {
    let world = world();
    let bytes = sample(1, CHUNK);
    world.bucket.put(KEY, bytes.clone());
    world.read(KEY).await.expect("read");
    world.soften(KEY).await;
    world
        .bucket
        .set_faults([Fault::Refuse(OriginError::Unavailable("503"))]);
    pass(secs(601)).await;
    same(&world.read(KEY).await.expect("stale"), &bytes);
    pass(secs(3000)).await;
    let found = world.read(KEY).await;
    assert!(found.is_err(), "it was softened an hour ago");
}

#[tokio::test(start_paused = true)]
async fn softened_that_may_not_be_stale_is_confirmed_first() {
    let world = world();
    for (number, control) in ["max-age=50, must-revalidate", "max-age=50, no-cache"]
        .into_iter()
        .enumerate()
    {
        let key = format!("own/{number}");
        let headers = [("cache-control", control)];
        world.bucket.put_with(&key, sample(1, 100), &headers);
        world.read(&key).await.expect("read");
        world.bucket.put_with(&key, sample(2, 100), &headers);
        world.soften(&key).await;
        same(&world.read(&key).await.expect("read"), &sample(2, 100));
    }
}

#[tokio::test(start_paused = true)]
async fn a_soft_purge_survives_a_restart_and_composes() {
    let mut world = world();
    let clock = clock();
    world.restart(clock.clone());
    world.bucket.put("a/x", sample(1, 100));
    world.bucket.put("b", sample(1, 100));
    world.read("a/x").await.expect("read");
    world.read("b").await.expect("read");
    world.purge_by(prefix("a/"), PurgeKind::Soft).await;
    world.restart(clock);
    world.read("b").await.expect("read");
    assert_eq!(world.asked(), (2, 0), "not covered");
    world.read("a/x").await.expect("read");
    pass(secs(1)).await;
    assert_eq!(world.asked(), (3, 0), "confirmed");
    // Hard after soft: it is gone. Soft after that: what was fetched since is stale.
    world.soften("a/x").await;
    world.purge("a/x").await;
    world.bucket.put("a/x", sample(2, 100));
    pass(secs(1)).await;
    same(&world.read("a/x").await.expect("read"), &sample(2, 100));
    assert_eq!(world.asked(), (4, 0));
    pass(secs(1)).await;
    world.read("a/x").await.expect("read");
    assert_eq!(world.asked(), (4, 0), "later than both");
    world.soften("a/x").await;
    world.read("a/x").await.expect("read");
    pass(secs(1)).await;
    assert_eq!(world.asked(), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_before_a_soft_purge_is_not_fresh_after_it() {
    let world = world();
    world.bucket.put(KEY, sample(1, 100));
    world.bucket.set_faults([Fault::Latency(secs(1))]);
    let reads = world.read(KEY);
    let purge = async {
        pass(std::time::Duration::from_millis(500)).await;
        world.bucket.put(KEY, sample(2, 100));
        world.soften(KEY).await;
    };
    let (_, ()) = tokio::join!(reads, purge);
    pass(secs(1)).await;
    let _ = world.read(KEY).await;
    pass(secs(5)).await;
    same(&world.read(KEY).await.expect("read"), &sample(2, 100));
}

#[tokio::test(start_paused = true)]
async fn a_purge_of_a_key_tells_whether_anything_was_known() {
    let world = world();
    for kind in [PurgeKind::Hard, PurgeKind::Soft] {
        let known = |key: &'static str| world.purge_by(Scope::Key(valid(key)), kind);
        world.bucket.put("here", sample(1, 100));
        world.read("here").await.expect("read");
        assert!(matches!(world.read("gone").await, Err(Error::NotFound)));
        let named = world.engine.look_up(&world.source, "named", false);
        named.await.expect("an answer");
        assert!(known("here").await, "a version");
        assert!(known("gone").await, "a negative entry");
        assert!(known("named").await, "a name");
        assert!(!known("other").await);
        assert!(!known("gone").await, "{kind:?}: the negative entry is gone");
        // A softened version stays known.
        assert_eq!(known("here").await, kind == PurgeKind::Soft);
        assert!(!world.purge_by(prefix(""), kind).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_softened_name_is_asked_for_anew_and_holds_while_the_origin_fails() {
    let world = world();
    world.bucket.put("folder/a", sample(1, 100));
    let look_up = || world.engine.look_up(&world.source, "folder/a", false);
    look_up().await.expect("found");
    world.purge_by(prefix("folder/"), PurgeKind::Soft).await;
    assert!(world.engine.known(&world.source, "folder/a").is_none());
    world
        .bucket
        .set_faults([Fault::Refuse(OriginError::Unavailable("503"))]);
    look_up().await.expect("its last meaning");
    world.purge_by(prefix("folder/"), PurgeKind::Hard).await;
    assert!(look_up().await.is_err(), "nothing is left of it");
}

#[tokio::test(start_paused = true)]
async fn a_doubt_is_confirmed_before_anything_is_served() {
    let world = world();
    let (old, new) = (sample(1, 3 * CHUNK), sample(2, 2 * CHUNK));
    world.bucket.put(KEY, old.clone());
    same(&world.read(KEY).await.expect("read"), &old);
    assert!(matches!(world.read("missing").await, Err(Error::NotFound)));
    world.bucket.put(KEY, new.clone());
    world.bucket.put("missing", old.clone());
    pass(secs(1)).await;
    let origin = world.source.origin.id();
    world.engine.doubt(origin).await.expect("durable");
    pass(secs(1)).await;
    same(&world.read(KEY).await.expect("read"), &new);
    same(&world.read("missing").await.expect("read"), &old);
    let asked = world.asked();
    pass(secs(1)).await;
    same(&world.read(KEY).await.expect("read"), &new);
    assert_eq!(world.asked(), asked, "it is fresh again");
}

/// A doubt is no purge: nothing says that the version is over. It is served as after a soft purge if the bucket fails.
#[tokio::test(start_paused = true)]
async fn a_doubted_version_is_served_while_the_bucket_fails() {
    let world = world();
    let bytes = sample(1, CHUNK);
    world.bucket.put(KEY, bytes.clone());
    same(&world.read(KEY).await.expect("read"), &bytes);
    pass(secs(1)).await;
    let origin = world.source.origin.id();
    world.engine.doubt(origin).await.expect("durable");
    let (gets, _) = world.asked();
    world
        .bucket
        .set_faults([Fault::Refuse(OriginError::Unavailable("503"))]);
    same(&world.read(KEY).await.expect("stale"), &bytes);
    assert!(world.asked().0 > gets, "the bucket is asked first");
    pass(secs(3601)).await;
    assert!(matches!(world.read(KEY).await, Err(Error::Unavailable)));
}

/// The engine applies the purges and changes of another process, and does not report them again.
#[tokio::test(start_paused = true)]
async fn purges_are_reported_and_those_of_others_are_not() {
    let world = world();
    let seen = Arc::new(Purges::default());
    world.engine.observe_changes(seen.clone());
    let origin = world.source.origin.id();
    world.purge_by(prefix("a"), PurgeKind::Soft).await;
    let target = tag("t");
    let applied = world
        .engine
        .apply_purge(origin, &target, PurgeKind::Hard)
        .await;
    applied.expect("durable");
    world.engine.doubt(origin).await.expect("durable");
    let seen = seen.0.lock().expect("no panic");
    assert_eq!(*seen, [(origin, prefix("a"), PurgeKind::Soft)]);
}

/// The purges that were reported.
#[derive(Debug, Default)]
struct Purges(Mutex<Vec<(OriginId, Scope, PurgeKind)>>);

impl ChangeObserver for Purges {
    fn changed(&self, _: OriginId, _: &ObjectKey, _: ChangeKind) {}

    fn purged(&self, origin: OriginId, target: &Scope, kind: PurgeKind) {
        let mut seen = self.0.lock().expect("no panic");
        seen.push((origin, target.clone(), kind));
    }
}
