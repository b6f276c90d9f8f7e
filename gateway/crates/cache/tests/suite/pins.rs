//! Pins outlive the process however it ends; purges release the pinned bytes.

use std::path::Path;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tidegate_cache::{Meta, MetaStore, PinId, Settings, pins::PinError};
use tidegate_plan::{ObjectId, ObjectKey, OriginId};

use crate::meta::fixture::PATIENT;

const ORIGIN: OriginId = OriginId(7);

fn id(key: &str) -> ObjectId {
    ObjectId {
        origin: ORIGIN,
        key: ObjectKey::new(key).expect("a valid key"),
    }
}

fn open(state: &Path) -> Meta {
    let settings = Settings {
        state: Some(state.to_path_buf()),
        state_timeouts: PATIENT,
        ..Settings::default()
    };
    Meta::open(&settings, &mut Registry::default()).expect("opens")
}

fn limits(meta: &Meta) -> Vec<(String, u64)> {
    let pins = meta.pins().into_iter();
    pins.map(|pin| (pin.prefix, pin.limit)).collect()
}

#[tokio::test]
async fn what_was_said_holds_after_an_orderly_end_and_any_other() {
    let dir = TempDir::new().expect("a directory");
    let meta = open(dir.path());
    assert_eq!(meta.pin_of(&id("films/a")), PinId::NONE);
    for (prefix, limit) in [("films/", 100), ("books/", 50), ("films/", 200)] {
        meta.pin(ORIGIN, prefix, limit).await.expect("durable");
    }
    let films = meta.pin_of(&id("films/a"));
    drop(meta);
    let meta = open(dir.path());
    let both = [("books/".to_owned(), 50), ("films/".to_owned(), 200)];
    assert_eq!(limits(&meta), both);
    assert_eq!(meta.pin_of(&id("films/a")), films);
    meta.unpin(ORIGIN, "films/").await.expect("durable");
    let again = meta.unpin(ORIGIN, "films/").await;
    assert_eq!(again, Err(PinError::NoSuch));
    meta.close().await;
    drop(meta);
    let meta = open(dir.path());
    assert_eq!(limits(&meta), both[..1]);
    meta.pin(ORIGIN, "films/", 1).await.expect("durable");
    assert_ne!(
        meta.pin_of(&id("films/a")),
        films,
        "its chunks are nobody's"
    );
}

#[tokio::test]
async fn a_purge_of_a_prefix_begins_the_pins_anew_that_it_touches() {
    let dir = TempDir::new().expect("a directory");
    let meta = open(dir.path());
    meta.pin(ORIGIN, "films/", 100).await.expect("durable");
    let pin = || meta.pin_of(&id("films/a"));
    let first = pin();
    meta.purge_key(&id("films/a")).await.expect("durable");
    meta.purge_prefix(ORIGIN, "books/").await.expect("durable");
    let elsewhere = meta.purge_prefix(OriginId(8), "films/");
    elsewhere.await.expect("durable");
    assert_eq!(pin(), first);
    let mut seen = vec![first];
    for prefix in ["films/new/", "films/", "f", ""] {
        meta.purge_prefix(ORIGIN, prefix).await.expect("durable");
        assert!(!seen.contains(&pin()), "{prefix}");
        seen.push(pin());
    }
    let last = pin();
    drop(meta);
    assert_eq!(open(dir.path()).pin_of(&id("films/a")), last);
}

#[tokio::test]
async fn a_database_that_is_gone_is_begun_anew_with_the_pins_there_are() {
    let dir = TempDir::new().expect("a directory");
    let meta = open(dir.path());
    meta.pin(ORIGIN, "films/", 100).await.expect("durable");
    for entry in std::fs::read_dir(dir.path()).expect("listed") {
        std::fs::remove_file(entry.expect("an entry").path()).expect("deleted");
    }
    let said = meta.pin(ORIGIN, "books/", 50).await;
    assert!(matches!(said, Err(PinError::NotDurable(_))), "{said:?}");
    for _ in 0..3000 {
        if meta.pin(ORIGIN, "notes/", 7).await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(meta);
    let all = [("books/", 50), ("films/", 100), ("notes/", 7)];
    let all = all.map(|(prefix, limit)| (prefix.to_owned(), limit));
    assert_eq!(limits(&open(dir.path())), all);
}
