//! Keys, versions and stores for tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tidegate_cache::{Entry, Meta, MetaStore, Record, Settings, StateTimeouts};
use tidegate_plan::tags::{DEFAULT_TAGS_HEADER, Tag};
use tidegate_plan::{ETag, ObjectId, ObjectKey, OriginId, Timestamp, Version, VersionId};

pub(crate) const ORIGIN: OriginId = OriginId(7);

pub(crate) fn id(key: &str) -> ObjectId {
    ObjectId {
        origin: ORIGIN,
        key: ObjectKey::new(key).expect("a valid key"),
    }
}

pub(crate) fn version(tag: u64) -> Arc<Version> {
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

pub(crate) fn record(id: &ObjectId, tag: u64, generation: u64, confirmed: u64) -> Record {
    let version = version(tag);
    Record {
        id: VersionId::new(id, &version, generation),
        version,
        confirmed: Timestamp(confirmed),
        must_confirm: false,
        written: None,
    }
}

/// Puts the entry that the engine would put after an answer of the origin.
pub(crate) async fn put(store: &dyn MetaStore, key: &str, tag: u64, confirmed: u64) -> Entry {
    let id = id(key);
    let generation = store.generation(&id).await;
    let entry = Entry::Present(Arc::new(record(&id, tag, generation, confirmed)));
    store.put(&id, entry.clone());
    entry
}

pub(crate) fn tag(tag: &str) -> Tag {
    Tag::new(tag).expect("a tag")
}

/// Puts a version with tags, as the engine would after an answer of the origin.
pub(crate) async fn put_tagged(
    store: &dyn MetaStore,
    key: &str,
    (number, tags): (u64, &str),
    confirmed: u64,
) -> Record {
    let id = id(key);
    let mut version = Version::clone(&version(number));
    let header = HeaderName::from_static(DEFAULT_TAGS_HEADER);
    let tags = HeaderValue::from_str(tags).expect("a value");
    version.headers.push((header, tags));
    let generation = store.generation(&id).await;
    let record = Record {
        id: store.address(&id, &version, generation),
        version: Arc::new(version),
        confirmed: Timestamp(confirmed),
        must_confirm: false,
        written: None,
    };
    store.put(&id, Entry::Present(Arc::new(record.clone())));
    record
}

/// Waits so long that no disk of a slow machine is late.
pub(crate) const PATIENT: StateTimeouts = StateTimeouts {
    read: Duration::from_secs(600),
    write: Duration::from_secs(600),
};

pub(crate) fn settings(state: Option<&Path>) -> Settings {
    Settings {
        state: state.map(Path::to_path_buf),
        state_timeouts: PATIENT,
        meta_memory: 4 << 20,
        ..Settings::default()
    }
}

pub(crate) fn open(settings: &Settings) -> Meta {
    Meta::open(settings, &mut Registry::default()).expect("opens")
}

/// Purges another key durably, and with it makes all earlier puts durable.
pub(crate) async fn flush(store: &dyn MetaStore) {
    store.purge_key(&id("nothing")).await.expect("durable");
}

pub(crate) async fn must_confirm(store: &dyn MetaStore, key: &str) -> bool {
    match store.load(&id(key)).await {
        Some(Entry::Present(record)) => record.must_confirm,
        other => panic!("{key}: {other:?}"),
    }
}

pub(crate) fn count(registry: &Registry, name: &str) -> u64 {
    let mut text = String::new();
    encode(&mut text, registry).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().parse().ok())
        .unwrap_or_else(|| panic!("{name} in {text}"))
}

pub(crate) fn database(dir: &Path) -> PathBuf {
    dir.join("meta-v1.redb")
}
