//! The markers of folders that this process has put, for as long as no other writer is expected to have changed them.

use std::sync::{Mutex, MutexGuard};

use tokio::time::Instant;

use crate::Drafts;
use tidegate_engine::ReadContext;
use tidegate_origin::write::Headers;
use tidegate_plan::{ETag, Generations, ObjectId};
use tidegate_telemetry::locks::Recover as _;

/// The most markers in a generation; there are two.
const MAX_KNOWN: usize = 1 << 11;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct KnownMarkers(Mutex<Generations<ObjectId, KnownMarker>>);

/// A marker as it was put, or found, at a time.
#[derive(Debug, Clone)]
pub(crate) struct KnownMarker {
    pub(crate) etag: ETag,
    pub(crate) headers: Headers,
    at: Instant,
}

impl KnownMarker {
    pub(crate) fn new(etag: ETag, headers: Headers) -> Self {
        let at = Instant::now();
        Self { etag, headers, at }
    }
}

impl Default for KnownMarkers {
    fn default() -> Self {
        Self(Mutex::new(Generations::new(MAX_KNOWN)))
    }
}

impl KnownMarkers {
    fn lock(&self) -> MutexGuard<'_, Generations<ObjectId, KnownMarker>> {
        self.0.lock().recover()
    }

    /// Returns the marker that this process has put, if that is not longer ago than the profile's `ttl`.
    pub(crate) fn marker(&self, source: &ReadContext, id: &ObjectId) -> Option<KnownMarker> {
        let ttl = source.profile.load().ttl;
        let known = self.lock().get(id).cloned();
        known.filter(|known| known.at.elapsed() < ttl)
    }

    /// Notes a marker that this process has put.
    pub(crate) fn add(&self, id: &ObjectId, marker: KnownMarker) {
        self.lock().insert(id.clone(), marker);
    }
}

/// Forgets the marker of a key that is changed in another way than by [`super::markers::put_marker`].
pub(crate) fn forget_marker(inner: &Drafts, id: &ObjectId) {
    let mut known = inner.known_markers.lock();
    for id in inner.core.everywhere(id) {
        known.remove(&id);
    }
}
