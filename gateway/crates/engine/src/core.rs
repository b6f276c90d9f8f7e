//! The state that every part of the engine shares.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::Error;
use super::budget::Budget;
use super::fill::Fill;
use super::identities::Identities;
use super::metrics::Metrics;
use super::names::{Listings, Table};
use super::pace::Pace;
use super::ready::Readiness;
use super::resolve::Pending;
use super::siblings::Siblings;
use super::times::TimeTable;
use super::unconfirmed::Unconfirmed;
use super::variant::Variants;
use super::watch::Watchers;
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

/// The engine's shared state. The write path uses it to tell the engine of changes.
pub struct Core {
    pub(super) chunks: Arc<dyn ChunkStore>,
    /// The metadata store: which version each key has.
    pub meta: Arc<dyn MetaStore>,
    pub(super) geometry: Geometry,
    /// Buffers for arriving chunks, reused from chunks that the memory tier evicts.
    pub(super) buffers: Arc<Pool>,
    /// The memory for everything on its way.
    pub budget: Budget,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    /// All fetching tasks; closing waits for them.
    pub(super) tasks: TaskTracker,
    /// Cancelled when the engine closes.
    pub stop: CancellationToken,
    pub(super) readiness: Readiness,
    pub(super) names: Table,
    /// Pages of folder listings under way.
    pub(super) listings: Listings,
    /// The times at which versions were written here.
    pub times: Arc<TimeTable>,
    /// Versions known only from the answer to a write.
    pub(super) unconfirmed: Unconfirmed,
    pub(super) siblings: Siblings,
    pub(super) watchers: Watchers,
    pub(super) identities: Identities,
    pub(super) variants: Variants,
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
            variants: Variants::default(),
            second_use: Mutex::new(SecondUse::new(SECOND_USE_SLOTS)),
            fills: Mutex::default(),
            resolves: Mutex::default(),
            paces: Mutex::default(),
            numbers: AtomicU64::new(0),
        }
    }

    /// Runs a task that asks an origin or a disk; closing waits for it.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.runtime {
            Some(runtime) => self.tasks.spawn_on(task, runtime),
            None => self.tasks.spawn(task),
        };
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

    /// Counts bytes that a reader was given from elsewhere than the cache.
    pub fn count_delivered(&self, bytes: u64) {
        self.metrics.delivered.inc_by(bytes);
    }

    /// Returns the wall-clock time.
    pub fn now(&self) -> Timestamp {
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
