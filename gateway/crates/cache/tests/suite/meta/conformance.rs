//! The contract that the engine relies on, whichever store it is.

use std::sync::Arc;

use tempfile::TempDir;
use tidegate_cache::{Entry, Meta, MetaStore, PurgeEffect, PurgeScope};
use tidegate_plan::{ObjectId, OriginId, Timestamp};

use super::fixture::{ORIGIN, id, open, put, put_tagged, record, settings, tag};

/// Checks the contract that the engine relies on, for any store.
pub(crate) async fn conforms(store: &dyn MetaStore) {
    assert_eq!(store.peek(&id("a")), None);
    assert_eq!(store.load(&id("a")).await, None);

    let entry = put(store, "a", 1, 10).await;
    assert_eq!(store.peek(&id("a")), Some(entry.clone()));
    assert_eq!(store.load(&id("a")).await, Some(entry));
    let entry = put(store, "a", 2, 20).await;
    assert_eq!(store.peek(&id("a")), Some(entry));
    store.remove(&id("a"));
    assert_eq!(store.load(&id("a")).await, None);

    let missing = Entry::Missing {
        since: Timestamp(3),
    };
    store.put(&id("gone"), missing.clone());
    assert_eq!(store.peek(&id("gone")), Some(missing));
    purges_conform(store).await;
    let entry = put(store, "last", 4, 40).await;
    store.close().await;
    store.close().await;
    assert_eq!(store.peek(&id("last")), Some(entry), "memory goes on");
}

async fn purges_conform(store: &dyn MetaStore) {
    for key in ["p/a", "p/ab", "p/b", "q"] {
        put(store, key, 1, 10).await;
    }
    store.put(
        &id("p/missing"),
        Entry::Missing {
            since: Timestamp(3),
        },
    );
    let early = record(&id("p/a"), 1, store.generation(&id("p/a")).await, 10);

    store.purge_key(&id("p/a")).await.expect("purged");
    let first = store.generation(&id("p/a")).await;
    let floor = store.generation(&id("q")).await;
    assert!(first > floor);
    assert_eq!(store.load(&id("p/a")).await, None);
    assert!(store.load(&id("p/ab")).await.is_some(), "one key only");

    // A fetch begun before the purge ends after it.
    store.put(&id("p/a"), Entry::Present(Arc::new(early.clone())));
    assert_eq!(store.peek(&id("p/a")), None);
    assert_eq!(store.load(&id("p/a")).await, None);
    let entry = put(store, "p/a", 1, 30).await;
    assert_eq!(store.load(&id("p/a")).await, Some(entry));

    let purge = store.purge_prefix(ORIGIN, "p/");
    for key in ["p/a", "p/ab", "p/b", "p/missing"] {
        assert_eq!(store.peek(&id(key)), None, "from the moment it is called");
        assert_eq!(store.load(&id(key)).await, None);
    }
    purge.await.expect("purged");
    assert!(store.peek(&id("q")).is_some());
    let second = store.generation(&id("p/a")).await;
    assert!(second > first);
    assert_eq!(store.generation(&id("p/new")).await, second);
    assert_eq!(store.generation(&id("q")).await, floor);
    let other = ObjectId {
        origin: OriginId(8),
        ..id("p/a")
    };
    assert_eq!(store.generation(&other).await, floor, "another bucket");
    store.put(&id("p/a"), Entry::Present(Arc::new(early)));
    assert_eq!(store.load(&id("p/a")).await, None);

    store.purge_prefix(ORIGIN, "").await.expect("purged");
    assert_eq!(store.load(&id("q")).await, None);
    assert!(store.generation(&id("p/a")).await > second);
}

#[tokio::test]
async fn in_memory() {
    let store = open(&settings(None));
    assert_eq!(store.generation(&id("a")).await, 0);
    conforms(&store).await;
}

#[tokio::test]
async fn on_disk() {
    let dir = TempDir::new().expect("a directory");
    conforms(&open(&settings(Some(dir.path())))).await;
}

#[tokio::test]
async fn a_purged_tag_hides_every_version_that_has_it() {
    let dir = TempDir::new().expect("a folder");
    let settings = settings(Some(dir.path()));
    let store = open(&settings);
    let early = put_tagged(&store, "a", (1, "red big"), 1000).await;
    put_tagged(&store, "b", (1, "blue,big"), 1000).await;
    put_tagged(&store, "c", (1, ""), 1000).await;
    assert!(store.load(&id("a")).await.is_some());
    let red = tag("red");
    let hard = store.purge(PurgeScope::Tag(ORIGIN, &red), PurgeEffect::Remove);
    hard.await.expect("durable");
    assert_eq!(store.load(&id("a")).await, None);
    assert!(store.load(&id("b")).await.is_some());
    assert!(store.load(&id("c")).await.is_some());
    store.put(&id("a"), Entry::Present(Arc::new(early.clone())));
    assert_eq!(
        store.load(&id("a")).await,
        None,
        "it was made before the purge"
    );
    let late = put_tagged(&store, "a", (1, "red big"), 2000).await;
    assert_ne!(late.id, early.id, "its chunks have other addresses");

    let big = tag("big");
    let soften = PurgeEffect::Soften(Timestamp(3000));
    let soft = store.purge(PurgeScope::Tag(ORIGIN, &big), soften);
    soft.await.expect("durable");
    let softened = |store: &Meta, key: &'static str| match store.peek(&id(key)) {
        Some(Entry::Present(record)) => store.softened(&id(key), &record),
        found => panic!("{key}: {found:?}"),
    };
    assert_eq!(softened(&store, "a"), Some(Timestamp(3000)));
    assert_eq!(softened(&store, "b"), Some(Timestamp(3000)));
    assert_eq!(softened(&store, "c"), None);
    put_tagged(&store, "b", (1, "blue,big"), 3001).await;
    assert_eq!(softened(&store, "b"), None, "it is confirmed");

    store.close().await;
    drop(store);
    let store = open(&settings);
    for key in ["a", "b", "c"] {
        assert!(store.load(&id(key)).await.is_some(), "{key}");
    }
    assert_eq!(softened(&store, "a"), Some(Timestamp(3000)));
    assert_eq!(softened(&store, "c"), None);
    let other = OriginId(ORIGIN.0 + 1);
    let elsewhere = store.purge(PurgeScope::Tag(other, &big), PurgeEffect::Remove);
    elsewhere.await.expect("durable");
    assert!(store.load(&id("a")).await.is_some(), "another bucket");
}
