//! The observer of the changes that this process makes in buckets.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::{Core, Engine};
use tidegate_plan::{ChangeKind, ObjectId, ObjectKey, OriginId};

/// An observer of the changes that this process makes in buckets. It is called on the write path, and returns at once.
pub trait ChangeObserver: Send + Sync + fmt::Debug {
    /// Reports a change that the bucket has carried out, or may have: its answer leaves that in doubt.
    fn changed(&self, origin: OriginId, key: &ObjectKey, kind: ChangeKind);
}

/// The observer, if there is one.
#[derive(Debug, Default)]
pub(crate) struct ObserverSlot(OnceLock<Arc<dyn ChangeObserver>>);

impl Engine {
    /// Reports every change of a key that is written through this process to `observer` from now on. Only the first
    /// call has an effect.
    pub fn observe_changes(&self, observer: Arc<dyn ChangeObserver>) {
        let _ = self.core.observer.0.set(observer);
    }
}

impl Core {
    /// Reports a change to the observer.
    pub fn report_change_of(&self, id: &ObjectId, kind: ChangeKind) {
        if let Some(observer) = self.observer.0.get() {
            observer.changed(id.origin, &id.key, kind);
        }
    }
}
