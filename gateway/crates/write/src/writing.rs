//! One object that is being written: the state that all its handles share.
//!
//! Three locks, taken in this order and never the other way round. `gate`: writes share it, a
//! commit or a cut holds it alone. `page`: writes share it, a fill holds it alone, so that bytes of
//! the base never overwrite bytes that were just written. `state`: held briefly, never across a
//! wait.
//!
//! Journal records are queued under the lock of the state that they describe, and appended in that
//! order (`flush`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, RwLock, watch};
use tokio::time::Instant;

use super::edition::Before;
use super::noted::noted;
use super::tried::Tried;
use super::{Drafts, WriteError};
use crate::spool::FILES;
use crate::spool::file::SpoolFile;
use crate::spool::journal::{Begin, GuardWord, Record};
use tidegate_engine::ReadContext;
use tidegate_engine::times::{Times, following};
use tidegate_engine::written::PartChunks;
use tidegate_origin::write::Headers;
use tidegate_origin::{CompletedPart, CopySource, Guard, Sums, Upload};
use tidegate_plan::upload::{Draft, GonePart};
use tidegate_plan::{ByteRange, ETag, Extents, ObjectId, ObjectKey, Timestamp, Version};

/// See the module documentation.
pub(super) struct Writing {
    pub(super) inner: Arc<Drafts>,
    pub(super) source: Arc<ReadContext>,
    pub(super) gate: Arc<RwLock<()>>,
    pub(super) page: Arc<RwLock<()>>,
    state: Mutex<State>,
    /// The lock of the task that appends to the journal, held also if its caller stops waiting.
    pub(super) journal: Arc<AsyncMutex<()>>,
    /// The chunks of sent parts in memory.
    pub(super) chunks: Arc<PartChunks>,
    /// A lock that is held while an upload is begun.
    pub(super) uploading: AsyncMutex<()>,
    /// Changes whenever a piece is sent, a part was sent or copied, or failed.
    pub(super) progress: watch::Sender<()>,
}

pub(super) struct State {
    pub(super) id: ObjectId,
    pub(super) draft: Draft,
    pub(super) base: Option<Pinned>,
    pub(super) headers: Headers,
    pub(super) guard: Guard,
    pub(super) upload: Option<Upload>,
    /// The headers that the upload was begun with.
    pub(super) begun_with: Headers,
    /// Whether parts are sent to a staging key.
    pub(super) hidden: bool,
    /// Whether each part is copied on its own, because the store wants all of one size.
    pub(super) apart: bool,
    /// The checksums of parts that an earlier process sent, until they are compared with the spool.
    pub(super) unverified: BTreeMap<u32, Sums>,
    /// The checksums of sent parts, for the journal and for the completion.
    pub(super) sums: BTreeMap<u32, Sums>,
    /// The parts of a completion, until its outcome is known.
    pub(super) completing: Option<Vec<CompletedPart>>,
    /// The tag of the object before the completion, if the new object's own tag will not be known.
    pub(super) before: Option<ETag>,
    /// Our objects that are, or may be, in the bucket.
    pub(super) tried: Tried,
    pub(super) file: Option<Arc<SpoolFile>>,
    /// The promised edition that this unpromised one replaces.
    pub(super) edition_before: Option<Before>,
    /// Ranges that were to leave the spool and are still there, with their byte counts. The draft
    /// counts them no more.
    pub(super) leaving: Vec<(ByteRange, u64)>,
    /// Bytes written since the last journal record of them.
    pub(super) unnoted: Extents,
    /// Records to append to the journal.
    pub(super) records: Vec<Record>,
    /// The time of the last write; before the first one, the times of its base.
    pub(super) times: Times,
    /// Changes with every write and every changed header.
    pub(super) revision: u64,
    /// Whether it differs from the bucket's version.
    pub(super) dirty: bool,
    /// Whether a `fsync` or `close` has promised it.
    pub(super) promised: bool,
    /// Whether anything was written or set since the last sync.
    pub(super) unsynced: bool,
    /// Whether anything was written or set since the last close: a writer may be half way through.
    pub(super) unclosed: bool,
    /// Whether the closed version was truncated to nothing since: nothing of it is left to publish.
    pub(super) replaced: bool,
    /// Whether some of its bytes exist nowhere any more.
    pub(super) lost: bool,
    pub(super) handles: usize,
    /// Parts being sent.
    pub(super) sending: usize,
    /// Whether parts are being evicted ahead of need.
    pub(super) evicting: bool,
    /// Whether it is being published: no part is sent ahead.
    pub(super) closing: bool,
    /// The latest error of a part.
    pub(super) failure: Option<WriteError>,
    /// Failures in a row. No part is sent ahead before `not_before`.
    pub(super) failures: u32,
    pub(super) not_before: Option<Instant>,
    /// Whether it was deleted: further writes are discarded.
    pub(super) removed: bool,
    /// Whether it is committed in the background, or queued for that. `trouble` is the last error.
    pub(super) queued: bool,
    /// Whether it was closed again since the last try began.
    pub(super) asked: bool,
    pub(super) trouble: Option<WriteError>,
    /// The version that was committed last.
    pub(super) committed: Option<Arc<Version>>,
}

