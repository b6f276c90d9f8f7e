//! What every metadata store must do, and what only one with a database can: survive restarts,
//! damage and unclean stops.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use proptest::prelude::*;
use tempfile::TempDir;
use tidegate::plan::{ETag, ObjectId, ObjectKey, OriginId, Timestamp, Version, VersionId};
use tidegate::store::{Entry, Meta, MetaStore, Record, Settings, StoreError};

const ORIGIN: OriginId = OriginId(7);

fn id(key: &str) -> ObjectId {
    ObjectId {
        origin: ORIGIN,
        key: ObjectKey::new(key).expect("a valid key"),
    }
}

fn version(tag: u64) -> Arc<Version> {
    Arc::new(Version {
        etag: ETag::parse(&format!("\"{tag}\"")).expect("a valid tag"),
        size: 1000 + tag,
        last_modified: Some(Timestamp(5000)),
        version_id: tag.is_multiple_of(2).then(|| format!("v{tag}")),
        headers: vec![(
            HeaderName::from_static("content-type"),
            HeaderValue::from_static("image/jpeg"),
        )],
    })
}

fn record(id: &ObjectId, tag: u64, generation: u64, confirmed: u64) -> Record {
    let version = version(tag);
    Record {
        id: VersionId::new(id, &version, generation),
        version,
        confirmed: Timestamp(confirmed),
        must_confirm: false,
    }
}

/// Puts what the engine would, had it asked the origin just now.
async fn put(store: &dyn MetaStore, key: &str, tag: u64, confirmed: u64) -> Entry {
    let id = id(key);
    let generation = store.generation(&id).await;
    let entry = Entry::Present(Arc::new(record(&id, tag, generation, confirmed)));
    store.put(&id, entry.clone());
    entry
}

fn settings(state: Option<&Path>) -> Settings {
    Settings {
        state: state.map(Path::to_path_buf),
        meta_memory: 4 << 20,
        ..Settings::default()
    }
}

fn open(settings: &Settings) -> Meta {
    Meta::open(settings, &mut Registry::default()).expect("opens")
}

