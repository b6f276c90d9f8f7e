//! The read path: turns "this key, these bytes" into bytes of exactly one version.
//!
//! # The life of a read
//!
//! [`Engine::open`] asks the metadata store which version the key has. If that version is known and fresh, the object
//! opens without a request to the origin. Otherwise `open::resolve` asks the origin, once for all waiting callers, with
//! a ranged GET that also brings the first bytes.
//!
//! [`Object::read_at`] makes a [`Reader`]. It looks for each chunk in memory. If the chunk is not there, the reader
//! *schedules* it: the version's `VersionFetches` hold a *flight* for every chunk under way, from disk or from the
//! origin, and start new ones. Any number of readers can read a flight while it arrives. The flights of one request form
//! a *part*; readers hold a lease on it, and when the last lease is dropped, the `Fetch` behind it stops.
//!
//! Chunks that have arrived are put into the store in the background. One `budget` is charged for all data in memory
//! outside the store's memory tier.
//!
//! Every chunk is addressed by its version, and every request for a part carries `If-Match`, so one answer never mixes
//! two versions. If the object changed, readers get [`Error::Changed`].
//!
//! `docs/ARCHITECTURE.md` names the functions that a read passes through.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use tidegate_cache::direct::BufferPool;
use tidegate_cache::{ChunkStore, MetaStore};
use tidegate_origin::Origin;
use tidegate_plan::admission::AdmissionFilter;
use tidegate_plan::{Geometry, ObjectId, OriginId, Timestamp};
use tidegate_telemetry::locks::Recover as _;

pub mod budget;
pub mod error;
mod fetch;
mod invalidate;
mod metrics;
pub mod names;
pub mod object;
mod open;
pub mod read_context;
mod ready;
pub mod table_log;
pub mod times;
pub mod variant;
pub mod warm;
pub mod written;

pub use budget::Budget;
pub use error::Error;
pub use fetch::Assists;
pub use fetch::flight::Piece;
pub use invalidate::change_observer::ChangeObserver;
pub use invalidate::subscribers::{
    InvalidationSubscriber, PurgeKind, RenamedFolder, RenamedObject, Scope,
};
pub use object::Object;
pub use object::coverage::Coverage;
pub use object::reader::Reader;
pub use object::stat::{self, Stat};
pub use object::streams::{self, StreamGuard, StreamKind, Streams};
pub use open::outcome::{ForwardReason, OpenOutcome};
pub use open::{OpenOptions, records};
pub use read_context::{EventCoverage, ReadContext, SubscriptionProof};
pub use tidegate_cache::Tier;
pub use variant::{EncodingTimes, Variant, VariantReader, VariantState};

use fetch::Assembly;
use fetch::origin_rate::OriginRate;
use fetch::version_fetches::{FetchesId, VersionFetches};
use invalidate::change_observer::Observers;
use invalidate::doubt::DoubtMark;
use invalidate::identities::Identities;
use invalidate::report_history::ReportedChanges;
use invalidate::subscribers::InvalidationSubscribers;
use metrics::Metrics;
use names::hidden::HiddenFolders;
use names::{Listings, Table};
use object::wait::FRONTENDS;
use open::resolve::PendingResolve;
use ready::Readiness;
use times::TimeTable;
use variant::Variants;
use warm::folder_prefetch::FolderReaders;
use written::self_copies::SelfCopies;

/// The engine: shared by every frontend of the process.
#[derive(Debug, Clone)]
pub struct Engine {
    core: Arc<Core>,
}