/// A restarted journal, to which nothing is appended while this is held.
#[must_use]
pub(super) struct Restarted {
    _journal: OwnedMutexGuard<()>,
}

/// A version that a draft is based on, and its key.
#[derive(Debug, Clone)]
pub(super) struct Pinned {
    pub(super) key: ObjectKey,
    pub(super) version: Arc<Version>,
}

impl Pinned {
    pub(super) fn source(&self) -> CopySource {
        CopySource {
            key: self.key.clone(),
            etag: self.version.etag.clone(),
        }
    }
}

impl fmt::Debug for Writing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Writing")
            .field("id", &state.id)
            .field("size", &state.draft.size())
            .field("handles", &state.handles)
            .finish_non_exhaustive()
    }
}

impl State {
    /// Returns a state that begins as `base`, or empty.
    pub(super) fn new(
        inner: &Drafts,
        id: ObjectId,
        base: Option<Pinned>,
        headers: Headers,
        guard: Guard,
    ) -> Self {
        let length = base.as_ref().map_or(0, |base| base.version.size);
        let draft = Draft::new(inner.settings.parts, length).with_kept_ends(inner.settings.kept);
        let begins_as = base.as_ref().map(|base| &*base.version);
        let times = inner.core.times_of_draft(&id, begins_as);
        Self {
            id,
            draft,
            base,
            headers,
            guard,
            upload: None,
            begun_with: Headers::new(),
            hidden: false,
            apart: false,
            unverified: BTreeMap::new(),
            sums: BTreeMap::new(),
            completing: None,
            before: None,
            tried: Tried::default(),
            file: None,
            edition_before: None,
            leaving: Vec::new(),
            unnoted: Extents::default(),
            records: Vec::new(),
            times,
            revision: 0,
            dirty: false,
            promised: false,
            unsynced: false,
            unclosed: false,
            replaced: false,
            lost: false,
            handles: 0,
            sending: 0,
            evicting: false,
            closing: false,
            failure: None,
            failures: 0,
            not_before: None,
            removed: false,
            queued: false,
            asked: false,
            trouble: None,
            committed: None,
        }
    }

    /// Announces a write: readers of the closed draft notice it before a byte changes.
    pub(super) fn begin_write(&mut self, range: ByteRange) -> Result<(), GonePart> {
        self.draft.begin_write(range)?;
        self.revision += 1;
        self.unclosed = true;
        Ok(())
    }

    /// Notes a write. It invalidates a completion under way.
    pub(super) fn touched(&mut self, now: Timestamp) {
        self.times = Times::at(following(now, self.times.changed, self.dirty));
        self.revision += 1;
        self.dirty = true;
        self.unsynced = true;
        self.unclosed = true;
        self.completing = None;
    }

    /// Notes that the last writer closed it or has gone.
    pub(super) fn closed(&mut self) {
        (self.unclosed, self.replaced) = (false, false);
    }

    /// Returns whether an open handle has changed it since the last close.
    pub(super) fn is_half_way(&self) -> bool {
        self.handles > 0 && self.unclosed
    }

    /// Fails if bytes of it are lost.
    pub(super) fn whole(&self) -> Result<(), WriteError> {
        match self.lost {
            true => Err(WriteError::Lost),
            false => Ok(()),
        }
    }

    /// Returns the first record of this draft's journal.
    pub(super) fn beginning(&self) -> Begin {
        Begin {
            origin: self.id.origin.0,
            key: self.id.key.as_str().to_owned(),
            headers: noted(&self.headers),
            guard: match &self.guard {
                Guard::None => GuardWord::None,
                Guard::Absent => GuardWord::Absent,
                Guard::Same(etag) => GuardWord::Same(etag.as_str().to_owned()),
            },
            base: self.base.as_ref().map(Pinned::noted),
            first_part: self.draft.sizes().first(),
            hidden: self.hidden,
            replaces: self.edition_before.as_ref().map(Before::id),
        }
    }

    /// Releases the memory of the written bytes, which are read from the disk from now on. A
    /// failing origin may fail for long, and other writers want the memory.
    pub(super) fn hold_no_memory(&self) {
        if let Some(file) = &self.file {
            file.let_go(ByteRange::new(0, u64::MAX));
        }
    }

    /// Takes the queued records and the journal's file. Without a file, the records stay queued.
    fn take_records(&mut self) -> Option<(Arc<SpoolFile>, Vec<Record>)> {
        let file = self.file.clone()?;
        Some((file, std::mem::take(&mut self.records)))
    }

    /// Takes the room that it has in the spool, except that of its journal.
    pub(super) fn take_room(&mut self) -> u64 {
        let leaving = std::mem::take(&mut self.leaving).into_iter();
        self.draft.local().bytes() + leaving.map(|(_, freed)| freed).sum::<u64>()
    }

