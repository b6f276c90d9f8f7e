//! Changes that send no bytes: deleting, renaming, folders.

pub(crate) mod change_mark;
pub(crate) mod folder;
pub(crate) mod known_markers;
pub(crate) mod markers;
pub(crate) mod server_copy;
pub(crate) mod supersede;
pub(crate) mod temporary;
pub(crate) mod unsent;

use std::sync::Arc;

use crate::attributes::changes::Change;
use crate::change::change_mark::change_key;
use crate::change::known_markers::forget_marker;
use crate::change::markers::make_marker;
use crate::change::server_copy::copy;
use crate::change::supersede::{ChangedKey, supersede};
use crate::draft::shared_draft::SharedDraft;
use crate::draft::uncertain::is_made_with;
use crate::locks::publish_hold::{PublishHold, check_held, discard_held};
use crate::publish::queue::remove;
use crate::task::run_to_completion;
use crate::{Drafts, WriteError, Writers};
use tidegate_engine::times::KnownAttributes;
use tidegate_engine::written::{self, FilingCause, RequestStart, WriteAnswer, WriteConfirmation};
use tidegate_engine::{Core, Error, ReadContext};
use tidegate_origin::write::Headers;
use tidegate_origin::{Guard, OriginError, WrittenVersion};
use tidegate_plan::attributes::Attributes;
use tidegate_plan::{ByteRange, ChangeKind, ETag, ObjectId, ObjectKey, Version, VersionId};

impl Writers {
    /// Deletes an object and discards its draft. A missing object is no error. Waits for a publish
    /// of it that is under way; a caller that gives up then has deleted nothing.
    ///
    /// # Errors
    /// The origin's, or [`WriteError::Spool`] if the disk would keep the draft's journal. The draft then still waits to be
    /// published. If the disk fails after the deletion, the error is the same, and this process knows the object as missing.
    pub async fn remove(
        &self,
        source: &Arc<ReadContext>,
        key: &ObjectKey,
    ) -> Result<(), WriteError> {
        let id = source.object(key);
        let (hold, lock) = self.0.hold_and_lock(&id).await;
        let (inner, source) = (self.0.clone(), source.clone());
        let work = async move {
            let _lock = lock;
            check_held(hold.as_ref()).await?;
            delete_object(&inner, &source, &id, Guard::None).await?;
            discard_held(hold).await
        };
        run_to_completion(&self.0.core, work).await
    }

    /// Discards the draft of an object: nothing of it is published. A try without an answer may have been carried out.
    pub async fn discard(&self, source: &ReadContext, key: &ObjectKey) {
        let id = source.object(key);
        // What the disk keeps is logged, and stops changes of the object.
        let _ = discard_held(self.0.hold_publishing(&id).await).await;
        supersede(&self.0.core, &id, ChangedKey::Unknown);
        self.0.core.forget_name(id.origin, id.key.as_str());
    }

    /// Creates an empty folder: an empty object whose key ends in `/`. With `attributes` it has those.
    ///
    /// # Errors
    /// [`WriteError::Exists`] if another caller in this process created it first; the origin's.
    pub async fn make_folder(
        &self,
        source: &ReadContext,
        key: &ObjectKey,
        attributes: Option<Attributes>,
    ) -> Result<(), WriteError> {
        let id = source.object(key);
        let _hold = self.0.path.keys.lock_key(&id).await;
        self.check_no_folder(source, key)?;
        make_marker(&self.0, source, &id, attributes).await
    }

    /// Gives an object another key: a copy on the server, then a deletion. This is not atomic:
    /// until it returns, and perhaps after a failure, both keys have the object. Publishes the
    /// object's draft first; its handles continue under the new key. Discards the draft of the new
    /// key. Returns the tag that the moved version had under the old key.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such object; [`WriteError::Changed`] if another writer
    /// changed it meanwhile; [`Error::Overloaded`] if writers open one of the keys anew all the time;
    /// the origin's.
    pub async fn rename(
        &self,
        source: &Arc<ReadContext>,
        from: &ObjectKey,
        to: &ObjectKey,
    ) -> Result<ETag, WriteError> {
        self.rename_over(source, from, to, false).await
    }

    /// Does the same. `keep`: an object that has the new key stays, and the result is [`WriteError::Exists`].
    ///
    /// # Errors
    /// As for [`Writers::rename`].
    pub async fn rename_over(
        &self,
        source: &Arc<ReadContext>,
        from: &ObjectKey,
        to: &ObjectKey,
        keep: bool,
    ) -> Result<ETag, WriteError> {
        if from == to {
            return Ok(source.origin.head(from).await.map_err(Error::from)?.etag);
        }
        if let Some(renamed) = self.rename_unsent(source, from, to, keep).await? {
            return renamed.left.map_or(Ok(renamed.etag), Err);
        }
        let renamed = self.rename_stored(source, from, to, keep).await;
        if renamed.as_ref().is_err_and(WriteError::shows_another) {
            for key in [from, to] {
                self.0.engine.doubt_key_now(&source.object(key)).await;
            }
        }
        renamed
    }

