//! Renames of a closed draft that waits for the bucket, where closes do not: in its journal, without a request.
//!
//! The journal names one key at each time. The record of the new one has the draft count as a later one than the draft that
//! it replaces, so that a crash before that one is discarded brings it back nowhere.

use std::sync::Arc;

use crate::change::note_deleted;
use crate::change::unsent::relist;
use crate::draft::state::DraftState;
use crate::locks::publish_hold::{PublishHold, check_held, discard_held};
use crate::locks::rename_holds::RenameHolds;
use crate::task::run_to_completion;
use crate::{Drafts, WriteError, Writers};
use tidegate_engine::ReadContext;
use tidegate_engine::names::NameKind;
use tidegate_plan::folder::has_sure_name;
use tidegate_plan::{ObjectId, ObjectKey};

impl Writers {
    /// Returns whether a new, closed object under this key waits for a bucket that knows nothing of it.
    #[must_use]
    pub fn is_waiting(&self, source: &ReadContext, key: &ObjectKey) -> bool {
        let writing = self.0.writings().get(&source.object(key)).cloned();
        writing.is_some_and(|writing| self.may_move(source, key)(&writing.state()))
    }

    /// Returns a test for drafts of a key.
    fn may_move(
        &self,
        source: &ReadContext,
        key: &ObjectKey,
    ) -> impl Fn(&DraftState) -> bool + use<> {
        let known = self.0.engine.last_known(source, key.as_str(), false);
        let is_missing = known.is_some_and(|known| known.entry == NameKind::Missing);
        move |state| state.may_move(is_missing)
    }

    /// Gives such an object another key, durably here, and sends nothing; its handles continue there. Discards the draft of
    /// the new key. An object of that key is replaced once the bucket answers. Returns whether it did: the caller renames any other
    /// object in the bucket, and one whose new name the bucket may refuse. Runs to its end, also if the caller stops
    /// waiting.
    ///
    /// # Errors
    /// [`WriteError::Spool`]: the object stays under its old key; an overload if writers open the new key anew all the time.
    pub async fn rename_waiting(
        &self,
        source: &Arc<ReadContext>,
        from: &ObjectKey,
        to: &ObjectKey,
    ) -> Result<bool, WriteError> {
        let (old, new) = (source.object(from), source.object(to));
        if old == new || !has_sure_name(to.as_str()) || !self.is_waiting(source, from) {
            return Ok(false);
        }
        let may_move = self.may_move(source, from);
        let held = self.0.hold_wanted(&old, &new, may_move);
        let Some(RenameHolds {
            hold: Some(hold),
            over,
            locks,
        }) = held.await?
        else {
            return Ok(false);
        };
        let inner = self.0.clone();
        let work = async move {
            let _locks = locks;
            move_draft(&inner, (&hold, over), (&old, &new)).await?;
            Ok(true)
        };
        run_to_completion(&self.0.core, work).await
    }
}

/// Moves a held draft to its new key, in place of the draft `over`.
async fn move_draft(
    inner: &Arc<Drafts>,
    (hold, over): (&PublishHold, Option<PublishHold>),
    (old, new): (&ObjectId, &ObjectId),
) -> Result<(), WriteError> {
    let writing = &hold.writing;
    for id in [old, new] {
        inner.check_journals(id).await?;
    }
    check_held(over.as_ref()).await?;
    let is_behind = writing.state().phase().is_behind();
    if is_behind {
        writing.sync().await?;
    }
    // A rename replaces what is there, with the attributes that wait for it.
    let waiting = inner.attributes.get(new).map(|change| change.revision);
    writing.move_journal(new, waiting).await?;
    // If the disk keeps the journal of the replaced draft, nothing is published under the new key before that is gone. After a
    // restart it is the older one.
    let _ = discard_held(over).await;
    note_deleted(inner, old).await;
    relist(inner, writing, (old, new));
    Ok(())
}
