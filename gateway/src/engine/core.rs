//! The state that every part of the engine shares.

use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::budget::Budget;
use super::fill::Fill;
use super::holds::{Hold, Holds};
use super::identities::Identities;
use super::metrics::Metrics;
use super::names::{Listings, Table};
use super::pace::Pace;
use super::ready::Readiness;
use super::resolve::Pending;
use super::siblings::Siblings;
use super::times::TimeTable;
use super::unconfirmed::Unconfirmed;
use super::upload::still::Still;
use super::variant::Variants;
use super::watch::Watchers;
use super::{Error, WriteError, upload};
use tidegate_cache::direct::Pool;
use tidegate_cache::{ChunkStore, MetaStore};
use tidegate_origin::Origin;
use tidegate_plan::admission::SecondUse;
use tidegate_plan::{Geometry, ObjectId, OriginId, Timestamp, VersionId};

/// The maximum bytes of chunk buffers kept for reuse.
const SPARE: u64 = 4 << 20;

/// Returns a pool of buffers of one chunk each.
fn buffers(geometry: Geometry) -> Arc<Pool> {
    let in_usize = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    let chunk = geometry.chunk();
    Pool::new(in_usize(chunk), in_usize(SPARE / chunk))
}

/// A source of wall-clock time; a parameter, so that tests control it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub(super) struct Core {
    pub(super) chunks: Arc<dyn ChunkStore>,
    pub(super) meta: Arc<dyn MetaStore>,
    pub(super) geometry: Geometry,
    /// Buffers for arriving chunks, reused from chunks that the memory tier evicts.
    pub(super) buffers: Arc<Pool>,
    pub(super) budget: Budget,
    /// The limit on the budget's memory for clients that send objects.
    pub(super) received: Budget,
    /// The limit on the budget's memory for objects put whole. A holder of such memory waits only for the budget and
    /// the bucket.
    pub(super) put: Budget,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    /// All fetching tasks; closing waits for them.
    pub(super) tasks: TaskTracker,
    /// Cancelled when the engine closes.
    pub(super) stop: CancellationToken,
    pub(super) readiness: Readiness,
    pub(super) names: Table,
    /// Pages of folder listings under way.
    pub(super) listings: Listings,
    /// The times at which versions were written here.
    pub(super) times: Arc<TimeTable>,
    /// Versions known only from the answer to a write.
    pub(super) unconfirmed: Unconfirmed,
    pub(super) siblings: Siblings,
    pub(super) watchers: Watchers,
    pub(super) identities: Identities,
    /// The keys being changed in the bucket.
    pub(super) holds: Holds,
    pub(super) variants: Variants,
    /// The drafts being written, if writing is enabled.
    pub(super) drafts: OnceLock<Weak<upload::Inner>>,
    /// The number of drafts: if it is 0, readers look no further.
    pub(super) drafted: AtomicUsize,
    runtime: Option<Handle>,
    pub(super) second_use: Mutex<SecondUse>,
    fills: Mutex<HashMap<VersionId, Weak<Fill>>>,
    resolves: Mutex<HashMap<ObjectId, Pending>>,
    paces: Mutex<HashMap<OriginId, Arc<Pace>>>,
    numbers: AtomicU64,
}

impl Core {
    pub(super) fn new(parts: super::Parts) -> Self {
        Self {
            chunks: parts.chunks,
            meta: parts.meta,
            geometry: parts.geometry,
            buffers: buffers(parts.geometry),
            received: parts.budget.share(super::upload::receive::SHARE),
            put: parts.budget.share(super::upload::SHARE),
            budget: parts.budget,
            clock: parts.clock,
            runtime: parts.runtime,
            metrics: Metrics::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            identities: Identities::of(&parts.origins),
            times: Arc::new(TimeTable::new(buckets(&parts.origins))),
            readiness: Readiness::new(parts.origins),
            names: Table::default(),
            listings: Listings::default(),
            unconfirmed: Unconfirmed::default(),
            siblings: Siblings::default(),
            watchers: Watchers::default(),
            holds: Holds::default(),
            variants: Variants::default(),
            drafts: OnceLock::new(),
            drafted: AtomicUsize::new(0),
            second_use: Mutex::new(SecondUse::new(SECOND_USE_SLOTS)),
            fills: Mutex::default(),
            resolves: Mutex::default(),
            paces: Mutex::default(),
            numbers: AtomicU64::new(0),
        }
    }

