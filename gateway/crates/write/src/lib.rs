//! Objects that are being written.
//!
//! # The life of a write
//!
//! [`Writers::open`] returns a [`Writer`]. All handles on one key share one *draft*. Written bytes
//! go into the spool (`spool`) at their offset. Parts that look finished are sent while the
//! rest is still being written (`publish::send`), up to one per stream at once. A part that is written to
//! again is sent again under the same part number. The bucket shows nothing of this. A new file that closes in the
//! background waits for its close with that, up to a size (`publish::waiting`).
//!
//! [`Writer::commit`] (a `close`) sends the remaining parts, has the server copy the untouched
//! parts of a changed object, and completes the upload (`publish::commit`). The object then exists, whole,
//! and the next look-up in this process finds it. With [`Commit::Background`] it returns once
//! everything is durable in the spool. `publish::queue` publishes it later: at once, when the origin is
//! back, or after a restart (`publish::recover`). The phases of a draft are a table in `draft::phase`.
//!
//! # When the spool is full
//!
//! Writers wait for room, and sent parts leave the spool, oldest first, but never the first or last
//! 64 MiB ([`Settings::kept`]). Parts that left cannot be read back before the upload is complete.
//! A draft that was written in order does not need them. Any other draft is uploaded under a
//! *staging key* instead, `.tidegate-…` in the folder of the object. When the draft needs a part
//! that has left, that upload is completed and becomes the base of the draft. At the end,
//! everything untouched is copied from there. A draft that was written in order, and is later
//! changed where its bytes have left, is refused that change ([`WriteError::Gone`]): its upload
//! cannot be moved to another key. With [`Settings::read_back`] every draft uses a staging key.
//!
//! # Two writers
//!
//! Handles of one process write to one draft. Of two processes that create or truncate an object,
//! the last commit wins. A change of an existing version is refused ([`WriteError::Changed`]) if
//! the bucket has another version by then. The two are never mixed.

use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;

use spool::Spool;
use spool::blocks::Memory;
use tidegate_engine::Core;
use tidegate_engine::{Engine, ReadContext};
use tidegate_origin::write::{Headers, MAX_COPY};
use tidegate_plan::retry::Backoff;
use tidegate_plan::upload::MAX_KEPT_END;
use tidegate_plan::{ObjectId, ObjectKey, PartSizes};
use tidegate_telemetry::locks::Recover as _;
pub(crate) use tidegate_telemetry::random::number as random;

/// The name by which the helpers of the suites know this crate.
#[cfg(test)]
extern crate self as tidegate_write;

mod abort;
mod attributes;
mod change;
mod draft;
mod error;
mod locks;
mod metrics;
mod path;
mod publish;
pub mod receive;
mod spool;
mod task;

pub use change::folder::{CopiedFolder, FolderRename};
pub use change::unsent::RenamedDraft;
pub use draft::closed_draft::{ClosedDraft, ClosedDraftReader, UnreadableDraft};
pub use draft::snapshot::DraftSnapshot;
pub use draft::state::stage::Stage;
pub use draft::writer::Writer;
pub use error::WriteError;
pub use locks::folder_locks::{FolderLock, PathLock};
pub use path::WritePath;
pub use publish::queue::PendingWrite;
pub use publish::refused::{PossibleChoices, RefusedChoice, ResolveError};
pub use spool::SpoolError;
pub use spool::reading::{Progress, SpoolReading};

use attributes::changes::AttributeChanges;
use change::known_markers::KnownMarkers;
use change::markers::FolderMarkers;
use draft::shared_draft::SharedDraft;
use locks::folder_locks::FolderLocks;
use metrics::Metrics;
use publish::failure_log::FailureLog;
use publish::resumed::ResumedDrafts;
use publish::stuck::StuckJournals;

/// Settings of writers.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The spool's own directory.
    pub spool: PathBuf,
    /// The maximum size of the spool, in bytes.
    pub size: u64,
    /// Whether bytes that have left the spool can be read back also of an object that was written
    /// in order.
    pub read_back: bool,
    /// The part sizes of uploads.
    pub parts: PartSizes,
    /// Bytes at each end of a draft that never leave the spool.
    pub kept: u64,
    /// The longest wait of a write for room in the spool.
    pub patience: Duration,
    /// The length of a journal, in bytes, from which it is rewritten at a sync.
    pub journal: u64,
    /// The most bytes that one request copies on the server; larger objects are copied in parts.
    pub max_copy: u64,
    /// Counts what is read of the spool at the start.
    pub reading: SpoolReading,
}

