//! Markers of new folders that follow behind the program's back.
//!
//! A marker is an empty object whose key ends in `/`. Programs make folders one after the other (restic 256 of them, git
//! one for each object's first byte), and each would wait for the bucket. Programs that copy a tree (`cp -a`, `tar x`,
//! `rsync -a`) set the mode and the time of each folder once it is filled. Where closes do not wait for the bucket, `mkdir`
//! does not either: this process sees the folder at once, and its marker waits as a change of attributes does. It is noted
//! beside the spool before the call returns, and put once the folder is quiet, with the attributes that it has by then. A
//! sync of the parent sends it, and returns once it is in the bucket, or waits durably. While markers fail, `mkdir` waits,
//! and says so.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use http::HeaderValue;
use http::header::CONTENT_TYPE;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::change::change_mark::change_key;
use crate::change::known_markers::KnownMarker;
use crate::change::supersede::{ChangedKey, supersede};
use crate::{Drafts, WriteError, Writers};
use tidegate_engine::ReadContext;
use tidegate_engine::names::NameKind;
use tidegate_engine::times::KnownAttributes;
use tidegate_origin::write::Headers;
use tidegate_origin::{Guard, OriginError, Payload};
use tidegate_plan::attributes::Attributes;
use tidegate_plan::folder::has_sure_name;
use tidegate_plan::{ChangeKind, ObjectId, ObjectKey, OriginId};
use tidegate_telemetry::locks::Recover as _;

/// The content type of a folder's marker, as s3fs and others write it.
pub(crate) const FOLDER_TYPE: HeaderValue = HeaderValue::from_static("application/x-directory");

/// The refused markers that are remembered until a program syncs their folder.
const MAX_REFUSED: usize = 1 << 10;

/// The markers of new folders, besides the changes of attributes as which they wait.
#[derive(Debug)]
pub(crate) struct FolderMarkers {
    /// The new folders whose markers were not sent yet.
    new: Mutex<HashMap<ObjectId, MarkerTries>>,
    /// Changes with each marker that was tried.
    sent: watch::Sender<()>,
    /// Those that the bucket has refused, of which no caller was told, with the error.
    refused: Mutex<HashMap<ObjectId, WriteError>>,
    /// Whether the last one failed.
    failing: AtomicBool,
}

/// Whether the marker of a new folder was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MarkerTries {
    Untried,
    /// Each try has failed in passing.
    Failed,
}

impl Default for FolderMarkers {
    fn default() -> Self {
        Self {
            new: Mutex::default(),
            sent: watch::Sender::new(()),
            refused: Mutex::default(),
            failing: AtomicBool::new(false),
        }
    }
}

/// Returns whether a folder lies in the folder of a prefix, not deeper.
fn is_in(id: &ObjectId, origin: OriginId, prefix: &str) -> bool {
    let rest = id.key.as_str().get(prefix.len()..).unwrap_or_default();
    let name = rest.trim_end_matches('/');
    id.is_below(origin, prefix) && !name.is_empty() && !name.contains('/')
}

impl FolderMarkers {
    fn new_folders(&self) -> MutexGuard<'_, HashMap<ObjectId, MarkerTries>> {
        self.new.lock().recover()
    }

    /// Returns whether a folder was made by this process, and its marker was not sent yet.
    pub(crate) fn is_new(&self, id: &ObjectId) -> bool {
        self.new_folders().contains_key(id)
    }

    fn is_untried(&self, id: &ObjectId) -> bool {
        self.new_folders().get(id) == Some(&MarkerTries::Untried)
    }

    fn untried_in(&self, origin: OriginId, prefix: &str) -> Vec<ObjectId> {
        let new = self.new_folders();
        let untried = new
            .iter()
            .filter(|(id, tries)| **tries == MarkerTries::Untried && is_in(id, origin, prefix));
        untried.map(|(id, _)| id.clone()).collect()
    }

    /// Notes that a folder was made.
    fn begin(&self, id: &ObjectId) {
        let mut new = self.new_folders();
        new.insert(id.clone(), MarkerTries::Untried);
    }

    /// Notes that the marker of a folder was not sent, and is going to be tried again.
    pub(crate) fn note_failed(&self, id: &ObjectId) {
        if let Some(tries) = self.new_folders().get_mut(id) {
            *tries = MarkerTries::Failed;
        }
        self.sent.send_replace(());
    }

    /// Notes that the marker of a new folder was sent, or refused, or is not needed any more. Its change may wait still.
    pub(crate) fn end(&self, id: &ObjectId, refused: Option<WriteError>) {
        if self.new_folders().remove(id).is_none() {
            return;
        }
        let mut all = self.refused.lock().recover();
        match refused {
            Some(error) if all.len() < MAX_REFUSED => drop(all.insert(id.clone(), error)),
            _ => drop(all.remove(id)),
        }
        drop(all);
        self.sent.send_replace(());
    }
}

