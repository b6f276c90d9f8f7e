//! The next edition of an object that was promised and is not in the bucket yet.
//!
//! A writer that truncates such an object to nothing replaces it. Until the replacement is promised
//! too, or is in the bucket, a crash must find the edition before: neither nothing, nor half of the
//! next one. So the next edition has files of its own in the spool. The one before keeps its files,
//! its upload and its base until then. A change that keeps promised bytes is made in place, without
//! a new edition.

use std::sync::Arc;

use crate::draft::base_version::BaseVersion;
use crate::draft::state::upload::LeftUpload;
use crate::spool::file::SpoolFile;
use tidegate_origin::write::Headers;
use tidegate_plan::upload::Draft;

/// The state of a replaced edition, beside its files, which the next edition's files hold
/// (`SpoolFile`).
#[derive(Debug)]
pub(crate) struct ReplacedEdition {
    /// The number by which a journal knows it.
    pub(crate) id: u64,
    /// Its bytes in the spool.
    pub(crate) room: u64,
    pub(crate) upload: Option<LeftUpload>,
    pub(crate) base: Option<BaseVersion>,
    /// The edition for readers, if it was closed.
    pub(crate) closed: Option<Arc<ClosedEdition>>,
}

/// A closed edition that a writer replaces. It does not change any more. Its files can be read as
/// long as this value is held.
#[derive(Debug)]
pub(crate) struct ClosedEdition {
    /// The revision of the draft that was closed.
    pub(crate) revision: u64,
    pub(crate) draft: Draft,
    pub(crate) headers: Headers,
    pub(crate) file: Arc<SpoolFile>,
    pub(crate) base: Option<BaseVersion>,
}
