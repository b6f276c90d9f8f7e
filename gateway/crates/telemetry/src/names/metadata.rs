//! The metadata database.

use crate::metric::{Metric, counter, gauge};

/// Lookups of metadata.
pub const META_LOOKUPS: Metric = counter(
    "meta_lookups",
    &["found"],
    "Lookups of an object's metadata, by where it was found: memory, disk, nowhere",
);

/// Rows that did not come in time.
pub const META_UNKNOWN: Metric = counter(
    "meta_unknown",
    &[],
    "Lookups of metadata that the state disk did not answer in time, or was not asked for because it hangs; the bucket was asked instead",
);

/// The use of the metadata database for reads.
pub const META_READS_UP: Metric = gauge(
    "meta_reads_up",
    &[],
    "1 while the metadata database is read, 0 after a read came too late until a probe comes in time; 0 also without a state directory",
);

/// Reads of the metadata database that hang.
pub const META_HUNG_READS: Metric = gauge(
    "meta_hung_reads",
    &[],
    "Reads of the metadata database that no request waits for any more and that have not returned",
);

/// Records that failed their check.
pub const META_CORRUPT: Metric = counter(
    "meta_corrupt",
    &[],
    "Metadata records that failed their check and were removed",
);

/// Records that a purge covers.
pub const META_PURGED: Metric = counter(
    "meta_purged",
    &[],
    "Metadata records hidden because a purge covers them, also those put too late",
);

/// Failures of the metadata database.
pub const META_ERRORS: Metric = counter("meta_errors", &[], "Failures of the metadata database");

/// Changes that never reached the database.
pub const META_LOST: Metric = counter(
    "meta_lost_writes",
    &[],
    "Changes of metadata that were dropped because too much waited for the state disk; what is on record is confirmed after that before it counts as fresh",
);

/// Changes written.
pub const META_WRITES: Metric = counter(
    "meta_writes",
    &[],
    "Changes of metadata written to the database",
);

/// Purges remembered.
pub const META_PURGES: Metric = gauge(
    "meta_purges",
    &[],
    "Purges on record. 200,000 single keys are kept by themselves, and 900,000 more by a short hash: all of them take up to 60 MiB of memory and 100 MiB of `state.path`, and hide 0.03 % of the other objects that are cached. Each one beyond that hides one object in two million, and takes nothing more beyond 20 MiB and 200 MiB. Of more than 50,000 prefixes the deepest give way to their folders",
);

/// Durable commits of the database.
pub const META_COMMITS: Metric = counter(
    "meta_commits",
    &[],
    "Durable commits of the metadata database: one a second at most while objects are read, and more for purges, pins and the end",
);

/// Confirmations not written because one was written recently.
pub const META_COALESCED: Metric = counter(
    "meta_coalesced",
    &[],
    "Confirmations not written because the last one is less than five minutes old",
);

/// Records removed for new ones.
pub const META_SWEPT: Metric = counter(
    "meta_swept",
    &[],
    "Metadata records removed because the database has its size (`state.size`): those confirmed longest ago go first, and cost one request at their next use",
);