    /// Queues records of the bytes written since the last ones.
    pub(super) fn note_written(&mut self) {
        if self.unnoted.iter().next().is_some() {
            let unnoted = std::mem::take(&mut self.unnoted);
            self.records
                .extend(Record::wrote(self.draft.size(), &unnoted));
        }
    }
}

impl Writing {
    pub(super) fn new(inner: &Arc<Drafts>, source: &Arc<ReadContext>, state: State) -> Arc<Self> {
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
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn id(&self) -> ObjectId {
        self.state().id.clone()
    }

    /// Returns its file in the spool; creates it at the first use.
    pub(super) fn file(&self) -> Arc<SpoolFile> {
        self.file_of(&mut self.state())
    }

    fn file_of(&self, state: &mut State) -> Arc<SpoolFile> {
        if let Some(file) = state.file.clone() {
            return file;
        }
        let file = self.inner.spool.create(state.beginning(), None);
        self.inner.spool.space.take(FILES);
        state.file = Some(file.clone());
        file
    }

    /// Appends the queued records to the journal.
    pub(super) async fn flush(&self) -> Result<(), WriteError> {
        let journal = self.journal.clone().lock_owned().await;
        let queued = self.state().take_records();
        match queued {
            Some((file, records)) if !records.is_empty() => {
                let noted = file.blocking(move |file| {
                    let _journal = journal;
                    file.note(&records)
                });
                Ok(noted.await?)
            }
            _ => Ok(()),
        }
    }

    /// Appends them durably: for records that a power loss must not undo.
    pub(super) async fn flush_durably(&self) -> Result<(), WriteError> {
        let journal = self.journal.clone().lock_owned().await;
        let queued = self.state().take_records();
        match queued {
            Some((file, records)) => {
                let noted = file.blocking(move |file| {
                    let _journal = journal;
                    file.note_durably(&records)
                });
                Ok(noted.await?)
            }
            None => Ok(()),
        }
    }

    /// Makes the written bytes and the journal durable. Does nothing for a deleted object, which
    /// must not return after a crash.
    pub(super) async fn sync(self: &Arc<Self>) -> Result<(), WriteError> {
        self.sync_if(|_| true).await.map(drop)
    }

    /// Syncs if `is_wanted` accepts the current state; returns whether it did.
    pub(super) async fn sync_if(
        self: &Arc<Self>,
        is_wanted: impl FnOnce(&State) -> bool,
    ) -> Result<bool, WriteError> {
        let journal = self.journal.clone().lock_owned().await;
        let longest = self.inner.settings.journal;
        let times = self.inner.core.times.clone();
        let (file, records, anew) = {
            let mut state = self.state();
            if state.removed {
                return Ok(true);
            }
            if !is_wanted(&state) {
                return Ok(false);
            }
            let file = self.file_of(&mut state);
            state.note_written();
            state.promised = true;
            state.unsynced = false;
            times.keep_draft(&state.id, state.times);
            let records = std::mem::take(&mut state.records);
            // Later writes are not durable, and records of them must not claim it.
            let anew = (file.grown() > longest).then(|| state.noted());
            (file, records, anew)
        };
        let synced = file.blocking(move |file| {
            let _journal = journal;
            file.sync(&records)?;
            if let Some((begin, records)) = anew {
                file.renew(begin, records);
            }
            Ok(())
        });
        let synced = synced.await;
        times.write_out().await;
        self.state().unsynced |= synced.is_err();
        synced?;
        self.let_go_of_before();
        Ok(true)
    }

    /// Begins the journal anew, on another base and without bytes in the spool. No record is
    /// appended before the result is dropped, because the state still describes the old base.
    pub(super) async fn restart(&self, base: &Pinned) -> Result<Restarted, WriteError> {
        let journal = self.journal.clone().lock_owned().await;
        let (file, begin, promised) = {
            let mut state = self.state();
            state.records = state.tried.noted();
            let begin = Begin {
                base: Some(base.noted()),
                ..state.beginning()
            };
            (state.file.clone(), begin, state.promised)
        };
        match file {
            Some(file) => {
                let restarted = file.blocking(move |file| {
                    file.restart(&begin, promised)?;
                    Ok(journal)
                });
                Ok(Restarted {
                    _journal: restarted.await?,
                })
            }
            None => Ok(Restarted { _journal: journal }),
        }
    }

    /// Forgets the files in the spool, and releases their room. The caller must remove the returned
    /// file.
    #[must_use]
    pub(super) fn drop_file(&self, state: &mut State) -> Option<Arc<SpoolFile>> {
        state.records.clear();
        state.unnoted = Extents::default();
        state.promised = false;
        self.inner.spool.space.give(state.take_room());
        let file = state.file.take()?;
        self.inner.spool.space.give(FILES);
        Some(file)
    }
}