impl Drafts {
    /// Sends the markers of the new folders in a folder, and returns once each of them was tried.
    ///
    /// # Errors
    /// That of one which was refused; another caller is not told of it.
    pub(crate) async fn send_markers(
        &self,
        origin: OriginId,
        prefix: &str,
    ) -> Result<(), WriteError> {
        let markers = &self.markers;
        let mut sent = markers.sent.subscribe();
        loop {
            let untried = markers.untried_in(origin, prefix);
            if untried.is_empty() {
                break;
            }
            self.attributes.hurry(&untried);
            let _ = sent.changed().await;
        }
        let mut refused = markers.refused.lock().recover();
        let id = refused.keys().find(|id| is_in(id, origin, prefix)).cloned();
        let error = id.and_then(|id| refused.remove(&id));
        error.map_or(Ok(()), Err)
    }

    /// Sends the marker of a new folder, and returns once it was tried.
    ///
    /// # Errors
    /// That of its refusal; another caller is not told of it.
    async fn send_marker(&self, id: &ObjectId) -> Result<(), WriteError> {
        let mut sent = self.markers.sent.subscribe();
        while self.markers.is_untried(id) {
            self.attributes.hurry(std::slice::from_ref(id));
            let _ = sent.changed().await;
        }
        let refused = self.markers.refused.lock().recover().remove(id);
        refused.map_or(Ok(()), Err)
    }

    /// Has the name of a folder looked for anew, because another program's object with bytes has the key of its marker.
    /// Returns the error of its `mkdir`.
    async fn found_no_marker(&self, id: &ObjectId) -> WriteError {
        if let Ok(key) = ObjectKey::new(id.key.as_str().trim_end_matches('/')) {
            let origin = id.origin;
            self.engine.doubt_key_now(&ObjectId { origin, key }).await;
        }
        WriteError::Exists
    }
}

impl Writers {
    /// Creates an empty folder, as [`Writers::make_folder`] does, and does not wait for the bucket, unless the last such
    /// request failed. If the bucket may refuse the name, it is asked at once, and has some seconds for its answer.
    ///
    /// # Errors
    /// As for [`Writers::make_folder`]; [`WriteError::Full`] if too many changes wait.
    pub async fn make_folder_behind(
        &self,
        source: &Arc<ReadContext>,
        key: &ObjectKey,
        attributes: Option<Attributes>,
    ) -> Result<(), WriteError> {
        let (inner, id) = (&self.0, source.object(key));
        inner.attributes.room(&id, inner.settings.patience).await?;
        let lock = inner.path.keys.lock_key(&id).await;
        self.check_no_folder(source, key)?;
        if inner.markers.failing.load(Ordering::Relaxed) {
            return make_marker(inner, source, &id, attributes).await;
        }
        // Creating files in it needs no request.
        inner.core.folder_made(&id);
        inner.markers.begin(&id);
        match attributes {
            Some(attributes) => inner.put_folder_change(source, &id, attributes),
            None => inner.put_change(source, &id, None, Attributes::default()),
        }
        inner.write_changes_out().await;
        drop(lock);
        if has_sure_name(key.as_str()) {
            return Ok(());
        }
        let verdict = timeout(inner.settings.verdict_wait(), inner.send_marker(&id));
        // Without one the folder waits like any other.
        match verdict.await.unwrap_or(Ok(())) {
            Err(WriteError::Changed) => Err(inner.found_no_marker(&id).await),
            verdict => verdict,
        }
    }

    /// Notes that a name in a folder has come or gone: that is its time, and the marker of a new one waits on.
    pub fn touch_folder(&self, source: &ReadContext, prefix: &str) {
        self.0.core.touch_folder((source.origin.id(), prefix));
        let id = ObjectKey::new(prefix).map(|key| source.object(&key));
        if let Ok(id) = id
            && self.0.markers.is_untried(&id)
        {
            self.0.attributes.touch(&id);
        }
    }

    /// Returns the folders below a prefix whose markers wait to be put, in order.
    #[must_use]
    pub fn markers_below(&self, source: &ReadContext, prefix: &str) -> BTreeSet<ObjectKey> {
        BTreeSet::from_iter(self.0.attributes.folders_below(source.origin.id(), prefix))
    }

