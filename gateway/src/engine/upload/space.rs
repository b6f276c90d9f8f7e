//! Room in the spool: waiting for it, and letting go of what was sent.

use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use super::writing::Writing;
use super::{Inner, WriteError};
use crate::engine::spool::journal::Record;
use crate::plan::upload::When;

/// What a draft takes beside its bytes: its two files.
pub(super) const PER_FILE: u64 = 8 << 10;

impl Inner {
    /// Takes room for so many bytes; waits until there is some.
    pub(super) async fn reserve(&self, bytes: u64) -> Result<(), WriteError> {
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
            if self.relieve().await? {
                continue;
            }
            tokio::select! {
                changed = timeout_at(until, freed.changed()) => {
                    if changed.is_err() {
                        return Err(WriteError::Full);
                    }
                }
                () = self.core.stop.cancelled() => return Err(WriteError::Closing),
            }
        }
    }

    /// Lets one part go, of whichever draft; where none can, has more of them sent.
    async fn relieve(&self) -> Result<bool, WriteError> {
        let writings: Vec<_> = self.writings().values().cloned().collect();
        for writing in &writings {
            if writing.evict().await? {
                return Ok(true);
            }
        }
        for writing in &writings {
            writing.kick(When::Pressed);
        }
        Ok(false)
    }
}

impl Writing {
    /// Lets one sent part go. A draft that was not written in order goes to a hidden key first, under
    /// which its parts are sent again: from there they can be read back.
    async fn evict(self: &Arc<Self>) -> Result<bool, WriteError> {
        let (file, range, freed) = {
            let mut state = self.state();
            let Some(file) = state.file.clone() else {
                return Ok(false);
            };
            if !state.hidden && !state.draft.is_in_order() && !state.draft.has_gone() {
                // Not while it is being committed, or written to.
                if let Ok(_alone) = self.gate.try_write() {
                    self.hide(&mut state);
                }
                return Ok(false);
            }
            let Some((index, range, freed)) = state.draft.evict() else {
                return Ok(false);
            };
            state.note_written();
            state.records.push(Record::Evicted { index });
            (file, range, freed)
        };
        // Before the bytes go: a journal that knows of no part would send zeros in its place.
        self.flush_durably().await?;
        let _page = self.page.write().await;
        // Written anew meanwhile? Then it is kept.
        let kept = self.state().draft.local().within(range).next().is_some();
        if !kept {
            file.blocking(move |file| file.punch(range)).await?;
        }
        self.inner.metrics.evicted.inc();
        self.inner.spool.space.give(freed);
        Ok(true)
    }

    /// From now on parts go up under a hidden key.
    fn hide(&self, state: &mut super::writing::State) {
        state.hidden = true;
        state.draft.forget_sent();
        state.records.push(Record::Unsent);
        if let Some(upload) = state.upload.take() {
            self.give_up(upload);
        }
    }

    /// Aborts an upload behind the caller's back.
    pub(super) fn give_up(&self, upload: crate::origin::Upload) {
        let source = self.source.clone();
        self.inner.core.spawn(async move {
            if let Err(error) = source.origin.writing().abort(&upload).await {
                tracing::warn!(%error, key = upload.key.as_str(), "cannot give an upload up; the bucket's lifecycle rules may");
            }
        });
    }
}
