//! The observers of the changes and purges that this process makes.

use std::fmt;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;

use super::subscribers::{PurgeKind, Scope};
use crate::{Core, Engine};
use tidegate_plan::{ChangeKind, ObjectId, ObjectKey, OriginId};

/// An observer of the changes that this process makes in buckets, and of its purges. It is called on the path of the
/// write or purge, and returns at once.
pub trait ChangeObserver: Send + Sync + fmt::Debug {
    /// Reports a change that the bucket has carried out, or may have: its answer leaves that in doubt.
    fn changed(&self, origin: OriginId, key: &ObjectKey, kind: ChangeKind);

    /// Reports a purge of this process that has begun. It may yet fail to be durable here.
    fn purged(&self, origin: OriginId, target: &Scope, kind: PurgeKind) {
        let _ = (origin, target, kind);
    }
}

/// An observer that holds the engine is observed by this: the engine would hold itself, and its stores, for ever.
impl<O: ChangeObserver> ChangeObserver for Weak<O> {
    fn changed(&self, origin: OriginId, key: &ObjectKey, kind: ChangeKind) {
        if let Some(observer) = self.upgrade() {
            observer.changed(origin, key, kind);
        }
    }

    fn purged(&self, origin: OriginId, target: &Scope, kind: PurgeKind) {
        if let Some(observer) = self.upgrade() {
            observer.purged(origin, target, kind);
        }
    }
}

/// The observers.
#[derive(Debug, Default)]
pub(crate) struct Observers(ArcSwap<Vec<Arc<dyn ChangeObserver>>>);

impl Engine {
    /// Reports every change of a key that is written through this process, and every purge, to `observer` from now on.
    pub fn observe_changes(&self, observer: Arc<dyn ChangeObserver>) {
        self.core.observers.0.rcu(|before| {
            let added = std::iter::once(observer.clone());
            before.iter().cloned().chain(added).collect::<Vec<_>>()
        });
    }
}

impl Core {
    /// Reports a change to the observers.
    pub fn report_change_of(&self, id: &ObjectId, kind: ChangeKind) {
        for observer in self.observers.0.load().iter() {
            observer.changed(id.origin, &id.key, kind);
        }
    }

    /// Reports a purge to the observers.
    pub(super) fn report_purge_by(&self, origin: OriginId, target: &Scope, kind: PurgeKind) {
        for observer in self.observers.0.load().iter() {
            observer.purged(origin, target, kind);
        }
    }
}
