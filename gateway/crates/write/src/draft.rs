//! A draft: an object that is being written, the handles on it, and the reads of it until the bucket has it.

pub(crate) mod allocate;
pub(crate) mod base_version;
pub(crate) mod begin;
pub(crate) mod closed_draft;
pub(crate) mod copied;
pub(crate) mod edition;
pub(crate) mod next_edition;
pub(crate) mod phase;
pub(crate) mod read;
pub(crate) mod records;
pub(crate) mod shared_draft;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod uncertain;
pub(crate) mod write;
pub(crate) mod writer;
