//! Uncertain commits: tries to publish without an answer.
//!
//! If one was carried out, the object in the bucket is ours, and no reason to refuse the next try.
//! It is recognized by its tag, which follows from the sent bytes (S3, unless encrypted with keys
//! of its own).

use std::sync::Arc;

use super::WriteError;
use super::writing::{Pinned, State, Writing};
use crate::spool::journal::Record;
use tidegate_origin::{Guard, OriginError};
use tidegate_plan::ETag;

/// See the module documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tried {
    /// The tags of objects that are, or may be, in the bucket.
    tags: Vec<ETag>,
    /// Whether an earlier process may have begun one more, of the bytes in the spool.
    earlier: bool,
}

impl Tried {
    /// Returns the tries that an earlier process noted.
    pub(super) fn earlier(tags: Vec<ETag>) -> Self {
        Self {
            tags,
            earlier: true,
        }
    }

    /// Returns whether an object of the same bytes may be that of an earlier process.
    pub(super) fn is_earlier(&self) -> bool {
        self.earlier
    }

    /// Returns their journal records.
    pub(super) fn noted(&self) -> Vec<Record> {
        self.tags.iter().map(Record::tried).collect()
    }

    fn has(&self, etag: &ETag) -> bool {
        self.tags.iter().any(|tried| tried.weak_eq(etag))
    }
}

impl State {
    /// Notes that the object with this tag is, or may be, in the bucket, and is ours.
    pub(super) fn tries(&mut self, etag: ETag) {
        if !self.tried.has(&etag) {
            self.records.push(Record::tried(&etag));
            self.tried.tags.push(etag);
        }
    }
}

impl Writing {
    /// Returns whether the bucket has the object of an earlier try. That version then becomes the
    /// base: the bytes that are still the base's are the same in it, at the same offsets.
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
