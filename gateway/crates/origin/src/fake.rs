//! An origin in memory with faults on demand, for tests of layers above an origin.
//!
//! It behaves as S3 does (conditions before ranges, 416 for every range of an empty object, versions if they are
//! switched on). It counts and records its requests, and misbehaves on demand: see [`Fault`]. Its answers are
//! unchecked; wrap it in `checked` if that matters.

mod body;
mod fault;
mod page;
mod upload;
mod without_bytes;
mod write;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use bytes::Bytes;
use futures_core::future::BoxFuture;

use self::body::{FakeBody, RunningRequest};
pub use self::fault::Fault;
use super::{
    Answer, Condition, Content, Get, List, Listing, Origin, OriginError, OriginWrite, Write,
    WriteOutcome,
};
use tidegate_plan::{ByteRange, ObjectKey, OriginId, Timestamp, Version};
use tidegate_telemetry::locks::Recover as _;

/// A bucket in memory. Clones are the same bucket.
#[derive(Debug, Clone, Default)]
pub struct FakeOrigin(Arc<FakeBucket>, Option<&'static str>);

#[derive(Debug, Default)]
struct FakeBucket {
    state: Mutex<FakeBucketState>,
    counts: RequestCounts,
}

#[derive(Debug, Default, Clone)]
struct FakeBucketState {
    objects: BTreeMap<ObjectKey, Vec<StoredVersion>>,
    /// Whether replaced versions stay reachable by their id.
    versions: bool,
    /// The bytes in a frame of a body; 0 stands for the default.
    frame: usize,
    /// The most keys of a page; 0 stands for those of the request.
    page_keys: u16,
    /// The empty pages before the first one of each listing.
    empty_pages: u64,
    /// Whether removed objects count as keys of the folders that a listing shows.
    remnants: bool,
    /// The number of writes so far: the clock of `Last-Modified` and the source of version ids.
    writes: u64,
    standing: Vec<Fault>,
    queued: VecDeque<Vec<Fault>>,
    turn: Option<FaultTurn>,
    log: Vec<Get>,
    listed: Vec<List>,
    uploads: BTreeMap<String, upload::FakeUpload>,
    /// The number of uploads begun so far: the source of their ids.
    begun: u64,
    min_part: Option<u64>,
    equal_parts: bool,
    hidden_tags: bool,
    writes_log: Vec<&'static str>,
}

/// Faults that begin with a write of a kind.
#[derive(Debug, Clone)]
struct FaultTurn {
    kind: &'static str,
    first: Vec<Fault>,
    then: Vec<Fault>,
}

/// One version of an object; without bytes, a delete marker.
#[derive(Debug, Clone)]
struct StoredVersion {
    version: Arc<Version>,
    bytes: Option<Bytes>,
}

#[derive(Debug, Default)]
struct RequestCounts {
    gets: AtomicU64,
    heads: AtomicU64,
    lists: AtomicU64,
    probes: AtomicU64,
    bytes: Arc<AtomicU64>,
    arrived: AtomicU64,
    running: Arc<AtomicUsize>,
}

/// The default frame of 64 KiB, about what a connection delivers at a time.
const FRAME_BYTES: usize = 64 << 10;

/// The record of requests.
impl FakeOrigin {
    /// Returns the number of GETs so far.
    #[must_use]
    pub fn gets(&self) -> u64 {
        self.0.counts.gets.load(Ordering::SeqCst)
    }

    /// Returns the number of HEADs so far.
    #[must_use]
    pub fn heads(&self) -> u64 {
        self.0.counts.heads.load(Ordering::SeqCst)
    }

    /// Returns the number of requested pages so far.
    #[must_use]
    pub fn lists(&self) -> u64 {
        self.0.counts.lists.load(Ordering::SeqCst)
    }

    /// Returns every requested page so far, in order.
    #[must_use]
    pub fn listed(&self) -> Vec<List> {
        self.state().listed.clone()
    }

    /// Returns the number of probes so far.
    #[must_use]
    pub fn probes(&self) -> u64 {
        self.0.counts.probes.load(Ordering::SeqCst)
    }

    /// Returns the number of body bytes sent so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.counts.bytes.load(Ordering::SeqCst)
    }

    /// Returns the number of GETs whose answer or body is neither finished nor dropped.
    #[must_use]
    pub fn running(&self) -> usize {
        self.0.counts.running.load(Ordering::SeqCst)
    }

    /// Returns every GET so far, in order.
    #[must_use]
    pub fn log(&self) -> Vec<Get> {
        self.state().log.clone()
    }
}

