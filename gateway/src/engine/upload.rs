//! Objects that are being written.
//!
//! # The life of a write
//!
//! [`Writers::open`] gives a [`Writer`]: all handles on one key share one *draft*. What is written
//! goes into the spool (`engine/spool`) at its place; parts that look finished go up while the rest
//! is still being written (`send`), as many at once as there are streams. What is written to again
//! is sent again, under the same part number. Nothing of this can be seen in the bucket.
//!
//! [`Writer::commit`] (a `close`) sends what is left, has untouched parts of an object that was
//! changed copied on the server, and completes the upload (`commit`): the object is there, whole, and
//! the next look-up in this process finds it. With [`Commit::Background`] it returns once everything
//! is durable in the spool, and `queue` does the rest, now, or when the origin is back, or after a
//! restart (`recover`).
//!
//! # When the spool is full
//!
//! Who wants to write more waits, and parts that were sent leave the spool, oldest first, but never
//! the first or last 64 MiB ([`Settings::kept`]). They cannot be read back before the upload is
//! complete. A draft that was written in order does not need them. One that was not goes up under a
//! *hidden* key instead, `.tidegate-…` in the folder of the object: when a part is needed that is gone, that upload is
//! completed, the draft goes on from it as its base, and in the end everything untouched is copied
//! from there. A draft that was written in order until then, and only later is changed where its bytes
//! are gone, is refused that change ([`WriteError::Gone`]): it had no reason to pay for the hidden
//! key, and its upload cannot be moved. With [`Settings::read_back`] every draft goes to a hidden key.
//!
//! # Two writers
//!
//! Handles of one process write to one draft. Of two processes, an object that was created or cut to
//! nothing is the one that was committed last; one that was changed is refused
//! ([`WriteError::Changed`]) if it is another version by then. The two are never mixed.

use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::core::Core;
use super::spool::blocks::Memory;
use super::spool::{Spool, SpoolError};
use super::{Engine, Source};
use crate::origin::write::Headers;
use crate::plan::upload::KEPT;
use crate::plan::{ObjectId, ObjectKey, PartSizes};

mod assemble;
mod begin;
mod change;
mod closed;
mod commit;
mod complete;
mod edition;
mod error;
mod folder;
mod folder_locks;
mod gather;
mod hidden;
mod look;
mod marked;
mod metrics;
mod noted;
mod published;
mod put_in;
mod queue;
pub mod receive;
mod recover;
mod send;
mod space;
pub(in crate::engine) mod still;
mod tried;
mod whole;
mod writer;
mod writing;

pub use closed::{ClosedDraft, ClosedDraftReader};
pub use error::WriteError;
pub use folder::{CopiedFolder, FolderRename, MovedObject};
pub use folder_locks::{FolderLock, PathLock};
pub use look::Drafted;
pub use queue::{Pending, Stage};
pub use writer::Writer;

use folder_locks::FolderLocks;
use metrics::Metrics;
use writing::Writing;

/// What writers are told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The spool's directory, its own.
    pub spool: PathBuf,
    /// The most that the spool takes.
    pub size: u64,
    /// Whether what has left the spool can be read back also of an object that was written in order.
    pub read_back: bool,
    /// How objects are cut.
    pub parts: PartSizes,
    /// What of a draft never leaves the spool, at both ends.
    pub kept: u64,
    /// How long a write waits for room in the spool.
    pub patience: Duration,
    /// Bytes of a journal from which on it is written anew when it is synced.
    pub journal: u64,
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
            kept: KEPT,
            patience: Duration::from_secs(60),
            journal: 4 << 20,
        }
    }
}

/// When a close returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// When the object is complete in the bucket.
    Close,
    /// When everything is durable in the spool.
    Background,
}

/// How an object is opened for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It begins as nothing; what there was is replaced when this is committed.
    Create,
    /// The same, if there is no object yet, now and when it is committed.
    CreateNew,
    /// It begins as the version that it is.
    Change,
}

/// Parts of one draft on their way at once: what an S3 store takes from one machine before the line
/// is full, as `aws s3 cp` (10) and mountpoint-s3 (its target throughput) have found.
const STREAMS: usize = 16;

/// Parts of all drafts on their way at once.
const ALL_STREAMS: usize = 48;

