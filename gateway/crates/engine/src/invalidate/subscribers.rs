//! Subscribers to invalidations: they cache something of their own, as a mount's kernel does. They are told of purges,
//! and of each other's changes.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use futures_util::future::{BoxFuture, join_all};

use crate::{Core, Engine};
use tidegate_plan::tags::Tag;
use tidegate_plan::{ObjectKey, OriginId};
use tidegate_telemetry::locks::Recover as _;

/// The objects of a bucket that a purge or a change covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// One key.
    Key(ObjectKey),
    /// Every key with this prefix.
    Prefix(Arc<str>),
    /// Every object that has this tag. Only versions have tags, and a subscriber that does not know them takes every
    /// object for covered whose version is not fresh now ([`Engine::holds_fresh`]).
    Tag(Tag),
}

impl Scope {
    /// Returns whether a key may be covered.
    #[must_use]
    pub fn covers(&self, key: &str) -> bool {
        match self {
            Self::Key(one) => one.as_str() == key,
            Self::Prefix(prefix) => key.starts_with(&**prefix),
            Self::Tag(_) => true,
        }
    }
}

/// The kind of a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PurgeKind {
    /// Nothing cached before is served afterwards.
    #[default]
    Hard,
    /// Cached versions become stale.
    Soft,
}

/// A subscriber to purges. A purge returns when all subscribers are done, so a slow one delays it.
pub trait InvalidationSubscriber: Send + Sync + fmt::Debug {
    /// Reports a purge of the bucket's keys in `scope`.
    fn purged<'a>(&'a self, origin: OriginId, scope: &'a Scope) -> BoxFuture<'a, ()>;

    /// Reports a soft purge: what the subscriber caches must be confirmed before its next use.
    fn softened<'a>(&'a self, origin: OriginId, scope: &'a Scope) -> BoxFuture<'a, ()> {
        self.purged(origin, scope)
    }
}

/// The subscribers that still live.
#[derive(Debug, Default)]
pub(crate) struct InvalidationSubscribers(Mutex<Vec<Weak<dyn InvalidationSubscriber>>>);

impl InvalidationSubscribers {
    fn all_live(&self) -> Vec<Arc<dyn InvalidationSubscriber>> {
        let mut all = self.0.lock().recover();
        all.retain(|one| one.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Engine {
    /// Tells `subscriber` of every purge from now on.
    pub fn subscribe(&self, subscriber: Weak<dyn InvalidationSubscriber>) {
        let subscribers = &self.core.subscribers.0;
        let mut all = subscribers.lock().recover();
        all.push(subscriber);
    }

    /// Tells all subscribers except `who` of a change that `who` made, like a purge. Does not wait for them: one's
    /// kernel may hold a folder until another's has released its own.
    pub fn report_change(&self, who: &dyn InvalidationSubscriber, origin: OriginId, scope: Scope) {
        let mut others = self.core.subscribers.all_live();
        others.retain(|one| !std::ptr::addr_eq(Arc::as_ptr(one), std::ptr::from_ref(who)));
        if others.is_empty() {
            return;
        }
        self.core.spawn(async move {
            join_all(others.iter().map(|one| one.purged(origin, &scope))).await;
        });
    }
}

impl Core {
    /// Tells all subscribers of a purge under one identity.
    pub async fn report_purge(&self, origin: OriginId, scope: &Scope) {
        let subscribers = self.subscribers.all_live();
        join_all(subscribers.iter().map(|one| one.purged(origin, scope))).await;
    }

    /// Tells all subscribers of a purge of a kind under one identity.
    pub(super) async fn report_purge_of(&self, origin: OriginId, scope: &Scope, kind: PurgeKind) {
        match kind {
            PurgeKind::Hard => self.report_purge(origin, scope).await,
            PurgeKind::Soft => {
                let subscribers = self.subscribers.all_live();
                join_all(subscribers.iter().map(|one| one.softened(origin, scope))).await;
            }
        }
    }
}
