//! One object that is being written: the state that all its handles share.
//!
//! Three locks, taken in this order and never the other way round. `gate`: writes share it, a
//! commit or a cut holds it alone. `page`: writes share it, a fill holds it alone, so that bytes of
//! the base never overwrite bytes that were just written. `state`: held briefly, never across a
//! wait.
//!
//! Journal records are queued under the lock of the state that they describe, and appended in that
//! order (`flush`).

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, RwLock, watch};

use crate::draft::base_version::BaseVersion;
use crate::draft::phase::Step;
use crate::draft::state::DraftState;
use crate::spool::FILES_BYTES;
use crate::spool::file::SpoolFile;
use crate::{Drafts, WriteError};
use tidegate_engine::ReadContext;
use tidegate_engine::written::PartChunks;
use tidegate_plan::ObjectId;
use tidegate_telemetry::locks::Recover as _;

/// See the module documentation.
pub(crate) struct SharedDraft {
    pub(crate) inner: Arc<Drafts>,
    pub(crate) source: Arc<ReadContext>,
    pub(crate) gate: Arc<RwLock<()>>,
    pub(crate) page: Arc<RwLock<()>>,
    state: Mutex<DraftState>,
    /// The lock of the task that appends to the journal, held also if its caller stops waiting.
    pub(crate) journal: Arc<AsyncMutex<()>>,
    /// The chunks of sent parts in memory.
    pub(crate) chunks: Arc<PartChunks>,
    /// A lock that is held while an upload is begun.
    pub(crate) uploading: AsyncMutex<()>,
    /// Changes whenever a piece is sent, a part was sent or copied, or failed.
    pub(crate) progress: watch::Sender<()>,
    /// The changes of its bytes that callers have counted.
    pub(crate) changes: AtomicU64,
}

/// A restarted journal, to which nothing is appended while this is held.
#[must_use]
pub(crate) struct RestartedJournal {
    _journal: OwnedMutexGuard<()>,
}

impl fmt::Debug for SharedDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("SharedDraft")
            .field("id", state.id())
            .field("size", &state.draft().size())
            .field("handles", &state.handles().count())
            .finish_non_exhaustive()
    }
}

