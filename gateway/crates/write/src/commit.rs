//! Publishing a draft: sends the remaining parts, has the server copy the untouched ones, and makes
//! the object appear, whole.
//!
//! A commit holds the gate alone: writers wait meanwhile, and their bytes belong to the next
//! commit. A passing failure leaves the draft and all sent parts as they are, so that the next try
//! continues there.

use crate::path::to_its_end;
use std::sync::Arc;

use super::WriteError;
use super::path::caught;
use super::published::Published;
use super::tried::Tried;
use super::writing::{Pinned, Writing};
use tidegate_engine::names::Facts;
use tidegate_engine::{Error, records};
use tidegate_origin::Guard;
use tidegate_plan::ObjectId;
use tidegate_plan::upload::When;

/// Tries to publish within one commit, if the upload is lost.
pub(super) const ATTEMPTS: u32 = 3;

impl Writing {
    /// Publishes the bytes written since the last commit, also if the caller stops waiting.
    pub(super) async fn commit(self: &Arc<Self>) -> Result<(), WriteError> {
        let writing = self.clone();
        let work = async move { writing.commit_now().await };
        to_its_end(&self.inner.core, work).await
    }

    /// Publishes a closed draft in the same way. `false`: nothing was published, because a writer
    /// began the next version before this held the gate. A next version that is truncated and not
    /// yet written would become an empty object.
    pub(super) async fn commit_closed(self: &Arc<Self>) -> Result<bool, WriteError> {
        let writing = self.clone();
        let work = async move {
            let _gate = writing.gate.write().await;
            if writing.state().is_half_way() {
                return Ok(false);
            }
            writing.commit_alone().await.map(|()| true)
        };
        to_its_end(&self.inner.core, work).await
    }

    async fn commit_now(self: &Arc<Self>) -> Result<(), WriteError> {
        let _gate = self.gate.write().await;
        self.commit_alone().await
    }

    /// Publishes it for a caller that holds the gate until this returns.
    pub(super) async fn commit_alone(self: &Arc<Self>) -> Result<(), WriteError> {
        {
            let mut state = self.state();
            if !state.dirty || state.removed {
                return Ok(());
            }
            state.closing = true;
        }
        let result = caught(self.try_to_publish()).await;
        self.inner.metrics.committed(match &result {
            Ok(()) => "committed",
            Err(WriteError::Changed) => "changed",
            Err(error) if error.is_passing() => "failed",
            Err(_) => "refused",
        });
        {
            let mut state = self.state();
            state.closing = false;
            state.trouble = result.as_ref().err().cloned();
        }
        result
    }

