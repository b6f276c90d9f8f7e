//! The store over a disk that fails or hangs: no sound file is set aside, and no outdated record is
//! accepted.

use std::path::Path;

use tempfile::TempDir;

use prometheus_client::registry::Registry;

use super::db::Opener;
use super::db::faulty_disk::{DiskCall, FaultyDisk};
use super::journal::MAX_CHANGES;
use super::*;
use crate::{Settings, StateTimeouts, StoreError};
use tidegate_plan::{ETag, ObjectKey, Version};

mod damaged;
mod outages;

fn id(key: &str) -> ObjectId {
    ObjectId {
        origin: OriginId(7),
        key: ObjectKey::new(key).expect("a valid key"),
    }
}

/// Waits so long that no disk of a slow machine is late.
pub(super) const PATIENT: StateTimeouts = StateTimeouts {
    read: Duration::from_secs(600),
    write: Duration::from_secs(600),
};

fn settings(dir: &Path) -> Settings {
    Settings {
        state: Some(dir.to_path_buf()),
        state_timeouts: PATIENT,
        ..Settings::default()
    }
}

fn try_open(dir: &TempDir, disk: &FaultyDisk) -> Result<Meta, StoreError> {
    let disk: Arc<dyn Opener> = Arc::new(disk.clone());
    Meta::open_by(&settings(dir.path()), &mut Registry::default(), disk)
}

fn open(dir: &TempDir, disk: &FaultyDisk) -> Meta {
    try_open(dir, disk).expect("opens")
}

async fn put(store: &Meta, key: &str, tag: u64, confirmed: u64) {
    put_version(store, &id(key), &tag.to_string(), confirmed).await;
}

/// Puts a version with this tag, given without quotes.
pub(super) async fn put_version(store: &Meta, id: &ObjectId, tag: &str, confirmed: u64) {
    let version = Version {
        etag: ETag::parse(&format!("\"{tag}\"")).expect("a valid tag"),
        size: 1,
        last_modified: None,
        version_id: None,
        headers: Vec::new(),
    };
    let record = Record {
        id: store.address(id, &version, store.generation(id).await),
        version: Arc::new(version),
        confirmed: Timestamp(confirmed),
        must_confirm: false,
        written: None,
    };
    store.put(id, Entry::Present(Arc::new(record)));
}

/// Returns the tag of the version on record, and whether it must be confirmed.
async fn found(store: &Meta, key: &str) -> Option<(String, bool)> {
    match store.load(&id(key)).await {
        Some(Entry::Present(record)) => {
            Some((record.version.etag.as_str().to_owned(), record.must_confirm))
        }
        Some(Entry::Missing { .. }) | None => None,
    }
}

fn version(tag: u64, must_confirm: bool) -> Option<(String, bool)> {
    Some((format!("\"{tag}\""), must_confirm))
}

fn set_aside(dir: &TempDir) -> usize {
    let entries = std::fs::read_dir(dir.path()).expect("there").flatten();
    let names = entries.map(|entry| entry.file_name());
    let aside = names.filter(|name| name.to_string_lossy().contains(".corrupt-"));
    aside.count()
}

#[tokio::test]
async fn an_error_of_the_disk_at_the_start_sets_no_sound_database_aside() {
    for call in [DiskCall::Read, DiskCall::Write, DiskCall::Sync] {
        let (dir, disk) = (TempDir::new().expect("a folder"), FaultyDisk::default());
        let store = open(&dir, &disk);
        store.purge_key(&id("purged")).await.expect("durable");
        let generation = store.generation(&id("purged")).await;
        let before = store.generation(&id("a")).await;
        store.pin(OriginId(7), "pinned/", 1).await.expect("durable");
        put(&store, "a", 1, 10).await;
        store.close().await;
        drop(store);
        // The disk fails at each call of the start in turn.
        for after in 0..3 {
            disk.fail(call, after, u64::MAX);
            let store = open(&dir, &disk);
            let notes = store.notes();
            let expected = "metadata store: kept in memory until the next start (";
            assert!(
                notes.len() == 1 && notes[0].starts_with(expected),
                "{call:?}: {notes:?}"
            );
            assert_eq!(found(&store, "a").await, None);
            assert_ne!(
                store.generation(&id("a")).await,
                before,
                "what was purged is not known"
            );
            refuses_what_must_be_durable(&store).await;
            put(&store, "a", 2, 20).await;
            assert_eq!(found(&store, "a").await, version(2, false), "in memory");
            store.close().await;
            assert_eq!(set_aside(&dir), 0, "{call:?}");
        }
        disk.heal();
        let store = open(&dir, &disk);
        assert_eq!(store.generation(&id("purged")).await, generation);
        assert_eq!(found(&store, "a").await, version(1, false), "{call:?}");
        assert_eq!(store.pins().len(), 1, "{call:?}");
    }
}

/// A store whose disk has failed at the start marks no key that is to be changed.
async fn refuses_what_must_be_durable(store: &Meta) {
    store.begin_change(&id("b")).await.expect_err("no mark");
    store.end_change(&id("b"));
    store.purge_key(&id("b")).await.expect_err("not durable");
    let pinned = store.pin(OriginId(7), "b", 1).await;
    pinned.expect_err("not durable");
}