/// The parts from which an engine is built.
pub struct Parts {
    /// The store of chunks.
    pub chunks: Arc<dyn ChunkStore>,
    /// The store of versions.
    pub meta: Arc<dyn MetaStore>,
    /// The sizes into which objects are cut.
    pub geometry: Geometry,
    /// The memory budget for everything outside the memory tier.
    pub budget: Budget,
    /// The source of the current time.
    pub clock: Clock,
    /// The runtime for requests to origins and disks. A separate one keeps bulk transfers from delaying answers from
    /// memory; `None` uses the caller's runtime.
    pub runtime: Option<tokio::runtime::Handle>,
    /// The origins by their configured names. [`Engine::ready`] probes them; origins of one bucket learn of each
    /// other's writes and purges.
    pub origins: Vec<(String, Arc<dyn Origin>)>,
    /// The decorators of fetches; all of them by default.
    pub assists: Assists,
    /// The waits for encoders of variants.
    pub encoding: EncodingTimes,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("geometry", &self.geometry)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Puts an engine together.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self {
            core: Arc::new(Core::new(parts)),
        }
    }

    /// Registers the engine's metrics.
    pub fn register(&self, registry: &mut Registry) {
        self.core.metrics.register(registry);
        self.core.budget.register(registry);
    }

    /// Returns the object bytes that the origin sent, and those that readers took. Their ratio is the read amplification.
    #[must_use]
    pub fn traffic(&self) -> (u64, u64) {
        (
            self.core.metrics.fetched.get(),
            self.core.metrics.delivered.get(),
        )
    }

    /// Returns the registry of streams.
    #[must_use]
    pub fn streams(&self) -> &Arc<Streams> {
        &self.core.streams
    }

    /// Returns the memory budget: its size, and the bytes reserved from it.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.core.budget
    }

    /// Returns the wall-clock time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.core.now()
    }

    /// Returns the shared state, for the write path.
    #[must_use]
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Replaces the origins, by their configured names. Objects that were opened through others can still be read.
    pub fn set_origins(&self, origins: Vec<(String, Arc<dyn Origin>)>) {
        self.core.identities.add(&origins);
        self.core.readiness.set(origins);
    }

    /// Removes the metrics of profiles that no configuration has. A reader under way may bring them back.
    pub fn forget_profiles(&self, profiles: &[&'static str]) {
        for profile in profiles {
            for frontend in FRONTENDS {
                self.core.metrics.forget_waits((frontend, *profile));
            }
        }
    }

    /// Checks that the origins answer and that the cache index is loaded.
    ///
    /// # Errors
    /// One line for an operator for each that is missing.
    pub async fn ready(&self) -> Result<(), Vec<String>> {
        self.core.readiness.check(self.core.chunks.ready()).await
    }

    /// Checks that the bucket answers. Any answer that is not older than `stands` counts, and proves it without a request.
    ///
    /// # Errors
    /// The reason for which the bucket does not answer.
    pub async fn reachable(&self, source: &ReadContext, stands: Duration) -> Result<(), Error> {
        let asked = self.core.readiness.reachable(source.origin.id(), stands);
        Ok(asked.await?)
    }

    /// Begins the same check for an open that may come. Its failure does not count.
    pub fn reach_ahead(&self, source: &ReadContext, stands: Duration) {
        let (core, origin) = (self.core.clone(), source.origin.id());
        self.core
            .spawn(async move { core.readiness.reach_ahead(origin, stands).await });
    }

    /// Returns the cache's problems that do not prevent answers, as text, one line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.core.chunks.notes();
        notes.extend(self.core.meta.notes());
        notes
    }

    /// Shuts down in order within `deadline`: stops fetches and writes out the stores' pending data. Fetches get one
    /// half of the time, the stores, in parallel, the other half.
    pub async fn close(&self, deadline: Duration) {
        self.core.stop.cancel();
        self.core.tasks.close();
        let share = deadline / 2;
        let tasks = tokio::time::timeout(share, self.core.tasks.wait());
        let ended = tasks.await.is_ok();
        let chunks = tokio::time::timeout(share, self.core.chunks.close());
        let meta = async {
            match ended {
                true => self.core.meta.close().await,
                // A task that still runs may change the records, so this is no orderly shutdown.
                false => self.core.meta.flush().await,
            }
        };
        let (chunks, meta) = tokio::join!(chunks, tokio::time::timeout(share, meta));
        if !ended || chunks.is_err() || meta.is_err() {
            let (fetches, chunks, metadata) = (ended, chunks.is_ok(), meta.is_ok());
            tracing::warn!(
                ?deadline,
                fetches,
                chunks,
                metadata,
                "the stores were not closed in time; what they had pending is lost"
            );
        }
    }
}

/// The maximum bytes of chunk buffers kept for reuse.
const MAX_SPARE_BYTES: u64 = 4 << 20;

/// Returns a pool of buffers of one chunk each.
fn buffers(geometry: Geometry) -> Arc<BufferPool> {
    let in_usize = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    let chunk = geometry.chunk();
    BufferPool::new(in_usize(chunk), in_usize(MAX_SPARE_BYTES / chunk))
}

