//! The holds of a rename: its drafts are not published, and no other writer of this process changes its keys.

use crate::locks::key_locks::KeyLock;
use crate::locks::publish_hold::{PublishHold, has_no_other};
use crate::{Drafts, WriteError};
use tidegate_engine::Error;
use tidegate_plan::ObjectId;

/// How often a rename holds the drafts of its keys, if another one appears each time.
const MAX_TRIES: u32 = 16;

/// See the module documentation. Programs that open the new key for writing wait until this is dropped, unless it has a
/// draft.
pub(crate) struct RenameHolds {
    /// The draft of the old key.
    pub(crate) hold: Option<PublishHold>,
    /// The draft of the new key, which the rename replaces.
    pub(crate) over: Option<PublishHold>,
    /// The smaller key's first.
    pub(crate) locks: [KeyLock; 2],
}

impl Drafts {
    /// Publishes the draft of `old`, and holds the keys of its rename to `new`. A writer that opens one of them before its
    /// key is locked has begun a draft, which counts as well.
    ///
    /// # Errors
    /// Those of the publish; [`Error::Overloaded`] if writers open one of the keys anew all the time.
    pub(crate) async fn publish_for_rename(
        &self,
        old: &ObjectId,
        new: &ObjectId,
    ) -> Result<RenameHolds, WriteError> {
        for _ in 0..MAX_TRIES {
            // Sends the long part of the work while others still write.
            let writing = self.writings().get(old).cloned();
            if let Some(writing) = writing {
                writing.commit().await?;
            }
            let (hold, over) = self.hold_both(old, new).await;
            // Bytes that were written meanwhile.
            let hold = match hold {
                Some(hold) => Some(hold.publish().await?),
                None => None,
            };
            if let Some(held) = self.lock_both((old, hold), (new, over)).await {
                return Ok(held);
            }
        }
        Err(Error::Overloaded { retry_after: None }.into())
    }

    /// Holds the keys of a rename whose draft the bucket does not know. `None`: it was published or changed meanwhile.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if writers open one of the keys anew all the time.
    pub(crate) async fn hold_unsent(
        &self,
        old: &ObjectId,
        new: &ObjectId,
    ) -> Result<Option<RenameHolds>, WriteError> {
        for _ in 0..MAX_TRIES {
            let (hold, over) = self.hold_both(old, new).await;
            let is_unsent = |hold: &PublishHold| hold.writing.state().is_unsent();
            if !hold.as_ref().is_some_and(is_unsent) {
                return Ok(None);
            }
            if let Some(held) = self.lock_both((old, hold), (new, over)).await {
                return Ok(Some(held));
            }
        }
        Err(Error::Overloaded { retry_after: None }.into())
    }

    /// Keeps two objects from being written to.
    async fn hold_both(
        &self,
        old: &ObjectId,
        new: &ObjectId,
    ) -> (Option<PublishHold>, Option<PublishHold>) {
        // Always in one order; otherwise two opposite renames would wait for each other.
        match old < new {
            true => {
                let hold = self.hold_publishing(old).await;
                (hold, self.hold_publishing(new).await)
            }
            false => {
                let over = self.hold_publishing(new).await;
                (self.hold_publishing(old).await, over)
            }
        }
    }

    /// Locks the keys of two held drafts. `None`: one of them has another draft by now.
    async fn lock_both(
        &self,
        (old, hold): (&ObjectId, Option<PublishHold>),
        (new, over): (&ObjectId, Option<PublishHold>),
    ) -> Option<RenameHolds> {
        let locks = self.path.keys.lock_keys(old, new).await;
        let writings = self.writings();
        if !(has_no_other(&writings, old, hold.as_ref())
            && has_no_other(&writings, new, over.as_ref()))
        {
            return None;
        }
        // With the table in hand: no other draft begins under the new key from now on.
        self.path.keys.expect_renamed(new);
        drop(writings);
        Some(RenameHolds { hold, over, locks })
    }
}
