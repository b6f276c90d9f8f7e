//! Who must be told of purges, because it keeps something of its own: a mount, whose kernel does. And
//! of what another of them changed.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::future::{BoxFuture, join_all};

use super::Engine;
use super::core::Core;
use crate::plan::{ObjectKey, OriginId};

/// What a purge covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// One key.
    Key(ObjectKey),
    /// Every key that begins so.
    Prefix(Arc<str>),
}

impl Scope {
    /// Whether a key is covered.
    #[must_use]
    pub fn covers(&self, key: &str) -> bool {
        match self {
            Self::Key(one) => one.as_str() == key,
            Self::Prefix(prefix) => key.starts_with(&**prefix),
        }
    }
}

/// Is told of purges. A purge returns when everybody is done, so who takes long holds it up.
pub trait Watch: Send + Sync + fmt::Debug {
    /// The bucket's keys in `scope` were purged.
    fn purged<'a>(&'a self, origin: OriginId, scope: &'a Scope) -> BoxFuture<'a, ()>;
}

/// Those who are told, for as long as they live.
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

    /// Tells all but `who` of what `who` has changed, as of a purge. Does not wait for them: one's
    /// kernel may hold a folder until the other's has let go of its own.
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
    /// Tells all of a purge under one identity.
    pub(super) async fn tell(&self, origin: OriginId, scope: &Scope) {
        let watchers = self.watchers.living();
        join_all(watchers.iter().map(|one| one.purged(origin, scope))).await;
    }
}