/// A failed batch is rolled back, and written once the database is open again and sound.
#[tokio::test]
async fn what_cannot_be_written_is_written_when_it_can() {
    for call in [DiskCall::Write, DiskCall::Sync] {
        let (dir, disk) = (TempDir::new().expect("a folder"), FaultyDisk::default());
        let store = open(&dir, &disk);
        for key in ["removed", "replaced", "stays"] {
            put(&store, key, 1, 10).await;
        }
        store.flush().await;
        store.remove(&id("removed"));
        put(&store, "replaced", 2, 20).await;
        disk.fail(call, 0, u64::MAX);
        let purged = store.purge_key(&id("p")).await;
        purged.expect_err("it was not durable");
        disk.heal();
        while store.purge_key(&id("p")).await.is_err() {
            tokio::task::yield_now().await;
        }
        drop(store);
        let store = open(&dir, &disk);
        assert_eq!(found(&store, "removed").await, None, "{call:?}");
        assert_eq!(
            found(&store, "replaced").await,
            version(2, true),
            "{call:?}"
        );
        assert_eq!(found(&store, "stays").await, version(1, true), "{call:?}");
        assert_eq!(set_aside(&dir), 0);
    }
}

/// The next write is tried by itself: a failure leaves a batch to write.
#[tokio::test]
async fn a_write_that_failed_is_noted_until_one_succeeds() {
    for call in [DiskCall::Write, DiskCall::Sync] {
        let (dir, disk) = (TempDir::new().expect("a folder"), FaultyDisk::default());
        let store = open(&dir, &disk);
        store.purge_key(&id("a")).await.expect("durable");
        assert_eq!(store.notes(), [""; 0], "{call:?}");
        disk.fail(call, 0, u64::MAX);
        store.purge_key(&id("b")).await.expect_err("not durable");
        let notes = store.notes();
        let expected = "metadata store: the last write failed (";
        assert!(
            notes.len() == 1 && notes[0].starts_with(expected),
            "{notes:?}"
        );
        disk.heal();
        while !store.notes().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

/// Queues removals of other keys.
fn fill(store: &Meta, changes: usize) {
    for number in 0..changes {
        store.remove(&id(&format!("other/{number}")));
    }
}

async fn full(dir: &TempDir, disk: &FaultyDisk) -> Meta {
    let store = open(dir, disk);
    for key in ["old", "gone", "replaced"] {
        put(&store, key, 1, 10).await;
    }
    store.flush().await;
    disk.hang();
    // Nothing is taken out of the queue while this purge is being written.
    drop(store.purge_key(&id("p")));
    let journal = store.journal.as_ref().expect("a database");
    while !journal.is_writing() {
        tokio::task::yield_now().await;
    }
    store
}

#[tokio::test]
async fn a_version_that_is_dropped_has_older_ones_confirmed() {
    let (dir, disk) = (TempDir::new().expect("a folder"), FaultyDisk::default());
    let store = full(&dir, &disk).await;
    fill(&store, MAX_CHANGES - 1);
    put(&store, "replaced", 2, 20).await;
    store.remove(&id("gone"));
    disk.heal();
    store.flush().await;
    store.close().await;
    drop(store);
    let store = open(&dir, &disk);
    assert_eq!(found(&store, "gone").await, None, "there was room for it");
    assert_eq!(found(&store, "replaced").await, version(1, true));
    assert_eq!(found(&store, "old").await, version(1, true));
    put(&store, "old", 1, 20).await;
    store.close().await;
    drop(store);
    let store = open(&dir, &disk);
    assert_eq!(found(&store, "old").await, version(1, false));
    assert_eq!(found(&store, "replaced").await, version(1, true));
}

#[tokio::test]
async fn a_removal_that_is_dropped_leaves_no_older_version_to_believe() {
    let (dir, disk) = (TempDir::new().expect("a folder"), FaultyDisk::default());
    let store = full(&dir, &disk).await;
    fill(&store, MAX_CHANGES);
    store.remove(&id("gone"));
    disk.heal();
    store.flush().await;
    assert_eq!(found(&store, "gone").await, None);
    put(&store, "new", 3, 30).await;
    store.close().await;
    drop(store);
    let store = open(&dir, &disk);
    assert_eq!(found(&store, "gone").await, None);
    assert_eq!(found(&store, "old").await, None);
    assert_eq!(found(&store, "new").await, version(3, false));
}

/// Only confirmations wait long for other changes.
#[tokio::test]
async fn news_are_durable_soon_and_confirmations_wait_for_them() {
    let (dir, disk) = (TempDir::new().expect("a folder"), FaultyDisk::default());
    let store = open(&dir, &disk);
    let journal = store.journal.as_ref().expect("a database");
    let waits = || {
        let queue = journal.lock();
        (queue.since.is_some(), queue.news_since.is_some())
    };
    let minutes = |n: u64| n * 60_000;
    put(&store, "a", 1, 0).await;
    assert_eq!(waits(), (true, true), "it was not known");
    store.flush().await;
    assert_eq!(waits(), (false, false));
    put(&store, "a", 1, minutes(1)).await;
    assert_eq!(waits(), (false, false), "confirmed a moment ago");
    put(&store, "a", 1, minutes(6)).await;
    assert_eq!(waits(), (true, false), "confirmed");
    put(&store, "a", 2, minutes(7)).await;
    assert_eq!(waits(), (true, true), "another version");
    store.flush().await;
    store.remove(&id("a"));
    assert_eq!(waits(), (true, true), "removed");
}

/// A start that finds no disk for its chunks ends so: the next one does not take it for a crash.
#[tokio::test]
async fn a_start_that_served_nothing_casts_no_doubt() {
    let (dir, disk) = (TempDir::new().expect("a folder"), FaultyDisk::default());
    let store = open(&dir, &disk);
    put(&store, "a", 1, 10).await;
    store.close().await;
    drop(store);
    let store = open(&dir, &disk);
    store.end_in_order();
    drop(store);
    assert_eq!(found(&open(&dir, &disk), "a").await, version(1, false));
}
