//! The edition that a draft replaces: see [`crate::draft::edition`].

use std::sync::Arc;

use super::DraftState;
use crate::draft::edition::{ClosedEdition, ReplacedEdition};
use crate::draft::phase::Step;
use crate::spool::FILES_BYTES;
use crate::spool::file::SpoolFile;
use crate::spool::journal::Record;

/// The files of an edition that has ended, and the last records of its journal.
pub(crate) struct EndedEdition {
    pub(crate) file: Arc<SpoolFile>,
    pub(crate) records: Vec<Record>,
    pub(crate) is_lost: bool,
}

impl DraftState {
    /// Returns whether a `fsync` or `close` has promised this edition, or the one before.
    pub(crate) fn is_promised(&self) -> bool {
        self.phase.is_promised() || self.replaces_edition()
    }

    /// Returns whether a crash would find a promised state of it other than the present one.
    pub(crate) fn has_outdated_journal(&self) -> bool {
        self.phase.is_behind() || self.replaces_edition()
    }

    /// Returns whether a crash would find the edition before this one.
    pub(crate) fn replaces_edition(&self) -> bool {
        self.replaced_edition.is_some()
    }

    /// Returns the closed edition that a writer replaces, unless the replacement is promised or in
    /// the bucket.
    pub(crate) fn replaced_closed_edition(&self) -> Option<Arc<ClosedEdition>> {
        let before = self.replaced_edition.as_ref();
        before.filter(|_| self.phase.is_dirty())?.closed.clone()
    }

    /// Hides the edition before from readers, because the object was changed another way since.
    pub(crate) fn forget_closed_edition(&mut self) {
        if let Some(before) = &mut self.replaced_edition {
            before.closed = None;
        }
    }

    /// Takes the edition before, because a crash need not find it any more.
    pub(crate) fn take_replaced_edition(&mut self) -> Option<ReplacedEdition> {
        self.replaced_edition.take()
    }

    /// Begins an empty edition if this one was promised and is not empty. Returns the one before; the caller makes files
    /// for the new one ([`Self::open_file`]). One that replaces another edition is not promised: its last sync
    /// failed, if there was one, and a crash must find the edition before. Uncertain commits stay: an object in the bucket
    /// may still be ours.
    pub(crate) fn begin_edition(&mut self) -> Option<EndedEdition> {
        let is_promised = self.phase.is_promised() && !self.replaces_edition();
        let is_something = is_promised && self.draft.size() > 0;
        let file = self.file().filter(|_| is_something)?.clone();
        let closed = self.closed_edition(&file);
        let freed = self.draft.truncate(0).ok()?;
        let room = freed + self.take_room() + FILES_BYTES;
        let is_lost = self.phase.is_lost();
        let records = self.journal.take_records();
        self.replaced_edition = Some(ReplacedEdition {
            id: file.id(),
            room,
            upload: self.upload.begin_edition(),
            base: self.base.take(),
            closed,
        });
        self.journal.restart(self.uncertain.records());
        self.journal.forget_written();
        if !self.draft.is_in_order() {
            self.journal.push(Record::Scattered);
        }
        self.step(Step::BeginEdition);
        Some(EndedEdition {
            file,
            records,
            is_lost,
        })
    }

    /// Returns this edition for readers if it is unchanged since its close and all of it is in the
    /// spool.
    fn closed_edition(&self, file: &Arc<SpoolFile>) -> Option<Arc<ClosedEdition>> {
        let is_whole = self.phase.is_closed_and_promised() && !self.draft.has_gone_bytes();
        is_whole.then(|| {
            Arc::new(ClosedEdition {
                revision: self.revision(),
                draft: self.draft.clone(),
                headers: self.headers().clone(),
                file: file.clone(),
                base: self.base.clone(),
            })
        })
    }
}