impl SharedDraft {
    pub(crate) fn new(
        inner: &Arc<Drafts>,
        source: &Arc<ReadContext>,
        state: DraftState,
    ) -> Arc<Self> {
        Arc::new(Self {
            inner: inner.clone(),
            source: source.clone(),
            gate: Arc::default(),
            page: Arc::default(),
            state: Mutex::new(state),
            journal: Arc::default(),
            chunks: Arc::new(PartChunks::new(&inner.core)),
            uploading: AsyncMutex::default(),
            progress: watch::Sender::new(()),
            changes: AtomicU64::new(0),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, DraftState> {
        self.state.lock().recover()
    }

    pub(crate) fn id(&self) -> ObjectId {
        self.state().id().clone()
    }

    /// Returns its file in the spool; creates it at the first use.
    pub(crate) fn file(&self) -> Arc<SpoolFile> {
        self.file_of(&mut self.state())
    }

    pub(crate) fn file_of(&self, state: &mut DraftState) -> Arc<SpoolFile> {
        if let Some(file) = state.file() {
            return file.clone();
        }
        let file = self.inner.spool.create(state.beginning(), None);
        self.inner.spool.space.take(FILES_BYTES);
        state.open_file(file.clone());
        file
    }

    /// Appends the queued records to the journal.
    pub(crate) async fn flush(&self) -> Result<(), WriteError> {
        let journal = self.journal.clone().lock_owned().await;
        let queued = self.state().take_records();
        match queued {
            Some((file, records)) if !records.is_empty() => {
                let appended = file.blocking(move |file| {
                    let _journal = journal;
                    file.note(&records)
                });
                Ok(appended.await?)
            }
            _ => Ok(()),
        }
    }

    /// Appends them durably: for records that a power loss must not undo.
    pub(crate) async fn flush_durably(&self) -> Result<(), WriteError> {
        let journal = self.journal.clone().lock_owned().await;
        let queued = self.state().take_records();
        match queued {
            Some((file, records)) => {
                let appended = file.blocking(move |file| {
                    let _journal = journal;
                    file.note_durably(&records)
                });
                Ok(appended.await?)
            }
            None => Ok(()),
        }
    }

    /// Makes the written bytes and the journal durable. Does nothing for a published object, nor for a deleted one,
    /// which must not return after a crash.
    pub(crate) async fn sync(self: &Arc<Self>) -> Result<(), WriteError> {
        self.sync_if(|_| true).await.map(drop)
    }

    /// Syncs if `is_wanted` accepts the current state; returns whether it did. Does nothing for an object that was
    /// published or deleted, and returns `true`.
    pub(crate) async fn sync_if(
        self: &Arc<Self>,
        is_wanted: impl Fn(&DraftState) -> bool,
    ) -> Result<bool, WriteError> {
        let longest = self.inner.settings.journal;
        let times = self.inner.core.times.clone();
        let (journal, file, records, anew) = loop {
            let journal = self.journal.clone().lock_owned().await;
            {
                let mut state = self.state();
                // A publish may have ended while this waited: the bucket has it, and nothing is left to promise.
                if !state.phase().is_unpublished() {
                    return Ok(true);
                }
                if !is_wanted(&state) {
                    return Ok(false);
                }
                if state.copied_base().is_none() {
                    let file = self.file_of(&mut state);
                    let records = state.begin_sync();
                    times.keep_draft(state.id(), state.times());
                    // Later writes are not durable, and records of them must not claim it.
                    // During a publish under another key the journal keeps the old one.
                    let is_long = file.grown() > longest && !state.phase().is_publishing();
                    let anew = is_long.then(|| state.journal_snapshot());
                    break (journal, file, records, anew);
                }
            }
            drop(journal);
            self.detach_base().await?;
        };
        let writing = self.clone();
        let synced = file.blocking(move |file| {
            let _journal = journal;
            if let Err(error) = file.sync(&records) {
                // Before the next sync, and also if the caller has stopped waiting.
                writing.state().step(Step::FailSync);
                return Err(error);
            }
            writing.state().step(Step::EndSync);
            // While the journal is held: later another writer may have begun the next edition, which replaces this one.
            writing.discard_replaced_edition();
            if let Some((begin, records)) = anew {
                file.renew(*begin, records);
            }
            Ok(())
        });
        let synced = synced.await;
        times.write_out().await;
        synced?;
        Ok(true)
    }

    /// Begins the journal anew, on another base and without bytes in the spool. No record is
    /// appended before the result is dropped, because the state still describes the old base.
    pub(crate) async fn restart(&self, base: &BaseVersion) -> Result<RestartedJournal, WriteError> {
        let journal = self.journal.clone().lock_owned().await;
        let (file, begin, promised) = {
            let mut state = self.state();
            let begin = state.restart_journal(base);
            (state.file().cloned(), begin, state.phase().is_promised())
        };
        match file {
            Some(file) => {
                let restarted = file.blocking(move |file| {
                    file.restart(&begin, promised)?;
                    Ok(journal)
                });
                Ok(RestartedJournal {
                    _journal: restarted.await?,
                })
            }
            None => Ok(RestartedJournal { _journal: journal }),
        }
    }

    /// Checks that the disk would let go of the journal, if the next process would take it up.
    ///
    /// # Errors
    /// The disk's: the object must stay as it is.
    pub(crate) async fn check_journal(&self) -> Result<(), WriteError> {
        let file = {
            let state = self.state();
            state.file().filter(|_| state.is_promised()).cloned()
        };
        match file {
            Some(file) => Ok(file.blocking(|file| file.check_journal()).await?),
            None => Ok(()),
        }
    }

    /// Forgets the files in the spool, and releases their room. The caller must remove the returned
    /// file.
    #[must_use]
    pub(crate) fn take_file(&self, state: &mut DraftState) -> Option<Arc<SpoolFile>> {
        let (file, room) = state.drop_file();
        self.inner.spool.space.give(room);
        let file = file?;
        self.inner.spool.space.give(FILES_BYTES);
        Some(file)
    }
}