/// A source of wall-clock time; a parameter, so that tests control it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The engine's shared state. The write path uses it to tell the engine of changes.
pub struct Core {
    pub(crate) chunks: Arc<dyn ChunkStore>,
    /// The metadata store: which version each key has.
    pub meta: Arc<dyn MetaStore>,
    pub(crate) geometry: Geometry,
    /// Buffers for arriving chunks, reused from chunks that the memory tier evicts.
    pub(crate) buffers: Arc<BufferPool>,
    /// The path of every fetch.
    pub(crate) assembly: Assembly,
    /// The memory for everything on its way.
    pub budget: Budget,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    /// All fetching tasks; closing waits for them.
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the engine closes.
    pub stop: CancellationToken,
    pub(crate) readiness: Readiness,
    pub(crate) names: Table,
    /// Folders that are not shown.
    pub(crate) hidden: HiddenFolders,
    /// Pages of folder listings under way.
    pub(crate) listings: Listings,
    /// The times at which versions were written here.
    pub times: Arc<TimeTable>,
    pub(crate) self_copies: SelfCopies,
    pub(crate) folder_readers: FolderReaders,
    pub(crate) subscribers: InvalidationSubscribers,
    pub(crate) identities: Arc<Identities>,
    /// The changes of keys that the bucket has reported.
    pub(crate) reported: ReportedChanges,
    pub(crate) observers: Observers,
    pub(crate) doubted: DoubtMark,
    pub(crate) variants: Variants,
    pub(crate) streams: Arc<Streams>,
    runtime: Option<Handle>,
    pub(crate) second_use: Mutex<AdmissionFilter>,
    fetches: Mutex<HashMap<FetchesId, Weak<VersionFetches>>>,
    resolves: Mutex<HashMap<ObjectId, PendingResolve>>,
    origin_rates: Mutex<HashMap<OriginId, Arc<OriginRate>>>,
    numbers: AtomicU64,
    /// The rows that purges look up at once: readers have the rest of the store's reads.
    pub(crate) purge_lookups: Semaphore,
}

impl Core {
    pub(crate) fn new(parts: Parts) -> Self {
        let identities = Arc::new(Identities::default());
        identities.add(&parts.origins);
        let readiness = Readiness::default();
        readiness.set(parts.origins);
        Self {
            chunks: parts.chunks,
            meta: parts.meta,
            geometry: parts.geometry,
            buffers: buffers(parts.geometry),
            assembly: Assembly::new(parts.assists),
            budget: parts.budget,
            clock: parts.clock,
            runtime: parts.runtime,
            metrics: Metrics::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            times: Arc::new(TimeTable::new(identities.clone())),
            identities,
            readiness,
            names: Table::default(),
            hidden: HiddenFolders::default(),
            listings: Listings::default(),
            self_copies: SelfCopies::default(),
            folder_readers: FolderReaders::default(),
            subscribers: InvalidationSubscribers::default(),
            reported: ReportedChanges::default(),
            observers: Observers::default(),
            doubted: DoubtMark::default(),
            variants: Variants::new(parts.encoding),
            streams: Arc::default(),
            second_use: Mutex::new(AdmissionFilter::new(SECOND_USE_SLOTS)),
            fetches: Mutex::default(),
            resolves: Mutex::default(),
            origin_rates: Mutex::default(),
            numbers: AtomicU64::new(0),
            purge_lookups: Semaphore::new(MAX_PURGE_LOOKUPS),
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
    pub(crate) async fn run_on_origin_runtime<T: Send + 'static>(
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

    /// Calls `visit` for each chunk of an object by number, until it returns `false`; yields to other tasks now and
    /// then.
    pub(crate) async fn each_chunk(&self, size: u64, mut visit: impl FnMut(u32) -> bool) {
        for index in 0..self.geometry.count(size) {
            if !visit(index) {
                return;
            }
            if index % CHUNKS_PER_TURN == CHUNKS_PER_TURN - 1 {
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
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the measured speed of an origin.
    pub(crate) fn origin_rate(&self, origin: OriginId) -> Arc<OriginRate> {
        let mut rates = self.origin_rates.lock().recover();
        rates.entry(origin).or_default().clone()
    }

    pub(crate) fn fetches(&self) -> MutexGuard<'_, HashMap<FetchesId, Weak<VersionFetches>>> {
        self.fetches.lock().recover()
    }

    pub(crate) fn resolves(&self) -> MutexGuard<'_, HashMap<ObjectId, PendingResolve>> {
        self.resolves.lock().recover()
    }
}

/// The most rows that purges look up at once. A store that is asked for more than it reads at a time lets the others wait,
/// and takes its disk for one that hangs.
const MAX_PURGE_LOOKUPS: usize = 8;

/// The number of chunks to look at before the task yields.
const CHUNKS_PER_TURN: u32 = 4096;

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
