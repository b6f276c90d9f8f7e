//! The record after a restart and a kill, and the number of its writes.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tidegate_cache::{Entry, Meta, MetaStore, PurgeEffect, PurgeScope, Record};
use tidegate_plan::Timestamp;

use super::fixture::{
    ORIGIN, count, flush, id, must_confirm, open, put, put_tagged, record, settings, tag,
};

#[tokio::test]
async fn an_orderly_restart_keeps_records_and_purges() {
    let dir = TempDir::new().expect("a directory");
    let settings = settings(Some(dir.path()));
    let store = open(&settings);
    put(&store, "p/purged", 1, 10).await;
    put(&store, "p/purged-too", 1, 10).await;
    store.purge_key(&id("p/purged")).await.expect("purged");
    store.purge_prefix(ORIGIN, "p/").await.expect("purged");
    let kept = put(&store, "p/kept", 2, 20).await;
    let generation = store.generation(&id("p/kept")).await;
    put(&store, "removed", 3, 30).await;
    store.remove(&id("removed"));
    put(&store, "missing", 3, 30).await;
    store.put(
        &id("missing"),
        Entry::Missing {
            since: Timestamp(31),
        },
    );
    store.close().await;
    assert!(store.purge_key(&id("x")).await.is_err(), "closed");
    drop(store);

    let store = open(&settings);
    assert_eq!(store.peek(&id("p/kept")), None, "not in memory yet");
    assert_eq!(store.load(&id("p/kept")).await, Some(kept.clone()));
    assert_eq!(store.peek(&id("p/kept")), Some(kept));
    assert_eq!(store.generation(&id("p/kept")).await, generation);
    for key in ["p/purged", "p/purged-too", "removed", "missing"] {
        assert_eq!(store.load(&id(key)).await, None, "{key}");
    }
    store.purge_key(&id("p/kept")).await.expect("purged");
    assert!(store.generation(&id("p/kept")).await > generation);
}

#[tokio::test]
async fn after_an_unclean_stop_everything_must_be_confirmed_until_it_was() {
    let dir = TempDir::new().expect("a directory");
    let settings = settings(Some(dir.path()));
    let store = open(&settings);
    let old = put(&store, "old", 1, 10).await;
    put(&store, "renewed", 1, 10).await;
    flush(&store).await;
    drop(store);

    let store = open(&settings);
    assert!(must_confirm(&store, "renewed").await);
    put(&store, "renewed", 1, 20).await;
    store.close().await;
    drop(store);

    let store = open(&settings);
    assert!(!must_confirm(&store, "renewed").await);
    assert!(must_confirm(&store, "old").await, "nobody asked for it yet");
    let Some(Entry::Present(found)) = store.peek(&id("old")) else {
        panic!("loaded");
    };
    let Entry::Present(old) = old else {
        panic!("put");
    };
    assert_eq!(found.version, old.version);
}

/// A store that is dropped abandons what waits to be written, as a kill does. The answer to a purge has to mean that
/// nothing of it waits.
#[tokio::test]
async fn a_purge_that_was_answered_outlasts_a_kill() {
    let (purged, red) = (id("p/purged"), tag("red"));
    let hard = PurgeEffect::Remove;
    let soft = PurgeEffect::Soften(Timestamp(2000));
    for scope in [
        PurgeScope::Key(&purged),
        PurgeScope::Prefix(ORIGIN, "p/"),
        PurgeScope::Tag(ORIGIN, &red),
    ] {
        for effect in [hard, soft] {
            let dir = TempDir::new().expect("a directory");
            let settings = settings(Some(dir.path()));
            let store = open(&settings);
            let early = put_tagged(&store, "p/purged", (1, "red"), 1000).await;
            put_tagged(&store, "kept", (1, "blue"), 1000).await;
            flush(&store).await;
            store.purge(scope, effect).await.expect("durable");
            drop(store);

            let store = open(&settings);
            assert!(must_confirm(&store, "kept").await, "{scope:?} {effect:?}");
            if effect == hard {
                let found = store.load(&purged).await;
                assert_eq!(found, None, "{scope:?}");
                // An answer that was on its way during the purge.
                store.put(&purged, Entry::Present(Arc::new(early)));
            }
            let found = store.load(&purged).await;
            let softened = found.map(|entry| match entry {
                Entry::Present(record) => store.softened(&purged, &record),
                Entry::Missing { .. } => panic!("{scope:?}: not put"),
            });
            let expected = (effect == soft).then_some(Some(Timestamp(2000)));
            assert_eq!(softened, expected, "{scope:?} {effect:?}");
        }
    }
}

