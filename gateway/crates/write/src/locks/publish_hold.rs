//! The publish hold: keeps a draft from being published while its object is changed another way.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::OwnedRwLockWriteGuard;

use crate::draft::phase::Step;
use crate::draft::shared_draft::SharedDraft;
use crate::draft::state::DraftState;
use crate::locks::key_locks::KeyLock;
use crate::publish::stuck::EndedFile;
use crate::task::run_to_completion;
use crate::{Drafts, WriteError};
use tidegate_plan::ObjectId;

/// A draft that is neither published nor written to as long as this is held.
pub(crate) struct PublishHold {
    id: ObjectId,
    pub(crate) writing: Arc<SharedDraft>,
    _gate: OwnedRwLockWriteGuard<()>,
}

impl Drafts {
    /// Waits for a publish of an object that is under way, and blocks further ones. `None`: the
    /// object has no draft. A caller that gives up while this waits has changed nothing.
    pub(crate) async fn hold_publishing(&self, id: &ObjectId) -> Option<PublishHold> {
        loop {
            let writing = self.writings().get(id).cloned()?;
            let gate = writing.gate.clone().write_owned().await;
            // It may have been published or renamed meanwhile.
            let there = self.writings().get(id).cloned();
            if there.is_some_and(|there| Arc::ptr_eq(&there, &writing)) {
                return Some(PublishHold {
                    id: id.clone(),
                    writing,
                    _gate: gate,
                });
            }
        }
    }

    /// Does the same, and keeps other writers of this process from changing the object. Without a draft there is none
    /// either while the key is held: a change of attributes begins its draft under that lock.
    pub(crate) async fn hold_and_lock(&self, id: &ObjectId) -> (Option<PublishHold>, KeyLock) {
        loop {
            let hold = self.hold_publishing(id).await;
            let lock = self.path.keys.lock_key(id).await;
            if has_no_other(&self.writings(), id, hold.as_ref()) {
                return (hold, lock);
            }
        }
    }
}

impl PublishHold {
    /// Returns the object of the draft.
    pub(crate) fn id(&self) -> &ObjectId {
        &self.id
    }

    /// Publishes the draft, also if the caller stops waiting. Writers wait meanwhile.
    pub(crate) async fn publish(self) -> Result<Self, WriteError> {
        let core = self.writing.inner.core.clone();
        let work = async move {
            self.writing.commit_locked().await?;
            Ok(self)
        };
        run_to_completion(&core, work).await
    }

    /// Checks that the disk will let go of the draft's journal. The caller is about to write or delete the object in
    /// another way: the next process would undo that with the draft.
    ///
    /// # Errors
    /// The disk's: the object must stay as it is.
    pub(crate) async fn check_journal(&self) -> Result<(), WriteError> {
        self.writing.check_journal().await
    }

    /// Discards the draft; none of it returns after a crash. Its open handles keep it until the last one goes.
    ///
    /// # Errors
    /// The disk's, if the draft may return after a crash. It is discarded all the same.
    pub(crate) async fn discard(self) -> Result<(), WriteError> {
        let writing = &self.writing;
        let (is_read, promised) = {
            let mut writings = writing.inner.writings();
            writing.unlist(&mut writings, &self.id);
            let mut state = writing.state();
            let promised = state.is_promised();
            state.step(Step::Discard);
            (state.handles().is_open(), promised)
        };
        let file = match is_read {
            true => writing.keep_for_handles(),
            false => writing.abandon(),
        };
        match file {
            Some(file) => {
                let ended = EndedFile { file, is_read };
                writing.inner.end_file(ended, promised).await
            }
            None => Ok(()),
        }
    }

    /// Discards the closed draft, because the object was written or deleted another way after its
    /// close. A draft with open handles stays.
    ///
    /// # Errors
    /// As for [`Self::discard`].
    pub(crate) async fn discard_closed(self) -> Result<(), WriteError> {
        self.writing.state().forget_closed_edition();
        self.discard_unused(|_| true).await.map(drop)
    }

    /// Discards the draft, if it has no handles and `is_due` holds; returns whether it did.
    ///
    /// # Errors
    /// As for [`Self::discard`].
    pub(crate) async fn discard_unused(
        self,
        is_due: impl FnOnce(&DraftState) -> bool,
    ) -> Result<bool, WriteError> {
        let unused = {
            // No handle may join it meanwhile.
            let mut writings = self.writing.inner.writings();
            let state = self.writing.state();
            let unused = !state.handles().is_open() && is_due(&state);
            drop(state);
            if unused {
                self.writing.unlist(&mut writings, &self.id);
            }
            unused
        };
        if unused {
            self.discard().await?;
        }
        Ok(unused)
    }
}

/// Returns whether an object has no other draft in the table than the held one.
pub(crate) fn has_no_other(
    writings: &HashMap<ObjectId, Arc<SharedDraft>>,
    id: &ObjectId,
    hold: Option<&PublishHold>,
) -> bool {
    let is_held = |there| hold.is_some_and(|hold| Arc::ptr_eq(there, &hold.writing));
    writings.get(id).is_none_or(is_held)
}

/// Checks that the disk will let go of the journal of a held draft, if there is one.
pub(crate) async fn check_held(held: Option<&PublishHold>) -> Result<(), WriteError> {
    match held {
        Some(held) => held.check_journal().await,
        None => Ok(()),
    }
}

/// Discards a held draft, if there is one.
pub(crate) async fn discard_held(held: Option<PublishHold>) -> Result<(), WriteError> {
    match held {
        Some(held) => held.discard().await,
        None => Ok(()),
    }
}
