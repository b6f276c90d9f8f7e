//! The version that a draft is based on.

use std::sync::Arc;

use crate::spool::journal::Base;
use tidegate_origin::CopySource;
use tidegate_plan::{ObjectKey, Version};

/// A version that a draft is based on, and its key.
#[derive(Debug, Clone)]
pub(crate) struct BaseVersion {
    pub(crate) key: ObjectKey,
    pub(crate) version: Arc<Version>,
}

impl BaseVersion {
    /// Converts it to its form in a journal.
    pub(crate) fn journal_base(&self) -> Base {
        Base {
            key: self.key.as_str().to_owned(),
            etag: self.version.etag.as_str().to_owned(),
            size: self.version.size,
        }
    }

    /// Returns whether both are the same version of one object.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.key == other.key && self.version.etag == other.version.etag
    }

    pub(crate) fn source(&self) -> CopySource {
        CopySource {
            key: self.key.clone(),
            etag: self.version.etag.clone(),
        }
    }
}
