//! Markers of new folders that are put behind the program's back.
//!
//! A marker is an empty object whose key ends in `/`. Programs make folders one after the other (restic 256 of them, git
//! one for each object's first byte), and each would wait for the bucket. Where closes do not wait for it, `mkdir` does not
//! either: this process sees the folder at once, and the marker follows. POSIX promises no new folder before an `fsync` of
//! its parent, so a crash may lose one that is empty. If an outage takes the request, the marker waits durably, as a change
//! of attributes does, and is put once the bucket is back. While markers fail, `mkdir` waits again, and says so. A sync
//! of the parent waits until the marker is in the bucket, or waits durably.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use http::header::CONTENT_TYPE;
use tokio::sync::{Semaphore, watch};

use crate::attributes::send::FOLDER_TYPE;
use crate::change::change_mark::change_key;
use crate::change::supersede::{ChangedKey, supersede};
use crate::{Drafts, WriteError, Writers};
use tidegate_engine::ReadContext;
use tidegate_engine::names::NameKind;
use tidegate_engine::times::KnownAttributes;
use tidegate_origin::write::Headers;
use tidegate_origin::{Guard, OriginError, Payload};
use tidegate_plan::attributes::Attributes;
use tidegate_plan::{ChangeKind, ObjectId, ObjectKey, OriginId};
use tidegate_telemetry::locks::Recover as _;

/// The markers on their way at once; a further `mkdir` waits.
const MAX_MARKERS: u32 = 32;

/// The refused markers that are remembered until a program syncs their folder.
const MAX_REFUSED: usize = 1 << 10;

/// The markers on their way.
#[derive(Debug)]
pub(crate) struct FolderMarkers {
    pending: Mutex<HashSet<ObjectId>>,
    /// Changes with each marker that is pending no more.
    left: watch::Sender<()>,
    /// Those that the bucket has refused, of which no caller was told, with the error.
    refused: Mutex<HashMap<ObjectId, WriteError>>,
    turns: Arc<Semaphore>,
    /// Whether the last one failed.
    failing: AtomicBool,
}

impl Default for FolderMarkers {
    fn default() -> Self {
        Self {
            pending: Mutex::default(),
            left: watch::Sender::new(()),
            refused: Mutex::default(),
            turns: Arc::new(Semaphore::new(MAX_MARKERS as usize)),
            failing: AtomicBool::new(false),
        }
    }
}

impl FolderMarkers {
    fn pending(&self) -> MutexGuard<'_, HashSet<ObjectId>> {
        self.pending.lock().recover()
    }

    /// Returns once no marker of a folder in this one is on its way.
    ///
    /// # Errors
    /// That of one which was refused; another caller is not told of it.
    pub(crate) async fn sent(&self, origin: OriginId, prefix: &str) -> Result<(), WriteError> {
        let is_in = |id: &ObjectId| {
            let rest = id.key.as_str().get(prefix.len()..).unwrap_or_default();
            let name = rest.trim_end_matches('/');
            id.is_below(origin, prefix) && !name.is_empty() && !name.contains('/')
        };
        let mut left = self.left.subscribe();
        while self.pending().iter().any(is_in) {
            let _ = left.changed().await;
        }
        let mut refused = self.refused.lock().recover();
        let id = refused.keys().find(|id| is_in(id)).cloned();
        let error = id.and_then(|id| refused.remove(&id));
        error.map_or(Ok(()), Err)
    }

    fn end(&self, id: &ObjectId, refused: Option<WriteError>) {
        let mut all = self.refused.lock().recover();
        match refused {
            Some(error) if all.len() < MAX_REFUSED => drop(all.insert(id.clone(), error)),
            _ => drop(all.remove(id)),
        }
        drop(all);
        self.pending().remove(id);
        self.left.send_replace(());
    }

    /// Returns once no marker is on its way.
    pub(crate) async fn settled(&self) {
        let _all = self.turns.acquire_many(MAX_MARKERS).await;
    }
}

