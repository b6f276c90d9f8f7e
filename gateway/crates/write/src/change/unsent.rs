//! Renames of a draft of which the bucket knows nothing yet: its one request, or its upload, goes to the new key.
//!
//! Programs write a file under one name and rename it at once: lock files of git, documents of editors. Published first,
//! such a file costs a PUT, two HEADs, a copy and a deletion, one after the other. It costs one PUT here, or the upload of
//! its parts. Until that is answered the journal has the draft under its old key, so a crash leaves both keys or the old one.

use std::sync::Arc;

use crate::change::supersede::{ChangedKey, supersede};
use crate::change::{delete_object, note_deleted};
use crate::draft::shared_draft::SharedDraft;
use crate::draft::state::target::RenamedTarget;
use crate::locks::key_locks::KeyLock;
use crate::locks::publish_hold::PublishHold;
use crate::locks::rename_holds::RenameHolds;
use crate::task::run_to_completion;
use crate::{Drafts, WriteError, Writers};
use tidegate_engine::ReadContext;
use tidegate_origin::Guard;
use tidegate_plan::{ETag, ObjectId, ObjectKey};

/// A draft that was published under another key.
#[derive(Debug)]
pub struct RenamedDraft {
    /// The tag of the published version.
    pub etag: ETag,
    /// The error of the deletion of an object under the old key. It is still there then.
    pub left: Option<WriteError>,
}

impl Writers {
    /// Returns whether a new object is written under this key for which no request was sent yet.
    #[must_use]
    pub fn is_unsent(&self, source: &ReadContext, key: &ObjectKey) -> bool {
        let writing = self.0.writings().get(&source.object(key)).cloned();
        writing.is_some_and(|writing| writing.state().is_unsent())
    }

    /// Publishes a draft under another key, if no request for it was sent yet; its handles continue there. Discards the
    /// draft of the new key. `None`: there is no such draft any more; the caller renames an object of the bucket. `keep`: an
    /// object that has the new key stays. If the store knows no condition, the draft is published under its old key then.
    /// Runs to its end, also if the caller stops waiting.
    ///
    /// # Errors
    /// [`WriteError::Exists`] if an object stays; the origin's, or an overload if writers open the new key anew all the time. The draft then stays under
    /// its old key.
    pub async fn rename_unsent(
        &self,
        source: &Arc<ReadContext>,
        from: &ObjectKey,
        to: &ObjectKey,
        keep: bool,
    ) -> Result<Option<RenamedDraft>, WriteError> {
        let (old, new) = (source.object(from), source.object(to));
        if old == new || !self.is_unsent(source, from) {
            return Ok(None);
        }
        let held = self.0.hold_unsent(&old, &new).await?;
        let Some(RenameHolds {
            hold: Some(hold),
            over,
            locks,
        }) = held
        else {
            return Ok(None);
        };
        let (inner, source) = (self.0.clone(), source.clone());
        let work = async move {
            let is_written = |over: &PublishHold| over.writing.state().phase().is_unpublished();
            if keep && over.as_ref().is_some_and(is_written) {
                return Err(WriteError::Exists);
            }
            let guard = if keep { Guard::Absent } else { Guard::None };
            let holds = (&hold, over);
            let names = (&old, (&new, guard));
            let renamed = publish_under(&inner, &source, holds, names, &locks).await;
            let writing = hold.writing.clone();
            drop((hold, locks));
            match renamed {
                // The store knows no condition. It copies an object, once a look has found that the new key is free.
                Err(WriteError::Unsupported) if keep => {
                    writing.commit().await?;
                    Ok(None)
                }
                renamed => renamed,
            }
        };
        run_to_completion(&self.0.core, work).await
    }
}

/// Publishes a held draft under its new key, and forgets the old one. `None`: a request for it was sent meanwhile.
async fn publish_under(
    inner: &Arc<Drafts>,
    source: &Arc<ReadContext>,
    (hold, mut over): (&PublishHold, Option<PublishHold>),
    (old, (new, wanted)): (&ObjectId, (&ObjectId, Guard)),
    locks: &[KeyLock; 2],
) -> Result<Option<RenamedDraft>, WriteError> {
    let writing = &hold.writing;
    let keeps = wanted == Guard::Absent;
    // The journal names the old key until the object has the new one, whichever sync begins it.
    writing.file();
    let before = {
        let mut state = writing.state();
        // The keys were waited for. Meanwhile an upload may have begun under the old one, for a writer that waits for room.
        if !state.is_unsent() {
            return Ok(None);
        }
        // A rename replaces what is there, with the attributes that wait for it.
        let waiting = inner.attributes.get(new).map(|change| change.revision);
        state.begin_rename(new, wanted, waiting, inner.core.next_time(new))
    };
    if let Err(error) = writing.commit_over(&mut over, Some(locks)).await {
        take_back(writing, before);
        // It may have been carried out.
        supersede(&inner.core, new, ChangedKey::Unknown);
        inner.core.forget_name(new.origin, new.key.as_str());
        return Err(match error {
            WriteError::Changed if keeps => WriteError::Exists,
            error => error,
        });
    }
    // A draft that was to be new has found no object there. Any other would have replaced it.
    let gone = match before.guard() {
        Guard::Absent => {
            let gone = inner.check_journals(old).await;
            if gone.is_ok() {
                note_deleted(inner, old).await;
            }
            gone
        }
        _ => delete_object(inner, source, old, Guard::None).await,
    };
    // Last: others wait for the hold as long as the draft is in the table under its old key.
    {
        let mut writings = inner.writings();
        let listed = writings.get(old).is_some_and(|it| Arc::ptr_eq(it, writing));
        if listed {
            writings.remove(old);
            writings.insert(new.clone(), writing.clone());
        }
    }
    // Its last handle may have gone meanwhile.
    writing.leave_if_done();
    let published = writing.state().own_base().cloned();
    let published = published.ok_or(WriteError::Changed)?;
    Ok(Some(RenamedDraft {
        etag: published.version.etag.clone(),
        left: gone.err(),
    }))
}

/// Gives a draft that was not published under another key its old one back.
fn take_back(writing: &Arc<SharedDraft>, before: RenamedTarget) {
    let upload = {
        let mut state = writing.state();
        state.take_back(before);
        // It is under the other key.
        state.forget_begun_upload()
    };
    if let Some(upload) = upload {
        writing.chunks.clear();
        writing.abandon_upload(upload);
    }
    // Its last handle may have gone meanwhile, and have looked for it under the other key.
    writing.leave_if_done();
}
