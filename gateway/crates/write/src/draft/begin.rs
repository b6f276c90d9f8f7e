//! Opening an object for writing.

use std::sync::Arc;
use std::time::Duration;

use crate::draft::base_version::BaseVersion;
use crate::draft::phase::Phase;
use crate::draft::shared_draft::SharedDraft;
use crate::draft::state::DraftState;
use crate::draft::state::target::CommitTarget;
use crate::task::run_to_completion;
use crate::{Drafts, OpenMode, WriteError, Writer};
use tidegate_engine::{Error, Object, OpenOptions, ReadContext};
use tidegate_origin::cause::run_for;
use tidegate_origin::write::Headers;
use tidegate_origin::{Cause, Guard};
use tidegate_plan::{ObjectId, ObjectKey, Version};

/// The time for which a version that was written here is changed without a question. If it was replaced meanwhile, the
/// commit is refused, as it would be if that came after the question.
const MAX_BASE_AGE: Duration = Duration::from_secs(5);

/// See [`crate::Writers::open`].
pub(crate) async fn open(
    inner: &Arc<Drafts>,
    source: &Arc<ReadContext>,
    key: &ObjectKey,
    how: OpenMode,
    headers: Headers,
) -> Result<Writer, WriteError> {
    let id = source.object(key);
    loop {
        if let Some(writer) = join(inner, source, &id, how, &headers).await? {
            return Ok(writer);
        }
        let state = begin(inner, source, &id, how, headers.clone()).await?;
        let writing = SharedDraft::new(inner, source, state);
        if !enter(inner, &id, &writing) {
            // Another caller was faster, or a renamed object is there once its rename has ended.
            if inner.path.keys.expects_renamed(&id) {
                drop(inner.path.keys.lock_key(&id).await);
            }
            continue;
        }
        if let Some(writer) = Writer::join(inner, writing) {
            return Ok(writer);
        }
    }
}

/// Puts a new draft into the table. Returns whether it did: it does not if the key has a draft, or if a renamed object is
/// about to have the key. Such a draft would meet that object's own draft there.
fn enter(inner: &Drafts, id: &ObjectId, writing: &Arc<SharedDraft>) -> bool {
    let mut writings = inner.writings();
    let is_free = !writings.contains_key(id) && !inner.path.keys.expects_renamed(id);
    if is_free {
        writings.insert(id.clone(), writing.clone());
    }
    is_free
}

/// Joins the existing draft.
async fn join(
    inner: &Arc<Drafts>,
    source: &Arc<ReadContext>,
    id: &ObjectId,
    how: OpenMode,
    headers: &Headers,
) -> Result<Option<Writer>, WriteError> {
    let Some(writing) = inner.writings().get(id).cloned() else {
        return Ok(None);
    };
    let Some(writer) = Writer::join(inner, writing.clone()) else {
        // It is leaving the table, or is published under another name.
        drop(writing.gate.read().await);
        return Ok(None);
    };
    match how {
        OpenMode::CreateNew => {
            // A committed object that is still held open may have been deleted by another process.
            let is_kept = writer.is_dirty() || exists(inner, source, id).await?;
            match is_kept || !discard_if_clean(&writer, id).await? {
                true => Err(WriteError::Exists),
                false => Ok(None),
            }
        }
        // What is known to be missing is not the version that the draft has.
        OpenMode::Create | OpenMode::CreateMissing
            if inner.engine.is_known_missing(source, &id.key)
                && discard_if_clean(&writer, id).await? =>
        {
            Ok(None)
        }
        OpenMode::Create => {
            let emptied = writing.empty(Some((id, headers.clone()))).await;
            Ok(emptied.map(|_| writer))
        }
        OpenMode::CreateMissing | OpenMode::Change => Ok(Some(writer)),
    }
}

/// Discards the draft of an object that is gone, if no handle has written to it since; returns whether it did. Existing
/// handles keep the draft. It is never promised again: later opens get another of the same key.
async fn discard_if_clean(writer: &Writer, id: &ObjectId) -> Result<bool, WriteError> {
    if writer.is_dirty() {
        return Ok(false);
    }
    let (writing, id) = (writer.writing.clone(), id.clone());
    let work = async move {
        let hold = writing.inner.hold_publishing(&id).await;
        // Otherwise it has left the table.
        let hold = hold.filter(|hold| Arc::ptr_eq(&hold.writing, &writing));
        let Some(hold) = hold else {
            return Ok(true);
        };
        // No write comes in between: writes share the gate.
        if writing.state().phase().is_dirty() {
            return Ok(false);
        }
        hold.discard().await.map(|()| true)
    };
    run_to_completion(&writer.writing.inner.core, work).await
}

