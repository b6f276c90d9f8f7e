//! Locks on keys: one writer of this process at a time changes a key in the bucket.
//!
//! A writer that publishes, deletes or moves an object sends several requests; an acknowledged
//! write of another writer between them would be lost. The gate of a draft (`publish_hold`) is
//! taken before this lock, never after. Of two keys, the smaller one is locked first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use tidegate_engine::Core;
use tidegate_plan::ObjectId;
use tidegate_telemetry::locks::Recover as _;

/// See the module documentation.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyLocks(Arc<Mutex<HashMap<ObjectId, LockedKey>>>);

/// The locks on the keys of an engine's buckets, which one bucket shares under all its identities.
#[derive(Debug)]
pub(crate) struct BucketKeyLocks {
    core: Arc<Core>,
    locks: KeyLocks,
}

/// A key that is locked or waited for.
#[derive(Debug, Default)]
struct LockedKey {
    lock: Arc<AsyncMutex<()>>,
    /// Whether its holder renames an object to it.
    expects_renamed: bool,
}

/// A key that no other writer changes until this is dropped.
#[derive(Debug)]
#[must_use]
pub(crate) struct KeyLock {
    // Dropped before its entry in the table.
    _guard: OwnedMutexGuard<()>,
    entry: KeyLockEntry,
}

/// The table entry of a caller that holds the key or waits for it.
#[derive(Debug)]
struct KeyLockEntry {
    holds: KeyLocks,
    id: ObjectId,
    key: Arc<AsyncMutex<()>>,
}

impl KeyLocks {
    fn table(&self) -> MutexGuard<'_, HashMap<ObjectId, LockedKey>> {
        self.0.lock().recover()
    }

    /// Waits in turn for a key. Each earlier holder ends in bounded time.
    pub(crate) async fn take(&self, id: &ObjectId) -> KeyLock {
        let key = self.table().entry(id.clone()).or_default().lock.clone();
        let entry = KeyLockEntry {
            holds: self.clone(),
            id: id.clone(),
            key,
        };
        KeyLock {
            _guard: entry.key.clone().lock_owned().await,
            entry,
        }
    }

    /// Waits for two keys.
    pub(crate) async fn take_both(&self, one: &ObjectId, other: &ObjectId) -> [KeyLock; 2] {
        let (first, second) = if one < other {
            (one, other)
        } else {
            (other, one)
        };
        [self.take(first).await, self.take(second).await]
    }

    /// Says of a key that the caller has locked that a renamed object is about to have it, until the lock is dropped.
    pub(crate) fn expect_renamed(&self, id: &ObjectId) {
        if let Some(key) = self.table().get_mut(id) {
            key.expects_renamed = true;
        }
    }

    /// Returns whether a renamed object is about to have a key.
    pub(crate) fn expects_renamed(&self, id: &ObjectId) -> bool {
        self.table().get(id).is_some_and(|key| key.expects_renamed)
    }
}

impl BucketKeyLocks {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self {
            core: core.clone(),
            locks: KeyLocks::default(),
        }
    }

    /// Keeps other writers of this process from changing a key of a bucket, under any identity.
    pub(crate) async fn lock_key(&self, id: &ObjectId) -> KeyLock {
        self.locks.take(&self.core.of_bucket(id)).await
    }

    /// Like [`Self::lock_key`], for two keys.
    pub(crate) async fn lock_keys(&self, one: &ObjectId, other: &ObjectId) -> [KeyLock; 2] {
        let (one, other) = (self.core.of_bucket(one), self.core.of_bucket(other));
        self.locks.take_both(&one, &other).await
    }

    /// Says of a locked key that a renamed object is about to have it, until its lock is dropped.
    pub(crate) fn expect_renamed(&self, id: &ObjectId) {
        self.locks.expect_renamed(&self.core.of_bucket(id));
    }

    /// Returns whether a renamed object is about to have a key.
    pub(crate) fn expects_renamed(&self, id: &ObjectId) -> bool {
        self.locks.expects_renamed(&self.core.of_bucket(id))
    }

    /// Like [`Self::lock_key`], for those of the keys that are not held yet, in one order.
    pub(crate) async fn lock_more<'a>(
        &self,
        held: &mut BTreeMap<ObjectId, KeyLock>,
        keys: impl IntoIterator<Item = &'a ObjectId>,
    ) {
        for id in BTreeSet::from_iter(keys) {
            if !held.contains_key(id) {
                held.insert(id.clone(), self.lock_key(id).await);
            }
        }
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        let KeyLockEntry { holds, id, .. } = &self.entry;
        if let Some(key) = holds.table().get_mut(id) {
            key.expects_renamed = false;
        }
    }
}

impl Drop for KeyLockEntry {
    fn drop(&mut self) {
        let mut table = self.holds.table();
        // Clones are made under the lock, so the table's and this one are the last.
        if Arc::strong_count(&self.key) == 2 {
            table.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use tidegate_plan::{ObjectKey, OriginId};

    use super::*;

    fn id(key: &str) -> ObjectId {
        ObjectId {
            origin: OriginId(1),
            key: ObjectKey::new(key).expect("a valid key"),
        }
    }

    #[tokio::test]
    async fn a_renamed_object_is_expected_as_long_as_its_key_is_locked() {
        let holds = KeyLocks::default();
        let (old, new) = (id("old"), id("new"));
        let locks = holds.take_both(&old, &new).await;
        holds.expect_renamed(&new);
        assert!(holds.expects_renamed(&new) && !holds.expects_renamed(&old));
        let mut next = Box::pin(holds.take(&new));
        assert!(next.as_mut().now_or_never().is_none());
        drop(locks);
        assert!(!holds.expects_renamed(&new));
        drop(next.await);
        assert!(holds.table().is_empty());
    }

    #[tokio::test]
    async fn a_key_has_one_holder_and_leaves_no_trace() {
        let holds = KeyLocks::default();
        let (a, b) = (id("a"), id("b"));
        let held = holds.take(&a).await;
        assert!(holds.take(&a).now_or_never().is_none(), "it gave up");
        let mut waiting = Box::pin(holds.take_both(&b, &a));
        assert!(waiting.as_mut().now_or_never().is_none());
        let other = holds
            .take(&b)
            .now_or_never()
            .expect("not before the smaller");
        drop((held, other));
        let both = waiting.await;
        assert_eq!(holds.table().len(), 2);
        drop(both);
        assert!(holds.table().is_empty());
    }
}
