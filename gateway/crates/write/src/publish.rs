//! The way of a draft into the bucket: parts while it is written, the upload's end, the queue behind `close`.

pub(crate) mod assemble;
pub(crate) mod commit;
pub(crate) mod complete;
pub(crate) mod failure_log;
pub(crate) mod published_version;
pub(crate) mod queue;
pub(crate) mod recover;
pub(crate) mod refused;
pub(crate) mod resumed;
pub(crate) mod send;
pub(crate) mod single_put;
pub(crate) mod space;
pub(crate) mod staging;
pub(crate) mod staging_key;
pub(crate) mod stuck;
pub(crate) mod waiting;
