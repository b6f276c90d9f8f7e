//! The store over a disk that fails while it is in use: what is on record is read on.

use std::time::Instant;

use super::*;
use tidegate_plan::tags::Tag;

/// Waits until the thread has opened the database again, if a read asked for it.
async fn recovered(store: &Meta) {
    let journal = store.journal.as_ref().expect("a database");
    while journal.lock().suspect.is_some() {
        tokio::task::yield_now().await;
    }
}

/// Waits until so many calls of the database have failed.
async fn failures(store: &Meta, count: u64) {
    while store.metrics.errors.get() < count {
        tokio::task::yield_now().await;
    }
}

/// Returns a store with these keys on disk, and none in memory.
async fn with_rows(dir: &TempDir, disk: &FaultyDisk, keys: &[&str]) -> Meta {
    let store = open(dir, disk);
    for key in keys {
        put(&store, key, 1, 10).await;
    }
    store.close().await;
    drop(store);
    open(dir, disk)
}

/// redb refuses every read after one that the disk has refused, until the file is opened again: once a second at most.
#[tokio::test]
async fn a_read_that_the_disk_refuses_is_one_unknown_row() {
    let (dir, disk) = (TempDir::new().expect("a folder"), FaultyDisk::default());
    let store = with_rows(&dir, &disk, &["a", "b"]).await;
    let since = Instant::now();
    for _ in 0..2 {
        disk.fail(DiskCall::Read, 0, 1);
        assert_eq!(found(&store, "a").await, None);
        recovered(&store).await;
    }
    let elapsed = since.elapsed();
    assert!(elapsed >= Duration::from_secs(1), "{elapsed:?}");
    assert_eq!(found(&store, "a").await, version(1, false));
    assert_eq!(found(&store, "b").await, version(1, false));
    put(&store, "c", 3, 30).await;
    store.purge_key(&id("b")).await.expect("durable");
    store.close().await;
    drop(store);
    let store = open(&dir, &disk);
    assert_eq!(found(&store, "b").await, None);
    assert_eq!(found(&store, "c").await, version(3, false));
    assert_eq!(set_aside(&dir), 0);
}

/// A kernel that finds a fault in a file system has it read-only from then on.
#[tokio::test]
async fn what_is_on_record_is_found_while_the_disk_takes_no_writes() {
    for call in [DiskCall::Write, DiskCall::Sync] {
        let (dir, disk) = (TempDir::new().expect("a folder"), FaultyDisk::default());
        let store = with_rows(&dir, &disk, &["a", "b", "c"]).await;
        let before = store.generation(&id("c")).await;
        disk.fail(call, 0, u64::MAX);
        let purged = store.purge_key(&id("b")).await;
        purged.expect_err("it was not durable");
        // The batch, and the first attempt to open the file again.
        failures(&store, 2).await;
        assert_eq!(found(&store, "a").await, version(1, false), "{call:?}");
        assert_eq!(found(&store, "b").await, None, "{call:?}: purged");
        assert_eq!(found(&store, "none").await, None, "{call:?}");
        store.remove(&id("c"));
        assert_eq!(found(&store, "c").await, None, "{call:?}: removed");
        disk.heal();
        while store.purge_key(&id("p")).await.is_err() {
            tokio::task::yield_now().await;
        }
        assert_eq!(store.generation(&id("c")).await, before);
        store.close().await;
        drop(store);
        let store = open(&dir, &disk);
        assert_eq!(found(&store, "a").await, version(1, false), "{call:?}");
        for gone in ["b", "c"] {
            assert_eq!(found(&store, gone).await, None, "{call:?}: {gone}");
        }
        assert_eq!(set_aside(&dir), 0);
    }
}

/// Whatever a purge covers and does, its answer is the disk's.
#[tokio::test]
async fn no_purge_is_answered_as_durable_if_the_disk_takes_no_writes() {
    let (key, tag) = (id("p/a"), Tag::new("red").expect("a tag"));
    let scopes = [
        PurgeScope::Key(&key),
        PurgeScope::Prefix(OriginId(7), "p/"),
        PurgeScope::Tag(OriginId(7), &tag),
    ];
    let effects = [PurgeEffect::Remove, PurgeEffect::Soften(Timestamp(20))];
    for call in [DiskCall::Write, DiskCall::Sync] {
        let pairs = scopes.into_iter();
        for (scope, effect) in pairs.flat_map(|scope| effects.map(|effect| (scope, effect))) {
            let (dir, disk) = (TempDir::new().expect("a folder"), FaultyDisk::default());
            let store = open(&dir, &disk);
            disk.fail(call, 0, u64::MAX);
            let answer = store.purge(scope, effect).await;
            assert!(answer.is_err(), "{call:?} {scope:?} {effect:?}");
        }
    }
}

/// A disk that fails at the start leaves a store in memory, whose pins are not those of chunks on the disks.
#[tokio::test]
async fn the_first_pin_of_a_new_store_has_no_number_of_an_earlier_one() {
    let mut numbers = std::collections::HashSet::new();
    for failing in [false, true] {
        for _ in 0..4 {
            let (dir, disk) = (TempDir::new().expect("a folder"), FaultyDisk::default());
            if failing {
                disk.fail(DiskCall::Write, 0, u64::MAX);
            }
            let store = open(&dir, &disk);
            let _ = store.pin(OriginId(7), "films/", 1).await;
            numbers.insert(store.pin_of(&id("films/a")).number());
        }
    }
    // They are random.
    assert!(numbers.len() > 4, "{numbers:?}");
}
