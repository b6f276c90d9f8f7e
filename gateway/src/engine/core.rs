//! What every part of the engine shares.

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
use crate::origin::Origin;
use crate::plan::admission::SecondUse;
use crate::plan::{Geometry, ObjectId, OriginId, Timestamp, VersionId};
use crate::store::direct::Pool;
use crate::store::{ChunkStore, MetaStore};

/// Bytes of chunk buffers that wait to be used again, at most.
const SPARE: u64 = 4 << 20;

/// Buffers of a chunk each.
fn buffers(geometry: Geometry) -> Arc<Pool> {
    let in_usize = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    let chunk = geometry.chunk();
    Pool::new(in_usize(chunk), in_usize(SPARE / chunk))
}

/// Tells the wall-clock time; an argument, so that tests own it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub(super) struct Core {
    pub(super) chunks: Arc<dyn ChunkStore>,
    pub(super) meta: Arc<dyn MetaStore>,
    pub(super) geometry: Geometry,
    /// Memory for chunks that arrive, taken over from those that memory evicts.
    pub(super) buffers: Arc<Pool>,
    pub(super) budget: Budget,
    /// What of the budget those take who send objects.
    pub(super) received: Budget,
    /// What of it objects take that are put whole. Who has some waits for the bucket alone.
    pub(super) put: Budget,
    pub(super) clock: Clock,
    pub(super) metrics: Metrics,
    /// Every task that fetches; closing waits for them.
    pub(super) tasks: TaskTracker,
    /// Cancelled when the engine closes.
    pub(super) stop: CancellationToken,
    pub(super) readiness: Readiness,
    pub(super) names: Table,
    /// Pages of folders on their way.
    pub(super) listings: Listings,
    /// When versions were written here.
    pub(super) times: Arc<TimeTable>,
    /// Versions that the answer to a write alone has told.
    pub(super) unconfirmed: Unconfirmed,
    pub(super) siblings: Siblings,
    pub(super) watchers: Watchers,
    pub(super) identities: Identities,
    /// What of the bucket is being changed.
    pub(super) holds: Holds,
    pub(super) variants: Variants,
    /// What is being written, if anything can be.
    pub(super) drafts: OnceLock<Weak<upload::Inner>>,
    /// How many there are: readers of a process that writes nothing look no further.
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

    /// Keeps an object from being changed by others of this process, and a draft of it from being
    /// published, if there is one. Waits for what is being published, for [`HOLD_TIMEOUT`] at most.
    ///
    /// # Errors
    /// [`Error::Overloaded`] where that takes longer.
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

    /// Runs what asks an origin or a disk, and counts among what closing waits for.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.runtime {
            Some(runtime) => self.tasks.spawn_on(task, runtime),
            None => self.tasks.spawn(task),
        };
    }

    /// Carries something out to its end, also if the caller does not wait for it: what is half done
    /// would be wrong. Not beyond the engine's own.
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

    /// Carries out what asks an origin where origins are asked; it stops when the result is given
    /// up.
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

    /// Looks at the chunks of an object in turn, by their numbers, until `look` says that it has seen enough;
    /// others have their turn now and then.
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

    /// A number that no other reader or resolve of this process has.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// What is known of an origin's speed.
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

/// Carries work out. A panic in it is an error that passes: callers that wait are told, and what the work had begun
/// is cleared up.
pub(super) async fn caught<T>(
    work: impl Future<Output = Result<T, WriteError>>,
) -> Result<T, WriteError> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.unwrap_or_else(|_| {
        tracing::error!("a panic while an object was written; it is tried again");
        Err(WriteError::Bug)
    })
}

/// How long a change over HTTP waits for what is being published of its object: less than others wait for the
/// memory that it holds.
const HOLD_TIMEOUT: Duration = Duration::from_secs(5);

/// Which bucket each identity is of, by the identity that an access without a name has.
fn buckets(origins: &[(String, Arc<dyn Origin>)]) -> HashMap<OriginId, OriginId> {
    let origins = origins.iter().map(|(_, origin)| origin);
    let bucket = |origin: &Arc<dyn Origin>| (origin.id(), origin.bucket().seen_by(None));
    origins.map(bucket).collect()
}

/// How many chunks are looked at before others have their turn.
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
