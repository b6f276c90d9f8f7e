//! The tiers of the cache.

use crate::metric::{Metric, counter, gauge, histogram};

/// Chunks found, by tier and, on disk, by disk.
pub const STORE_HITS: Metric = counter("store_hits", &["tier", "disk"], "Chunks found in a tier");

/// Chunks asked for and not found in a tier.
pub const STORE_MISSES: Metric = counter(
    "store_misses",
    &["tier", "disk"],
    "Chunks asked of a tier that it did not hold",
);

/// Bytes of the chunks found.
pub const STORE_HIT_BYTES: Metric = counter(
    "store_hit_bytes",
    &["tier", "disk"],
    "Bytes of the chunks found in a tier",
);

/// Chunks taken in.
pub const STORE_INSERTS: Metric = counter(
    "store_inserts",
    &["tier", "disk"],
    "Chunks taken into a tier",
);

/// Chunks that the disk tier did not take, by reason.
pub const STORE_REFUSALS: Metric = counter(
    "store_refusals",
    &["disk", "reason"],
    "Chunks offered to a disk that it did not take, by reason: opening, demoted, closed, full, queue, present, size",
);

/// Chunks evicted from memory.
pub const STORE_EVICTIONS: Metric = counter(
    "store_evictions",
    &[],
    "Chunks pushed out of memory by others",
);

/// Bytes that a tier holds.
pub const STORE_USED_BYTES: Metric = gauge(
    "store_used_bytes",
    &["tier", "disk"],
    "Bytes that a tier takes up",
);

/// Bytes left on a cache disk.
pub const STORE_FREE_BYTES: Metric = gauge(
    "store_free_bytes",
    &["disk"],
    "Bytes free on the file system of a cache disk",
);

/// Bytes waiting to be written.
pub const STORE_QUEUED_BYTES: Metric = gauge(
    "store_queued_bytes",
    &["disk"],
    "Bytes that wait to be written to a cache disk",
);

/// Bytes that pins keep on a disk.
pub const STORE_PINNED_BYTES: Metric = gauge(
    "store_pinned_bytes",
    &["disk"],
    "Bytes on a cache disk that pins keep from eviction",
);

/// Chunks that a disk did not return as they were put in.
pub const STORE_FAULTS: Metric = counter(
    "store_faults",
    &["disk", "reason"],
    "Reads of a disk that gave no sound chunk, by reason: lost, corrupt, error, late",
);

/// The use of a cache disk.
pub const STORE_DISK_UP: Metric = gauge(
    "store_disk_up",
    &["disk"],
    "1 while a cache disk is read, 0 while its index loads, or when it is slow, closed or off",
);

/// The state of a cache disk.
pub const STORE_DISK_STATE: Metric = gauge(
    "store_disk_state",
    &["disk", "state"],
    "1 for the state that a cache disk is in, 0 for the others: loading, up, slow, demoted, full, closed",
);

/// Chunks on a cache disk.
pub const STORE_DISK_CHUNKS: Metric = gauge(
    "store_disk_chunks",
    &["disk"],
    "Chunks in the index of a cache disk",
);

/// Disk reads that hang.
pub const STORE_HUNG_READS: Metric = gauge(
    "store_hung_reads",
    &["disk"],
    "Reads of a cache disk that no reader waits for any more and that have not returned",
);

/// Chunks evicted from a disk.
pub const STORE_DISK_EVICTIONS: Metric = counter(
    "store_disk_evictions",
    &["disk"],
    "Chunks pushed off a cache disk by others, or to leave space free",
);

/// Bytes written to a cache disk.
pub const STORE_WRITTEN_BYTES: Metric = counter(
    "store_written_bytes",
    &["disk"],
    "Bytes written to a cache disk; over the admitted ones, the write amplification",
);

/// Bytes of chunks taken by a cache disk.
pub const STORE_ADMITTED_BYTES: Metric = counter(
    "store_admitted_bytes",
    &["disk"],
    "Bytes of chunks that a cache disk has taken and written",
);

/// Bytes of chunks written again.
pub const STORE_REWRITTEN_BYTES: Metric = counter(
    "store_rewritten_bytes",
    &["disk"],
    "Bytes of chunks that were written again, to do away with nearly empty segments",
);

/// The duration of a disk read.
pub const STORE_READ_SECONDS: Metric = histogram(
    "store_read_seconds",
    &["disk"],
    "Time to read one chunk from a disk, waiting for its turn included",
);