/// Faults.
impl FakeOrigin {
    /// Gives the next request of any kind these faults instead of the standing ones. Several calls set the faults of
    /// the next several requests, one each.
    pub fn fail_next(&self, faults: impl Into<Vec<Fault>>) {
        self.state().queued.push_back(faults.into());
    }

    /// Cancels the faults of the next requests.
    pub fn forgive(&self) {
        self.state().queued.clear();
    }

    /// Gives every request these faults until others are set; none makes the origin healthy.
    pub fn set_faults(&self, faults: impl Into<Vec<Fault>>) {
        self.state().standing = faults.into();
    }

    /// Gives the next write of a kind (see [`FakeOrigin::writes`]) the faults `first`, and every request from then on
    /// `then`.
    pub fn fail_from(
        &self,
        kind: &'static str,
        first: impl Into<Vec<Fault>>,
        then: impl Into<Vec<Fault>>,
    ) {
        let (first, then) = (first.into(), then.into());
        self.state().turn = Some(FaultTurn { kind, first, then });
    }

    /// Records a write of a kind.
    fn came_in(&self, kind: &'static str) {
        let state = &mut *self.state();
        state.writes_log.push(kind);
        if let Some(turn) = state.turn.take_if(|turn| turn.kind == kind) {
            state.queued.push_front(turn.first);
            state.standing = turn.then;
        }
    }

    /// Applies the delays and refusals of the request that just arrived, and returns all its faults.
    async fn apply(&self) -> Result<Vec<Fault>, OriginError> {
        let faults = {
            let mut state = self.state();
            let queued = state.queued.pop_front();
            queued.unwrap_or_else(|| state.standing.clone())
        };
        for fault in &faults {
            match fault {
                Fault::Latency(time) => tokio::time::sleep(*time).await,
                Fault::Refuse(error) => return Err(error.clone()),
                Fault::Panic => panic!("told to"),
                _ => {}
            }
        }
        Ok(faults)
    }
}

/// The methods that read.
impl FakeOrigin {
    /// Returns another bucket with the present contents of this one, and healthy.
    #[must_use]
    pub fn copied(&self) -> Self {
        let mut state = self.state().clone();
        state.standing.clear();
        state.queued.clear();
        state.turn = None;
        let bucket = FakeBucket {
            state: Mutex::new(state),
            counts: RequestCounts::default(),
        };
        Self(Arc::new(bucket), self.1)
    }