    /// Does the same with an object that may be in the bucket.
    async fn rename_stored(
        &self,
        source: &Arc<ReadContext>,
        from: &ObjectKey,
        to: &ObjectKey,
        keep: bool,
    ) -> Result<ETag, WriteError> {
        let (old, new) = (source.object(from), source.object(to));
        let mut held = self.0.publish_for_rename(&old, &new).await?;
        let open = held.hold.as_ref().map(|hold| &hold.writing);
        let kept = keep.then_some((to, held.over.as_ref()));
        let mut version = look_at_both(source, from, kept).await?;
        let waiting = self.0.attributes.of_version(&old, &version.etag);
        if let Some(change) = &waiting {
            change.attributes.store(&mut version.headers);
        }
        let headers = waiting.is_some().then(|| version.headers.clone());
        if let Some(writing) = open {
            let state = writing.state();
            let ours = state.base().map(|base| &base.version.etag);
            // The handles have another version. Under the new key they would have its length and
            // the bytes of the moved one.
            if ours.is_some_and(|etag| *etag != version.etag) {
                return Err(WriteError::Changed);
            }
        }
        self.0.check_journals(&old).await?;
        check_held(held.over.as_ref()).await?;
        self.0.detach_copies_of(&new).await;
        let core = &self.0.core;
        let asked = RequestStart::now(core, &new).await;
        let what = (&version, headers);
        let written = copy_over(&self.0, source, what, from, (&new, keep)).await?;
        let answered = WriteAnswer::now(core, asked, written.answered);
        let copied = written.etag.clone();
        discard_over(core, &new, held.over.take()).await?;
        let times = core.times_of_moved(&old, &version, &new);
        let attributes = KnownAttributes::Stored(Attributes::of(&version.headers));
        core.times.keep(&new, &copied, times, attributes);
        self.0
            .attributes_moved(source, (&old, &new), &copied, waiting);
        core.times.write_out().await;
        let made = Version {
            etag: written.etag,
            version_id: written.version_id,
            last_modified: None,
            ..version.clone()
        };
        let moved = core.version_id(&old, &version).await;
        self.0
            .note_copied(source, &new, made, answered, moved)
            .await;
        let moved = version.etag.clone();
        delete_moved(&self.0, source, &old, &moved).await?;
        if let Some(writing) = open {
            self.0.move_writing(writing, &old, &new, copied, version);
        }
        Ok(moved)
    }
}

impl Drafts {
    /// Moves the change of attributes that waits for the old key, unless the copy has taken it along. A change of the
    /// object that had the new key is dropped.
    pub(crate) fn attributes_moved(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        (old, new): (&ObjectId, &ObjectId),
        copied: &ETag,
        taken: Option<Change>,
    ) {
        self.attributes.remove(new, None);
        if let Some(taken) = &taken {
            self.attributes.remove(old, Some(taken.revision));
        }
        let Some(later) = self.attributes.get(old) else {
            return;
        };
        self.attributes.remove(old, None);
        self.core.keep_pending(new, copied, later.attributes);
        let etag = later.etag.is_some().then(|| copied.clone());
        self.put_change(source, new, etag, later.attributes);
    }

    /// Records a new version of the key that the store made of a version of another object.
    pub(crate) async fn note_copied(
        &self,
        source: &ReadContext,
        id: &ObjectId,
        made: Version,
        answered: WriteAnswer,
        moved: VersionId,
    ) {
        let (core, profile) = (&self.core, source.profile.load());
        let (made, known) = (Arc::new(made), WriteConfirmation::Answered(answered));
        let whole = ByteRange::new(0, made.size);
        let installed = written::install(core, &profile, id, &made, known, |filing| {
            filing.put_of(moved, &[whole], FilingCause::Rename);
        });
        let installed = installed.await;
        supersede(
            core,
            id,
            ChangedKey::of_install(installed, core.facts(id, &made)),
        );
    }

    /// Moves the handles to the new key.
    pub(crate) fn move_writing(
        &self,
        writing: &Arc<SharedDraft>,
        old: &ObjectId,
        new: &ObjectId,
        etag: ETag,
        version: Version,
    ) {
        let mut writings = self.writings();
        let mut state = writing.state();
        if !state.phase().is_dirty() {
            // A failed write created the file. The old name is in it.
            remove(writing.take_file(&mut state));
        }
        let listed = writings.get(old).is_some_and(|it| Arc::ptr_eq(it, writing));
        if listed {
            writings.remove(old);
            writings.insert(new.clone(), writing.clone());
        }
        state.follow(new, etag, version);
    }
}

