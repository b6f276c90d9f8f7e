//! A metadata store in a map: what the trait promises, and nothing more.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_core::future::BoxFuture;
use tidegate_cache::{Entry, MetaError, MetaStore};
use tidegate_plan::{ObjectId, OriginId};

/// Entries and purges in memory. Survives a restart of the engine by being handed on.
#[derive(Debug, Default)]
pub(crate) struct MapMeta(Mutex<Inner>, Mutex<Option<Hook>>);

/// Something that happens in the midst of another thing, once.
pub(crate) struct Hook(pub(crate) Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    entries: HashMap<ObjectId, Entry>,
    /// What `peek` knows: the others lie on disk.
    warm: HashSet<ObjectId>,
    /// Which keys are covered, and by purges of which number.
    keys: HashMap<ObjectId, u64>,
    prefixes: Vec<(OriginId, String, u64)>,
    purges: u64,
    /// Marks cannot be made durable.
    pub(crate) refuses_marks: bool,
    /// Keys that were marked, in order.
    pub(crate) marked: Vec<String>,
    /// Changes under way.
    pub(crate) changing: usize,
    /// It was closed in order.
    pub(crate) is_closed: bool,
}

impl MapMeta {
    /// What a restart leaves: negative entries live in memory only.
    pub(crate) fn restart(&self) {
        let mut inner = self.lock();
        inner.warm.clear();
        inner
            .entries
            .retain(|_, entry| matches!(entry, Entry::Present(_)));
    }

    /// Happens as soon as somebody has looked at an entry.
    pub(crate) fn after_peek(&self, hook: impl FnOnce() + Send + 'static) {
        *self.1.lock().unwrap_or_else(PoisonError::into_inner) = Some(Hook(Box::new(hook)));
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MetaStore for MapMeta {
    fn peek(&self, id: &ObjectId) -> Option<Entry> {
        let found = {
            let inner = self.lock();
            let found = inner.entries.get(id);
            found.filter(|_| inner.warm.contains(id)).cloned()
        };
        let hook = self.1.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Hook(hook)) = hook {
            hook();
        }
        found
    }

    fn load<'a>(&'a self, id: &'a ObjectId) -> BoxFuture<'a, Option<Entry>> {
        Box::pin(async move {
            let entry = self.lock().entries.get(id).cloned();
            // As one that goes to a disk: the answer is older than its arrival, and other things
            // happen meanwhile from beginning to end.
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            self.lock().warm.insert(id.clone());
            entry
        })
    }

    fn put(&self, id: &ObjectId, entry: Entry) {
        let mut inner = self.lock();
        inner.warm.insert(id.clone());
        inner.entries.insert(id.clone(), entry);
    }

    fn remove(&self, id: &ObjectId) {
        self.lock().entries.remove(id);
    }

    fn generation<'a>(&'a self, id: &'a ObjectId) -> BoxFuture<'a, u64> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let inner = self.lock();
            let of_key = inner.keys.get(id).copied();
            let of_prefixes = inner
                .prefixes
                .iter()
                .filter_map(|(origin, prefix, number)| {
                    let covered = *origin == id.origin && id.key.as_str().starts_with(prefix);
                    covered.then_some(*number)
                });
            of_prefixes.chain(of_key).max().unwrap_or(0)
        })
    }

    fn purge_key<'a>(&'a self, id: &'a ObjectId) -> BoxFuture<'a, Result<(), MetaError>> {
        Box::pin(async move {
            {
                let mut inner = self.lock();
                inner.purges += 1;
                let number = inner.purges;
                inner.entries.remove(id);
                inner.keys.insert(id.clone(), number);
            }
            tokio::task::yield_now().await;
            Ok(())
        })
    }

    fn purge_prefix<'a>(
        &'a self,
        origin: OriginId,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<(), MetaError>> {
        Box::pin(async move {
            {
                let mut inner = self.lock();
                inner.purges += 1;
                let number = inner.purges;
                let covered =
                    |id: &ObjectId| id.origin == origin && id.key.as_str().starts_with(prefix);
                inner.entries.retain(|id, _| !covered(id));
                inner.prefixes.push((origin, prefix.to_owned(), number));
            }
            tokio::task::yield_now().await;
            Ok(())
        })
    }

    fn begin_change<'a>(&'a self, id: &'a ObjectId) -> BoxFuture<'a, Result<(), MetaError>> {
        let mut inner = self.lock();
        inner.changing += 1;
        if inner.refuses_marks {
            return Box::pin(std::future::ready(Err(MetaError("full".to_owned()))));
        }
        inner.marked.push(id.key.as_str().to_owned());
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(())
        })
    }

    fn end_change(&self, _id: &ObjectId) {
        self.lock().changing -= 1;
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.lock().is_closed = true;
        Box::pin(std::future::ready(()))
    }
}
