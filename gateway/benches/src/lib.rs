//! A hot object, shared by the benches.
//!
//! The engine and its stores are the real ones, in memory. Only the bucket behind them is a fake,
//! and it gets one request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use prometheus_client::registry::Registry;
use tidegate_cache::{Stores, Tier};
use tidegate_engine::{
    Assists, Budget, Coverage, EncodingTimes, Engine, Error, Object, OpenOptions, Parts,
    ReadContext,
};
use tidegate_origin::FakeOrigin;
use tidegate_plan::{ByteRange, Geometry, ObjectKey, Profile, RangeSpec, Timestamp};

/// Size of the object: a photograph on a web page.
pub const SIZE: usize = 35 << 10;

/// Name of the object, as long as a typical one.
pub const KEY: &str = "2026/11/a-photograph-768x512.jpg";

/// The time at which the clock stands.
const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// Size of a chunk, as by default.
const CHUNK: u64 = 256 << 10;

/// An engine that holds the object in memory.
#[derive(Debug)]
pub struct Hot {
    /// The bucket, which got one request.
    pub origin: FakeOrigin,
    /// The engine.
    pub engine: Engine,
    /// The bucket and the profile `web`, as the engine knows them.
    pub source: Arc<ReadContext>,
    /// The object's name.
    pub key: ObjectKey,
}

impl Hot {
    /// Fetches the object and waits until memory holds it. The clock stands still, so that a fresh
    /// object stays fresh.
    ///
    /// # Panics
    /// If anything fails, which only a mistake can cause.
    pub async fn start() -> Self {
        let origin = FakeOrigin::new();
        let headers = [("content-type", "image/jpeg")];
        origin.put_with(KEY, vec![b'x'; SIZE], &headers);
        let geometry = Geometry::new(CHUNK).expect("a power of two");
        let settings = tidegate_cache::Settings {
            geometry,
            memory: 64 << 20,
            ..tidegate_cache::Settings::default()
        };
        let opened = tidegate_cache::open(&settings, &mut Registry::default());
        let Stores { chunks, meta, .. } = opened.expect("stores in memory");
        let engine = Engine::new(Parts {
            assists: Assists::default(),
            encoding: EncodingTimes::default(),
            runtime: None,
            chunks,
            meta,
            geometry,
            budget: Budget::new(64 << 20),
            clock: Arc::new(|| NOW),
            origins: Vec::new(),
        });
        let source = ReadContext::new(Arc::new(origin.clone()), Profile::web());
        let hot = Self {
            origin,
            engine,
            source: Arc::new(source),
            key: ObjectKey::new(KEY).expect("a key"),
        };
        hot.read().await.expect("the first read");
        let object = hot.open().await.expect("known by now");
        while object.locate(whole()) != Coverage::All(Tier::Memory) {
            // The wait sleeps: a busy loop would add to the counted instructions for as long as
            // others take.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(hot.origin.gets(), 1);
        hot
    }

    /// Opens the object as a GET does.
    ///
    /// # Errors
    /// None, while the object is hot.
    pub async fn open(&self) -> Result<Object, Error> {
        let how = OpenOptions {
            first: Some(RangeSpec::From(0)),
            ..OpenOptions::default()
        };
        self.engine.open(&self.source, &self.key, how).await
    }

    /// Opens the object and takes all of its bytes.
    ///
    /// # Errors
    /// None, while the object is hot.
    pub async fn read(&self) -> Result<Vec<Bytes>, Error> {
        self.open().await?.read_at(whole()).try_collect().await
    }
}

fn whole() -> ByteRange {
    ByteRange::new(0, SIZE as u64)
}
