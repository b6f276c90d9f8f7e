//! Subscribers to invalidations: they cache something of their own, as a mount's kernel does. They are told of purges,
//! and of each other's changes.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::future::{BoxFuture, join_all};

use super::Engine;
use super::core::Core;
use tidegate_plan::{ObjectKey, OriginId};

/// The keys that a purge covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// One key.
    Key(ObjectKey),
    /// Every key with this prefix.
    Prefix(Arc<str>),
}

impl Scope {
    /// Returns whether a key is covered.
    #[must_use]
    pub fn covers(&self, key: &str) -> bool {
        match self {
            Self::Key(one) => one.as_str() == key,
            Self::Prefix(prefix) => key.starts_with(&**prefix),
        }
    }
}

/// A subscriber to purges. A purge returns when all subscribers are done, so a slow one delays it.
pub trait Watch: Send + Sync + fmt::Debug {
    /// Reports a purge of the bucket's keys in `scope`.
    fn purged<'a>(&'a self, origin: OriginId, scope: &'a Scope) -> BoxFuture<'a, ()>;
}

/// The subscribers that still live.
#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<Vec<Weak<dyn Watch>>>);

impl Watchers {
    fn living(&self) -> Vec<Arc<dyn Watch>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| one.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Engine {
    /// Tells `watcher` of every purge from now on.
    pub fn watch(&self, watcher: Weak<dyn Watch>) {
        let watchers = &self.core.watchers.0;
        let mut all = watchers.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(watcher);
    }

    /// Tells all subscribers except `who` of a change that `who` made, like a purge. Does not wait for them: one's
    /// kernel may hold a folder until another's has released its own.
    pub fn changed(&self, who: &dyn Watch, origin: OriginId, scope: Scope) {
        let mut others = self.core.watchers.living();
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
    pub async fn tell(&self, origin: OriginId, scope: &Scope) {
        let watchers = self.watchers.living();
        join_all(watchers.iter().map(|one| one.purged(origin, scope))).await;
    }
}