async fn begin(
    inner: &Arc<Drafts>,
    source: &Arc<ReadContext>,
    id: &ObjectId,
    how: OpenMode,
    headers: Headers,
) -> Result<DraftState, WriteError> {
    let guard = match how {
        OpenMode::Create => Guard::None,
        OpenMode::CreateNew => {
            if exists(inner, source, id).await? {
                return Err(WriteError::Exists);
            }
            Guard::Absent
        }
        OpenMode::CreateMissing => Guard::Absent,
        OpenMode::Change => return change(inner, source, id).await,
    };
    // The caller has the object's attributes among the headers.
    let waiting = inner.attributes.get(id);
    let target = CommitTarget::new(id.clone(), headers, guard)
        .with_optional_guard(how == OpenMode::CreateMissing)
        .with_attributes_of(waiting.map(|change| change.revision));
    // Also nothing is content: a writer that creates an object and writes nothing gets an empty
    // one.
    Ok(DraftState::new(inner, target, None).in_phase(Phase::created()))
}

async fn exists(
    inner: &Drafts,
    source: &Arc<ReadContext>,
    id: &ObjectId,
) -> Result<bool, WriteError> {
    if inner.engine.is_known_missing(source, &id.key) {
        return Ok(false);
    }
    // Cached knowledge is enough: the bucket is asked once more at the commit.
    match open_base(inner, source, id, OpenOptions::default()).await {
        Ok(_) => Ok(true),
        Err(Error::NotFound) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens an object that a writer may begin with. The requests for it count as those of writes.
pub(crate) async fn open_base(
    inner: &Drafts,
    source: &Arc<ReadContext>,
    id: &ObjectId,
    how: OpenOptions,
) -> Result<Object, Error> {
    run_for(Cause::Write, inner.engine.open(source, &id.key, how)).await
}

/// Options that revalidate: a cached version may be outdated by now.
fn current() -> OpenOptions {
    OpenOptions {
        revalidate: true,
        ..OpenOptions::default()
    }
}

/// Begins a draft of this version, with a handle on it.
///
/// # Errors
/// [`Error::Unavailable`] if another caller has begun one.
pub(crate) fn open_version(
    inner: &Arc<Drafts>,
    source: &Arc<ReadContext>,
    id: &ObjectId,
    version: Arc<Version>,
) -> Result<Writer, WriteError> {
    let writing = SharedDraft::new(inner, source, based_on(inner, id, version));
    let mut writings = inner.writings();
    if writings.contains_key(id) {
        return Err(Error::Unavailable.into());
    }
    writings.insert(id.clone(), writing.clone());
    drop(writings);
    Writer::join(inner, writing).ok_or(Error::Unavailable.into())
}

async fn change(
    inner: &Drafts,
    source: &Arc<ReadContext>,
    id: &ObjectId,
) -> Result<DraftState, WriteError> {
    let written = inner.engine.written_lately(source, &id.key, MAX_BASE_AGE);
    let object = match written.await {
        Some(object) => object,
        None => open_base(inner, source, id, current()).await?,
    };
    Ok(based_on(inner, id, object.version().clone()))
}

/// Returns a draft that begins as a version. It takes the attributes along that wait to be sent.
fn based_on(inner: &Drafts, id: &ObjectId, version: Arc<Version>) -> DraftState {
    let (mut headers, guard) = (version.headers.clone(), Guard::Same(version.etag.clone()));
    let waiting = inner.attributes.of_version(id, &version.etag);
    if let Some(change) = &waiting {
        change.attributes.store(&mut headers);
    }
    let base = BaseVersion {
        key: id.key.clone(),
        version,
    };
    let target = CommitTarget::new(id.clone(), headers, guard)
        .with_attributes_of(waiting.map(|change| change.revision));
    DraftState::new(inner, target, Some(base))
}
