//! The write path and its spool.

use crate::metric::{Metric, counter, gauge};

/// Commits of written objects.
pub const WRITE_COMMITS: Metric = counter(
    "write_commits",
    &["result"],
    "Objects that were to be published, by what came of it: committed, failed (it is tried again), changed, refused",
);

/// Bytes written.
pub const WRITE_BYTES: Metric = counter(
    "write_bytes",
    &[],
    "Bytes taken from writers into the spool",
);

/// Parts sent for nothing.
pub const WRITE_RESENT: Metric = counter(
    "write_parts_resent",
    &[],
    "Parts that were written to while they were sent, and are sent again",
);

/// Uploads completed under a staging key.
pub const WRITE_HIDDEN: Metric = counter(
    "write_hidden_uploads",
    &[],
    "Uploads completed under a hidden key, to read back what had left the spool",
);

/// Objects being written.
pub const WRITE_PENDING: Metric = gauge(
    "write_pending",
    &[],
    "Objects that are open for writing, or closed and not yet in the bucket",
);

/// Bytes in the spool.
pub const SPOOL_USED: Metric = gauge("spool_used_bytes", &[], "Bytes in the spool");

/// The size of the spool.
pub const SPOOL_SIZE: Metric = gauge(
    "spool_size_bytes",
    &[],
    "The most bytes that the spool may take",
);

/// Parts that left the spool.
pub const SPOOL_EVICTED: Metric = counter(
    "spool_parts_evicted",
    &[],
    "Parts that were sent and left the spool before their object was complete",
);

/// Writers held back.
pub const SPOOL_WAITS: Metric = counter(
    "spool_waits",
    &[],
    "Writes that waited for room in the spool",
);