impl Settings {
    /// Defaults for a spool in a directory.
    #[must_use]
    pub fn new(spool: PathBuf) -> Self {
        Self {
            spool,
            size: 16 << 30,
            read_back: false,
            parts: PartSizes::default(),
            kept: MAX_KEPT_END,
            patience: Duration::from_secs(60),
            journal: 4 << 20,
            max_copy: MAX_COPY,
            reading: SpoolReading::default(),
        }
    }

    /// Returns the longest wait of a call in the background for the bucket's verdict on a name that it may refuse. The
    /// patience of callers is a deadline that the call must not reach.
    fn verdict_wait(&self) -> Duration {
        MAX_VERDICT_WAIT.min(self.patience / 2)
    }
}

/// The moment at which a close returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// The object is complete in the bucket.
    Close,
    /// Everything is durable in the spool.
    Background,
}

/// The way in which an object is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// It begins empty; the commit replaces any existing object.
    Create,
    /// The same, if there is no object yet, neither now nor at the commit.
    CreateNew,
    /// The caller knows of no object. It begins empty, and the commit replaces none; a draft that is there goes on.
    CreateMissing,
    /// It begins as the current version.
    Change,
}

/// Parts of one draft sent at once. One machine fills its line to an S3 store with about that many;
/// compare `aws s3 cp` (10) and mountpoint-s3 (its target throughput).
const MAX_DRAFT_STREAMS: usize = 16;

/// Parts of all drafts sent at once.
const MAX_STREAMS: usize = 48;

/// Pauses between background tries to commit an object or abort an upload.
const RETRY_PAUSE: Backoff = Backoff {
    base: Duration::from_secs(1),
    cap: Duration::from_secs(60),
};

/// See [`Settings::verdict_wait`].
const MAX_VERDICT_WAIT: Duration = Duration::from_secs(5);

/// Closed drafts committed at once.
const MAX_COMMITS: usize = 32;

/// The drafts of this process and their spool. Clones share one state.
#[derive(Clone)]
pub struct Writers(Arc<Drafts>);

pub(crate) struct Drafts {
    path: Arc<WritePath>,
    engine: Engine,
    core: Arc<Core>,
    settings: Settings,
    spool: Spool,
    writings: Mutex<HashMap<ObjectId, Arc<SharedDraft>>>,
    /// Whether a draft may have begun as a copy of another object.
    has_copies: AtomicBool,
    streams: Arc<Semaphore>,
    commits: Arc<Semaphore>,
    folders: FolderLocks,
    attributes: Arc<AttributeChanges>,
    markers: FolderMarkers,
    known_markers: KnownMarkers,
    resumed: ResumedDrafts,
    stuck: StuckJournals,
    failure_log: FailureLog,
    metrics: Metrics,
}

impl fmt::Debug for Writers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writers")
            .field("settings", &self.0.settings)
            .finish_non_exhaustive()
    }
}

impl Drafts {
    fn writings(&self) -> Table<'_> {
        let table = self.writings.lock();
        Table {
            count: &self.path.drafted,
            table: table.recover(),
        }
    }
}

/// The locked table of drafts. Readers lock it only while its length, which they see without the
/// lock, is not zero.
struct Table<'a> {
    count: &'a AtomicUsize,
    table: MutexGuard<'a, HashMap<ObjectId, Arc<SharedDraft>>>,
}

impl Deref for Table<'_> {
    type Target = HashMap<ObjectId, Arc<SharedDraft>>;

    fn deref(&self) -> &Self::Target {
        &self.table
    }
}

impl DerefMut for Table<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.table
    }
}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        self.count.store(self.table.len(), Ordering::Release);
    }
}

impl Writers {
    /// Opens the spool and resumes the drafts of an earlier process. Promised drafts continue in
    /// the background where they stopped; others are removed with their uploads. So do the renames
    /// of folders that it began. `sources` are the buckets that may be written to. Blocks while it
    /// reads the journals.
    ///
    /// # Errors
    /// Another process has the spool, or the directory cannot be used.
    pub fn start(
        path: &Arc<WritePath>,
        settings: Settings,
        sources: &[Arc<ReadContext>],
    ) -> Result<Self, SpoolError> {
        Self::start_with(path, settings, sources, |_| {})
    }

