//! Files that are corrupt, cut off, deleted, in use or replaced.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tidegate_cache::{Entry, Meta, MetaStore, Record, Settings, StoreError};

use super::conformance::conforms;
use super::fixture::{ORIGIN, database, id, open, put, record, settings, version};

/// The earlier purges are no longer known: chunks on disk count as purged, whatever their version.
#[tokio::test]
async fn what_replaces_a_database_begins_with_a_floor_of_now() {
    for junk in [None, Some(vec![0x55; 100_000])] {
        let dir = TempDir::new().expect("a directory");
        let settings = settings(Some(dir.path()));
        let store = open(&settings);
        put(&store, "a", 1, 10).await;
        store.purge_key(&id("a")).await.expect("purged");
        let (purged, other) = (
            store.generation(&id("a")).await,
            store.generation(&id("b")).await,
        );
        store.close().await;
        drop(store);
        match junk {
            None => fs::remove_file(database(dir.path())).expect("deleted"),
            Some(junk) => fs::write(database(dir.path()), junk).expect("written"),
        }
        let store = open(&settings);
        let floor = store.generation(&id("a")).await;
        assert!(floor > purged && floor > other, "{floor}");
        assert_eq!(store.generation(&id("b")).await, floor);
        store.close().await;
        drop(store);
        let store = open(&settings);
        assert_eq!(store.generation(&id("a")).await, floor, "it stays");
    }
}

fn set_aside(dir: &Path) -> usize {
    let entries = fs::read_dir(dir).expect("there").flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().contains(".corrupt-"))
        .count()
}

#[tokio::test]
async fn a_file_that_is_no_database_is_set_aside() {
    let dir = TempDir::new().expect("a directory");
    fs::write(database(dir.path()), vec![0x55; 100_000]).expect("written");
    let store = open(&settings(Some(dir.path())));
    assert_eq!(set_aside(dir.path()), 1);
    conforms(&store).await;
}

#[tokio::test]
async fn a_truncated_file_is_set_aside_or_sound() {
    for percent in [0, 1, 20, 50, 80, 99] {
        let dir = TempDir::new().expect("a directory");
        let settings = settings(Some(dir.path()));
        let store = open(&settings);
        for key in 0..100 {
            put(&store, &format!("k{key}"), key, key).await;
        }
        store.close().await;
        drop(store);
        let path = database(dir.path());
        let len = fs::metadata(&path).expect("there").len();
        let file = fs::OpenOptions::new().write(true).open(path);
        file.expect("there")
            .set_len(len * percent / 100)
            .expect("cut");

        let store = open(&settings);
        for key in 0..100 {
            let name = format!("k{key}");
            if let Some(Entry::Present(found)) = store.load(&id(&name)).await {
                assert_eq!(found.version, version(key), "cut to {percent} %");
            }
        }
        let entry = put(&store, "after", 1, 1).await;
        flush_soon(&store).await;
        assert_eq!(store.load(&id("after")).await, Some(entry));
    }
}

/// Flushes like `flush`, in a store that may first have to reopen its file.
async fn flush_soon(store: &dyn MetaStore) {
    for _ in 0..500 {
        if store.purge_key(&id("nothing")).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the store does not come back");
}

#[tokio::test]
async fn a_directory_wiped_underneath_is_made_again() {
    let parent = TempDir::new().expect("a directory");
    let state = parent.path().join("state");
    let settings = settings(Some(&state));
    let store = open(&settings);
    let entry = put(&store, "a", 1, 10).await;
    fs::remove_dir_all(&state).expect("wiped");
    assert!(store.purge_key(&id("c")).await.is_err(), "not durable");
    assert_eq!(store.load(&id("a")).await, Some(entry));
    flush_soon(&store).await;
    assert!(database(&state).exists());
    assert!(store.generation(&id("c")).await > 0);
}

#[tokio::test]
async fn one_file_is_for_one_process() {
    let dir = TempDir::new().expect("a directory");
    let settings = settings(Some(dir.path()));
    let _store = open(&settings);
    let error = Meta::open(&settings, &mut Registry::default()).expect_err("locked");
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    assert_eq!(set_aside(dir.path()), 0);

    let file = dir.path().join("file");
    fs::write(&file, b"").expect("written");
    let settings = Settings {
        state: Some(file),
        ..settings
    };
    let error = Meta::open(&settings, &mut Registry::default()).expect_err("no directory");
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
}

/// Flips one bit in every fifth page of the file, again and again: each record is correct or gone, and the store goes
/// on.
#[tokio::test]
async fn flipped_bits_never_give_wrong_records() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..12u64 {
        let dir = TempDir::new().expect("a directory");
        let settings = settings(Some(dir.path()));
        let store = open(&settings);
        let generation = store.generation(&id("k0")).await;
        for key in 0..300 {
            put(&store, &format!("k{key}"), key, key).await;
        }
        store.purge_prefix(ORIGIN, "k29").await.expect("purged");
        store.close().await;
        drop(store);
        let path = database(dir.path());
        let file = fs::OpenOptions::new().read(true).write(true).open(path);
        let file = file.expect("there");
        let len = file.metadata().expect("there").len();
        let first = (seed * 977) % 20_480;
        for offset in (first..len).step_by(20_480 + 13) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, offset).expect("within");
            file.write_all_at(&[byte[0] ^ (1 << (seed % 8))], offset)
                .expect("within");
        }

        let store = open(&settings);
        for key in 0..300 {
            let name = format!("k{key}");
            let expected = record(&id(&name), key, generation, key);
            if let Some(Entry::Present(found)) = store.load(&id(&name)).await {
                let found = Record {
                    must_confirm: false,
                    ..(*found).clone()
                };
                assert_eq!(found, expected, "seed {seed}");
                kept += 1;
            } else {
                lost += 1;
            }
        }
        let entry = put(&store, "after", 1, 1).await;
        assert_eq!(store.load(&id("after")).await, Some(entry));
    }
    let purged = 12 * 11;
    assert!(lost > purged && kept > 0, "{lost} lost, {kept} kept");
}

#[tokio::test]
async fn a_file_deleted_underneath_is_begun_anew_and_nothing_in_memory_is_lost() {
    let dir = TempDir::new().expect("a directory");
    let settings = settings(Some(dir.path()));
    let store = open(&settings);
    let entry = put(&store, "a", 1, 10).await;
    store.purge_key(&id("b")).await.expect("purged");
    let generation = store.generation(&id("b")).await;
    fs::remove_file(database(dir.path())).expect("deleted");
    assert!(store.purge_key(&id("c")).await.is_err(), "not durable");
    assert_eq!(store.peek(&id("a")), Some(entry));
    flush_soon(&store).await;
    store.purge_key(&id("d")).await.expect("durable again");
    let (c, d) = (
        store.generation(&id("c")).await,
        store.generation(&id("d")).await,
    );
    store.close().await;
    drop(store);
    let store = open(&settings);
    assert_eq!(store.generation(&id("b")).await, generation);
    assert_eq!(store.generation(&id("c")).await, c);
    assert_eq!(store.generation(&id("d")).await, d);
}
