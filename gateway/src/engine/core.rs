//! What every part of the engine shares.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::budget::Budget;
use super::fill::Fill;
use super::identities::Identities;
use super::metrics::Metrics;
use super::names::Table;
use super::pace::Pace;
use super::ready::Readiness;
use super::resolve::Pending;
use super::siblings::Siblings;
use super::times::TimeTable;
use super::upload::still::Still;
use super::watch::Watchers;
use super::{Error, WriteError, upload};
use crate::plan::admission::SecondUse;
use crate::plan::{Geometry, ObjectId, OriginId, Timestamp, VersionId};
use crate::store::{ChunkStore, MetaStore};

/// Tells the wall-clock time; an argument, so that tests own it.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub(super) struct Core {
    pub(super) chunks: Arc<dyn ChunkStore>,
    pub(super) meta: Arc<dyn MetaStore>,
    pub(super) geometry: Geometry,
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
    /// When versions were written here.
    pub(super) times: Arc<TimeTable>,
    pub(super) siblings: Siblings,
    pub(super) watchers: Watchers,
    pub(super) identities: Identities,
    /// What is being written, if anything can be.
    pub(super) drafts: OnceLock<Weak<upload::Inner>>,
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
            received: parts.budget.share(super::upload::receive::SHARE),
            put: parts.budget.share(super::upload::SHARE),
            budget: parts.budget,
            clock: parts.clock,
            runtime: parts.runtime,
            metrics: Metrics::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            identities: Identities::of(&parts.origins),
            readiness: Readiness::new(parts.origins),
            names: Table::default(),
            times: Arc::default(),
            siblings: Siblings::default(),
            watchers: Watchers::default(),
            drafts: OnceLock::new(),
            second_use: Mutex::new(SecondUse::new(SECOND_USE_SLOTS)),
            fills: Mutex::default(),
            resolves: Mutex::default(),
            paces: Mutex::default(),
            numbers: AtomicU64::new(0),
        }
    }

    /// Keeps a draft of an object from being published, if there is one.
    pub(super) async fn still(&self, id: &ObjectId) -> Option<Still> {
        let drafts = self.drafts.get()?.upgrade()?;
        drafts.still(id).await
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
                result = work => drop(tell.send(result)),
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
