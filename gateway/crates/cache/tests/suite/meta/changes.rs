//! Keys under change in the bucket: marked durably before, and without a version until the end.

use std::fs;
use std::sync::Arc;

use tempfile::TempDir;
use tidegate_cache::{Entry, MetaStore, Record};

use super::fixture::{flush, id, open, put, settings};

/// Returns the version on record of a key, if it counts.
async fn on_record(store: &dyn MetaStore, key: &str) -> Option<u64> {
    let tag = |record: Arc<Record>| record.version.size - 1000;
    match store.load(&id(key)).await {
        Some(Entry::Present(record)) => Some(tag(record)),
        _ => None,
    }
}

/// The bucket may have carried the change out although its answer was lost: the record no longer counts, for this key
/// and for no other.
#[tokio::test]
async fn a_key_that_was_being_changed_at_a_kill_has_no_version_on_record() {
    let dir = TempDir::new().expect("a directory");
    let settings = settings(Some(dir.path()));
    let store = open(&settings);
    for key in ["a", "b", "c"] {
        put(&store, key, 1, 10).await;
    }
    flush(&store).await;
    store.begin_change(&id("a")).await.expect("marked");
    assert_eq!(on_record(&store, "a").await, Some(1), "as long as it runs");
    store.begin_change(&id("b")).await.expect("marked");
    drop(store);

    let store = open(&settings);
    assert_eq!(on_record(&store, "a").await, None);
    assert_eq!(on_record(&store, "b").await, None);
    assert_eq!(on_record(&store, "c").await, Some(1));
    put(&store, "a", 2, 20).await;
    flush(&store).await;
    drop(store);
    let store = open(&settings);
    assert_eq!(
        on_record(&store, "a").await,
        Some(2),
        "the mark counts once"
    );
}

/// A reader may get the earlier version while the bucket carries out a change.
#[tokio::test]
async fn no_version_is_written_down_while_a_key_is_being_changed() {
    let dir = TempDir::new().expect("a directory");
    let settings = settings(Some(dir.path()));
    for ends in [false, true] {
        let store = open(&settings);
        put(&store, "a", 1, 10).await;
        flush(&store).await;
        store.begin_change(&id("a")).await.expect("marked");
        store.begin_change(&id("a")).await.expect("marked");
        put(&store, "a", 1, 400_000).await;
        store.end_change(&id("a"));
        put(&store, "a", 1, 800_000).await;
        flush(&store).await;
        if ends {
            store.end_change(&id("a"));
            flush(&store).await;
        }
        drop(store);
        let store = open(&settings);
        assert_eq!(on_record(&store, "a").await, None, "{ends}");
        store.close().await;
    }
}

#[tokio::test]
async fn after_a_change_the_version_that_it_made_is_written_down() {
    let dir = TempDir::new().expect("a directory");
    let settings = settings(Some(dir.path()));
    let store = open(&settings);
    put(&store, "a", 1, 10).await;
    put(&store, "same", 1, 10).await;
    for key in ["a", "same"] {
        store.begin_change(&id(key)).await.expect("marked");
        store.end_change(&id(key));
    }
    put(&store, "a", 2, 20).await;
    // The change was refused, and a reader confirms the earlier version.
    put(&store, "same", 1, 20).await;
    flush(&store).await;
    // Marks are cleared behind the flush, and before the next one is written.
    store.begin_change(&id("other")).await.expect("marked");
    drop(store);
    let store = open(&settings);
    assert_eq!(on_record(&store, "a").await, Some(2));
    assert_eq!(on_record(&store, "same").await, Some(1));
}

/// Nothing outlives the process, so nothing needs a mark.
#[tokio::test]
async fn a_store_in_memory_marks_nothing() {
    let store = open(&settings(None));
    put(&store, "a", 1, 10).await;
    store.begin_change(&id("a")).await.expect("nothing to do");
    store.end_change(&id("a"));
    assert_eq!(on_record(&store, "a").await, Some(1));
}

#[tokio::test]
async fn a_state_disk_that_takes_no_mark_refuses_the_change() {
    let parent = TempDir::new().expect("a directory");
    let state = parent.path().join("state");
    let store = open(&settings(Some(&state)));
    fs::remove_dir_all(&state).expect("wiped");
    fs::write(&state, "in its place").expect("written");
    let refused = store.begin_change(&id("a")).await;
    refused.expect_err("no place for a mark");
    store.end_change(&id("a"));
    fs::remove_file(&state).expect("removed");
    store.begin_change(&id("a")).await.expect("marked again");
    store.end_change(&id("a"));
}