/// Discards the draft of a key that has the copy of a renamed object by now. After an error the next process may replace
/// the copy, so the object stays under its old key.
async fn discard_over(
    core: &Arc<Core>,
    new: &ObjectId,
    over: Option<PublishHold>,
) -> Result<(), WriteError> {
    let discarded = discard_held(over).await;
    if discarded.is_err() {
        supersede(core, new, ChangedKey::Unknown);
        core.forget_name(new.origin, new.key.as_str());
    }
    discarded
}

/// Returns the version of an object that is to be renamed. Fails if the object `kept`, with its draft, has the new key.
async fn look_at_both(
    source: &ReadContext,
    from: &ObjectKey,
    kept: Option<(&ObjectKey, Option<&PublishHold>)>,
) -> Result<Version, WriteError> {
    let is_free = async {
        match kept {
            Some((to, over)) => check_free(source, to, over).await,
            None => Ok(()),
        }
    };
    let (is_free, version) = tokio::join!(is_free, source.origin.head(from));
    is_free?;
    Ok(version.map_err(Error::from)?)
}

/// Copies a version to its new key. `keep`: an object that has that key stays, if the store compares. The key was found free
/// then, so an object there that is the copy in all that a store tells is the copy: its answer was lost.
async fn copy_over(
    inner: &Drafts,
    source: &ReadContext,
    what: (&Version, Option<Headers>),
    from: &ObjectKey,
    (new, keep): (&ObjectId, bool),
) -> Result<WrittenVersion, WriteError> {
    let guard = if keep { Guard::Absent } else { Guard::None };
    let version = what.0;
    match copy(inner, source, what, from, (new, guard), &|| {}).await {
        Err(WriteError::Changed) if keep => {
            // The one version or the other.
            check_free(source, &new.key, None).await?;
            Err(WriteError::Changed)
        }
        Err(error) if keep && leaves_doubt(&error) => {
            let found = source.origin.head(&new.key).await;
            let found = found.ok().filter(|found| is_copy(found, version));
            let copied = |found: Version| WrittenVersion {
                etag: found.etag,
                version_id: found.version_id,
                answered: None,
            };
            found.map(copied).ok_or(error)
        }
        written => written,
    }
}

/// Returns whether a failed copy may have been made all the same.
pub(crate) fn leaves_doubt(error: &WriteError) -> bool {
    let is_refused = matches!(error, WriteError::Origin(Error::Overloaded { .. }));
    error.is_passing() && !is_refused
}

fn is_copy(found: &Version, version: &Version) -> bool {
    let is_same = found.etag.weak_eq(&version.etag) && found.size == version.size;
    is_same && is_made_with(&found.headers, &version.headers)
}

/// Fails if an object has a key, or is about to.
async fn check_free(
    source: &ReadContext,
    key: &ObjectKey,
    held: Option<&PublishHold>,
) -> Result<(), WriteError> {
    let is_written = held.is_some_and(|held| held.writing.state().phase().is_unpublished());
    match is_written || source.origin.peek(key).await?.is_some() {
        true => Err(WriteError::Exists),
        false => Ok(()),
    }
}

/// Deletes an object, if it has the version that `guard` names and the store compares. Afterwards this process knows that
/// it is missing, or, after an error, knows nothing of it.
pub(crate) async fn delete_object(
    inner: &Drafts,
    source: &ReadContext,
    id: &ObjectId,
    guard: Guard,
) -> Result<(), WriteError> {
    inner.check_journals(id).await?;
    inner.detach_copies_of(id).await;
    forget_marker(inner, id);
    let delete = source.origin.writing().delete(&id.key, guard);
    let deleted = change_key(&inner.core, (id, ChangeKind::Removed), delete).await;
    match &deleted {
        Ok(()) => note_deleted(inner, id).await,
        Err(_) => {
            supersede(&inner.core, id, ChangedKey::Unknown);
            inner.core.forget_name(id.origin, id.key.as_str());
        }
    }
    Ok(deleted?)
}

/// Deletes an object that was copied to another key, unless it has another version than the copied one by now.
async fn delete_moved(
    inner: &Drafts,
    source: &ReadContext,
    old: &ObjectId,
    copied: &ETag,
) -> Result<(), WriteError> {
    match source.origin.head(&old.key).await {
        Ok(now) if now.etag == *copied => {
            delete_object(inner, source, old, Guard::Same(now.etag)).await
        }
        Err(OriginError::NotFound) => {
            note_deleted(inner, old).await;
            Ok(())
        }
        // A version that another process wrote meanwhile was not copied, and stays. So does one
        // that may be such a version.
        now => {
            supersede(&inner.core, old, ChangedKey::Unknown);
            Err(now.map_or_else(WriteError::from, |_| WriteError::Changed))
        }
    }
}

/// Records that the object no longer exists.
pub(crate) async fn note_deleted(inner: &Drafts, id: &ObjectId) {
    inner.attributes.remove(id, None);
    inner.core.forget_times(id);
    inner.write_changes_out().await;
    supersede(&inner.core, id, ChangedKey::Missing);
}
