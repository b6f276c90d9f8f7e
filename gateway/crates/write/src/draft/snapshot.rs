//! The visible state of a draft, without a handle on it.

use std::sync::Arc;

use tokio::sync::watch;

use crate::draft::state::DraftState;
use crate::{Stage, Writer, Writers};
use tidegate_engine::{Object, ReadContext};
use tidegate_plan::attributes::Attributes;
use tidegate_plan::{ObjectKey, Timestamp};

/// A snapshot of a draft.
#[derive(Debug, Clone)]
pub struct DraftSnapshot {
    /// Its length, in bytes.
    pub size: u64,
    /// The time at which its content was last written.
    pub modified: Timestamp,
    /// The time at which its content or a header last changed.
    pub changed: Timestamp,
    /// Whether it differs from the bucket's version, and is to be published.
    pub dirty: bool,
    /// Its stage in the queue.
    pub stage: Stage,
    /// Whether it began empty, and still is.
    pub blank: bool,
    /// The attributes that the object will have.
    pub attributes: Attributes,
}

impl DraftSnapshot {
    fn of(state: &DraftState) -> Self {
        Self {
            size: state.draft().size(),
            modified: state.times().modified,
            changed: state.times().changed,
            dirty: state.phase().is_unpublished(),
            stage: state.stage(),
            blank: state.base().is_none() && state.draft().size() == 0,
            attributes: Attributes::of(state.headers()),
        }
    }
}

impl Writers {
    /// Returns a snapshot of a draft, if it differs from the bucket's version.
    #[must_use]
    pub fn snapshot(&self, source: &ReadContext, key: &ObjectKey) -> Option<DraftSnapshot> {
        let id = source.object(key);
        let writing = self.0.writings().get(&id).cloned()?;
        let state = writing.state();
        state
            .phase()
            .is_unpublished()
            .then(|| DraftSnapshot::of(&state))
    }

    /// Returns whether a draft whose key begins with `prefix` differs from the bucket's version.
    #[must_use]
    pub fn has_draft_below(&self, source: &ReadContext, prefix: &str) -> bool {
        let origin = source.origin.id();
        let writings = self.0.writings();
        let mut all = writings.iter();
        all.any(|(id, writing)| {
            id.is_below(origin, prefix) && writing.state().phase().is_unpublished()
        })
    }

    /// Returns the same for every key that begins with `prefix`, in order of keys.
    #[must_use]
    pub fn snapshots_below(
        &self,
        source: &ReadContext,
        prefix: &str,
    ) -> Vec<(ObjectKey, DraftSnapshot)> {
        let origin = source.origin.id();
        let all: Vec<_> = {
            let writings = self.0.writings();
            let below = writings
                .iter()
                .filter(|(id, _)| id.is_below(origin, prefix));
            below
                .map(|(id, writing)| (id.key.clone(), writing.clone()))
                .collect()
        };
        let mut below: Vec<_> = all
            .into_iter()
            .filter_map(|(key, writing)| {
                let state = writing.state();
                let dirty = state.phase().is_unpublished();
                dirty.then(|| (key, DraftSnapshot::of(&state)))
            })
            .collect();
        below.sort_by(|(a, _), (b, _)| a.cmp(b));
        below
    }
}

impl Writer {
    /// Returns a snapshot of the draft.
    #[must_use]
    pub fn snapshot(&self) -> DraftSnapshot {
        DraftSnapshot::of(&self.writing.state())
    }

    /// Returns whether both are handles on one draft.
    #[must_use]
    pub fn is_of_one(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.writing, &other.writing)
    }

    /// Returns a channel that changes whenever bytes of the draft are sent, and at the outcome.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<()> {
        self.writing.progress.subscribe()
    }

    /// Returns the version that the draft is based on: the one that was opened, or committed last.
    /// `None` if it began empty, or continues from bytes that only the spool has.
    pub async fn base(&self) -> Option<Object> {
        let base = {
            let state = self.writing.state();
            state.own_base().cloned()
        };
        Some(self.writing.object(&base?).await)
    }
}
