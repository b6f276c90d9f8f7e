//! The publish hold: keeps a draft from being published while its object is changed another way.

use crate::path::to_its_end;
use std::sync::Arc;

use tokio::sync::OwnedRwLockWriteGuard;

use super::writing::Writing;
use super::{Drafts, WriteError};
use tidegate_plan::ObjectId;

/// A draft that is neither published nor written to as long as this is held.
pub(crate) struct Still {
    id: ObjectId,
    pub(super) writing: Arc<Writing>,
    _alone: OwnedRwLockWriteGuard<()>,
}

impl Drafts {
    /// Waits for a publish of an object that is under way, and blocks further ones. `None`: the
    /// object has no draft. A caller that gives up while this waits has changed nothing.
    pub(crate) async fn still(&self, id: &ObjectId) -> Option<Still> {
        loop {
            let writing = self.writings().get(id).cloned()?;
            let alone = writing.gate.clone().write_owned().await;
            // It may have been published or renamed meanwhile.
            let there = self.writings().get(id).cloned();
            if there.is_some_and(|there| Arc::ptr_eq(&there, &writing)) {
                return Some(Still {
                    id: id.clone(),
                    writing,
                    _alone: alone,
                });
            }
        }
    }
}

impl Still {
    /// Publishes the draft, also if the caller stops waiting. Writers wait meanwhile.
    pub(super) async fn published(self) -> Result<Self, WriteError> {
        let core = self.writing.inner.core.clone();
        let work = async move {
            self.writing.commit_alone().await?;
            Ok(self)
        };
        to_its_end(&core, work).await
    }

    /// Discards the draft; none of it returns after a crash.
    pub(super) async fn give_up(self) {
        let writing = &self.writing;
        writing.unlist(&mut writing.inner.writings(), &self.id);
        if let Some(file) = self.writing.abandon() {
            let _ = file.removed().await;
        }
    }

    /// Discards the closed draft, because the object was written or deleted another way after its
    /// close. A draft with open handles stays.
    pub(crate) async fn superseded(self) {
        let unused = {
            // No handle may join it meanwhile.
            let mut writings = self.writing.inner.writings();
            let mut state = self.writing.state();
            let unused = state.handles == 0;
            state.hide_replaced_edition();
            drop(state);
            if unused {
                self.writing.unlist(&mut writings, &self.id);
            }
            unused
        };
        if unused {
            self.give_up().await;
        }
    }
}