    async fn try_to_publish(self: &Arc<Self>) -> Result<(), WriteError> {
        self.wait_for_parts().await;
        {
            let mut state = self.state();
            state.failure = None;
            state.not_before = None;
        }
        self.promise_edition().await;
        let _hold = self.inner.path.hold_key(&self.id()).await;
        let mut published = self.publish().await;
        for _ in 1..ATTEMPTS {
            let again = match published {
                Err(WriteError::Lost) => Ok(self.can_send_anew()),
                Err(WriteError::Changed) => self.was_ours().await,
                _ => Ok(false),
            };
            published = match again {
                Ok(true) => self.publish().await,
                Ok(false) => break,
                // The next try asks again.
                Err(error) => Err(error),
            };
        }
        match published {
            Ok(published) => self.settle(published).await,
            // Nothing was published: the store forgot each upload, and may keep the next.
            Err(WriteError::Lost) if !self.state().lost && self.can_send_anew() => {
                Err(Error::Unavailable.into())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether the lost bytes are still here, or other bytes replace them.
    fn can_send_anew(&self) -> bool {
        let state = self.state();
        !state.draft.has_gone() || state.draft.next(When::Closing).is_some()
    }

    /// Returns whether the staging key has bytes that cannot be sent from here.
    fn needs_hidden(&self) -> bool {
        let state = self.state();
        let is_large = !state.draft.is_one_part();
        state.upload.is_some() && (is_large || state.draft.has_gone())
    }

    async fn publish(self: &Arc<Self>) -> Result<Published, WriteError> {
        if let Some(published) = self.go_on_completing().await? {
            return Ok(published);
        }
        if self.state().hidden {
            if self.needs_hidden() {
                self.publish_hidden().await?;
            }
            self.state().hidden = false;
        }
        let (size, is_one_part, guard) = {
            let state = self.state();
            let is_one_part = state.draft.is_one_part();
            (state.draft.size(), is_one_part, state.guard_now())
        };
        if let Some(published) = self.set_headers(size, &guard).await? {
            // Bytes that were appended and truncated again may have been sent.
            let unused = self.state().upload.take();
            unused.into_iter().for_each(|upload| self.give_up(upload));
            return Ok(published);
        }
        if is_one_part {
            return self.put_whole(size, guard).await;
        }
        let (upload, parts) = self.assemble().await?;
        let published = self.complete(&upload, parts, guard, size).await?;
        self.mend_headers(published).await
    }

    /// Resumes a completion whose outcome is unknown; the process may have restarted since.
    pub(super) async fn go_on_completing(
        self: &Arc<Self>,
    ) -> Result<Option<Published>, WriteError> {
        let (parts, upload, guard, size) = {
            let state = self.state();
            let upload = state.upload.clone();
            // It stays until the outcome is known.
            let parts = state.completing.clone();
            (parts, upload, state.guard_now(), state.draft.size())
        };
        let (Some(parts), Some(upload)) = (parts, upload) else {
            self.state().completing = None;
            return Ok(None);
        };
        let own = upload.key == self.state().id.key;
        let guard = if own { guard } else { Guard::None };
        let completed = match self.complete(&upload, parts, guard, size).await {
            Ok(published) if own => self.mend_headers(published).await,
            completed => completed,
        };
        match completed {
            Ok(published) if own => Ok(Some(published)),
            Ok(published) => {
                self.rebase(&upload, published.version).await?;
                self.state().completing = None;
                Ok(None)
            }
            Err(error) => {
                if !error.is_passing() {
                    self.state().completing = None;
                }
                Err(error)
            }
        }
    }

    pub(super) async fn wait_for_parts(&self) {
        let mut progress = self.progress.subscribe();
        loop {
            progress.mark_unchanged();
            if self.state().sending == 0 {
                return;
            }
            let _ = progress.changed().await;
        }
    }

    /// Records that the bucket has the object, for all readers of this process.
    pub(super) async fn settle(self: &Arc<Self>, published: Published) -> Result<(), WriteError> {
        let (id, times) = {
            let state = self.state();
            (state.id.clone(), state.times)
        };
        let version = Arc::new(published.version);
        // Programs have seen these times; no listing may change them.
        let kept = &self.inner.core.times;
        kept.keep(&id, &version.etag, times);
        let core = &self.inner.core;
        self.install(&id, &version, published.known, published.bytes)
            .await;
        core.forget_elsewhere(&id);
        let facts = Facts {
            version: None,
            ..self.inner.core.facts(&id, &version)
        };
        self.inner.core.name_written(&id, facts);
        let (before, file) = {
            let mut state = self.state();
            let file = self.drop_file(&mut state);
            state.draft = state.draft.next_from(version.size);
            state.guard = Guard::Same(version.etag.clone());
            state.upload = None;
            state.completing = None;
            state.unverified.clear();
            state.tried = Tried::default();
            state.lost = false;
            state.dirty = false;
            state.committed = Some(version.clone());
            let base = Pinned {
                key: id.key,
                version,
            };
            (state.base.replace(base), file)
        };
        kept.write_out().await;
        if let Some(file) = file {
            // Before anything newer is written: otherwise a journal found later would publish this
            // once more.
            file.removed().await?;
        }
        self.let_go_of_before();
        self.drop_hidden(before);
        Ok(())
    }
}

impl super::writing::State {
    /// Returns the condition on the key for this commit. A draft that needs no byte of the base
    /// replaces any version, unless the object was to be new.
    fn guard_now(&self) -> Guard {
        match &self.guard {
            Guard::Same(_) if self.draft.base() == 0 => Guard::None,
            guard => guard.clone(),
        }
    }
}

/// Prevents earlier reads from restoring an old version, and forgets the current one.
pub(super) fn supersede(inner: &super::Drafts, id: &ObjectId) {
    let core = &inner.core;
    records::put(core, id, None);
    core.forget_elsewhere(id);
}
