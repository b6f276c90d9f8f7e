//! A real engine over a bucket in memory, and routes that lead to it: `/…` is the key.

use std::sync::Arc;

use prometheus_client::registry::Registry;

use crate::place::{FolderPath, Locate, LocatedObject, LocatedPrefix, Place, PlaceError};
use tidegate_cache::{ChunkStore, Entry, MetaStore, Record, Stores, fake::FakeStore};
use tidegate_engine::{Assists, Budget, EncodingTimes, Engine, OpenOptions, Parts, ReadContext};
use tidegate_origin::FakeOrigin;
use tidegate_plan::{
    ByteRange, ETag, Geometry, ObjectKey, OriginId, Profile, RangeSpec, Timestamp, Version,
};

/// The size of a chunk.
pub(crate) const CHUNK: u64 = 4096;

#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    pub(crate) origin: FakeOrigin,
    pub(crate) store: Arc<FakeStore>,
    pub(crate) source: Arc<ReadContext>,
    engine: Engine,
    meta: Arc<dyn MetaStore>,
}

impl Bucket {
    pub(crate) fn new() -> Self {
        let stores = tidegate_cache::open(
            &tidegate_cache::Settings::default(),
            &mut Registry::default(),
        );
        let Stores { meta, .. } = stores.expect("in memory");
        let store = Arc::new(FakeStore::new());
        let origin = FakeOrigin::new();
        let source = Arc::new(ReadContext::new(
            Arc::new(origin.clone()),
            Profile {
                read_ahead: 0,
                ..Profile::web()
            },
        ));
        let engine = engine(store.clone(), meta.clone());
        Self {
            origin,
            store,
            source,
            engine,
            meta,
        }
    }

    /// Makes an object of this size known, without cached bytes.
    pub(crate) async fn remember(&self, key: &str, size: u64) {
        let key = ObjectKey::new(key).expect("a key");
        let id = self.source.object(&key);
        let version = Version {
            etag: ETag::parse("\"large\"").expect("a tag"),
            size,
            last_modified: None,
            version_id: None,
            headers: Vec::new(),
        };
        let record = Record {
            id: self
                .meta
                .address(&id, &version, self.meta.generation(&id).await),
            version: Arc::new(version),
            confirmed: Timestamp::from_secs(1_800_000_000),
            must_confirm: false,
            written: None,
        };
        self.meta.put(&id, Entry::Present(Arc::new(record)));
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine.clone()
    }

    /// Reads a range as a client would.
    pub(crate) async fn read(&self, key: &str, range: ByteRange) {
        let key = ObjectKey::new(key).expect("a key");
        let how = OpenOptions {
            first: Some(RangeSpec::Bounded {
                first: range.start,
                last: range.end - 1,
            }),
            ..OpenOptions::default()
        };
        let object = self.engine.open(&self.source, &key, how).await;
        let mut reader = object.expect("it opens").read_at(range);
        while futures_util::StreamExt::next(&mut reader).await.is_some() {}
    }
}

fn engine(chunks: Arc<dyn ChunkStore>, meta: Arc<dyn MetaStore>) -> Engine {
    Engine::new(Parts {
        assists: Assists::default(),
        encoding: EncodingTimes::default(),
        chunks,
        meta,
        geometry: Geometry::new(CHUNK).expect("a power of two"),
        budget: Budget::new(64 << 20),
        clock: Arc::new(|| Timestamp::from_secs(1_800_000_000)),
        runtime: None,
        origins: Vec::new(),
    })
}

impl Locate for Bucket {
    fn objects(&self, place: &Place) -> Result<Vec<LocatedObject>, PlaceError> {
        if place.host.as_deref() == Some("nowhere") {
            return Err(PlaceError::NoRoute);
        }
        let key = ObjectKey::from_path("", &place.path[1..]);
        Ok(vec![LocatedObject {
            host: place.host.clone(),
            origin: "media".to_owned(),
            source: self.source.clone(),
            key: key.map_err(|error| PlaceError::BadPath(error.to_string()))?,
            siblings: Vec::new(),
        }])
    }

    fn below(&self, place: &Place) -> Result<LocatedPrefix, PlaceError> {
        if place.host.as_deref() == Some("nowhere") {
            return Err(PlaceError::NoRoute);
        }
        Ok(LocatedPrefix {
            origin: "media".to_owned(),
            source: self.source.clone(),
            prefix: place.path[1..].to_owned(),
            route: 0,
            host: place.host.clone(),
        })
    }

    fn beginning(&self, place: &Place) -> Result<Vec<LocatedPrefix>, PlaceError> {
        Ok(vec![self.below(place)?])
    }

    fn path(&self, _: &LocatedPrefix, key: &str) -> Option<String> {
        (!key.contains("..")).then(|| format!("/{}", key.replace(' ', "%20")))
    }

    fn folder_path(&self, below: &LocatedPrefix, prefix: &str) -> Option<FolderPath> {
        let path = self.path(below, prefix)?;
        Some(FolderPath {
            path,
            governed_by: None,
        })
    }

    fn origin(&self, id: OriginId) -> Option<String> {
        (id == self.source.origin.id()).then(|| "media".to_owned())
    }
}
