//! The next edition of an object that was promised and is not in the bucket yet.
//!
//! A writer that truncates such an object to nothing replaces it. Until the replacement is promised
//! too, or is in the bucket, a crash must find the edition before: neither nothing, nor half of the
//! next one. So the next edition has files of its own in the spool. The one before keeps its files,
//! its upload and its base until then. A change that keeps promised bytes is made in place, without
//! a new edition.

use std::sync::Arc;

use super::writing::{Pinned, State, Writing};
use crate::spool::FILES;
use crate::spool::file::SpoolFile;
use crate::spool::journal::Record;
use tidegate_origin::Upload;
use tidegate_origin::write::Headers;
use tidegate_plan::upload::Draft;
use tidegate_plan::{ByteRange, Extents};

/// The state of a replaced edition, beside its files, which the next edition's files hold
/// (`SpoolFile`).
#[derive(Debug)]
pub(super) struct Before {
    id: u64,
    /// Its bytes in the spool.
    room: u64,
    upload: Option<Upload>,
    /// Whether that upload may have been completed.
    completing: bool,
    base: Option<Pinned>,
    /// The edition for readers, if it was closed.
    closed: Option<Arc<ClosedEdition>>,
}

/// A closed edition that a writer replaces. It does not change any more. Its files can be read as
/// long as this value is held.
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
    /// Returns the number by which a journal knows it.
    pub(super) fn id(&self) -> u64 {
        self.id
    }
}

impl State {
    /// Returns whether a `fsync` or `close` has promised this edition, or the one before.
    pub(super) fn is_promised(&self) -> bool {
        self.promised || self.edition_before.is_some()
    }

    /// Returns the closed edition that a writer replaces, unless the replacement is promised or in
    /// the bucket.
    pub(super) fn replaced_edition(&self) -> Option<Arc<ClosedEdition>> {
        let before = self.edition_before.as_ref().filter(|_| self.dirty)?;
        before.closed.clone()
    }

    /// Hides the edition before from readers, because the object was changed another way since.
    pub(super) fn hide_replaced_edition(&mut self) {
        if let Some(before) = &mut self.edition_before {
            before.closed = None;
        }
    }

    /// Returns this edition for readers if it is unchanged since its close and all of it is in the
    /// spool.
    fn closed_edition(&self, file: &Arc<SpoolFile>) -> Option<Arc<ClosedEdition>> {
        let is_whole = self.is_closed_and_promised() && !self.draft.has_gone_bytes();
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
    /// Begins an empty edition if this one was promised and is not empty; returns whether it did.
    /// The caller holds the gate and the page alone.
    pub(super) async fn begin_edition(self: &Arc<Self>) -> bool {
        let _journal = self.journal.lock().await;
        let promised = self.state().promised;
        if promised {
            // The edition before that one is superseded.
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
            // A crash cannot restore that edition.
            let _ = file.removed().await;
            self.let_go_of_before();
            return true;
        }
        // Records of the edition before, queued since it was promised. If its journal does not get
        // them, only requests are lost.
        let told = file.blocking(move |file| file.note(&records)).await;
        if let Err(error) = told {
            tracing::debug!(%error, "the journal of a replaced object cannot be told what was sent of it");
        }
        file.let_go(ByteRange::new(0, u64::MAX));
        true
    }

    /// Makes an edition that replaces a promised one durable before it is published. Otherwise a
    /// crash would find the one before, and publish it over this one. A full disk does not stop the
    /// publish, because that frees room.
    pub(super) async fn promise_edition(self: &Arc<Self>) {
        let replaces = |state: &State| state.edition_before.is_some();
        if let Err(error) = self.sync_if(replaces).await {
            let key = self.id().key;
            tracing::warn!(%error, key = key.as_str(), "what replaces a closed object cannot be made durable before it is published");
        }
    }

    /// Drops the edition before, whose files are removed, with its upload and its base.
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
    /// Resets all state of an edition that does not apply to the next. Uncertain commits stay: an
    /// object in the bucket may still be ours.
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