/// What the engine relies on, whichever store it is.
async fn conforms(store: &dyn MetaStore) {
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

/// A purge of something else is durable, and with it all that was put before.
async fn flush(store: &dyn MetaStore) {
    store.purge_key(&id("nothing")).await.expect("durable");
}

async fn must_confirm(store: &dyn MetaStore, key: &str) -> bool {
    match store.load(&id(key)).await {
        Some(Entry::Present(record)) => record.must_confirm,
        other => panic!("{key}: {other:?}"),
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

fn count(registry: &Registry, name: &str) -> u64 {
    let mut text = String::new();
    encode(&mut text, registry).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().parse().ok())
        .unwrap_or_else(|| panic!("{name} in {text}"))
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
        // It is asked for again when the entry is no longer fresh.
        store.put(&id, missing());
    }
    // One that has a row, whether or not that was looked at, and one that came and went since it had none.
    store.put(&id("gone"), missing());
    assert!(store.load(&id("changed")).await.is_some());
    store.put(&id("changed"), missing());
    assert_eq!(store.load(&id("new")).await, None);
    put(&store, "new", 1, 10).await;
    store.put(&id("new"), missing());
    store.close().await;
    // What came and went may have been written in between.
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

/// What is on record of a key, if it is believed.
async fn on_record(store: &dyn MetaStore, key: &str) -> Option<u64> {
    let tag = |record: Arc<Record>| record.version.size - 1000;
    match store.load(&id(key)).await {
        Some(Entry::Present(record)) => Some(tag(record)),
        _ => None,
    }
}

/// The bucket may have carried the change out when nobody heard of it: what is on record counts no more,
/// for this key and for no other.
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

/// What a reader is told while the bucket carries out a change may be the version before it.
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
    // It was refused, and a reader confirms what there was.
    put(&store, "same", 1, 20).await;
    flush(&store).await;
    drop(store);
    let store = open(&settings);
    assert_eq!(on_record(&store, "a").await, Some(2));
    assert_eq!(on_record(&store, "same").await, Some(1));
}

/// Nothing outlives the process: nothing is to be marked.
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

/// Which purges there were is not known any more: chunks on disk count as purged, whatever their version.
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

fn database(dir: &Path) -> PathBuf {
    dir.join("meta-v1.redb")
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

/// As [`flush`], of a store that may have to find its feet first.
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

/// Flips one bit in every fifth page of the file, again and again: each record is right or gone,
/// and the store goes on.
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

#[derive(Debug, Clone)]
enum Op {
    Put(u8, u64),
    /// A put with what was read before the last purge.
    Late(u8),
    Missing(u8),
    Remove(u8),
    PurgeKey(u8),
    PurgePrefix(u8),
    Restart,
    Kill,
}

const KEYS: [&str; 6] = ["a", "a/b", "a/bc", "a/c", "b", "b/x"];
const PREFIXES: [&str; 5] = ["", "a", "a/b", "b/", "z"];

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0..u8::try_from(KEYS.len()).expect("few");
    let prefix = 0..u8::try_from(PREFIXES.len()).expect("few");
    let op = prop_oneof![
        8 => (key.clone(), 0u64..4).prop_map(|(k, tag)| Op::Put(k, tag)),
        2 => key.clone().prop_map(Op::Late),
        1 => key.clone().prop_map(Op::Missing),
        1 => key.clone().prop_map(Op::Remove),
        2 => key.prop_map(Op::PurgeKey),
        2 => prefix.prop_map(Op::PurgePrefix),
        1 => Just(Op::Restart),
        1 => Just(Op::Kill),
    ];
    proptest::collection::vec(op, 1..40)
}

/// What each key has, by the plainest means.
#[derive(Debug, Default)]
struct Model {
    entries: HashMap<&'static str, Entry>,
    generations: HashMap<&'static str, u64>,
    /// That of a key which no purge covers.
    floor: u64,
}

impl Model {
    async fn purged(&mut self, store: &dyn MetaStore, covers: impl Fn(&str) -> bool) {
        for key in KEYS.into_iter().filter(|key| covers(key)) {
            self.entries.remove(key);
            let generation = store.generation(&id(key)).await;
            let before = self.generations.insert(key, generation).unwrap_or(0);
            assert!(generation > before, "{key}");
        }
    }

    /// Negative entries do not outlive the process.
    fn forget_missing(&mut self) {
        self.entries
            .retain(|_, entry| matches!(entry, Entry::Present(_)));
    }

    async fn compare(&self, store: &dyn MetaStore) {
        for key in KEYS {
            let found = store.load(&id(key)).await;
            let expected = self.entries.get(key);
            // Negative entries may be forgotten at any time.
            if found.is_some() || !matches!(expected, Some(Entry::Missing { .. })) {
                assert_eq!(found.as_ref(), expected, "{key}");
            }
            let generation = self.generations.get(key).copied().unwrap_or(self.floor);
            assert_eq!(store.generation(&id(key)).await, generation, "{key}");
        }
    }
}

async fn run(ops: Vec<Op>, front: u64) {
    let dir = TempDir::new().expect("a directory");
    let mut settings = settings(Some(dir.path()));
    settings.meta_memory = front;
    let mut store = open(&settings);
    let mut model = Model {
        floor: store.generation(&id("a")).await,
        ..Model::default()
    };
    let mut confirmed = 0;
    for op in ops {
        confirmed += 400_000;
        match op {
            Op::Put(key, tag) => {
                let key = KEYS[usize::from(key)];
                let entry = put(&store, key, tag, confirmed).await;
                model.entries.insert(key, entry);
            }
            Op::Late(key) => {
                let key = KEYS[usize::from(key)];
                if model.generations.contains_key(key) {
                    let late = record(&id(key), 9, 0, confirmed);
                    store.put(&id(key), Entry::Present(Arc::new(late)));
                }
            }
            Op::Missing(key) => {
                let key = KEYS[usize::from(key)];
                let since = Timestamp(confirmed);
                store.put(&id(key), Entry::Missing { since });
                model.entries.insert(key, Entry::Missing { since });
            }
            Op::Remove(key) => {
                let key = KEYS[usize::from(key)];
                store.remove(&id(key));
                model.entries.remove(key);
            }
            Op::PurgeKey(key) => {
                let key = KEYS[usize::from(key)];
                store.purge_key(&id(key)).await.expect("durable");
                model.purged(&store, |other| other == key).await;
            }
            Op::PurgePrefix(prefix) => {
                let prefix = PREFIXES[usize::from(prefix)];
                store.purge_prefix(ORIGIN, prefix).await.expect("durable");
                model.purged(&store, |key| key.starts_with(prefix)).await;
            }
            Op::Restart => {
                store.close().await;
                drop(store);
                store = open(&settings);
                model.forget_missing();
            }
            Op::Kill => {
                flush(&store).await;
                drop(store);
                store = open(&settings);
                model.forget_missing();
                for entry in model.entries.values_mut() {
                    if let Entry::Present(record) = entry {
                        Arc::make_mut(record).must_confirm = true;
                    }
                }
            }
        }
        model.compare(&store).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_store_does_what_a_simple_model_does(ops in ops(), small: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(run(ops, if small { 1 } else { 4 << 20 }));
    }
}
