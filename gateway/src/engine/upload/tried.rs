//! Tries to publish of which nobody told whether they were carried out.
//!
//! If one was, what is found in the bucket is ours, and no reason to refuse the next. It is known by its
//! tag, which follows from what was sent (S3, unless encrypted with keys of its own).

use std::sync::Arc;

use super::WriteError;
use super::writing::{Pinned, State, Writing};
use crate::engine::spool::journal::Record;
use crate::origin::{Guard, OriginError};
use crate::plan::ETag;

/// See the module's head.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tried {
    /// The tags that the object would have, or has.
    tags: Vec<ETag>,
    /// An earlier process may have begun one more, of what is in the spool.
    earlier: bool,
}

impl Tried {
    /// What an earlier process noted.
    pub(super) fn earlier(tags: Vec<ETag>) -> Self {
        Self {
            tags,
            earlier: true,
        }
    }

    /// Whether an object of the same bytes may be that of an earlier process.
    pub(super) fn is_earlier(&self) -> bool {
        self.earlier
    }

    /// As a journal has it.
    pub(super) fn noted(&self) -> Vec<Record> {
        self.tags.iter().map(Record::tried).collect()
    }

    fn has(&self, etag: &ETag) -> bool {
        self.tags.iter().any(|tried| tried.weak_eq(etag))
    }
}

impl State {
    /// The object of this tag is, or may be, in the bucket, and is ours.
    pub(super) fn tries(&mut self, etag: ETag) {
        if !self.tried.has(&etag) {
            self.records.push(Record::tried(&etag));
            self.tried.tags.push(etag);
        }
    }
}

impl Writing {
    /// Whether what is in the bucket is what an earlier try wrote. Then it is what is changed from now
    /// on: bytes that are still the base's are the same in it, at the same place.
    pub(super) async fn was_ours(&self) -> Result<bool, WriteError> {
        if self.state().tried.tags.is_empty() {
            return Ok(false);
        }
        let key = self.id().key;
        let found = match self.source.origin.head(&key).await {
            Ok(version) => version,
            Err(OriginError::NotFound) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let mut state = self.state();
        let guard = Guard::Same(found.etag.clone());
        if !state.tried.has(&found.etag) || state.guard == guard {
            return Ok(false);
        }
        state.guard = guard;
        if state.base.as_ref().is_some_and(|base| base.key == key) {
            let version = Arc::new(found);
            state.base = Some(Pinned { key, version });
        }
        Ok(true)
    }
}
