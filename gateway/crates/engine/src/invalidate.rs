//! Invalidation: what is no longer served, under every identity of a bucket, and who is told.

mod change;
pub(crate) mod change_observer;
pub(crate) mod doubt;
pub(crate) mod identities;
pub(crate) mod pins;
pub(crate) mod purge;
pub(crate) mod report_history;
pub(crate) mod subscribers;
