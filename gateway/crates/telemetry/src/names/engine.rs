//! The read path.

use crate::metric::{Metric, counter};

/// Bytes that the origin sent for objects.
pub const ENGINE_FETCHED: Metric = counter(
    "fetched_bytes",
    &[],
    "Bytes of objects that the origin sent",
);

/// Bytes of chunks that were filed by writes.
pub const ENGINE_FILED: Metric = counter(
    "filed_bytes",
    &["cause"],
    "Bytes of chunks that were cached because they were written through this process, by cause: put (sent in one request), part (sent in parts), base (of the version that was changed), rename (of the object under its old name)",
);

/// Bytes handed to readers.
pub const ENGINE_DELIVERED: Metric =
    counter("delivered_bytes", &[], "Bytes of objects that readers took");

/// Requests for versions.
pub const ENGINE_RESOLVES: Metric = counter(
    "resolves",
    &[],
    "Requests to the origin that asked which version a key has, with its first bytes",
);

/// Requests for parts.
pub const ENGINE_PARTS: Metric = counter(
    "parts",
    &[],
    "Requests to the origin for further parts of a known version",
);

/// Small objects read ahead.
pub const ENGINE_FOLDER_PREFETCHES: Metric = counter(
    "siblings_ahead",
    &[],
    "Small objects of a folder fetched ahead because those before them were read",
);

/// Second requests.
pub const ENGINE_HEDGES: Metric = counter(
    "hedges",
    &[],
    "Second requests for parts that kept a reader waiting three times as long as usual",
);

/// Disk reads.
pub const ENGINE_DISK_READS: Metric = counter(
    "disk_reads",
    &[],
    "Chunks that readers or read-ahead asked of a disk",
);

/// Races between a disk and the origin.
pub const ENGINE_DISK_RACES: Metric = counter(
    "disk_races",
    &["winner"],
    "Chunks that a disk was late with and the origin was asked for as well, by who had them first",
);

/// The cost of second requests.
pub const ENGINE_HEDGED: Metric = counter(
    "hedged_bytes",
    &[],
    "Bytes that second requests were allowed to cost: at most 1 MiB, and 1 % of all that is fetched",
);

/// Joined flights.
pub const ENGINE_JOINED: Metric = counter(
    "flights_joined",
    &[],
    "Reads that joined a chunk already on its way",
);

/// Abandoned fetches.
pub const ENGINE_ABANDONED: Metric = counter(
    "fetches_abandoned",
    &[],
    "Fetches stopped because no reader wanted them any more",
);

/// Stale answers on error.
pub const ENGINE_STALE_ON_ERROR: Metric = counter(
    "stale_on_error",
    &[],
    "Opens answered with a stale version because the origin failed",
);

/// Requests about names.
pub const ENGINE_NAME_REQUESTS: Metric = counter(
    "name_requests",
    &["cause"],
    "Requests to the origin about names and folders of mounts, by cause: name (one that is not known), confirm (a known object may have changed), folder (a program reads a folder), names (a folder is listed because names in it are not known)",
);

/// Runs of encoders.
pub const ENGINE_ENCODER_RUNS: Metric = counter(
    "encoder_runs",
    &["coding", "result"],
    "Runs of encoders, by coding and result: kept, identity (the object gets no smaller, which is remembered), failed",
);

/// Variants that were not made.
pub const ENGINE_ENCODERS_REFUSED: Metric = counter(
    "encoders_refused",
    &["reason"],
    "Answers sent as they are because no encoder was free (busy) or no budget for one (memory)",
);
