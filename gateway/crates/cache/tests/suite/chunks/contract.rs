//! The duties of every chunk store, checked on each.

use std::time::Duration;

use tempfile::TempDir;
use tidegate_cache::fake::{FakeStore, Faults};
use tidegate_cache::{Admit, ChunkStore, Lookup, Tier};

use super::{CHUNK, content, eventually, key, open, settings};

/// Checks the contract that the engine relies on, for any store.
async fn conforms(store: &dyn ChunkStore) {
    assert_eq!(store.ready(), Ok(()));
    let (a, b) = (key(1, 0), key(1, 1));
    assert_eq!(store.get_memory(&a), None);
    assert_eq!(store.get(&a, CHUNK).await, None);
    assert_eq!(store.locate(&a), None);
    store.remove(&a);

    for (key, len) in [(a, CHUNK), (b, 1)] {
        let bytes = content(&key, len);
        store.insert(key, bytes.clone(), Admit::MemoryAndDisk);
        assert_eq!(store.get_memory(&key), Some(bytes.clone()));
        assert_eq!(store.locate(&key), Some(Tier::Memory));
        assert_eq!(store.get(&key, len).await, Some((bytes, Tier::Memory)));
    }

    let other = content(&key(9, 9), 10);
    store.insert(key(2, 0), content(&key(2, 0), 10), Admit::Memory);
    store.insert(key(2, 0), other.clone(), Admit::Memory);
    assert_eq!(store.get_memory(&key(2, 0)), Some(other), "the last counts");

    store.insert(key(3, 0), content(&key(3, 0), CHUNK), Admit::Memory);
    let found = store.get(&key(3, 0), CHUNK - 1).await;
    assert_eq!(found, None, "another length is a miss");

    store.remove(&b);
    assert_eq!(store.get_memory(&b), None);
    assert!(store.get_memory(&a).is_some());
    store.close().await;
    store.close().await;
    assert!(store.get_memory(&a).is_some(), "memory outlives the disks");
}

/// Checks the further contract of a store with a disk.
async fn conforms_with_disk(store: &dyn ChunkStore) {
    let k = key(4, 4);
    let bytes = content(&k, CHUNK);
    store.insert(k, bytes.clone(), Admit::Disk);
    assert_eq!(store.get_memory(&k), None, "bulk displaces nothing");
    assert_eq!(store.locate(&k), Some(Tier::Disk));
    for patient in [false, true] {
        let bulk = Lookup {
            patient,
            bulk: true,
        };
        let found = store.look_up(&k, CHUNK, bulk).await;
        assert_eq!(found, Some((bytes.clone(), Tier::Disk)));
        assert_eq!(store.get_memory(&k), None, "not by reads either");
    }
    let found = store.get(&k, CHUNK).await;
    assert_eq!(found, Some((bytes.clone(), Tier::Disk)));
    assert_eq!(store.get_memory(&k), Some(bytes), "promoted");

    store.remove(&k);
    assert_eq!(store.get_memory(&k), None);
    eventually("the chunk is gone", || store.locate(&k).is_none()).await;
    assert_eq!(store.get(&k, CHUNK).await, None);

    store.insert(key(4, 5), content(&key(4, 5), CHUNK), Admit::Memory);
    assert_eq!(store.locate(&key(4, 5)), Some(Tier::Memory));
}

#[tokio::test]
async fn memory_only() {
    let store = open(&settings(4 << 20, &[])).await;
    store.insert(key(5, 5), content(&key(5, 5), CHUNK), Admit::Disk);
    assert_eq!(store.locate(&key(5, 5)), None);
    conforms(&store).await;
}

#[tokio::test]
async fn the_fake() {
    let store = FakeStore::new();
    conforms_with_disk(&store).await;
    conforms(&store).await;
}

#[tokio::test]
async fn memory_and_disk() {
    let dir = TempDir::new().expect("a directory");
    let store = open(&settings(4 << 20, &[dir.path()])).await;
    conforms_with_disk(&store).await;
    conforms(&store).await;
}

#[tokio::test]
async fn two_disks() {
    let (a, b) = (TempDir::new().expect("one"), TempDir::new().expect("two"));
    let store = open(&settings(4 << 20, &[a.path(), b.path()])).await;
    conforms_with_disk(&store).await;
    conforms(&store).await;
}

#[tokio::test(start_paused = true)]
async fn the_fake_fails_as_it_is_told() {
    let store = FakeStore::new();
    let k = key(1, 1);
    store.set(Faults {
        refuse_disk: true,
        loading: true,
        ..Faults::default()
    });
    assert!(store.ready().is_err());
    store.insert(k, content(&k, 10), Admit::Disk);
    assert_eq!(store.locate(&k), None);

    store.set(Faults {
        delay: Duration::from_secs(30),
        ..Faults::default()
    });
    store.insert(k, content(&k, 10), Admit::Disk);
    let before = tokio::time::Instant::now();
    assert!(store.get(&k, 10).await.is_some());
    assert_eq!(before.elapsed(), Duration::from_secs(30));

    store.evict_memory();
    store.set(Faults {
        lose: true,
        ..Faults::default()
    });
    assert_eq!(store.get(&k, 10).await, None);
    assert_eq!((store.counts().disk_reads, store.held_bytes()), (2, 10));
}