impl Writers {
    /// Creates an empty folder, as [`Writers::make_folder`] does, and does not wait for the bucket, unless the last such
    /// request failed. `held` is dropped once the request is answered.
    ///
    /// # Errors
    /// As for [`Writers::make_folder`].
    pub async fn make_folder_behind<T: Send + 'static>(
        &self,
        source: &Arc<ReadContext>,
        key: &ObjectKey,
        attributes: Option<Attributes>,
        held: T,
    ) -> Result<(), WriteError> {
        let (id, markers) = (source.object(key), &self.0.markers);
        let turn = markers.turns.clone().acquire_owned().await;
        let lock = self.0.path.lock_key(&id).await;
        self.check_no_folder(source, key)?;
        if markers.failing.load(Ordering::Relaxed) {
            return make_marker(&self.0, source, &id, attributes).await;
        }
        // Before this returns: creating files in it needs no request.
        note_folder(&self.0, &id, attributes);
        markers.pending().insert(id.clone());
        let (inner, source) = (self.0.clone(), source.clone());
        self.0.core.spawn(async move {
            let _held = (turn, lock, held);
            // Its attributes may have been changed meanwhile: they are noted already.
            let mut refused = None;
            match put_marker(&inner, &source, &id, attributes).await {
                // A listing under way may have been asked for before the marker was there.
                Ok(()) => inner.core.folder_confirmed(&id),
                Err(error) => {
                    let (error, key) = (WriteError::from(error), id.key.as_str());
                    if error.is_passing() {
                        tracing::warn!(%error, key, "a new folder is not in the bucket yet");
                        put_later(&inner, &source, &id, attributes).await;
                    } else {
                        tracing::warn!(%error, key, "a new folder was refused; it is there as long as files in it are");
                        let path = key.trim_end_matches('/');
                        inner.core.forget_name(id.origin, path);
                        refused = Some(error);
                    }
                }
            }
            // After the bucket was told: until then listings do not have it.
            inner.markers.end(&id, refused);
        });
        Ok(())
    }

    /// Returns the folders below a prefix whose markers are on their way, in order.
    #[must_use]
    pub fn markers_below(&self, source: &ReadContext, prefix: &str) -> BTreeSet<ObjectKey> {
        let origin = source.origin.id();
        let mut keys = BTreeSet::from_iter(self.0.attributes.folders_below(origin, prefix));
        let pending = self.0.markers.pending();
        let below = pending.iter().filter(|id| id.is_below(origin, prefix));
        keys.extend(below.map(|id| id.key.clone()));
        keys
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
pub(crate) async fn make_marker(
    inner: &Drafts,
    source: &ReadContext,
    id: &ObjectId,
    attributes: Option<Attributes>,
) -> Result<(), WriteError> {
    put_marker(inner, source, id, attributes).await?;
    note_folder(inner, id, attributes);
    inner.core.times.write_out().await;
    Ok(())
}

async fn put_marker(
    inner: &Drafts,
    source: &ReadContext,
    id: &ObjectId,
    attributes: Option<Attributes>,
) -> Result<(), OriginError> {
    let origin = source.origin.writing();
    let empty = Payload::pieces(Vec::new());
    let mut headers = Headers::new();
    if let Some(attributes) = attributes {
        headers.push((CONTENT_TYPE, FOLDER_TYPE));
        attributes.store(&mut headers);
    }
    let put = origin.put(&id.key, headers, empty, Guard::None);
    let made = change_key(&inner.core, (id, ChangeKind::Created), put).await;
    supersede(&inner.core, id, ChangedKey::Unknown);
    inner
        .markers
        .failing
        .store(made.is_err(), Ordering::Relaxed);
    made.map(drop)
}

/// Leaves the marker of a new folder to the queue of changed attributes, unless it is there already.
async fn put_later(
    inner: &Arc<Drafts>,
    source: &Arc<ReadContext>,
    id: &ObjectId,
    attributes: Option<Attributes>,
) {
    if inner.attributes.get(id).is_none() {
        inner.put_change(source, id, None, attributes.unwrap_or_default());
        inner.attributes.write_out().await;
    }
}

/// Records a new folder and its attributes.
fn note_folder(inner: &Drafts, id: &ObjectId, attributes: Option<Attributes>) {
    inner.core.folder_made(id);
    if let Some(attributes) = attributes {
        let known = KnownAttributes::Stored(attributes);
        inner.core.keep_folder((id.origin, id.key.as_str()), known);
    }
}
