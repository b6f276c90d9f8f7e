//! A metadata store in a map, with the trait's guarantees and no others.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_core::future::BoxFuture;
use http::HeaderName;
use tidegate_cache::{Entry, MetaError, MetaStore, PurgeEffect, PurgeScope, Record};
use tidegate_plan::tags::{DEFAULT_TAGS_HEADER, Tag, tags_of};
use tidegate_plan::{ObjectId, OriginId, Timestamp, Version};

static TAGS: HeaderName = HeaderName::from_static(DEFAULT_TAGS_HEADER);

/// The objects that a purge covers.
#[derive(Debug, Clone)]
enum OwnScope {
    Key(ObjectId),
    Prefix(OriginId, String),
    Tag(OriginId, Tag),
}

impl OwnScope {
    fn of(scope: PurgeScope<'_>) -> Self {
        match scope {
            PurgeScope::Key(id) => Self::Key(id.clone()),
            PurgeScope::Prefix(origin, prefix) => Self::Prefix(origin, prefix.to_owned()),
            PurgeScope::Tag(origin, tag) => Self::Tag(origin, tag.clone()),
        }
    }

    fn covers(&self, id: &ObjectId, version: Option<&Version>) -> bool {
        match self {
            Self::Key(own) => own == id,
            Self::Prefix(origin, prefix) => {
                *origin == id.origin && id.key.as_str().starts_with(prefix)
            }
            Self::Tag(origin, tag) => {
                let mut tags = version.into_iter().flat_map(|it| tags_of(it, &TAGS));
                *origin == id.origin && tags.any(|own| own == tag.as_str())
            }
        }
    }
}

/// Entries and purges in memory. It survives a restart of the engine, which hands it on.
#[derive(Debug, Default)]
pub(crate) struct MapMeta(Mutex<Inner>, Mutex<Option<Hook>>);

/// An action that runs once in the middle of another one.
pub(crate) struct Hook(pub(crate) Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hook")
    }
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    entries: HashMap<ObjectId, Entry>,
    /// The keys that `peek` finds; the others lie on disk.
    warm: HashSet<ObjectId>,
    /// The purges by key, with their numbers.
    keys: HashMap<ObjectId, u64>,
    prefixes: Vec<(OriginId, String, u64)>,
    tags: Vec<(OriginId, Tag, u64)>,
    soft: Vec<(OwnScope, Timestamp)>,
    purges: u64,
    /// Whether marks fail to become durable.
    pub(crate) refuses_marks: bool,
    /// Keys that were marked, in order.
    pub(crate) marked: Vec<String>,
    /// Number of changes under way.
    pub(crate) changing: usize,
    /// Whether the disk answers too late: a load finds nothing, and its row is at hand after it.
    pub(crate) is_late: bool,
    /// Whether it was closed in order.
    pub(crate) is_closed: bool,
}

impl Inner {
    fn purge(&mut self, scope: OwnScope, effect: PurgeEffect) {
        let covers = |id: &ObjectId, entry: &Entry| match entry {
            Entry::Present(record) => scope.covers(id, Some(&record.version)),
            Entry::Missing { .. } => scope.covers(id, None),
        };
        if let PurgeEffect::Soften(at) = effect {
            self.entries
                .retain(|id, entry| matches!(entry, Entry::Present(_)) || !covers(id, entry));
            self.soft.push((scope, at));
            return;
        }
        self.purges += 1;
        let number = self.purges;
        self.entries.retain(|id, entry| !covers(id, entry));
        match scope {
            OwnScope::Key(id) => drop(self.keys.insert(id, number)),
            OwnScope::Prefix(origin, prefix) => self.prefixes.push((origin, prefix, number)),
            OwnScope::Tag(origin, tag) => self.tags.push((origin, tag, number)),
        }
    }
}

impl MapMeta {
    /// Restarts the store: negative entries live in memory only.
    pub(crate) fn restart(&self) {
        let mut inner = self.lock();
        inner.warm.clear();
        inner
            .entries
            .retain(|_, entry| matches!(entry, Entry::Present(_)));
    }

    /// Has the disk answer all loads too late from now on, and all entries lie on it.
    pub(crate) fn be_late(&self) {
        let mut inner = self.lock();
        inner.warm.clear();
        inner.is_late = true;
    }

    /// Runs `hook` right after the next `peek` at an entry.
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
            // As with a disk: the answer is older than its arrival, and other actions can run from
            // beginning to end meanwhile.
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
            let mut inner = self.lock();
            inner.warm.insert(id.clone());
            entry.filter(|_| !inner.is_late)
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

    fn tag_generation(&self, origin: OriginId, version: &Version) -> u64 {
        let inner = self.lock();
        let tags = inner.tags.iter().filter(|(of, tag, _)| {
            *of == origin && tags_of(version, &TAGS).any(|own| own == tag.as_str())
        });
        tags.map(|(_, _, number)| *number).max().unwrap_or(0)
    }

    fn last_tag_purge(&self) -> u64 {
        let inner = self.lock();
        let numbers = inner.tags.iter().map(|(_, _, number)| *number);
        numbers.max().unwrap_or(0)
    }

    fn softened(&self, id: &ObjectId, record: &Record) -> Option<Timestamp> {
        let inner = self.lock();
        let soft = inner.soft.iter();
        let own = soft.filter(|(scope, _)| scope.covers(id, Some(&record.version)));
        let last = own.map(|(_, at)| *at).max()?;
        (last >= record.confirmed).then_some(last)
    }

    fn purge<'a>(
        &'a self,
        scope: PurgeScope<'a>,
        effect: PurgeEffect,
    ) -> BoxFuture<'a, Result<(), MetaError>> {
        Box::pin(async move {
            self.lock().purge(OwnScope::of(scope), effect);
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
