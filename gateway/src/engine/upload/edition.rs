//! Another edition of an object that was promised and is not in the bucket yet.
//!
//! A writer that cuts such an object to nothing replaces it. Until what replaces it is promised as well, or is
//! in the bucket, a crash must find the edition before: neither nothing, nor half of the next one. So the next
//! edition has files of its own in the spool, and the one before keeps its files, its upload and its base until
//! then. A change that keeps bytes of what was promised is no other edition: it is made in place.

use std::sync::Arc;

use super::writing::{Pinned, State, Writing};
use crate::engine::spool::FILES;
use crate::engine::spool::file::SpoolFile;
use crate::engine::spool::journal::Record;
use crate::origin::Upload;
use crate::origin::write::Headers;
use crate::plan::upload::Draft;
use crate::plan::{ByteRange, Extents};

/// What is kept of an edition beside its files, which the files of the next one have (`SpoolFile`).
#[derive(Debug)]
pub(super) struct Before {
    id: u64,
    /// Bytes of the spool.
    room: u64,
    upload: Option<Upload>,
    /// That upload may have been completed.
    completing: bool,
    base: Option<Pinned>,
    /// The same for readers, where it was closed.
    closed: Option<Arc<ClosedEdition>>,
}

/// A closed edition that a writer replaces. Nothing of it changes any more; its files can be read as long as this
/// is held.
#[derive(Debug)]
pub(super) struct ClosedEdition {
    /// The revision of the draft that was closed.
    pub(super) revision: u64,
    pub(super) draft: Draft,
    pub(super) headers: Headers,
    pub(super) file: Arc<SpoolFile>,
    pub(super) base: Option<Pinned>,
}

impl Before {
    /// By which name a journal knows it.
    pub(super) fn id(&self) -> u64 {
        self.id
    }
}

impl State {
    /// Whether a `fsync` or `close` has promised this edition, or the one before.
    pub(super) fn is_promised(&self) -> bool {
        self.promised || self.edition_before.is_some()
    }

    /// The closed edition that a writer replaces, unless what replaces it is promised or in the bucket.
    pub(super) fn replaced_edition(&self) -> Option<Arc<ClosedEdition>> {
        let before = self.edition_before.as_ref().filter(|_| self.dirty)?;
        before.closed.clone()
    }

    /// Readers are shown the edition before no longer: the object was changed another way since.
    pub(super) fn hide_replaced_edition(&mut self) {
        if let Some(before) = &mut self.edition_before {
            before.closed = None;
        }
    }

    /// This edition for readers, if it is as it was closed, and all of it is here.
    fn closed_edition(&self, file: &Arc<SpoolFile>) -> Option<Arc<ClosedEdition>> {
        let is_whole = self.is_closed_and_promised() && !self.draft.has_gone();
        is_whole.then(|| {
            Arc::new(ClosedEdition {
                revision: self.revision,
                draft: self.draft.clone(),
                headers: self.headers.clone(),
                file: file.clone(),
                base: self.base.clone(),
            })
        })
    }
}

impl Writing {
    /// Begins another edition, of nothing, if this one was promised and is not nothing already; says whether it
    /// did. The caller holds the gate and the page alone.
    pub(super) async fn begin_edition(self: &Arc<Self>) -> bool {
        let _journal = self.journal.lock().await;
        let promised = self.state().promised;
        if promised {
            // The one before that counts no more.
            self.let_go_of_before();
        }
        let (file, records, is_lost) = {
            let mut state = self.state();
            let is_something = promised && state.draft.size() > 0;
            let Some(file) = state.file.clone().filter(|_| is_something) else {
                return false;
            };
            let closed = state.closed_edition(&file);
            let Ok(freed) = state.draft.truncate(0) else {
                return false;
            };
            let room = freed + state.take_room() + FILES;
            let is_lost = state.lost;
            let records = std::mem::take(&mut state.records);
            state.edition_before = Some(Before {
                id: file.id(),
                room,
                upload: state.upload.take(),
                completing: state.completing.take().is_some(),
                base: state.base.take(),
                closed,
            });
            state.begin_anew();
            let spool = &self.inner.spool;
            spool.space.take(FILES);
            state.file = Some(spool.create(state.beginning(), Some(file.clone())));
            state.touched(self.inner.core.now());
            (file, records, is_lost)
        };
        self.chunks.clear();
        if is_lost {
            // No crash can go back to that.
            let _ = file.removed().await;
            self.let_go_of_before();
            return true;
        }
        // What has happened to the one before since it was promised: if it is not told that, no more is lost
        // than requests.
        let told = file.blocking(move |file| file.note(&records)).await;
        if let Err(error) = told {
            tracing::debug!(%error, "the journal of a replaced object cannot be told what was sent of it");
        }
        file.let_go(ByteRange::new(0, u64::MAX));
        true
    }

    /// Makes an edition durable that replaces a promised one, before the bucket is asked to: else a crash would
    /// find the one before, and publish it over this one. Where the disk takes no more, the object is published
    /// all the same, for that frees room.
    pub(super) async fn promise_edition(self: &Arc<Self>) {
        let replaces = |state: &State| state.edition_before.is_some();
        if let Err(error) = self.sync_if(replaces).await {
            let key = self.id().key;
            tracing::warn!(%error, key = key.as_str(), "what replaces a closed object cannot be made durable before it is published");
        }
    }

    /// The edition before counts no more, and its files have gone: so do its upload and its base.
    pub(super) fn let_go_of_before(self: &Arc<Self>) {
        let Some(before) = self.state().edition_before.take() else {
            return;
        };
        self.inner.spool.space.give(before.room);
        if let Some(upload) = before.upload {
            if before.completing {
                self.drop_hidden_key(upload.key.clone(), None);
            }
            self.give_up(upload);
        }
        self.drop_hidden(before.base);
    }
}

impl State {
    /// Nothing that was told, sent or lost of an edition is so of the next; what may be in the bucket is ours
    /// still.
    fn begin_anew(&mut self) {
        self.unnoted = Extents::default();
        self.records = self.tried.noted();
        let is_scattered = !self.draft.is_in_order();
        self.records
            .extend(is_scattered.then_some(Record::Scattered));
        self.unverified.clear();
        self.sums.clear();
        self.before = None;
        self.hidden = false;
        self.promised = false;
        self.replaced = true;
        self.lost = false;
        self.trouble = None;
    }
}
