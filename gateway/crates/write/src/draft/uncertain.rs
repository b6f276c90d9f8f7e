//! Uncertain commits: tries to publish without an answer.
//!
//! If one was carried out, the object in the bucket is ours, and no reason to refuse the next try.
//! It is recognized by its tag, which follows from the sent bytes (S3, unless encrypted with keys
//! of its own).

use crate::spool::journal::Record;
use tidegate_plan::ETag;

/// See the module documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UncertainCommits {
    /// The tags of objects that are, or may be, in the bucket.
    tags: Vec<ETag>,
    /// Whether an earlier process may have begun one more, of the bytes in the spool.
    earlier: bool,
    /// Whether a copy of the object onto itself may have been carried out.
    copied: bool,
}

impl UncertainCommits {
    /// Returns the tries that an earlier process noted.
    pub(crate) fn earlier(tags: Vec<ETag>) -> Self {
        Self {
            tags,
            earlier: true,
            copied: true,
        }
    }

    /// Returns whether an object of the same bytes may be that of an earlier process.
    pub(crate) fn is_earlier(&self) -> bool {
        self.earlier
    }

    /// Returns whether the object may be its own copy with new headers.
    pub(crate) fn is_copied(&self) -> bool {
        self.copied
    }

    /// Notes a copy of the object onto itself without an answer.
    pub(crate) fn note_copy(&mut self) {
        self.copied = true;
    }

    /// Returns whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// Adds one.
    pub(crate) fn push(&mut self, etag: ETag) {
        self.tags.push(etag);
    }

    /// Returns their journal records.
    pub(crate) fn records(&self) -> Vec<Record> {
        self.tags.iter().map(Record::tried).collect()
    }

    pub(crate) fn has(&self, etag: &ETag) -> bool {
        self.tags.iter().any(|tag| tag.weak_eq(etag))
    }
}
