//! Beginning the next edition of a promised draft, and discarding the one that it replaces.

use std::sync::Arc;

use crate::draft::edition::ReplacedEdition;
use crate::draft::shared_draft::SharedDraft;
use crate::draft::state::DraftState;
use crate::spool::FILES_BYTES;
use tidegate_plan::ByteRange;

impl SharedDraft {
    /// Begins an empty edition if this one was promised and is not empty; returns whether it did.
    /// The caller holds the gate and the page alone.
    pub(crate) async fn begin_edition(self: &Arc<Self>) -> bool {
        let _journal = self.journal.lock().await;
        let promised = self.state().phase.is_promised();
        if promised {
            // The edition before that one is superseded.
            self.discard_replaced_edition();
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
            let room = freed + state.take_room() + FILES_BYTES;
            let is_lost = state.phase.is_lost();
            let records = std::mem::take(&mut state.records);
            state.replaced_edition = Some(ReplacedEdition {
                id: file.id(),
                room,
                upload: state.upload.take(),
                completing: state.completing.take().is_some(),
                base: state.base.take(),
                closed,
            });
            state.begin_anew();
            let spool = &self.inner.spool;
            spool.space.take(FILES_BYTES);
            state.file = Some(spool.create(state.beginning(), Some(file.clone())));
            state.note_change(self.inner.core.now());
            (file, records, is_lost)
        };
        self.chunks.clear();
        if is_lost {
            // A crash cannot restore that edition.
            let _ = file.removed().await;
            self.discard_replaced_edition();
            return true;
        }
        // Records of the edition before, queued since it was promised. If its journal does not get
        // them, only requests are lost.
        let appended = file.blocking(move |file| file.note(&records)).await;
        if let Err(error) = appended {
            tracing::debug!(%error, "cannot note in the journal of a replaced object which parts were sent");
        }
        file.let_go(ByteRange::new(0, u64::MAX));
        true
    }

    /// Makes an edition that replaces a promised one durable before it is published. Otherwise a
    /// crash would find the one before, and publish it over this one. A full disk does not stop the
    /// publish, because that frees room.
    pub(crate) async fn promise_edition(self: &Arc<Self>) {
        let replaces = |state: &DraftState| state.replaced_edition.is_some();
        if let Err(error) = self.sync_if(replaces).await {
            let key = self.id().key;
            tracing::warn!(%error, key = key.as_str(), "cannot make the replacement of a closed object durable before its publish");
        }
    }

    /// Drops the edition before, whose files are removed, with its upload and its base.
    pub(crate) fn discard_replaced_edition(self: &Arc<Self>) {
        let Some(before) = self.state().replaced_edition.take() else {
            return;
        };
        self.inner.spool.space.give(before.room);
        if let Some(upload) = before.upload {
            if before.completing {
                self.delete_staging_key(upload.key.clone(), None);
            }
            self.abandon_upload(upload);
        }
        self.delete_staged_base(before.base);
    }
}