    /// Returns whether a draft, or a new folder that is not in the bucket yet, is below a folder's prefix.
    #[must_use]
    pub fn holds_below(&self, source: &ReadContext, prefix: &str) -> bool {
        let markers = self.markers_below(source, prefix);
        markers.iter().any(|key| key.as_str() != prefix) || self.has_draft_below(source, prefix)
    }

    /// Fails if the name is known to be there: of two callers both may have found nothing before either held the key.
    pub(crate) fn check_no_folder(
        &self,
        source: &ReadContext,
        key: &ObjectKey,
    ) -> Result<(), WriteError> {
        let name = key.as_str().trim_end_matches('/');
        let known = self.0.engine.known(source, name);
        match known.is_some_and(|known| known.entry != NameKind::Missing) {
            true => Err(WriteError::Exists),
            false => Ok(()),
        }
    }
}

/// Puts the marker of a folder whose key is held, and records the folder.
///
/// # Errors
/// [`WriteError::Exists`] if another program's object with bytes has the key; the bucket's.
pub(crate) async fn make_marker(
    inner: &Drafts,
    source: &ReadContext,
    id: &ObjectId,
    attributes: Option<Attributes>,
) -> Result<(), WriteError> {
    let mut headers = Headers::new();
    if let Some(attributes) = attributes {
        headers.push((CONTENT_TYPE, FOLDER_TYPE));
        attributes.store(&mut headers);
    }
    let made = put_marker(inner, source, id, (None, |_| headers.clone())).await;
    supersede(&inner.core, id, ChangedKey::Unknown);
    if made == Err(OriginError::Changed) {
        return Err(inner.found_no_marker(id).await);
    }
    made?;
    inner.core.folder_made(id);
    if let Some(attributes) = attributes {
        let known = KnownAttributes::Stored(attributes);
        inner.core.keep_folder((id.origin, id.key.as_str()), known);
    }
    inner.core.times.write_out().await;
    Ok(())
}

/// Puts the marker of a folder over the one that was `found`, with the headers that the function makes of those found. The
/// caller holds the key.
///
/// # Errors
/// [`OriginError::Changed`] if an object with bytes has the key, or other writers change the marker all the time; the
/// origin's.
pub(crate) async fn put_marker(
    inner: &Drafts,
    source: &ReadContext,
    id: &ObjectId,
    (found, headers): (Option<KnownMarker>, impl Fn(Headers) -> Headers),
) -> Result<(), OriginError> {
    let mut put = put_over(inner, source, id, (found, &headers)).await;
    if put == Err(OriginError::Changed) {
        // Another gateway has made or changed the folder, or an earlier try had no answer.
        put = match find_marker(source, id).await {
            Ok(found) => put_over(inner, source, id, (found, &headers)).await,
            Err(error) => Err(error),
        };
    }
    let is_failing = put.as_ref().is_err_and(|it| *it != OriginError::Changed);
    inner.markers.failing.store(is_failing, Ordering::Relaxed);
    put
}

/// Returns the marker that a folder has in the bucket.
///
/// # Errors
/// [`OriginError::Changed`] if the object has bytes: it is another program's, and no marker. The origin's.
pub(crate) async fn find_marker(
    source: &ReadContext,
    id: &ObjectId,
) -> Result<Option<KnownMarker>, OriginError> {
    match source.origin.head(&id.key).await {
        Ok(found) if found.size > 0 => Err(OriginError::Changed),
        Ok(found) => Ok(Some(KnownMarker::new(found.etag, found.headers))),
        Err(OriginError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts a marker if the bucket has the one that was `found`. A store that does not know the condition is looked at.
async fn put_over(
    inner: &Drafts,
    source: &ReadContext,
    id: &ObjectId,
    (found, headers): (Option<KnownMarker>, &impl Fn(Headers) -> Headers),
) -> Result<(), OriginError> {
    let (before, headers) = match found {
        Some(found) => (Some(found.etag), headers(found.headers)),
        None => (None, headers(Headers::new())),
    };
    let put = async |guard| {
        let (origin, empty) = (source.origin.writing(), Payload::pieces(Vec::new()));
        let put = origin.put(&id.key, headers.clone(), empty, guard);
        change_key(&inner.core, (id, ChangeKind::Created), put).await
    };
    let guarded = put(before.clone().map_or(Guard::Absent, Guard::Same)).await;
    let put = match guarded {
        Err(OriginError::Unsupported) => {
            let there = find_marker(source, id).await?;
            match there.map(|there| there.etag) == before {
                true => put(Guard::None).await,
                false => Err(OriginError::Changed),
            }
        }
        guarded => guarded,
    };
    let known = KnownMarker::new(put?.etag, headers);
    inner.known_markers.add(id, known);
    Ok(())
}
