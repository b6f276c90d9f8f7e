//! Objects that are copied onto themselves, to change their metadata: the new version has the bytes of the one before.
//!
//! A store may give it another ETag (S3: if the object went up in parts). A reader that is on the version before then
//! asks for the same bytes of the new one.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use crate::{Core, Engine, ReadContext};
use tidegate_plan::{ETag, Generations, ObjectId, ObjectKey};
use tidegate_telemetry::locks::Recover as _;

/// The maximum number of successors in a generation; there are two.
const MAX_GENERATION: usize = 1 << 12;

/// The most copies that are followed from one version on.
const MAX_COPIES: usize = 64;

/// See the module documentation. Keys count for all identities of their bucket.
#[derive(Debug)]
pub(crate) struct SelfCopies(Mutex<KnownCopies>);

#[derive(Debug)]
struct KnownCopies {
    /// The tag of the copy of each version.
    made: Generations<(ObjectId, ETag), ETag>,
    /// The copies under way; a channel closes with its copy.
    under_way: HashMap<ObjectId, watch::Receiver<()>>,
}

impl Default for SelfCopies {
    fn default() -> Self {
        Self(Mutex::new(KnownCopies {
            made: Generations::new(MAX_GENERATION),
            under_way: HashMap::new(),
        }))
    }
}

impl SelfCopies {
    fn lock(&self) -> MutexGuard<'_, KnownCopies> {
        self.0.lock().recover()
    }
}

/// A copy of an object onto itself that is under way, until this is dropped.
pub struct SelfCopy {
    core: Arc<Core>,
    id: ObjectId,
    before: ETag,
    ended: watch::Sender<()>,
}

impl fmt::Debug for SelfCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelfCopy")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl SelfCopy {
    /// Notes the tag of the copy.
    pub fn made(self, after: &ETag) {
        if *after != self.before {
            let place = (self.id.clone(), self.before.clone());
            self.core
                .self_copies
                .lock()
                .made
                .insert(place, after.clone());
        }
    }
}

impl Drop for SelfCopy {
    fn drop(&mut self) {
        let under_way = &mut self.core.self_copies.lock().under_way;
        let is_this = |there: &watch::Receiver<()>| there.same_channel(&self.ended.subscribe());
        if under_way.get(&self.id).is_some_and(is_this) {
            under_way.remove(&self.id);
        }
    }
}

impl Engine {
    /// Returns whether two versions of an object have the same bytes, because this process has copied one onto the object to
    /// change its metadata. Waits for such a copy that is under way: only its answer tells.
    pub async fn is_self_copy(
        &self,
        source: &ReadContext,
        key: &ObjectKey,
        (one, other): (&ETag, &ETag),
    ) -> bool {
        let (core, id) = (&self.core, source.object(key));
        core.self_copy_ended(&id).await;
        let latest = [one, other].map(|etag| core.latest_copy(&id, etag));
        latest[0] == latest[1] || latest[0] == *other || latest[1] == *one
    }
}

impl Core {
    /// Announces a copy of an object's version onto itself.
    pub fn begin_self_copy(self: &Arc<Self>, id: &ObjectId, before: &ETag) -> SelfCopy {
        let (id, (ended, end)) = (self.of_bucket(id), watch::channel(()));
        self.self_copies.lock().under_way.insert(id.clone(), end);
        SelfCopy {
            core: self.clone(),
            id,
            before: before.clone(),
            ended,
        }
    }

    /// Returns once no copy of an object onto itself is under way.
    pub(crate) async fn self_copy_ended(&self, id: &ObjectId) {
        let id = self.of_bucket(id);
        let under_way = self.self_copies.lock().under_way.get(&id).cloned();
        if let Some(mut end) = under_way {
            while end.changed().await.is_ok() {}
        }
    }

    /// Returns the tag of the latest version that is known to have the bytes of this one.
    pub(crate) fn latest_copy(&self, id: &ObjectId, etag: &ETag) -> ETag {
        let (id, copies) = (self.of_bucket(id), self.self_copies.lock());
        let mut place = (id, etag.clone());
        for _ in 0..MAX_COPIES {
            match copies.made.get(&place).filter(|next| *next != etag) {
                Some(next) => place.1 = next.clone(),
                None => break,
            }
        }
        place.1
    }
}
