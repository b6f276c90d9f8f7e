//! An engine on a fake bucket and fake stores, with a clock that the test controls.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tidegate_cache::fake::FakeStore;
use tidegate_engine::{
    Assists, Budget, Clock, EncodingTimes, Engine, Error, Object, OpenOptions, Parts, ReadContext,
    Reader,
};
use tidegate_engine::{PurgeKind, Scope};
use tidegate_origin::fake::Fault;
use tidegate_origin::{FakeOrigin, Metrics, Origin, Settings, stack};
use tidegate_plan::{ByteRange, Geometry, ObjectKey, Profile, RangeSpec, Timestamp};
use tokio::time::Instant;

#[path = "meta.rs"]
mod meta;

use meta::MapMeta;

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const CHUNK: u64 = 256 * KIB;

/// The name of the object in tests that need only one.
pub(crate) const KEY: &str = "folder/object";

/// An engine, and everything around it.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) bucket: FakeOrigin,
    pub(crate) store: Arc<FakeStore>,
    pub(crate) engine: Engine,
    pub(crate) source: Arc<ReadContext>,
    pub(crate) meta: Arc<MapMeta>,
    setup: Setup,
}

/// The options that differ between tests.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) bucket: FakeOrigin,
    pub(crate) profile: Profile,
    pub(crate) chunk: u64,
    pub(crate) budget: u64,
    /// Deadlines, retries and limits; by default those of an origin.
    pub(crate) origin: Settings,
    /// The identities under which the bucket is seen; if empty, they are not known.
    pub(crate) identities: Vec<&'static str>,
    /// The decorators of fetches.
    pub(crate) assists: Assists,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            bucket: FakeOrigin::new(),
            profile: Profile::web(),
            chunk: CHUNK,
            budget: 256 * MIB,
            origin: Settings::new("fake", "fake"),
            identities: Vec::new(),
            assists: Assists::default(),
        }
    }
}

impl Setup {
    pub(crate) fn profile(change: impl FnOnce(&mut Profile)) -> Self {
        let mut setup = Self::default();
        change(&mut setup.profile);
        setup
    }

    pub(crate) fn bucket(bucket: FakeOrigin) -> Self {
        Self {
            bucket,
            ..Self::default()
        }
    }

    fn source(&self, bucket: FakeOrigin) -> ReadContext {
        ReadContext::new(
            stack(Arc::new(bucket), &self.origin, &Metrics::default()),
            self.profile.clone(),
        )
    }

    pub(crate) fn build(self) -> World {
        World::new(self)
    }
}

impl World {
    /// Builds a healthy bucket, the profile `web`, and the default sizes.
    pub(crate) fn plain() -> Self {
        Setup::default().build()
    }

    fn new(setup: Setup) -> Self {
        let source = setup.source(setup.bucket.clone());
        let (store, meta) = (Arc::new(FakeStore::new()), Arc::new(MapMeta::default()));
        let engine = engine(&setup, &store, &meta, clock());
        Self {
            bucket: setup.bucket.clone(),
            store,
            engine,
            source: Arc::new(source),
            meta,
            setup,
        }
    }

    /// Returns the bucket as an access of this name sees it.
    pub(crate) fn seen_by(&self, identity: &'static str) -> Arc<ReadContext> {
        Arc::new(self.setup.source(self.bucket.seen_by(identity)))
    }

    /// Starts another engine on the same stores, as after a restart without time for further
    /// writes: memory is empty, the disk keeps its chunks.
    pub(crate) fn restart(&mut self, clock: Clock) {
        self.meta.restart();
        self.store.evict_memory();
        self.engine = engine(&self.setup, &self.store, &self.meta, clock);
    }

    pub(crate) async fn open(&self, key: &str, how: OpenOptions) -> Result<Object, Error> {
        self.engine.open(&self.source, &valid(key), how).await
    }

    /// Opens as a plain GET does.
    pub(crate) async fn get(&self, key: &str) -> Result<Object, Error> {
        self.open(key, first(RangeSpec::From(0))).await
    }

    /// Reads the whole object as a GET does; returns its bytes, or the error that ended them.
    pub(crate) async fn read(&self, key: &str) -> Result<Bytes, Error> {
        whole(&self.get(key).await?).await
    }

    /// Reads a range as a GET does; returns the bytes of the resolved range.
    pub(crate) async fn range(&self, key: &str, spec: RangeSpec) -> Result<Bytes, Error> {
        let object = self.open(key, first(spec)).await?;
        let range = spec.resolve(object.version().size).expect("within");
        collect(object.read_at(range)).await
    }

    pub(crate) async fn purge(&self, key: &str) {
        let purged = self.engine.purge_key(&self.source, &valid(key)).await;
        purged.expect("a map does not fail");
    }

    pub(crate) async fn purge_prefix(&self, prefix: &str) {
        let purged = self.engine.purge_prefix(&self.source, prefix).await;
        purged.expect("a map does not fail");
    }

