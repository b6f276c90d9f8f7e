//! Publishing a draft: sends the remaining parts, has the server copy the untouched ones, and makes
//! the object appear, whole.
//!
//! A commit holds the gate alone: writers wait meanwhile, and their bytes belong to the next
//! commit. A passing failure leaves the draft and all sent parts as they are, so that the next try
//! continues there.

use std::sync::Arc;

use crate::change::supersede::{ChangedKey, supersede};
use crate::draft::phase::Step;
use crate::draft::shared_draft::SharedDraft;
use crate::draft::state::DraftState;
use crate::locks::key_locks::KeyLock;
use crate::locks::publish_hold::{PublishHold, check_held, discard_held};
use crate::publish::published_version::PublishedVersion;
use crate::publish::stuck::EndedFile;
use crate::spool::file::SpoolFile;
use crate::task::catch_panic;
use crate::task::run_to_completion;
use crate::{Drafts, WriteError};
use tidegate_engine::Error;
use tidegate_engine::names::Facts;
use tidegate_engine::times::KnownAttributes;
use tidegate_origin::{Guard, OriginError};
use tidegate_plan::attributes::Attributes;
use tidegate_plan::upload::SendOccasion;
use tidegate_plan::{ETag, ObjectId, Timestamp};

/// Tries to publish within one commit, if the upload is lost.
pub(crate) const MAX_PUBLISH_ATTEMPTS: u32 = 3;

impl SharedDraft {
    /// Publishes the bytes written since the last commit, also if the caller stops waiting.
    pub(crate) async fn commit(self: &Arc<Self>) -> Result<(), WriteError> {
        let writing = self.clone();
        let work = async move { writing.lock_and_commit().await };
        run_to_completion(&self.inner.core, work).await
    }

    /// Publishes a queued draft in the same way. `false`: nothing was published, because `is_begun` held by the time
    /// that this held the gate: a writer had begun the next version. A next version that is truncated and not yet
    /// written would become an empty object.
    pub(crate) async fn commit_unless(
        self: &Arc<Self>,
        is_begun: fn(&DraftState) -> bool,
    ) -> Result<bool, WriteError> {
        let writing = self.clone();
        let work = async move {
            let _gate = writing.gate.write().await;
            if is_begun(&writing.state()) {
                return Ok(false);
            }
            writing.commit_locked().await.map(|()| true)
        };
        run_to_completion(&self.inner.core, work).await
    }

    async fn lock_and_commit(self: &Arc<Self>) -> Result<(), WriteError> {
        let _gate = self.gate.write().await;
        self.commit_locked().await
    }

    /// Publishes it for a caller that holds the gate until this returns.
    pub(crate) async fn commit_locked(self: &Arc<Self>) -> Result<(), WriteError> {
        self.commit_over(&mut None, None).await
    }

    /// Does the same for a rename, which holds the locks of both keys. Once the object is published, takes and discards
    /// the draft that it replaces.
    pub(crate) async fn commit_over(
        self: &Arc<Self>,
        over: &mut Option<PublishHold>,
        locks: Option<&[KeyLock; 2]>,
    ) -> Result<(), WriteError> {
        {
            let mut state = self.state();
            if !state.phase().is_unpublished() {
                return Ok(());
            }
            state.step(Step::BeginAttempt);
        }
        let result = catch_panic(self.try_to_publish(over, locks)).await;
        self.inner.metrics.committed(match &result {
            Ok(()) => "committed",
            Err(WriteError::Changed) => "changed",
            Err(error) if error.is_passing() => "failed",
            Err(_) => "refused",
        });
        if result.as_ref().is_err_and(WriteError::shows_another) {
            // Before the draft counts as refused: readers then ask for what the bucket has.
            let id = self.state().id().clone();
            self.inner.engine.doubt_key_now(&id).await;
        }
        {
            // A rename that is refused for good, as its new name may be, leaves the draft as it was under its old one.
            let stays = |error: &WriteError| {
                locks.is_none() || error.is_passing() || *error == WriteError::Lost
            };
            let trouble = result.as_ref().err().filter(|error| stays(error));
            self.state().step(Step::EndAttempt(trouble.cloned()));
        }
        result
    }