    /// Keeps other writers of this process from changing an object, and its draft, if any, from being published. Waits
    /// for a publication under way, for [`HOLD_TIMEOUT`] at most.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if that takes longer.
    pub(super) async fn hold(&self, id: &ObjectId) -> Result<(Option<Still>, Hold), Error> {
        let held = async {
            let drafts = self.drafts.get().and_then(Weak::upgrade);
            let still = match drafts {
                Some(drafts) => drafts.still(id).await,
                None => None,
            };
            (still, self.hold_key(id).await)
        };
        let held = tokio::time::timeout(HOLD_TIMEOUT, held).await;
        held.map_err(|_| Error::Overloaded {
            retry_after: Some(HOLD_TIMEOUT),
        })
    }

    /// Runs a task that asks an origin or a disk; closing waits for it.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.runtime {
            Some(runtime) => self.tasks.spawn_on(task, runtime),
            None => self.tasks.spawn(task),
        };
    }

    /// Runs work to its end even if the caller stops waiting, because half of it would be wrong. Only the engine's
    /// shutdown stops it.
    pub(super) async fn to_its_end<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, WriteError>> + Send + 'static,
    ) -> Result<T, WriteError> {
        let stop = self.stop.clone();
        let (tell, told) = oneshot::channel();
        self.spawn(async move {
            tokio::select! {
                result = caught(work) => drop(tell.send(result)),
                () = stop.cancelled() => {}
            }
        });
        told.await.unwrap_or(Err(WriteError::Closing))
    }

    /// Runs work on the runtime for origin requests; dropping the returned future stops it.
    pub(super) async fn carry_out<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        match &self.runtime {
            Some(runtime) => AbortOnDropHandle::new(runtime.spawn(work))
                .await
                .unwrap_or(Err(Error::Unavailable)),
            None => work.await,
        }
    }

    /// Calls `look` for each chunk of an object by number, until it returns `false`; yields to other tasks now and
    /// then.
    pub(super) async fn each_chunk(&self, size: u64, mut look: impl FnMut(u32) -> bool) {
        for index in 0..self.geometry.count(size) {
            if !look(index) {
                return;
            }
            if index % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Returns a number that is unique among this process's readers and resolves.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the measured speed of an origin.
    pub(super) fn pace(&self, origin: OriginId) -> Arc<Pace> {
        let mut paces = self
            .paces
            .lock()
            .expect("no code panics while it holds this lock");
        paces.entry(origin).or_default().clone()
    }

    pub(super) fn fills(&self) -> MutexGuard<'_, HashMap<VersionId, Weak<Fill>>> {
        self.fills
            .lock()
            .expect("no code panics while it holds this lock")
    }

    pub(super) fn resolves(&self) -> MutexGuard<'_, HashMap<ObjectId, Pending>> {
        self.resolves
            .lock()
            .expect("no code panics while it holds this lock")
    }
}

/// Runs work. A panic in it becomes a passing error: waiting callers get it, and the work's unfinished state is cleaned
/// up.
pub(super) async fn caught<T>(
    work: impl Future<Output = Result<T, WriteError>>,
) -> Result<T, WriteError> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.unwrap_or_else(|_| {
        tracing::error!("a panic while an object was written; it is tried again");
        Err(WriteError::Bug)
    })
}

/// The time that a change over HTTP waits for a publication of its object: shorter than the time that others wait for
/// its memory.
const HOLD_TIMEOUT: Duration = Duration::from_secs(5);

/// Maps each identity to its bucket's identity for anonymous access.
fn buckets(origins: &[(String, Arc<dyn Origin>)]) -> HashMap<OriginId, OriginId> {
    let origins = origins.iter().map(|(_, origin)| origin);
    let bucket = |origin: &Arc<dyn Origin>| (origin.id(), origin.bucket().seen_by(None));
    origins.map(bucket).collect()
}

/// The number of chunks to look at before the task yields.
const TURN: u32 = 4096;

/// Fingerprints of chunks seen once: 64 Ki of them take 512 KiB and cover 16 GiB of recent fetches.
const SECOND_USE_SLOTS: usize = 1 << 16;

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("chunks", &self.chunks)
            .field("meta", &self.meta)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}
