//! Disks that come and go with the configuration, while chunks are read.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tidegate_cache::tiering::DiskState;
use tidegate_cache::{Admit, ChunkStore, Settings, Tier, TieringError, Tiers};

use super::{
    CHUNK, content, empty_memory, eventually, exposition, fill, key, open, settings, sound,
};

/// Exchanges the disks of a store.
async fn exchange(store: &Tiers, disks: &[&Path]) {
    let disks = settings(0, disks).disks;
    let prepared = store.prepare(None, disks).await.expect("they can be had");
    store.apply(prepared).await.expect("they are in force");
}

/// Opens another store on a disk, which no store may have.
fn assert_free(disk: &Path) {
    let other = settings(0, &[disk]);
    drop(Tiers::open(&other, &mut Registry::default()).expect("it is free"));
}

fn chunks_on(store: &Tiers, disk: &Path) -> u64 {
    let report = store.report();
    let disk = report.disks.iter().find(|one| one.path == disk);
    let content = disk.and_then(|disk| disk.content);
    content.expect("it is in").chunks
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_added_and_one_is_drained_under_readers() {
    let (a, b) = (TempDir::new().expect("one"), TempDir::new().expect("two"));
    let (a, b) = (a.path(), b.path());
    let mut registry = Registry::default();
    let store = Arc::new(Tiers::open(&settings(0, &[a]), &mut registry).expect("opens"));
    store.loaded().await;
    fill(&store, 200).await;
    let stop = Arc::new(AtomicBool::new(false));
    let readers = (0..4).map(|_| {
        let (store, stop) = (store.clone(), stop.clone());
        tokio::spawn(async move {
            // Whatever is found has the right bytes.
            while !stop.load(Ordering::Relaxed) {
                sound(&store, 200).await;
            }
        })
    });
    let readers: Vec<_> = readers.collect();

    exchange(&store, &[a, b]).await;
    fill(&store, 200).await;
    assert!(chunks_on(&store, b) > 50, "it has its share of the chunks");
    assert_eq!(sound(&store, 200).await, 200);
    let shown = format!("disk=\"{}\"", a.display());
    assert!(exposition(&registry).contains(&shown));

    exchange(&store, &[b]).await;
    assert_free(a);
    assert!(!exposition(&registry).contains(&shown));
    let left = sound(&store, 200).await;
    assert!((50..200).contains(&left), "{left} are on the other disk");
    fill(&store, 200).await;
    assert_eq!(sound(&store, 200).await, 200);

    // A disk that comes back still has its chunks.
    exchange(&store, &[b, a]).await;
    assert!(chunks_on(&store, a) >= 200);
    exchange(&store, &[a]).await;
    assert_free(b);
    assert_eq!(sound(&store, 200).await, 200);
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.expect("no wrong byte");
    }
    exchange(&store, &[]).await;
    assert_free(a);
    store.insert(key(1, 1), content(&key(1, 1), CHUNK), Admit::MemoryAndDisk);
    assert_eq!(store.get(&key(1, 1), CHUNK).await, None);
}

#[tokio::test]
async fn what_waits_for_a_drained_disk_is_written_before_it_closes() {
    let dir = TempDir::new().expect("a directory");
    let store = open(&settings(0, &[dir.path()])).await;
    for index in 0..50 {
        let key = key(index, index);
        store.insert(key, content(&key, CHUNK), Admit::Disk);
    }
    exchange(&store, &[]).await;
    exchange(&store, &[dir.path()]).await;
    assert_eq!(sound(&store, 50).await, 50);
}

#[tokio::test]
async fn a_chunk_in_memory_moves_to_the_disk_that_is_left() {
    let (a, b) = (TempDir::new().expect("one"), TempDir::new().expect("two"));
    let store = open(&settings(4 << 20, &[a.path(), b.path()])).await;
    for index in 0..100 {
        let key = key(index, index);
        store.insert(key, content(&key, CHUNK), Admit::MemoryAndDisk);
    }
    eventually("written", || store.queued() == 0).await;
    exchange(&store, &[b.path()]).await;
    assert_eq!(sound(&store, 100).await, 100, "memory has them");
    empty_memory(&store, &settings(0, &[b.path()])).await;
    eventually("written", || store.queued() == 0).await;
    let on_disk = |index: &u32| store.locate(&key(*index, *index)) == Some(Tier::Disk);
    assert_eq!((0..100).filter(on_disk).count(), 100);
}

#[tokio::test]
async fn what_cannot_be_had_changes_nothing() {
    let folders = [(); 3].map(|()| TempDir::new().expect("a directory"));
    let [a, b, c] = folders.each_ref().map(TempDir::path);
    let file = c.join("file");
    std::fs::write(&file, "").expect("written");
    let same = c.join("same");
    std::os::unix::fs::symlink(a, &same).expect("linked");
    let _holder = open(&settings(0, &[c])).await;
    let mut registry = Registry::default();
    let store = Tiers::open(&settings(1 << 20, &[a]), &mut registry).expect("opens");
    let shape = || {
        let report = store.report();
        let disks = report.disks.into_iter();
        let disks: Vec<_> = disks
            .map(|disk| (disk.path, disk.capacity, disk.state))
            .collect();
        (report.memory.capacity, disks)
    };
    eventually("loaded", || shape().1[0].2 == DiskState::Up).await;
    let before = shape();
    let with = |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings(1 << 20, &[a, b]);
        change(&mut settings);
        settings.disks
    };
    for (memory, disks) in [
        (None, settings(0, &[a, b, &file]).disks),
        (None, settings(0, &[a, b, c]).disks),
        (None, settings(0, &[b, &same]).disks),
        (None, settings(0, &[b, a, &same]).disks),
        (None, with(&|settings| settings.disks[0].capacity = 1 << 60)),
        (None, with(&|settings| settings.disks[1].capacity = 1000)),
        (Some(1), settings(0, &[a, b]).disks),
    ] {
        let refused = store.prepare(memory, disks.clone()).await;
        let error = refused.expect_err("it cannot be had");
        assert!(matches!(error, TieringError::Refused(_)), "{disks:?}");
        assert_eq!(shape(), before);
        assert_free(b);
    }
    let has_metrics = || exposition(&registry).contains(&b.display().to_string());
    assert!(!has_metrics());
    // Nor does one that can be had, and is not put in force.
    let prepared = store.prepare(None, settings(0, &[a, b]).disks).await;
    let prepared = prepared.expect("it can be had");
    assert!(has_metrics());
    drop(prepared);
    assert!(!has_metrics());
    assert_eq!(shape(), before);
    assert_free(b);
}