    /// Does the same, and calls `opened` with the spool's folder as soon as no other process can use that: before anything
    /// in it goes on.
    ///
    /// # Errors
    /// Those of [`Writers::start`].
    pub fn start_with(
        path: &Arc<WritePath>,
        settings: Settings,
        sources: &[Arc<ReadContext>],
        opened: impl FnOnce(&Path),
    ) -> Result<Self, SpoolError> {
        let core = &path.core;
        let memory = Memory::new(path.received.clone(), core.budget.clone());
        let spool = Spool::open(&settings.spool, settings.size, memory)?;
        opened(&settings.spool);
        let writers = Self(Arc::new(Drafts {
            path: path.clone(),
            engine: path.engine.clone(),
            core: core.clone(),
            settings,
            spool,
            writings: Mutex::default(),
            has_copies: AtomicBool::default(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            commits: Arc::new(Semaphore::new(MAX_COMMITS)),
            folders: FolderLocks::default(),
            attributes: Arc::default(),
            markers: FolderMarkers::default(),
            known_markers: KnownMarkers::default(),
            resumed: ResumedDrafts::default(),
            stuck: StuckJournals::default(),
            failure_log: FailureLog::default(),
            metrics: Metrics::default(),
        }));
        core.times.attach(&writers.0.settings.spool);
        writers.recover(sources)?;
        writers.recover_attributes(sources);
        writers.resume_renames(sources);
        let _ = path.drafts.set(Arc::downgrade(&writers.0));
        Ok(writers)
    }

    /// Opens an object for writing. An object that begins empty gets `headers`.
    ///
    /// # Errors
    /// [`WriteError::Exists`] for [`OpenMode::CreateNew`]; [`WriteError::Origin`] if the version to
    /// begin with cannot be determined.
    pub async fn open(
        &self,
        source: &Arc<ReadContext>,
        key: &ObjectKey,
        how: OpenMode,
        headers: Headers,
    ) -> Result<Writer, WriteError> {
        draft::begin::open(&self.0, source, key, how, headers).await
    }

    /// Returns when no draft waits for a background commit any more, except refused ones, no folder is being renamed, and
    /// neither a change of attributes nor the marker of a new folder waits to be sent. Meanwhile all are sent at once.
    pub async fn settled(&self) {
        self.drafts_settled().await;
        self.0.folders.settled().await;
        self.0.attributes_settled().await;
    }

    /// Returns a handle on the draft of an object that is open, or closed and not yet in the
    /// bucket. Reads through it return the written bytes. While a rename publishes the draft, it is found under its old key.
    #[must_use]
    pub fn find(&self, source: &ReadContext, key: &ObjectKey) -> Option<Writer> {
        let id = source.object(key);
        Writer::of_listed(&self.0, &id)
    }

    /// Returns the write path that the drafts belong to.
    #[must_use]
    pub fn write_path(&self) -> &Arc<WritePath> {
        &self.0.path
    }

    /// Copies bytes for a write. A long write needs no other copy afterwards.
    #[must_use]
    pub fn copy(&self, bytes: &[u8]) -> Bytes {
        self.0.spool.memory.copy(bytes)
    }

    /// Returns the used bytes of the spool and its maximum.
    #[must_use]
    pub fn spooled(&self) -> (u64, u64) {
        (self.0.spool.space.used(), self.0.spool.space.size())
    }

    /// Returns the free room of the spool, in bytes: of its size, and of its disk, the smaller one.
    pub async fn free_room(&self) -> u64 {
        let spool = &self.0.spool;
        let disk = spool.disk_room.free().await;
        disk.min(spool.space.size().saturating_sub(spool.space.used()))
    }

    /// Returns how many drafts the start has left in the spool as they are: they have another format, or cannot be read.
    #[must_use]
    pub fn left_alone(&self) -> usize {
        self.0.spool.left_alone.load(Ordering::Relaxed)
    }
}

/// Returns the number of drafts and of cut renames of folders that are left in the spool in `directory`, if no process has
/// it open. Nothing goes on with them until a process opens it. Blocks.
///
/// # Errors
/// The operating system's, if the directory exists.
pub fn left_in_spool(directory: &Path) -> std::io::Result<usize> {
    spool::left_in(directory, change::folder::is_record)
}
