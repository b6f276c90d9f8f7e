//! One object that is being written: what all its handles share.
//!
//! Three locks, taken in this order and never the other way round. `gate`: writes hold it together,
//! a commit or a cut holds it alone. `page`: writes hold it together, a fill holds it alone, so that
//! bytes of the base never overwrite what was just written. `state`: for moments, never while
//! something is waited for.
//!
//! What the journal is told is queued under the lock of the state that it speaks of, and appended in
//! that order (`flush`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, RwLock, watch};
use tokio::time::Instant;

use super::edition::Before;
use super::noted::noted;
use super::tried::Tried;
use super::{Inner, WriteError};
use crate::engine::Source;
use crate::engine::spool::FILES;
use crate::engine::spool::file::SpoolFile;
use crate::engine::spool::journal::{Begin, GuardWord, Record};
use crate::engine::times::{Times, following};
use crate::engine::written::PartChunks;
use crate::origin::write::Headers;
use crate::origin::{CompletedPart, CopySource, Guard, Sums, Upload};
use crate::plan::upload::{Draft, Gone};
use crate::plan::{ByteRange, ETag, Extents, ObjectId, ObjectKey, Timestamp, Version};

/// See the module's head.
pub(super) struct Writing {
    pub(super) inner: Arc<Inner>,
    pub(super) source: Arc<Source>,
    pub(super) gate: Arc<RwLock<()>>,
    pub(super) page: Arc<RwLock<()>>,
    state: Mutex<State>,
    /// Held while the journal is appended to, by who does that: also if nobody waits for it any more.
    pub(super) journal: Arc<AsyncMutex<()>>,
    /// What memory holds of the parts that were sent.
    pub(super) chunks: Arc<PartChunks>,
    /// Held while an upload is begun.
    pub(super) uploading: AsyncMutex<()>,
    /// Changes whenever a piece of a part is on its way, a part was sent or copied, or could not be.
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
    /// Parts go up under a hidden key.
    pub(super) hidden: bool,
    /// Each part is copied for itself: the store wants all of one size.
    pub(super) apart: bool,
    /// The checksums of parts that an earlier process sent, as long as it was not looked whether the
    /// spool has the same.
    pub(super) unverified: BTreeMap<u32, Sums>,
    /// The checksums of parts that were sent, for a journal, and for the list at the end.
    pub(super) sums: BTreeMap<u32, Sums>,
    /// The parts that it is being completed of, until it is known what came of that.
    pub(super) completing: Option<Vec<CompletedPart>>,
    /// The tag of what lay under the key before it was completed, where its own will not be known.
    pub(super) before: Option<ETag>,
    /// What may be in the bucket, written by us.
    pub(super) tried: Tried,
    pub(super) file: Option<Arc<SpoolFile>>,
    /// What was promised, and is replaced by what is not.
    pub(super) edition_before: Option<Before>,
    /// What was to leave the spool, does not count for the draft any more, and is there still: which bytes,
    /// and how many.
    pub(super) leaving: Vec<(ByteRange, u64)>,
    /// Written since the journal was told last.
    pub(super) unnoted: Extents,
    /// What the journal is to be told.
    pub(super) records: Vec<Record>,
    /// When it was written to last; before that, the times of what it begins as.
    pub(super) times: Times,
    /// Changes with every write, and whenever something is set.
    pub(super) revision: u64,
    /// It differs from what is in the bucket.
    pub(super) dirty: bool,
    /// A `fsync` or `close` has promised it.
    pub(super) promised: bool,
    /// Something was written, or set, since the last of those.
    pub(super) unsynced: bool,
    /// The same since it was last to be published: whoever writes may be half way through.
    pub(super) unclosed: bool,
    /// What was closed before has been cut to nothing since: there is nothing of it to be published.
    pub(super) replaced: bool,
    /// Bytes of it are nowhere any more.
    pub(super) lost: bool,
    pub(super) handles: usize,
    /// Parts on their way.
    pub(super) sending: usize,
    /// Parts leave the spool ahead of need.
    pub(super) evicting: bool,
    /// It is being published: no part is sent ahead.
    pub(super) closing: bool,
    /// Why a part could not be sent, lately.
    pub(super) failure: Option<WriteError>,
    /// Failures in a row; no part is sent ahead before `not_before`.
    pub(super) failures: u32,
    pub(super) not_before: Option<Instant>,
    /// It was deleted: what is written to it goes nowhere.
    pub(super) removed: bool,
    /// It is being, or waits to be, committed in the background; why that failed last.
    pub(super) queued: bool,
    /// It was closed (again) since the last try began.
    pub(super) asked: bool,
    pub(super) trouble: Option<WriteError>,
    /// The version that it was committed as last.
    pub(super) committed: Option<Arc<Version>>,
}