/// Closed drafts that are committed at once.
const COMMITS: usize = 32;

/// Of what share of the engine's budget objects of one part take at most while they are put: a quarter.
/// Readers never have to wait for the rest.
pub(super) const SHARE: u64 = 4;

/// Everything that is written through this process. Clones are the same.
#[derive(Clone)]
pub struct Writers(Arc<Inner>);

pub(super) struct Inner {
    engine: Engine,
    core: Arc<Core>,
    settings: Settings,
    spool: Spool,
    writings: Mutex<HashMap<ObjectId, Arc<Writing>>>,
    streams: Arc<Semaphore>,
    commits: Arc<Semaphore>,
    folders: FolderLocks,
    metrics: Metrics,
}

impl fmt::Debug for Writers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writers")
            .field("settings", &self.0.settings)
            .finish_non_exhaustive()
    }
}

impl Inner {
    fn writings(&self) -> Table<'_> {
        let table = self.writings.lock();
        Table {
            count: &self.core.drafted,
            table: table.unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// The table of drafts, locked. Readers ask it only while its length, which they see without the lock, is
/// not zero.
struct Table<'a> {
    count: &'a AtomicUsize,
    table: MutexGuard<'a, HashMap<ObjectId, Arc<Writing>>>,
}

impl Deref for Table<'_> {
    type Target = HashMap<ObjectId, Arc<Writing>>;

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
    /// Opens the spool and takes up what an earlier process left in it: drafts that were promised go
    /// on where they stopped, in the background; others are removed, and their uploads with them.
    /// `sources` are the buckets that may be written to. Blocks while it reads the journals.
    ///
    /// # Errors
    /// Another process has the spool, or the directory cannot be used.
    pub fn start(
        engine: &Engine,
        settings: Settings,
        sources: &[Arc<Source>],
    ) -> Result<Self, SpoolError> {
        let core = &engine.core;
        let memory = Memory::new(core.received.clone(), core.budget.clone());
        let spool = Spool::open(&settings.spool, settings.size, memory)?;
        let writers = Self(Arc::new(Inner {
            engine: engine.clone(),
            core: engine.core.clone(),
            settings,
            spool,
            writings: Mutex::default(),
            streams: Arc::new(Semaphore::new(ALL_STREAMS)),
            commits: Arc::new(Semaphore::new(COMMITS)),
            folders: FolderLocks::default(),
            metrics: Metrics::default(),
        }));
        core.times.attach(&writers.0.settings.spool);
        writers.recover(sources)?;
        let _ = core.drafts.set(Arc::downgrade(&writers.0));
        Ok(writers)
    }

    /// Opens an object for writing; headers are those it will have where it begins as nothing.
    ///
    /// # Errors
    /// [`WriteError::Exists`] for [`How::CreateNew`]; [`WriteError::Origin`] where the version it is
    /// to begin as cannot be found out.
    pub async fn open(
        &self,
        source: &Arc<Source>,
        key: &ObjectKey,
        how: How,
        headers: Headers,
    ) -> Result<Writer, WriteError> {
        begin::open(&self.0, source, key, how, headers).await
    }

    /// The object as it is being written, if it is: open, or closed and not yet in the bucket. What is
    /// read from it is what was written.
    #[must_use]
    pub fn find(&self, source: &Source, key: &ObjectKey) -> Option<Writer> {
        let id = source.object(key);
        let writing = self.0.writings().get(&id).cloned()?;
        Writer::join(&self.0, writing)
    }

    /// A copy of bytes that are to be written: a long one needs no other copy on its way.
    #[must_use]
    pub fn copy(&self, bytes: &[u8]) -> Bytes {
        self.0.spool.memory.copy(bytes)
    }

    /// Bytes in the spool, and how many there may be.
    #[must_use]
    pub fn spooled(&self) -> (u64, u64) {
        (self.0.spool.space.used(), self.0.spool.space.size())
    }
}

/// How many drafts lie in the spool in `directory` while no process has it open: nobody sends them.
/// Blocks.
///
/// # Errors
/// What the operating system says of the directory, where there is one.
pub fn left_in_spool(directory: &Path) -> std::io::Result<usize> {
    crate::engine::spool::left_in(directory)
}

/// A number that no other draft has; every `RandomState` hashes with keys of its own.
pub(super) fn random() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(())
}
