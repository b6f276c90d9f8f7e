//! Room in the spool: waiting for it, and evicting sent parts.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::abort::{note_left, try_to_abort};
use crate::draft::shared_draft::SharedDraft;
use crate::draft::state::room::LeavingRange;
use crate::draft::state::upload::LeftUpload;
use crate::spool::file::SpoolFile;
use crate::task::run_to_completion;
use crate::{Drafts, WriteError};
use tidegate_origin::Upload;
use tidegate_plan::ByteRange;
use tidegate_plan::upload::SendOccasion;

/// The interval at which a waiting writer checks again whether a part can be evicted.
const RELIEVE_INTERVAL: Duration = Duration::from_millis(200);

/// The most bytes evicted at once, for one sync of the journal.
const MAX_EVICTION: u64 = 256 << 20;

impl Drafts {
    /// Reserves room for `bytes`; waits until there is some.
    pub(crate) async fn reserve(&self, bytes: u64) -> Result<(), WriteError> {
        let space = &self.spool.space;
        if bytes == 0 || space.try_take(bytes) {
            return Ok(());
        }
        self.metrics.held_back.inc();
        let until = Instant::now() + self.settings.patience;
        let mut freed = space.freed();
        loop {
            freed.mark_unchanged();
            if space.try_take(bytes) {
                return Ok(());
            }
            if self.relieve().await {
                continue;
            }
            tokio::select! {
                changed = timeout_at(until.min(Instant::now() + RELIEVE_INTERVAL), freed.changed()) => {
                    if changed.is_err() && Instant::now() >= until {
                        return Err(WriteError::Full);
                    }
                }
                () = self.core.stop.cancelled() => return Err(WriteError::Closing),
            }
        }
    }

    /// Evicts parts of any draft. If there are none, sends more of them.
    async fn relieve(&self) -> bool {
        let writings: Vec<_> = self.writings().values().cloned().collect();
        for writing in &writings {
            match writing.evict().await {
                Ok(true) => {
                    writing.state().room_mut().note_eviction();
                    return true;
                }
                Ok(false) => {}
                Err(error) => {
                    // Its own writers get the error; the waiting writers, who look all the time, may be others.
                    let mut state = writing.state();
                    if state.room_mut().note_failed_eviction() {
                        let key = state.id().key.as_str();
                        tracing::warn!(%error, key, "cannot evict sent parts from the spool");
                    }
                }
            }
        }
        for writing in &writings {
            writing.kick(SendOccasion::Pressed);
        }
        false
    }

    /// Returns how many bytes are evicted at once.
    fn at_once(&self) -> u64 {
        MAX_EVICTION.min(self.spool.space.size() / 16)
    }

    /// Returns whether the free room is less than one eviction.
    fn is_crowded(&self) -> bool {
        let space = &self.spool.space;
        space.used().saturating_add(self.at_once()) > space.size()
    }
}

impl SharedDraft {
    /// Evicts the oldest sent parts. A draft that was not written in order, or any draft with
    /// [`crate::Settings::read_back`], first switches to a staging key, and sends its parts there
    /// again. They can be read back from there.
    async fn evict(self: &Arc<Self>) -> Result<bool, WriteError> {
        let (file, parts) = {
            let mut state = self.state();
            let Some(file) = state.file().cloned() else {
                return Ok(false);
            };
            let needs_none = state.draft().is_in_order() && !self.inner.settings.read_back;
            if !state.upload().is_staged() && !needs_none && !state.draft().has_gone_bytes() {
                // Not while it is being committed or written to.
                if let Ok(_alone) = self.gate.try_write() {
                    let left = state.begin_staging();
                    left.into_iter()
                        .for_each(|upload| self.abandon_upload(upload));
                }
                return Ok(false);
            }
            // A part that an earlier process sent may differ from the bytes here.
            if !state.upload().is_verified() {
                return Ok(false);
            }
            let parts = state.evict(self.inner.at_once());
            (file, parts)
        };
        if parts.is_empty() {
            return Ok(false);
        }
        let writing = self.clone();
        let gone = async move { writing.remove_evicted(&file, parts).await };
        run_to_completion(&self.inner.core, gone)
            .await
            .map(|()| true)
    }

    /// Removes evicted parts from the spool, which the draft no longer counts.
    async fn remove_evicted(
        self: &Arc<Self>,
        file: &Arc<SpoolFile>,
        parts: Vec<LeavingRange>,
    ) -> Result<(), WriteError> {
        // Before the bytes go: a journal without the part would send zeros in its place. And the
        // journal of a promised draft counts written bytes only up to its last sync.
        let mut done = match self.sync_if(|state| state.phase().is_promised()).await {
            Ok(false) => self.flush_durably().await,
            synced => synced.map(drop),
        };
        for (range, freed) in parts {
            let _page = self.page.write().await;
            // A part that was written to again is kept. So is one of a deleted or replaced file:
            // its journal may still exist, and does not know of the eviction.
            let kept = {
                let state = self.state();
                let is_replaced = !state.has_file(file);
                state.phase().is_discarded()
                    || is_replaced
                    || state.draft().local().within(range).next().is_some()
            };
            if done.is_ok() && !kept {
                let punched = file.blocking(move |file| file.punch(range)).await;
                done = punched.map_err(WriteError::from);
            }
            if done.is_err() && self.leaves_later(file, range, freed) {
                continue;
            }
            self.inner.metrics.evicted.inc();
            self.inner.spool.space.give(freed);
        }
        done
    }

    /// Keeps the room of bytes that could not leave the spool, as long as the file exists.
    fn leaves_later(&self, file: &Arc<SpoolFile>, range: ByteRange, freed: u64) -> bool {
        let mut state = self.state();
        let is_there = state.has_file(file);
        if is_there {
            state.room_mut().leave_later((range, freed));
        }
        is_there
    }

    /// Evicts the oldest parts of a draft that does not fit into the spool, before a writer has to
    /// wait.
    pub(crate) fn evict_ahead(self: &Arc<Self>) {
        if !self.inner.is_crowded() {
            return;
        }
        {
            let mut state = self.state();
            if !state.draft().has_gone_bytes() || !state.room_mut().begin_evicting() {
                return;
            }
        }
        let writing = self.clone();
        self.inner.core.spawn(async move {
            if let Err(error) = writing.evict().await {
                tracing::warn!(%error, "sent parts cannot leave the spool");
            }
            writing.state().room_mut().end_evicting();
        });
    }

    /// Gives up an upload. If its completion may have happened, deletes the object under its staging key.
    pub(crate) fn give_up_upload(self: &Arc<Self>, left: Option<LeftUpload>) {
        if let Some(LeftUpload {
            upload,
            may_be_complete,
        }) = left
        {
            if may_be_complete {
                self.delete_staging_key(upload.key.clone(), None);
            }
            self.abandon_upload(upload);
        }
    }

    /// Aborts an upload in the background. Aborts it again once no part is being sent, because a
    /// part that arrives after the first abort may stay (S3, `AbortMultipartUpload`).
    pub(crate) fn abandon_upload(self: &Arc<Self>, upload: Upload) {
        let writing = self.clone();
        self.inner.core.spawn(async move {
            let more = writing.state().retry().is_sending();
            let (core, origin) = (&writing.inner.core, &*writing.source.origin);
            let mut aborted = try_to_abort(core, origin, &upload).await;
            if more {
                writing.wait_for_parts().await;
            }
            if more && !core.stop.is_cancelled() {
                aborted = try_to_abort(core, origin, &upload).await;
            }
            note_left(&upload, aborted);
        });
    }
}