/// A journal that has begun anew, and that nobody notes anything in.
#[must_use]
pub(super) struct Restarted {
    _journal: OwnedMutexGuard<()>,
}

/// A version that a draft is based on, and the key where it is.
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
    /// One that begins as `base`, or as nothing.
    pub(super) fn new(
        inner: &Inner,
        id: ObjectId,
        base: Option<Pinned>,
        headers: Headers,
        guard: Guard,
    ) -> Self {
        let length = base.as_ref().map_or(0, |base| base.version.size);
        let draft = Draft::new(inner.settings.parts, length).keeping(inner.settings.kept);
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

    /// Announces a write: readers of the draft as it was closed are told before a byte of it changes.
    pub(super) fn begin_write(&mut self, range: ByteRange) -> Result<(), Gone> {
        self.draft.begin_write(range)?;
        self.revision += 1;
        self.unclosed = true;
        Ok(())
    }

    /// Something was written: what was being completed is another object.
    pub(super) fn touched(&mut self, now: Timestamp) {
        self.times = Times::at(following(now, self.times.changed, self.dirty));
        self.revision += 1;
        self.dirty = true;
        self.unsynced = true;
        self.unclosed = true;
        self.completing = None;
    }

    /// Whoever wrote last says that it is complete, or has gone.
    pub(super) fn closed(&mut self) {
        (self.unclosed, self.replaced) = (false, false);
    }

    /// Whether a writer that holds it has changed it since it was last closed.
    pub(super) fn is_half_way(&self) -> bool {
        self.handles > 0 && self.unclosed
    }

    /// Unless bytes of it are lost.
    pub(super) fn whole(&self) -> Result<(), WriteError> {
        match self.lost {
            true => Err(WriteError::Lost),
            false => Ok(()),
        }
    }

    /// How the journal of this draft begins.
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

    /// An origin that fails may do so for long, and others want the memory: what was written is read
    /// from the disk from now on.
    pub(super) fn hold_no_memory(&self) {
        if let Some(file) = &self.file {
            file.let_go(ByteRange::new(0, u64::MAX));
        }
    }

    /// What is queued for the journal, and the journal's file. As long as there is none, it stays queued.
    fn take_records(&mut self) -> Option<(Arc<SpoolFile>, Vec<Record>)> {
        let file = self.file.clone()?;
        Some((file, std::mem::take(&mut self.records)))
    }

    /// Room that it has in the spool, but for its journal; from now on it has none.
    pub(super) fn take_room(&mut self) -> u64 {
        let leaving = std::mem::take(&mut self.leaving).into_iter();
        self.draft.local().bytes() + leaving.map(|(_, freed)| freed).sum::<u64>()
    }

    /// Queues what was written since the journal was told last.
    pub(super) fn note_written(&mut self) {
        if self.unnoted.iter().next().is_some() {
            let unnoted = std::mem::take(&mut self.unnoted);
            self.records
                .extend(Record::wrote(self.draft.size(), &unnoted));
        }
    }
}

impl Writing {
    pub(super) fn new(inner: &Arc<Inner>, source: &Arc<Source>, state: State) -> Arc<Self> {
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

    /// Its place in the spool; taken when it is needed first.
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

    /// Tells the journal what is queued for it.
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

    /// The same, durably: for what must not be undone by a loss of power.
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

    /// Makes everything written so far, and the journal, durable. What is written to something that was
    /// deleted goes nowhere, and is not to come back after a crash.
    pub(super) async fn sync(self: &Arc<Self>) -> Result<(), WriteError> {
        self.sync_if(|_| true).await.map(drop)
    }

    /// The same if that is wanted of it as it is then; says whether it was.
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
            // What is written from here on is not durable, and none of what it says.
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

    /// Begins the journal anew, on another base and with nothing of it in the spool. Nothing is noted
    /// before what is returned is dropped: until the state is another, it speaks of what was.
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

    /// Forgets the files in the spool, and gives their space back. What is returned must be removed.
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