#[tokio::test]
async fn confirmations_are_written_once_in_five_minutes() {
    let dir = TempDir::new().expect("a directory");
    let settings = settings(Some(dir.path()));
    let mut registry = Registry::default();
    let store = Meta::open(&settings, &mut registry).expect("opens");
    for confirmed in [0, 1000, 299_999, 300_000, 300_001, 599_999] {
        put(&store, "a", 1, confirmed).await;
        flush(&store).await;
    }
    assert_eq!(count(&registry, "meta_coalesced_total"), 4);
    put(&store, "a", 2, 600_000).await;
    put(&store, "a", 2, 600_001).await;
    let generation = store.generation(&id("a")).await;
    let invalidated = record(&id("a"), 2, generation, 600_001);
    let invalidated = Entry::Present(Arc::new(Record {
        must_confirm: true,
        ..invalidated
    }));
    store.put(&id("a"), invalidated.clone());
    store.close().await;
    drop(store);
    let store = open(&settings);
    assert_eq!(store.load(&id("a")).await, Some(invalidated));
}

#[tokio::test]
async fn a_missing_key_that_had_no_row_removes_none() {
    let dir = TempDir::new().expect("a directory");
    let settings = settings(Some(dir.path()));
    let missing = || Entry::Missing {
        since: Timestamp(3),
    };
    let store = open(&settings);
    for key in ["kept", "gone", "changed"] {
        put(&store, key, 1, 10).await;
    }
    store.close().await;
    drop(store);

    let mut registry = Registry::default();
    let store = Meta::open(&settings, &mut registry).expect("opens");
    for number in 0..2000 {
        let id = id(&format!("random/{number}"));
        assert_eq!(store.load(&id).await, None);
        store.put(&id, missing());
        assert_eq!(store.load(&id).await, Some(missing()));
        // The key is requested again when the entry is no longer fresh.
        store.put(&id, missing());
    }
    // Keys with a row, whether or not it was looked at, and a key without one that came and went.
    store.put(&id("gone"), missing());
    assert!(store.load(&id("changed")).await.is_some());
    store.put(&id("changed"), missing());
    assert_eq!(store.load(&id("new")).await, None);
    put(&store, "new", 1, 10).await;
    store.put(&id("new"), missing());
    store.close().await;
    // The row of a key that came and went may have been written in between.
    assert!((3..=4).contains(&count(&registry, "meta_writes_total")));
    drop(store);

    let store = open(&settings);
    assert!(store.load(&id("kept")).await.is_some());
    for key in ["gone", "changed", "new", "random/7"] {
        assert_eq!(store.load(&id(key)).await, None, "{key}");
    }
}

/// The front holds a few entries only, so most are read from the queue or the file.
#[tokio::test]
async fn what_the_front_lets_go_of_is_read_again() {
    let dir = TempDir::new().expect("a directory");
    let mut small = settings(Some(dir.path()));
    small.meta_memory = 20 << 10;
    let store = open(&small);
    for key in 0..500 {
        put(&store, &format!("k{key}"), key, key).await;
    }
    let in_memory = (0..500).filter(|key| store.peek(&id(&format!("k{key}"))).is_some());
    assert!(in_memory.count() < 100);
    for _ in 0..2 {
        for key in 0..500 {
            let name = format!("k{key}");
            let generation = store.generation(&id(&name)).await;
            let expected = Entry::Present(Arc::new(record(&id(&name), key, generation, key)));
            assert_eq!(store.load(&id(&name)).await, Some(expected), "{key}");
        }
        flush(&store).await;
    }
}
