//! What can be seen of a draft without holding it.

use std::sync::Arc;

use http::HeaderName;
use tokio::sync::watch;

use super::writing::State;
use super::{Stage, Writer, Writers};
use crate::engine::{Object, Source};
use crate::origin::write::Headers;
use crate::plan::{ObjectKey, Timestamp};

/// A draft as it is now.
#[derive(Debug, Clone)]
pub struct Drafted {
    /// Its length, in bytes.
    pub size: u64,
    /// When its content was last written.
    pub modified: Timestamp,
    /// When it, or something that was set of it, last changed.
    pub changed: Timestamp,
    /// It differs from what is in the bucket.
    pub dirty: bool,
    /// What it waits for.
    pub stage: Stage,
    /// It began as nothing, and nothing is in it.
    pub blank: bool,
    headers: Headers,
}

impl Drafted {
    fn of(state: &State) -> Self {
        Self {
            size: state.draft.size(),
            modified: state.times.modified,
            changed: state.times.changed,
            dirty: state.dirty,
            stage: state.stage(),
            blank: state.base.is_none() && state.draft.size() == 0,
            headers: state.headers.clone(),
        }
    }

    /// One of the headers that it will have, if that is text.
    #[must_use]
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.to_str().ok())
    }
}

impl Writers {
    /// What an object that is being written looks like, if it differs from what is in the bucket.
    #[must_use]
    pub fn look(&self, source: &Source, key: &ObjectKey) -> Option<Drafted> {
        let id = source.object(key);
        let writing = self.0.writings().get(&id).cloned()?;
        let state = writing.state();
        (state.dirty && !state.removed).then(|| Drafted::of(&state))
    }

    /// The same for every key that begins so, in order.
    #[must_use]
    pub fn below(&self, source: &Source, prefix: &str) -> Vec<(ObjectKey, Drafted)> {
        let origin = source.origin.id();
        let all: Vec<_> = {
            let writings = self.0.writings();
            let below = writings
                .iter()
                .filter(|(id, _)| id.origin == origin && id.key.as_str().starts_with(prefix));
            below
                .map(|(id, writing)| (id.key.clone(), writing.clone()))
                .collect()
        };
        let mut below: Vec<_> = all
            .into_iter()
            .filter_map(|(key, writing)| {
                let state = writing.state();
                let dirty = state.dirty && !state.removed;
                dirty.then(|| (key, Drafted::of(&state)))
            })
            .collect();
        below.sort_by(|(a, _), (b, _)| a.cmp(b));
        below
    }
}

impl Writer {
    /// What the object looks like as it is being written.
    #[must_use]
    pub fn look(&self) -> Drafted {
        Drafted::of(&self.writing.state())
    }

    /// Whether both are handles on one draft.
    #[must_use]
    pub fn is_of_one(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.writing, &other.writing)
    }

    /// Changes whenever bytes of the draft are on their way, or something came of them.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<()> {
        self.writing.progress.subscribe()
    }

    /// The version that it is based on: the one that it was opened on, or committed as last. `None`
    /// where it began as nothing, or goes on from bytes that only the spool has.
    pub async fn base(&self) -> Option<Object> {
        let base = {
            let state = self.writing.state();
            let own = |base: &&super::writing::Pinned| base.key == state.id.key;
            state.base.as_ref().filter(own).cloned()
        };
        Some(self.writing.object(&base?).await)
    }
}