    async fn try_to_publish(
        self: &Arc<Self>,
        over: &mut Option<PublishHold>,
        locks: Option<&[KeyLock; 2]>,
    ) -> Result<(), WriteError> {
        self.wait_for_parts().await;
        self.state().retry_mut().begin_publish();
        self.promise_edition().await;
        self.inner.check_journals(&self.id()).await?;
        check_held(over.as_ref()).await?;
        let is_outdated = self.state().has_outdated_journal();
        if is_outdated {
            self.check_journal().await?;
        }
        self.inner.detach_copies_of(&self.id()).await;
        let _hold = match locks {
            Some(_) => None,
            None => Some(self.inner.path.keys.lock_key(&self.id()).await),
        };
        let mut published = self.publish().await;
        for _ in 1..MAX_PUBLISH_ATTEMPTS {
            let again = match published.as_ref().map(drop).map_err(Clone::clone) {
                Err(WriteError::Lost) => Ok(self.can_send_anew()),
                Err(error) if self.lacks_source(&error) => self.leave_source().await.map(|()| true),
                Err(WriteError::Changed) => self.was_ours().await,
                Err(WriteError::Unsupported) if locks.is_none() => self.drop_unknown_guard().await,
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
            Ok(published) => self.settle(published, over).await,
            // Nothing was published: the store forgot each upload, and may keep the next.
            Err(WriteError::Lost) if !self.state().phase().is_lost() && self.can_send_anew() => {
                Err(Error::Unavailable.into())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether the lost bytes are still here, or other bytes replace them.
    fn can_send_anew(&self) -> bool {
        let state = self.state();
        if state.phase().is_lost() && state.copied_base().is_some() {
            // They were the source's.
            return false;
        }
        !state.draft().has_gone_bytes() || state.draft().next_job(SendOccasion::Closing).is_some()
    }

    /// Returns whether the staging key has bytes that cannot be sent from here.
    fn needs_staging(&self) -> bool {
        let state = self.state();
        let is_large = !state.draft().is_one_part();
        state.upload().begun().is_some() && (is_large || state.draft().has_gone_bytes())
    }

    /// Returns whether the bucket has the object of an earlier try. That version then becomes the
    /// base: the bytes that are still the base's are the same in it, at the same offsets.
    pub(crate) async fn was_ours(&self) -> Result<bool, WriteError> {
        if self.state().uncertain().is_empty() {
            return Ok(false);
        }
        let key = self.id().key;
        let found = match self.source.origin.head(&key).await {
            Ok(version) => version,
            Err(OriginError::NotFound) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        Ok(self.state().adopt(found))
    }

    /// Drops the condition that no object is there, or the empty one that the draft began as, if the store does not know
    /// it, and a look finds that it holds. A draft that was created with `O_EXCL` keeps it. Returns whether it was dropped.
    async fn drop_unknown_guard(&self) -> Result<bool, WriteError> {
        let guard = self.state().optional_guard();
        let Some(guard) = guard else {
            return Ok(false);
        };
        let found = self.find_version(&self.id().key).await?;
        let holds = match found {
            Some(version) => guard.holds_for(&version.etag),
            None => guard == Guard::Absent,
        };
        if !holds {
            return Err(WriteError::Changed);
        }
        self.state().drop_guard();
        Ok(true)
    }

    async fn publish(self: &Arc<Self>) -> Result<PublishedVersion, WriteError> {
        if let Some(published) = self.go_on_completing().await? {
            return Ok(published);
        }
        if self.state().upload().is_staged() {
            if self.needs_staging() {
                self.publish_staged().await?;
            }
            self.state().end_staging();
        }
        let (size, is_one_part, guard) = {
            let state = self.state();
            let is_one_part = state.draft().is_one_part();
            (state.draft().size(), is_one_part, state.guard_now())
        };
        if let Some(published) = self.set_headers(size, &guard).await? {
            // Bytes that were appended and truncated again may have been sent.
            let unused = self.state().take_unused_upload();
            unused
                .into_iter()
                .for_each(|upload| self.abandon_upload(upload));
            return Ok(published);
        }
        if let Some(published) = self.copy_whole(size, &guard).await? {
            return Ok(published);
        }
        if is_one_part && !self.copies_in_parts().await {
            return self.put_single(size, guard).await;
        }
        let (upload, parts) = self.assemble().await?;
        // One too large to be copied in one request.
        let copied = self.state().copied_tag(size);
        let self_copy = copied.map(|tag| self.inner.core.begin_self_copy(&self.id(), &tag));
        let published = self.complete(&upload, parts, guard, size).await?;
        if let Some(copy) = self_copy {
            copy.made(&published.version.etag);
        }
        self.fix_headers(published).await
    }

    /// Resumes a completion whose outcome is unknown; the process may have restarted since.
    pub(crate) async fn go_on_completing(
        self: &Arc<Self>,
    ) -> Result<Option<PublishedVersion>, WriteError> {
        let (completing, guard, size) = {
            let state = self.state();
            // It stays until the outcome is known.
            let completion = state.upload().completion();
            let parts = completion.map(|it| it.parts().to_vec());
            let completing = state.upload().begun().cloned().zip(parts);
            (completing, state.guard_now(), state.draft().size())
        };
        let Some((upload, parts)) = completing else {
            return Ok(None);
        };
        let own = upload.key == self.state().id().key;
        let guard = if own { guard } else { Guard::None };
        let completed = match self.complete(&upload, parts, guard, size).await {
            Ok(published) if own => self.fix_headers(published).await,
            completed => completed,
        };
        match completed {
            Ok(published) if own => Ok(Some(published)),
            Ok(published) => {
                self.rebase(&upload, published.version).await?;
                Ok(None)
            }
            Err(error) => {
                if !error.is_passing() {
                    self.state().forget_completion();
                }
                Err(error)
            }
        }
    }

    pub(crate) async fn wait_for_parts(&self) {
        let mut progress = self.progress.subscribe();
        loop {
            progress.mark_unchanged();
            if !self.state().retry().is_sending() {
                return;
            }
            let _ = progress.changed().await;
        }
    }

    /// Records that the bucket has the object, for all readers of this process. Discards the draft `over` that it
    /// replaces.
    pub(crate) async fn settle(
        self: &Arc<Self>,
        published: PublishedVersion,
        over: &mut Option<PublishHold>,
    ) -> Result<(), WriteError> {
        let (id, times, change, written) = {
            let mut state = self.state();
            let change = (state.guard().clone(), state.take_attributes_of());
            (
                state.id().clone(),
                state.times(),
                change,
                state.unsent_write(),
            )
        };
        let version = Arc::new(published.version);
        // Programs have seen these times; no listing may change them.
        let kept = &self.inner.core.times;
        let attributes = KnownAttributes::Stored(Attributes::of(&version.headers));
        kept.keep(&id, &version.etag, times, attributes);
        let (guard, taken) = change;
        self.inner
            .attributes_published((&id, &version.etag), (&guard, taken), written);
        let core = &self.inner.core;
        let installed = self
            .install(&id, &version, published.known, published.bytes)
            .await;
        let facts = Facts {
            version: None,
            ..core.facts(&id, &version)
        };
        supersede(core, &id, ChangedKey::of_install(installed, facts));
        let (before, file, promised, is_outdated) = {
            let mut state = self.state();
            let (promised, is_outdated) = (state.is_promised(), state.has_outdated_journal());
            let file = self.take_file(&mut state);
            let before = state.publish(version);
            (before, file, promised, is_outdated)
        };
        kept.write_out().await;
        self.inner.attributes.write_out().await;
        let (discarded, ended) = self.end_published(file, promised, over.take()).await;
        self.discard_replaced_edition();
        self.delete_staged_base(before);
        discarded?;
        // Otherwise the next process publishes what is there already.
        if is_outdated { ended } else { Ok(()) }
    }

    /// Discards the draft that a published one replaces, and then ends the file of the published one. Returns both
    /// results.
    async fn end_published(
        &self,
        file: Option<Arc<SpoolFile>>,
        promised: bool,
        over: Option<PublishHold>,
    ) -> (Result<(), WriteError>, Result<(), WriteError>) {
        let replaced = over.as_ref().map(|over| over.id().clone());
        // Before the files of this one go: a journal found later would be published over the only copy of its bytes.
        let discarded = discard_held(over).await;
        let ended = match (file, replaced) {
            (Some(file), Some(replaced)) if discarded.is_err() && promised => {
                self.inner.keep_with(file, &replaced);
                Ok(())
            }
            // Before anything newer is written: otherwise a journal found later would publish this
            // once more.
            (Some(file), _) => {
                let is_read = false;
                let ended = EndedFile { file, is_read };
                self.inner.end_file(ended, promised).await
            }
            (None, _) => Ok(()),
        };
        (discarded, ended)
    }
}

impl Drafts {
    /// Notes that the draft of an object, which began with the version that `guard` names, is published as this version,
    /// with the attributes of the change of the revision `taken`, and with content that was `written` then. A later
    /// change waits on for the new version; one of another version is dropped.
    fn attributes_published(
        &self,
        (id, etag): (&ObjectId, &ETag),
        (guard, taken): (&Guard, Option<u64>),
        written: Option<Timestamp>,
    ) {
        if taken.is_some() {
            self.attributes.remove(id, taken);
        }
        let other = self.attributes.get(id).filter(|it| !it.is_of(guard));
        if let Some(other) = other {
            self.attributes.remove(id, Some(other.revision));
        }
        if let Some(change) = self.attributes.rebase(id, etag, written) {
            self.core.keep_pending(id, etag, change.attributes);
        }
    }
}
