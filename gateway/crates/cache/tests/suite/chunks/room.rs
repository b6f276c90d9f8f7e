//! Capacity, free space, and a full queue: what finds no room is refused, and counted.

use std::path::Path;

use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tidegate_cache::{Admit, ChunkStore, Tier, TieringError, Tiers};

use super::{CHUNK, content, eventually, exposition, fill, key, open, settings, sound, written};

#[tokio::test]
async fn capacity_is_kept_and_the_newest_stay() {
    let dir = TempDir::new().expect("a directory");
    let store = open(&settings(0, &[dir.path()])).await;
    fill(&store, 3000).await;
    assert!(written(dir.path()) <= 16 << 20);
    assert!(store.get(&key(2999, 2999), CHUNK).await.is_some());
    assert_eq!(store.get(&key(0, 0), CHUNK).await, None);
}

#[tokio::test]
async fn a_smaller_capacity_gives_its_space_back_and_keeps_the_rest() {
    let dir = TempDir::new().expect("a directory");
    let mut settings = settings(0, &[dir.path()]);
    settings.disks[0].capacity = 24 << 20;
    let store = open(&settings).await;
    fill(&store, 1000).await;
    assert!(written(dir.path()) > 15 << 20);
    store.close().await;
    drop(store);
    settings.disks[0].capacity = 8 << 20;
    let store = open(&settings).await;
    eventually("evicted", || written(dir.path()) <= 8 << 20).await;
    let left = sound(&store, 1000).await;
    assert!(left > 300, "{left}");

    let resize = async |capacity| {
        let mut disks = settings.disks.clone();
        disks[0].capacity = capacity;
        let prepared = store.prepare(None, disks).await?;
        store.apply(prepared).await.expect("they are in force");
        Ok::<_, TieringError>(())
    };
    resize(4 << 20).await.expect("large enough");
    eventually("evicted", || written(dir.path()) <= 4 << 20).await;
    for impossible in [1000, 1 << 60] {
        let why = resize(impossible).await;
        assert!(matches!(why, Err(TieringError::Refused(_))), "{why:?}");
    }
    let nowhere = Path::new("/nowhere");
    let why = store.switch_off(nowhere).await;
    assert_eq!(why, Err(TieringError::NoDisk(nowhere.to_owned())));
    assert_eq!(store.report().disks[0].capacity, 4 << 20);
    assert!(sound(&store, 1000).await > 100);
}

#[tokio::test]
async fn too_little_free_space_refuses_and_is_counted() {
    let dir = TempDir::new().expect("a directory");
    let mut full = settings(1 << 20, &[dir.path()]);
    let stat = rustix::fs::statvfs(dir.path()).expect("mounted");
    full.disks[0].min_free = stat.f_blocks * stat.f_frsize - (17 << 20);
    let mut registry = Registry::default();
    let store = Tiers::open(&full, &mut registry).expect("opens");
    store.loaded().await;
    let k = key(1, 1);
    store.insert(k, content(&k, CHUNK), Admit::MemoryAndDisk);
    assert_eq!(store.locate(&k), Some(Tier::Memory));
    let text = exposition(&registry);
    assert!(refusals(&text, "full", dir.path()) == 1, "{text}");
}

#[tokio::test]
async fn what_the_queue_cannot_take_is_refused_and_the_rest_is_there() {
    let dir = TempDir::new().expect("a directory");
    let mut settings = settings(0, &[dir.path()]);
    settings.disks[0].write_queue = 200 << 10;
    settings.disks[0].capacity = 64 << 20;
    let mut registry = Registry::default();
    let store = Tiers::open(&settings, &mut registry).expect("opens");
    store.loaded().await;
    for index in 0..1000 {
        let k = key(index, index);
        store.insert(k, content(&k, CHUNK), Admit::Disk);
    }
    eventually("the queue drains", || store.queued() == 0).await;
    let held = sound(&store, 1000).await;
    let text = exposition(&registry);
    assert!(held >= 10, "{held}");
    assert_eq!(held + refusals(&text, "queue", dir.path()), 1000, "{text}");
}

fn refusals(text: &str, reason: &str, dir: &Path) -> usize {
    let line = format!(
        "store_refusals_total{{disk=\"{}\",reason=\"{reason}\"}} ",
        dir.display()
    );
    text.lines()
        .find_map(|l| l.strip_prefix(&line))
        .map_or(0, |count| count.parse().expect("a number"))
}
