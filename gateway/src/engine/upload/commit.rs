//! Publishing a draft: what is left is sent, what is untouched is copied on the server, and the
//! object appears, whole.
//!
//! A commit holds the gate alone: what is written meanwhile waits, and belongs to the next one. What
//! fails for a passing reason leaves the draft as it is, with everything that was sent, so that the
//! next try goes on from there.

use std::sync::Arc;

use super::WriteError;
use super::published::Published;
use super::tried::Tried;
use super::writing::{Pinned, Writing};
use crate::engine::core::caught;
use crate::engine::names::Facts;
use crate::engine::{Error, resolve};
use crate::origin::Guard;
use crate::plan::ObjectId;
use crate::plan::upload::When;

/// How often a lost upload is begun anew within one commit.
pub(super) const ATTEMPTS: u32 = 3;

impl Writing {
    /// Publishes what was written since the last commit, also if the caller does not wait for it.
    pub(super) async fn commit(self: &Arc<Self>) -> Result<(), WriteError> {
        let writing = self.clone();
        let work = async move { writing.commit_now().await };
        self.inner.core.to_its_end(work).await
    }

    /// The same of what is as it was closed; `false`: a writer has begun the next version of it before the
    /// gate was had, and nothing was published. Cut to nothing and not yet written, the next version would
    /// be an empty object.
    pub(super) async fn commit_closed(self: &Arc<Self>) -> Result<bool, WriteError> {
        let writing = self.clone();
        let work = async move {
            let _gate = writing.gate.write().await;
            if writing.state().is_half_way() {
                return Ok(false);
            }
            writing.commit_alone().await.map(|()| true)
        };
        self.inner.core.to_its_end(work).await
    }

    async fn commit_now(self: &Arc<Self>) -> Result<(), WriteError> {
        let _gate = self.gate.write().await;
        self.commit_alone().await
    }

    /// The same by who holds the gate, and does so to its end.
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
        let _hold = self.inner.core.hold_key(&self.id()).await;
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
                // It is asked with the next try.
                Err(error) => Err(error),
            };
        }
        match published {
            Ok(published) => self.settle(published).await,
            // Nothing was: the store forgot each upload, and may keep the next.
            Err(WriteError::Lost) if !self.state().lost && self.can_send_anew() => {
                Err(Error::Unavailable.into())
            }
            Err(error) => Err(error),
        }
    }

    /// Whether what was lost is here still, or something is to be sent in its place.
    fn can_send_anew(&self) -> bool {
        let state = self.state();
        !state.draft.has_gone() || state.draft.next(When::Closing).is_some()
    }

    /// Whether there is anything under the hidden key that cannot be sent from here as well.
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
            // What was appended, and cut off again, may have been sent.
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

    /// Nobody told whether the object was completed; the process may have ended since.
    pub(super) async fn go_on_completing(
        self: &Arc<Self>,
    ) -> Result<Option<Published>, WriteError> {
        let (parts, upload, guard, size) = {
            let state = self.state();
            let upload = state.upload.clone();
            // It stays until it is known what came of it.
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

    /// The object is there: so says the bucket, and from now on everybody here.
    pub(super) async fn settle(self: &Arc<Self>, published: Published) -> Result<(), WriteError> {
        let (id, times) = {
            let state = self.state();
            (state.id.clone(), state.times)
        };
        let version = Arc::new(published.version);
        // Programs have seen these, and no listing is to move them.
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
            // Before anything newer is written: a journal found later would publish this once more.
            file.removed().await?;
        }
        self.let_go_of_before();
        self.drop_hidden(before);
        Ok(())
    }
}

impl super::writing::State {
    /// What must hold of the key now. What needs no byte of the base replaces whatever is there, but
    /// for an object that was to be new.
    fn guard_now(&self) -> Guard {
        match &self.guard {
            Guard::Same(_) if self.draft.base() == 0 => Guard::None,
            guard => guard.clone(),
        }
    }
}

/// Nothing that was begun before brings an old version back, and no new one is known.
pub(super) fn supersede(inner: &super::Inner, id: &ObjectId) {
    let core = &inner.core;
    resolve::remember(core, id, None);
    core.forget_elsewhere(id);
}
