//! Room in the spool: waiting for it, and letting go of what was sent.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::queue::PAUSE;
use super::writing::{State, Writing};
use super::{Inner, WriteError};
use crate::engine::Error;
use crate::engine::spool::file::SpoolFile;
use crate::engine::spool::journal::Record;
use crate::origin::{OriginError, Upload};
use crate::plan::ByteRange;
use crate::plan::upload::When;

/// How often who waits for room looks again whether something can go by now.
const AGAIN: Duration = Duration::from_millis(200);

/// How many tries to give an upload up follow the first.
const ABORTS: u32 = 30;

/// The most that is let go of at once, for one sync of the journal.
const AT_ONCE: u64 = 256 << 20;

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
            if self.relieve().await {
                continue;
            }
            tokio::select! {
                changed = timeout_at(until.min(Instant::now() + AGAIN), freed.changed()) => {
                    if changed.is_err() && Instant::now() >= until {
                        return Err(WriteError::Full);
                    }
                }
                () = self.core.stop.cancelled() => return Err(WriteError::Closing),
            }
        }
    }

    /// Lets parts go, of whichever draft; where none can, has more of them sent.
    async fn relieve(&self) -> bool {
        let writings: Vec<_> = self.writings().values().cloned().collect();
        for writing in &writings {
            match writing.evict().await {
                Ok(true) => return true,
                Ok(false) => {}
                Err(error) => {
                    // Its own writers are told; who waits here may be another.
                    let id = writing.id();
                    tracing::warn!(%error, key = id.key.as_str(), "cannot make room of what was sent");
                }
            }
        }
        for writing in &writings {
            writing.kick(When::Pressed);
        }
        false
    }

    /// How much is let go of at once.
    fn at_once(&self) -> u64 {
        AT_ONCE.min(self.spool.space.size() / 16)
    }

    /// Whether there is less room than is let go of at once.
    fn is_crowded(&self) -> bool {
        let space = &self.spool.space;
        space.used().saturating_add(self.at_once()) > space.size()
    }
}

impl State {
    fn has_file(&self, file: &Arc<SpoolFile>) -> bool {
        self.file.as_ref().is_some_and(|it| Arc::ptr_eq(it, file))
    }

    /// Parts that may leave the spool, one at least if there is any, those first that could not before:
    /// which bytes, and how many of them were there.
    fn evict(&mut self, at_once: u64) -> Vec<(ByteRange, u64)> {
        let mut parts = std::mem::take(&mut self.leaving);
        let mut all: u64 = parts.iter().map(|(_, freed)| freed).sum();
        while all < at_once.max(1)
            && let Some((index, range, freed)) = self.draft.evict()
        {
            self.note_written();
            self.records.push(Record::Evicted { index });
            parts.push((range, freed));
            all += freed;
        }
        parts
    }
}

impl Writing {
    /// Lets the oldest of the sent parts go. A draft that was not written in order, or all if so set, goes
    /// to a hidden key first, under which its parts are sent again: from there they can be read back.
    async fn evict(self: &Arc<Self>) -> Result<bool, WriteError> {
        let (file, parts) = {
            let mut state = self.state();
            let Some(file) = state.file.clone() else {
                return Ok(false);
            };
            let needs_none = state.draft.is_in_order() && !self.inner.settings.read_back;
            if !state.hidden && !needs_none && !state.draft.has_gone() {
                // Not while it is being committed, or written to.
                if let Ok(_alone) = self.gate.try_write() {
                    self.hide(&mut state);
                }
                return Ok(false);
            }
            // What an earlier process sent may be something else than what is here.
            if !state.unverified.is_empty() {
                return Ok(false);
            }
            let parts = state.evict(self.inner.at_once());
            (file, parts)
        };
        if parts.is_empty() {
            return Ok(false);
        }
        let writing = self.clone();
        let gone = async move { writing.let_go(&file, parts).await };
        self.inner.core.to_its_end(gone).await.map(|()| true)
    }

    /// Has parts leave the spool that do not count for it any more.
    async fn let_go(
        self: &Arc<Self>,
        file: &Arc<SpoolFile>,
        parts: Vec<(ByteRange, u64)>,
    ) -> Result<(), WriteError> {
        // Before the bytes go: a journal that knows of no part would send zeros in its place. And one
        // that was promised something counts what was written only up to its last sync.
        let mut done = match self.sync_if(|state| state.promised).await {
            Ok(false) => self.flush_durably().await,
            synced => synced.map(drop),
        };
        for (range, freed) in parts {
            let _page = self.page.write().await;
            // Written anew meanwhile? Then it is kept. Nor is anything taken from what was deleted or replaced: there
            // may be a journal of it still, and this was not told to that.
            let kept = {
                let state = self.state();
                let is_replaced = !state.has_file(file);
                state.removed || is_replaced || state.draft.local().within(range).next().is_some()
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

    /// Bytes that could not leave the spool have their room still, as long as there is the file.
    fn leaves_later(&self, file: &Arc<SpoolFile>, range: ByteRange, freed: u64) -> bool {
        let mut state = self.state();
        let is_there = state.has_file(file);
        if is_there {
            state.leaving.push((range, freed));
        }
        is_there
    }

    /// A part was sent of a draft that does not fit into the spool: the oldest go before anybody has to
    /// wait for their room.
    pub(super) fn evict_ahead(self: &Arc<Self>) {
        if !self.inner.is_crowded() {
            return;
        }
        {
            let mut state = self.state();
            if state.evicting || !state.draft.has_gone() {
                return;
            }
            state.evicting = true;
        }
        let writing = self.clone();
        self.inner.core.spawn(async move {
            if let Err(error) = writing.evict().await {
                tracing::warn!(%error, "parts that were sent cannot leave the spool");
            }
            writing.state().evicting = false;
        });
    }

    /// From now on parts go up under a hidden key.
    fn hide(self: &Arc<Self>, state: &mut State) {
        state.hidden = true;
        state.draft.forget_sent();
        state.records.push(Record::Unsent);
        if let Some(upload) = state.upload.take() {
            self.give_up(upload);
        }
    }

    /// Aborts an upload behind the caller's back: once more when no part is on its way any more, for one
    /// that arrives after the first may stay (S3, `AbortMultipartUpload`).
    pub(super) fn give_up(self: &Arc<Self>, upload: Upload) {
        let writing = self.clone();
        self.inner.core.spawn(async move {
            let more = writing.state().sending > 0;
            let mut aborted = writing.abort(&upload).await;
            if more {
                writing.wait_for_parts().await;
            }
            if more && !writing.inner.core.stop.is_cancelled() {
                aborted = writing.abort(&upload).await;
            }
            if let Err(error) = aborted {
                tracing::warn!(%error, key = upload.key.as_str(), "cannot give an upload up; the bucket's lifecycle rules may");
            }
        });
    }

    /// An outage is outlasted, for about half an hour.
    async fn abort(&self, upload: &Upload) -> Result<(), OriginError> {
        let stop = &self.inner.core.stop;
        let mut failures = 0;
        loop {
            let aborted = self.source.origin.writing().abort(upload).await;
            let is_down = |error: &OriginError| Error::from(error.clone()).excuses_stale();
            if failures == ABORTS || !aborted.as_ref().is_err_and(is_down) {
                return aborted;
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE.pause(failures, 1.0)) => failures += 1,
                () = stop.cancelled() => return aborted,
            }
        }
    }
}
