//! The duties of every chunk store, and those of a store with disks: it survives restarts and
//! damage.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tidegate_cache::tiering::DiskState;
use tidegate_cache::{
    Admit, ChunkKey, ChunkStore, DiskSettings, Settings, StoreError, Tier, Tiers,
};
use tidegate_plan::{Geometry, VersionId};

mod contract;
mod damage;
mod disks;
mod room;

const CHUNK: usize = 16 << 10;

fn key(object: u32, index: u32) -> ChunkKey {
    let hash = u128::from(u64::from(object).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    ChunkKey {
        version: VersionId(hash << 64 | u128::from(object)),
        index,
    }
}

/// Returns bytes that no other chunk has.
fn content(key: &ChunkKey, len: usize) -> Bytes {
    let mut state = ((key.version.0 >> 64) as u64) ^ (u64::from(key.index) << 32) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes.into()
}

fn settings(memory: u64, disks: &[&Path]) -> Settings {
    Settings {
        memory,
        geometry: Geometry::new(CHUNK as u64).expect("a power of two"),
        disks: disks
            .iter()
            .map(|path| DiskSettings {
                min_free: 0,
                // Reads on a slow machine never count as late.
                late: Duration::from_secs(600),
                ..DiskSettings::new(*path, 16 << 20)
            })
            .collect(),
        ..Settings::default()
    }
}

async fn open(settings: &Settings) -> Tiers {
    let tiers = Tiers::open(settings, &mut Registry::default()).expect("opens");
    tiers.loaded().await;
    tiers
}

/// Takes all room from the memory tier of a store with the disks of `settings`.
async fn empty_memory(store: &Tiers, settings: &Settings) {
    let prepared = store.prepare(Some(0), settings.disks.clone()).await;
    store
        .apply(prepared.expect("empty"))
        .await
        .expect("in force");
}

/// Polls until `done` reports that the background work has come so far.
async fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

/// Puts chunks `0..count` on disk, in steps that fit the write queue.
async fn fill(store: &Tiers, count: u32) {
    for index in 0..count {
        store.insert(
            key(index, index),
            content(&key(index, index), CHUNK),
            Admit::Disk,
        );
        if index % 64 == 63 || index + 1 == count {
            eventually("the queue drains", || store.queued() == 0).await;
        }
    }
}

/// Reads chunks `0..count`: none may be wrong. Returns how many it found.
async fn sound(store: &Tiers, count: u32) -> usize {
    let mut sound = 0;
    for index in 0..count {
        let k = key(index, index);
        if let Some((bytes, _)) = store.get(&k, CHUNK).await {
            assert_eq!(bytes, content(&k, CHUNK), "{index}");
            sound += 1;
        }
    }
    sound
}

fn log_files(dir: &Path) -> Vec<PathBuf> {
    let entries = |dir: &Path| fs::read_dir(dir).expect("there").flatten();
    let mut files: Vec<_> = entries(dir)
        .filter(|entry| entry.path().is_dir())
        .flat_map(|entry| entries(&entry.path()))
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
}

fn written(dir: &Path) -> u64 {
    // A file may vanish between the listing and the look.
    let blocks = |path: &PathBuf| fs::metadata(path).map_or(0, |meta| meta.blocks() * 512);
    log_files(dir).iter().map(blocks).sum()
}

#[tokio::test]
async fn a_restart_loses_nothing_and_a_closed_store_takes_nothing() {
    let (a, b) = (TempDir::new().expect("one"), TempDir::new().expect("two"));
    let settings = settings(4 << 20, &[a.path(), b.path()]);
    let store = open(&settings).await;
    fill(&store, 400).await;
    // These inserts are not waited for: the close writes queued chunks.
    for index in 400..450 {
        let k = key(index, index);
        store.insert(k, content(&k, CHUNK), Admit::Disk);
    }
    store.close().await;
    store.insert(key(9999, 0), content(&key(9999, 0), CHUNK), Admit::Disk);
    drop(store);

    let store = open(&settings).await;
    assert_eq!(sound(&store, 450).await, 450);
    assert_eq!(store.locate(&key(9999, 0)), None);
    for dir in [a.path(), b.path()] {
        assert!(written(dir) > 2 << 20, "each disk holds its share");
    }
}

#[tokio::test]
async fn what_was_written_survives_a_stop_without_closing() {
    let dir = TempDir::new().expect("a directory");
    let settings = settings(0, &[dir.path()]);
    let store = open(&settings).await;
    fill(&store, 300).await;
    drop(store);
    // A writer that the disk delays keeps the folder until it is done.
    let mut store = None;
    eventually("nobody has the folder", || {
        store = match Tiers::open(&settings, &mut Registry::default()) {
            Err(StoreError::InUse { .. }) => None,
            opened => Some(opened.expect("opens")),
        };
        store.is_some()
    })
    .await;
    let store = store.expect("opened");
    store.loaded().await;
    assert_eq!(sound(&store, 300).await, 300);
}

#[tokio::test]
async fn a_disk_is_switched_off_and_on_and_keeps_what_it_holds() {
    let dir = TempDir::new().expect("a directory");
    let settings = settings(1 << 20, &[dir.path()]);
    let store = open(&settings).await;
    fill(&store, 50).await;
    store.switch_off(dir.path()).await.expect("off");
    assert_eq!(store.locate(&key(1, 1)), None);
    assert_eq!(sound(&store, 50).await, 0);
    assert!(store.notes()[0].contains("switched off"));
    let off = &store.report().disks[0];
    assert_eq!((off.state, off.content), (DiskState::Off, None));
    let other = Tiers::open(&settings, &mut Registry::default()).expect("it is free");
    drop(other);
    let late = key(1000, 0);
    store.insert(late, content(&late, CHUNK), Admit::MemoryAndDisk);

    store.switch_on(dir.path()).expect("on");
    store.switch_on(dir.path()).expect("is on");
    store.loaded().await;
    let on = &store.report().disks[0];
    assert_eq!(on.state, DiskState::Up);
    assert!(
        on.content
            .is_some_and(|content| content.chunks > 0 && content.used > 0)
    );
    assert!(store.notes().is_empty());
    assert_eq!(sound(&store, 50).await, 50);
    assert!(
        store.get_memory(&late).is_some(),
        "used, and so offered again"
    );
    eventually("written", || store.queued() == 0).await;
    store.switch_off(dir.path()).await.expect("off");
    store.switch_on(dir.path()).expect("on");
    store.loaded().await;
    empty_memory(&store, &settings).await;
    assert_eq!(store.locate(&late), Some(Tier::Disk));
}

#[tokio::test]
async fn what_is_used_again_in_memory_goes_to_disk() {
    let dir = TempDir::new().expect("a directory");
    let store = open(&settings(1 << 20, &[dir.path()])).await;
    let (once, twice, never) = (key(1, 0), key(1, 1), key(1, 2));
    for (k, admit) in [
        (once, Admit::MemoryFirst),
        (twice, Admit::MemoryFirst),
        (never, Admit::Memory),
    ] {
        store.insert(k, content(&k, CHUNK), admit);
    }
    for _ in 0..3 {
        assert!(store.get_memory(&twice).is_some() && store.get_memory(&never).is_some());
    }
    empty_memory(&store, &settings(0, &[dir.path()])).await;
    assert_eq!(store.locate(&twice), Some(Tier::Disk));
    assert_eq!((store.locate(&once), store.locate(&never)), (None, None));
}

#[tokio::test]
async fn one_directory_is_for_one_process_and_one_disk() {
    let dir = TempDir::new().expect("a directory");
    let one = settings(0, &[dir.path()]);
    let store = open(&one).await;
    let second = Tiers::open(&one, &mut Registry::default()).expect_err("locked");
    let StoreError::InUse { path, holder } = &second else {
        panic!("{second}");
    };
    assert_eq!(path, dir.path());
    assert_eq!(*holder, Some(std::process::id()));
    drop(store);

    let twice = settings(0, &[dir.path(), &dir.path().join(".")]);
    let error = Tiers::open(&twice, &mut Registry::default()).expect_err("twice");
    assert!(matches!(error, StoreError::Twice(_)), "{error}");
}

#[test]
fn what_cannot_be_is_said_at_once() {
    let dir = TempDir::new().expect("a directory");
    let mut impossible = settings(0, &[dir.path()]);
    impossible.disks[0].capacity = 1 << 60;
    let error = Tiers::open(&impossible, &mut Registry::default()).expect_err("too large");
    assert!(matches!(error, StoreError::TooLarge { .. }), "{error}");

    impossible.disks[0].capacity = 100 << 10;
    let error = Tiers::open(&impossible, &mut Registry::default()).expect_err("too small");
    assert!(matches!(error, StoreError::TooSmall { .. }), "{error}");

    let file = dir.path().join("file");
    fs::write(&file, b"").expect("written");
    let error = Tiers::open(&settings(0, &[&file]), &mut Registry::default()).expect_err("a file");
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
}

#[tokio::test]
async fn every_disk_says_how_it_is() {
    let (a, b) = (TempDir::new().expect("one"), TempDir::new().expect("two"));
    let mut registry = Registry::default();
    let both = settings(4 << 20, &[a.path(), b.path()]);
    let store = Tiers::open(&both, &mut registry).expect("opens");
    store.loaded().await;
    fill(&store, 64).await;
    let text = exposition(&registry);
    let types: Vec<_> = text.lines().filter(|l| l.starts_with("# TYPE")).collect();
    let mut once = types.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(types.len(), once.len(), "{text}");
    for dir in [a.path(), b.path()] {
        let up = format!(
            "store_disk_state{{disk=\"{}\",state=\"up\"}} 1",
            dir.display()
        );
        assert!(text.contains(&up), "{text}");
    }
    for index in 0..64 {
        let estimate = store
            .disk_estimate(&key(index, index), CHUNK)
            .map(|it| it.takes);
        assert_eq!(estimate, Some(Duration::ZERO), "nothing was read yet");
    }
    assert_eq!((store.disk_rate(), store.notes()), (None, vec![]));
    assert_eq!(sound(&store, 64).await, 64);
    assert!(store.disk_rate().is_some_and(|rate| rate > 0.0));
    assert!(
        store
            .disk_estimate(&key(1, 1), CHUNK)
            .is_some_and(|it| it.takes > Duration::ZERO)
    );
}

fn exposition(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("text");
    text
}