    fn state(&self) -> MutexGuard<'_, FakeBucketState> {
        self.0.state.lock().recover()
    }

    fn current(&self, key: &ObjectKey) -> Option<StoredVersion> {
        let stored = self.state().objects.get(key)?.last()?.clone();
        stored.bytes.is_some().then_some(stored)
    }

    /// Returns the requested version if its conditions hold.
    fn select(&self, request: &Get, ignore: bool) -> Result<StoredVersion, FakeRefusal> {
        let current = || self.current(&request.key).ok_or(OriginError::NotFound);
        match &request.condition {
            Condition::Match { etag, version_id } if !ignore => {
                let stored = match version_id {
                    Some(id) => self.by_id(&request.key, id).ok_or(OriginError::Changed)?,
                    None => current()?,
                };
                if !stored.version.etag.strong_eq(etag) {
                    return Err(OriginError::Changed.into());
                }
                Ok(stored)
            }
            Condition::NoneMatch(etag) if !ignore => {
                let stored = current()?;
                if stored.version.etag.weak_eq(etag) {
                    return Err(FakeRefusal::NotModified(stored.version.last_modified));
                }
                Ok(stored)
            }
            _ => Ok(current()?),
        }
    }

    fn by_id(&self, key: &ObjectKey, id: &str) -> Option<StoredVersion> {
        let state = self.state();
        let mut history = state.objects.get(key)?.iter();
        history
            .find(|s| s.bytes.is_some() && s.version.version_id.as_deref() == Some(id))
            .cloned()
    }

    async fn answer(&self, request: Get) -> Result<Answer, OriginError> {
        let running = RunningRequest::new(self.0.counts.running.clone());
        let faults = self.apply().await?;
        let stored = match self.select(&request, faults.contains(&Fault::IgnoreConditions)) {
            Ok(stored) => stored,
            Err(FakeRefusal::NotModified(last_modified)) => {
                return Ok(Answer::NotModified { last_modified });
            }
            Err(FakeRefusal::Error(error)) => return Err(error),
        };
        let spec = request
            .range
            .filter(|_| !faults.contains(&Fault::IgnoreRange));
        let size = stored.version.size;
        let range = match spec {
            Some(spec) => spec
                .resolve(size)
                .ok_or(OriginError::Unsatisfiable { size: Some(size) })?,
            None => ByteRange::new(0, size),
        };
        let frame = match self.state().frame {
            0 => FRAME_BYTES,
            frame => frame,
        };
        let bytes = stored.bytes.expect("a delete marker is never selected");
        let start = usize::try_from(range.start).expect("within memory");
        let end = usize::try_from(range.end).expect("within memory");
        let flow = FakeBody::new(bytes.slice(start..end), frame, &faults)
            .counted(self.0.counts.bytes.clone(), running);
        Ok(Answer::Content(Content {
            version: fault::version(&faults, stored.version),
            range: fault::range(&faults, range),
            body: flow.into_body(),
        }))
    }
}

/// The reason that [`FakeOrigin::select`] selects no version.
enum FakeRefusal {
    NotModified(Option<Timestamp>),
    Error(OriginError),
}

impl From<OriginError> for FakeRefusal {
    fn from(error: OriginError) -> Self {
        Self::Error(error)
    }
}

impl Origin for FakeOrigin {
    fn id(&self) -> OriginId {
        self.bucket().identity_for(self.1)
    }

    fn bucket(&self) -> tidegate_plan::Bucket {
        // Computed once, as for a configured origin, because every hit needs it.
        static PLACE: LazyLock<tidegate_plan::Bucket> =
            LazyLock::new(|| tidegate_plan::Bucket::new(Some("fake"), "fake"));
        *PLACE
    }

    fn get(&self, request: Get) -> BoxFuture<'_, Result<Answer, OriginError>> {
        Box::pin(async move {
            self.0.counts.gets.fetch_add(1, Ordering::SeqCst);
            self.state().log.push(request.clone());
            self.answer(request).await
        })
    }

    fn head(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>> {
        let key = key.clone();
        Box::pin(async move {
            self.0.counts.heads.fetch_add(1, Ordering::SeqCst);
            let faults = self.apply().await?;
            let stored = self.current(&key).ok_or(OriginError::NotFound)?;
            let version = fault::version(&faults, stored.version);
            Ok(Arc::unwrap_or_clone(version))
        })
    }

    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>> {
        let key = key.clone();
        Box::pin(async move {
            match self.head(&key).await {
                Ok(version) => Ok(Some(version)),
                Err(OriginError::NotFound) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>> {
        Box::pin(async move {
            self.0.counts.lists.fetch_add(1, Ordering::SeqCst);
            self.state().listed.push(request.clone());
            self.apply().await?;
            let state = self.state();
            let request = match page::empty(&request, state.empty_pages) {
                Ok(page) => return Ok(page),
                Err(request) => request,
            };
            let limit = match state.page_keys {
                0 => request.limit,
                keys => request.limit.min(keys),
            };
            let request = List { limit, ..request };
            Ok(page::of(&state.objects, &request, state.remnants))
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>> {
        Box::pin(async move {
            self.0.counts.probes.fetch_add(1, Ordering::SeqCst);
            self.apply().await.map(drop)
        })
    }
}

impl OriginWrite for FakeOrigin {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<WriteOutcome, OriginError>> {
        Box::pin(self.carry_out(write))
    }
}