    pub(crate) async fn soften(&self, key: &str) {
        self.purge_by(Scope::Key(valid(key)), PurgeKind::Soft).await;
    }

    /// Purges, and returns whether anything was known of the key.
    pub(crate) async fn purge_by(&self, target: Scope, kind: PurgeKind) -> bool {
        let purged = self.engine.purge(&self.source, &target, kind).await;
        purged.expect("a map does not fail")
    }

    pub(crate) fn used(&self) -> u64 {
        self.engine.budget().used()
    }

    /// Returns the number of GETs and HEADs that the bucket got.
    pub(crate) fn asked(&self) -> (u64, u64) {
        (self.bucket.gets(), self.bucket.heads())
    }
}

fn engine(setup: &Setup, store: &Arc<FakeStore>, meta: &Arc<MapMeta>, clock: Clock) -> Engine {
    let named = |name: &&'static str| {
        let origin: Arc<dyn Origin> = Arc::new(setup.bucket.seen_by(name));
        ((*name).to_owned(), origin)
    };
    Engine::new(Parts {
        assists: setup.assists,
        encoding: EncodingTimes::default(),
        runtime: None,
        chunks: store.clone(),
        meta: meta.clone(),
        geometry: Geometry::new(setup.chunk).expect("a power of two"),
        budget: Budget::new(setup.budget),
        clock,
        origins: setup.identities.iter().map(named).collect(),
    })
}

/// Returns a wall clock that follows tokio's, so that a test controls it under paused time.
pub(crate) fn clock() -> Clock {
    let start = Instant::now();
    Arc::new(move || Timestamp::from_secs(1_700_000_000).plus(start.elapsed()))
}

pub(crate) fn valid(key: &str) -> ObjectKey {
    ObjectKey::new(key).expect("a valid key")
}

pub(crate) fn first(spec: RangeSpec) -> OpenOptions {
    OpenOptions {
        first: Some(spec),
        ..OpenOptions::default()
    }
}

/// Returns bytes that identify their place and their version.
pub(crate) fn sample(version: u64, length: u64) -> Bytes {
    let mut state = version.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(usize::try_from(length).expect("fits into memory"));
    bytes.into()
}

pub(crate) fn slice(bytes: &Bytes, range: ByteRange) -> Bytes {
    let at = |offset: u64| usize::try_from(offset).expect("fits into memory");
    bytes.slice(at(range.start)..at(range.end))
}

pub(crate) fn all(object: &Object) -> ByteRange {
    ByteRange::new(0, object.version().size)
}

pub(crate) async fn whole(object: &Object) -> Result<Bytes, Error> {
    collect(object.read_at(all(object))).await
}

/// Returns all bytes of a reader, or the error that ended them.
pub(crate) async fn collect(mut reader: Reader) -> Result<Bytes, Error> {
    let (announced, mut bytes) = (reader.remaining(), Vec::new());
    while let Some(piece) = reader.next().await {
        bytes.extend_from_slice(&piece?);
    }
    assert_eq!(bytes.len() as u64, announced, "what was announced");
    Ok(bytes.into())
}

/// Reads at least `least` bytes, and returns them.
pub(crate) async fn take(reader: &mut Reader, least: u64) -> Bytes {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < least {
        let piece = reader.next().await.expect("more bytes");
        bytes.extend_from_slice(&piece.expect("no error"));
    }
    bytes.into()
}

/// Lets all other tasks go on as far as they can; under paused time this costs nothing.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Compares bytes without printing megabytes.
#[track_caller]
pub(crate) fn same(got: &Bytes, wanted: &Bytes) {
    if got != wanted {
        let differ = got.iter().zip(wanted).position(|(a, b)| a != b);
        let lengths = (got.len(), wanted.len());
        panic!("lengths {lengths:?}, first difference at {differ:?}");
    }
}

/// Returns all bytes of a reader up to its end, with the error that ended them, if any.
pub(crate) async fn collect_until_error(reader: &mut Reader) -> (Vec<u8>, Option<Error>) {
    let mut bytes = Vec::new();
    while let Some(piece) = reader.next().await {
        match piece {
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(error) => return (bytes, Some(error)),
        }
    }
    (bytes, None)
}

/// Builds the profile `stream` on a bucket 20 ms away, with `rate` bytes a second on each
/// connection.
pub(crate) fn far(size: u64, rate: u64, change: impl FnOnce(&mut Setup)) -> (World, Bytes) {
    let mut setup = Setup {
        profile: Profile::stream(),
        ..Setup::default()
    };
    change(&mut setup);
    let world = setup.build();
    let bytes = sample(1, size);
    world.bucket.put(KEY, bytes.clone());
    world
        .bucket
        .set_faults([Fault::Latency(Duration::from_millis(20)), Fault::Rate(rate)]);
    (world, bytes)
}
