//! Every metric, declared once: name, unit, help. Components build and register their own from
//! these; [`list`](super::list) has their types and labels.
//!
//! Names are without the `tidegate_` prefix and without the `_total` suffix, which the registry and
//! the encoder add. Their unit, a base unit, is part of them: `_seconds`, `_bytes`, `_ratio`.

use prometheus_client::registry::{self, Registry};

/// Bytes fetched over bytes delivered.
pub const AMPLIFICATION: Metric = Metric {
    name: "amplification_ratio",
    help: "Bytes fetched from origins over bytes delivered to readers, since the start; absent until something was delivered",
};

/// Version of the program.
pub const BUILD: Metric = Metric {
    name: "build",
    help: "Version of the program that runs",
};

/// Start of the process.
pub const PROCESS_START_TIME: Metric = Metric {
    name: "process_start_time_seconds",
    help: "When the process started, in seconds since 1970",
};

/// Processor time.
pub const PROCESS_CPU: Metric = Metric {
    name: "process_cpu_seconds",
    help: "Processor time used, in user and kernel mode",
};

/// Resident memory.
pub const PROCESS_RESIDENT_MEMORY: Metric = Metric {
    name: "process_resident_memory_bytes",
    help: "Memory of the process that is in RAM",
};

/// Threads.
pub const PROCESS_THREADS: Metric = Metric {
    name: "process_threads",
    help: "Threads of the process",
};

/// Open file descriptors.
pub const PROCESS_OPEN_FDS: Metric = Metric {
    name: "process_open_fds",
    help: "Open file descriptors: sockets, cache files, and the rest",
};

/// The limit of file descriptors.
pub const PROCESS_MAX_FDS: Metric = Metric {
    name: "process_max_fds",
    help: "The most file descriptors that the process may open",
};

/// One metric's declaration.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name without prefix and `_total`.
    pub name: &'static str,
    /// One sentence for the reader of a dashboard.
    pub help: &'static str,
}

impl Metric {
    /// Registers `handle`, or a family of handles, under this name.
    pub fn register(self, registry: &mut Registry, handle: impl registry::Metric) {
        registry.register(self.name, self.help, handle);
    }
}

/// Bytes that the origin sent for objects.
pub const ENGINE_FETCHED: Metric = Metric {
    name: "fetched_bytes",
    help: "Bytes of objects that the origin sent",
};
/// Bytes of chunks that were filed by writes.
pub const ENGINE_FILED: Metric = Metric {
    name: "filed_bytes",
    help: "Bytes of chunks that were cached because they were written through this process, by cause: put (sent in one request), part (sent in parts), base (of the version that was changed), rename (of the object under its old name)",
};
/// Bytes handed to readers.
pub const ENGINE_DELIVERED: Metric = Metric {
    name: "delivered_bytes",
    help: "Bytes of objects that readers took",
};
/// Requests for versions.
pub const ENGINE_RESOLVES: Metric = Metric {
    name: "resolves",
    help: "Requests to the origin that asked which version a key has, with its first bytes",
};
/// Requests for parts.
pub const ENGINE_PARTS: Metric = Metric {
    name: "parts",
    help: "Requests to the origin for further parts of a known version",
};
/// Small objects read ahead.
pub const ENGINE_FOLDER_PREFETCHES: Metric = Metric {
    name: "siblings_ahead",
    help: "Small objects of a folder fetched ahead because those before them were read",
};
/// Second requests.
pub const ENGINE_HEDGES: Metric = Metric {
    name: "hedges",
    help: "Second requests for parts that kept a reader waiting three times as long as usual",
};
/// Disk reads.
pub const ENGINE_DISK_READS: Metric = Metric {
    name: "disk_reads",
    help: "Chunks that readers or read-ahead asked of a disk",
};
/// Races between a disk and the origin.
pub const ENGINE_DISK_RACES: Metric = Metric {
    name: "disk_races",
    help: "Chunks that a disk was late with and the origin was asked for as well, by who had them first",
};
/// The cost of second requests.
pub const ENGINE_HEDGED: Metric = Metric {
    name: "hedged_bytes",
    help: "Bytes that second requests were allowed to cost: at most 1 MiB, and 1 % of all that is fetched",
};
/// Joined flights.
pub const ENGINE_JOINED: Metric = Metric {
    name: "flights_joined",
    help: "Reads that joined a chunk already on its way",
};
/// Abandoned fetches.
pub const ENGINE_ABANDONED: Metric = Metric {
    name: "fetches_abandoned",
    help: "Fetches stopped because nobody wanted them any more",
};
/// Stale answers on error.
pub const ENGINE_STALE_ON_ERROR: Metric = Metric {
    name: "stale_on_error",
    help: "Opens answered with a stale version because the origin failed",
};
/// Requests about names.
pub const ENGINE_NAME_REQUESTS: Metric = Metric {
    name: "name_requests",
    help: "Requests to the origin about names and folders of mounts, by cause: name (one that is not known), confirm (a known object may have changed), folder (a program reads a folder), names (a folder is listed because names in it are not known)",
};
/// Runs of encoders.
pub const ENGINE_ENCODER_RUNS: Metric = Metric {
    name: "encoder_runs",
    help: "Runs of encoders, by coding and result: kept, identity (the object gets no smaller, which is remembered), failed",
};
/// Variants that were not made.
pub const ENGINE_ENCODERS_REFUSED: Metric = Metric {
    name: "encoders_refused",
    help: "Answers sent as they are because no encoder was free (busy) or no budget for one (memory)",
};

/// Requests sent to an origin.
pub const ORIGIN_REQUESTS: Metric = Metric {
    name: "origin_requests",
    help: "Requests sent to the origin, by kind and result; a HEAD that a GET confirms is one",
};

/// Bytes received from an origin.
pub const ORIGIN_BYTES: Metric = Metric {
    name: "origin_received_bytes",
    help: "Bytes of bodies received from the origin",
};

/// Commits of written objects.
pub const WRITE_COMMITS: Metric = Metric {
    name: "write_commits",
    help: "Objects that were to be published, by what came of it: committed, failed (it is tried again), changed, refused",
};
/// Bytes written.
pub const WRITE_BYTES: Metric = Metric {
    name: "write_bytes",
    help: "Bytes taken from writers into the spool",
};
/// Parts sent for nothing.
pub const WRITE_RESENT: Metric = Metric {
    name: "write_parts_resent",
    help: "Parts that were written to while they were sent, and are sent again",
};
/// Uploads completed under a staging key.
pub const WRITE_HIDDEN: Metric = Metric {
    name: "write_hidden_uploads",
    help: "Uploads completed under a hidden key, to read back what had left the spool",
};
/// Objects being written.
pub const WRITE_PENDING: Metric = Metric {
    name: "write_pending",
    help: "Objects that are open for writing, or closed and not yet in the bucket",
};
/// Bytes in the spool.
pub const SPOOL_USED: Metric = Metric {
    name: "spool_used_bytes",
    help: "Bytes in the spool",
};
/// The size of the spool.
pub const SPOOL_SIZE: Metric = Metric {
    name: "spool_size_bytes",
    help: "The most bytes that the spool may take",
};
/// Parts that left the spool.
pub const SPOOL_EVICTED: Metric = Metric {
    name: "spool_parts_evicted",
    help: "Parts that were sent and left the spool before their object was complete",
};
/// Writers held back.
pub const SPOOL_WAITS: Metric = Metric {
    name: "spool_waits",
    help: "Writes that waited for room in the spool",
};

/// Bytes sent to an origin.
pub const ORIGIN_SENT: Metric = Metric {
    name: "origin_sent_bytes",
    help: "Bytes of objects and parts sent to the origin, those sent again included",
};

/// Time to an answer's head.
pub const ORIGIN_FIRST_BYTE: Metric = Metric {
    name: "origin_first_byte_seconds",
    help: "Time from a request to the head of the origin's answer, connecting included",
};

/// Requests tried again.
pub const ORIGIN_RETRIES: Metric = Metric {
    name: "origin_retries",
    help: "Requests tried again after a passing failure, broken bodies included",
};

/// Bodies that broke.
pub const ORIGIN_BROKEN_BODIES: Metric = Metric {
    name: "origin_broken_bodies",
    help: "Bodies that broke off, stalled or were wrong, by reason",
};

/// State of an origin's breaker.
pub const ORIGIN_BREAKER_OPEN: Metric = Metric {
    name: "origin_breaker_open",
    help: "1 while the origin is known to be down and is left alone, 0 otherwise",
};

/// Requests at an origin.
pub const ORIGIN_RUNNING: Metric = Metric {
    name: "origin_requests_running",
    help: "Requests at the origin now, by priority",
};

/// Requests that wait for a permit at an origin.
pub const ORIGIN_QUEUED: Metric = Metric {
    name: "origin_requests_queued",
    help: "Requests that wait for a place at the origin now, by priority",
};

/// Chunks found, by tier and, on disk, by disk.
pub const STORE_HITS: Metric = Metric {
    name: "store_hits",
    help: "Chunks found in a tier",
};
/// Chunks asked for and not found in a tier.
pub const STORE_MISSES: Metric = Metric {
    name: "store_misses",
    help: "Chunks asked of a tier that it did not hold",
};
/// Bytes of the chunks found.
pub const STORE_HIT_BYTES: Metric = Metric {
    name: "store_hit_bytes",
    help: "Bytes of the chunks found in a tier",
};
/// Chunks taken in.
pub const STORE_INSERTS: Metric = Metric {
    name: "store_inserts",
    help: "Chunks taken into a tier",
};
/// Chunks that the disk tier did not take, by reason.
pub const STORE_REFUSALS: Metric = Metric {
    name: "store_refusals",
    help: "Chunks offered to a disk that it did not take, by reason: opening, demoted, closed, full, queue, present, size",
};
/// Chunks evicted from memory.
pub const STORE_EVICTIONS: Metric = Metric {
    name: "store_evictions",
    help: "Chunks pushed out of memory by others",
};
/// Bytes that a tier holds.
pub const STORE_USED_BYTES: Metric = Metric {
    name: "store_used_bytes",
    help: "Bytes that a tier takes up",
};
/// Bytes left on a cache disk.
pub const STORE_FREE_BYTES: Metric = Metric {
    name: "store_free_bytes",
    help: "Bytes free on the file system of a cache disk",
};
/// Bytes waiting to be written.
pub const STORE_QUEUED_BYTES: Metric = Metric {
    name: "store_queued_bytes",
    help: "Bytes that wait to be written to a cache disk",
};
/// Bytes that pins keep on a disk.
pub const STORE_PINNED_BYTES: Metric = Metric {
    name: "store_pinned_bytes",
    help: "Bytes on a cache disk that pins keep from eviction",
};
/// Chunks that a disk did not return as they were put in.
pub const STORE_FAULTS: Metric = Metric {
    name: "store_faults",
    help: "Reads of a disk that gave no sound chunk, by reason: lost, corrupt, error, late",
};
/// The use of a cache disk.
pub const STORE_DISK_UP: Metric = Metric {
    name: "store_disk_up",
    help: "1 while a cache disk is read, 0 while its index loads, or when it is slow, closed or off",
};
/// The state of a cache disk.
pub const STORE_DISK_STATE: Metric = Metric {
    name: "store_disk_state",
    help: "1 for the state that a cache disk is in, 0 for the others: loading, up, slow, demoted, full, closed",
};
/// Chunks on a cache disk.
pub const STORE_DISK_CHUNKS: Metric = Metric {
    name: "store_disk_chunks",
    help: "Chunks in the index of a cache disk",
};
/// Disk reads that hang.
pub const STORE_HUNG_READS: Metric = Metric {
    name: "store_hung_reads",
    help: "Reads of a cache disk that nobody waits for any more and that have not returned",
};
/// Chunks evicted from a disk.
pub const STORE_DISK_EVICTIONS: Metric = Metric {
    name: "store_disk_evictions",
    help: "Chunks pushed off a cache disk by others, or to leave space free",
};
/// Bytes written to a cache disk.
pub const STORE_WRITTEN_BYTES: Metric = Metric {
    name: "store_written_bytes",
    help: "Bytes written to a cache disk; over the admitted ones, the write amplification",
};
/// Bytes of chunks taken by a cache disk.
pub const STORE_ADMITTED_BYTES: Metric = Metric {
    name: "store_admitted_bytes",
    help: "Bytes of chunks that a cache disk has taken and written",
};
/// Bytes of chunks written again.
pub const STORE_REWRITTEN_BYTES: Metric = Metric {
    name: "store_rewritten_bytes",
    help: "Bytes of chunks that were written again, to do away with nearly empty segments",
};
/// The duration of a disk read.
pub const STORE_READ_SECONDS: Metric = Metric {
    name: "store_read_seconds",
    help: "Time to read one chunk from a disk, waiting for its turn included",
};
/// Lookups of metadata.
pub const META_LOOKUPS: Metric = Metric {
    name: "meta_lookups",
    help: "Lookups of an object's metadata, by where it was found: memory, disk, nowhere",
};
/// Rows that did not come in time.
pub const META_UNKNOWN: Metric = Metric {
    name: "meta_unknown",
    help: "Lookups of metadata that the state disk did not answer in time, or was not asked for because it hangs; the bucket was asked instead",
};
/// The use of the metadata database for reads.
pub const META_READS_UP: Metric = Metric {
    name: "meta_reads_up",
    help: "1 while the metadata database is read, 0 after a read came too late until a probe comes in time; 0 also without a state directory",
};
/// Reads of the metadata database that hang.
pub const META_HUNG_READS: Metric = Metric {
    name: "meta_hung_reads",
    help: "Reads of the metadata database that no request waits for any more and that have not returned",
};
/// Records that failed their check.
pub const META_CORRUPT: Metric = Metric {
    name: "meta_corrupt",
    help: "Metadata records that failed their check and were removed",
};
/// Records that a purge covers.
pub const META_PURGED: Metric = Metric {
    name: "meta_purged",
    help: "Metadata records hidden because a purge covers them, also those put too late",
};
/// Failures of the metadata database.
pub const META_ERRORS: Metric = Metric {
    name: "meta_errors",
    help: "Failures of the metadata database",
};
/// Changes that never reached the database.
pub const META_LOST: Metric = Metric {
    name: "meta_lost_writes",
    help: "Changes of metadata that were dropped because too much waited for the state disk; what is on record is confirmed after that before it counts as fresh",
};
/// Changes written.
pub const META_WRITES: Metric = Metric {
    name: "meta_writes",
    help: "Changes of metadata written to the database",
};
/// Purges remembered.
pub const META_PURGES: Metric = Metric {
    name: "meta_purges",
    help: "Purges on record. 200,000 single keys are kept by themselves, and 900,000 more by a short hash: all of them take up to 60 MiB of memory and 100 MiB of `state.path`, and hide 0.03 % of the other objects that are cached. Each one beyond that hides one object in two million, and takes nothing more beyond 20 MiB and 200 MiB. Of more than 50,000 prefixes the deepest give way to their folders",
};
/// Durable commits of the database.
pub const META_COMMITS: Metric = Metric {
    name: "meta_commits",
    help: "Durable commits of the metadata database: one a second at most while objects are read, and more for purges, pins and the end",
};
/// Confirmations not written because one was written recently.
pub const META_COALESCED: Metric = Metric {
    name: "meta_coalesced",
    help: "Confirmations not written because the last one is less than five minutes old",
};
/// Records removed for new ones.
pub const META_SWEPT: Metric = Metric {
    name: "meta_swept",
    help: "Metadata records removed because the database has its size (`state.size`): those confirmed longest ago go first, and cost one request at their next use",
};

/// Answered requests of the kernel.
pub const FUSE_OPERATIONS: Metric = Metric {
    name: "fuse_operations",
    help: "Requests of the kernel to mounts, by operation and result; a name that is missing is an error",
};
/// Files held open.
pub const FUSE_HANDLES: Metric = Metric {
    name: "fuse_open_files",
    help: "Files that programs hold open on mounts",
};

/// Requests answered.
pub const HTTP_REQUESTS: Metric = Metric {
    name: "http_requests",
    help: "Requests by method and class of status; gone: the client left before an answer",
};
/// Answers by cache result.
pub const HTTP_CACHE_RESULTS: Metric = Metric {
    name: "http_cache_results",
    help: "Answers by what the cache had: hit, stale, revalidated, partial, miss, or none",
};
/// Bytes of bodies.
pub const HTTP_SENT_BYTES: Metric = Metric {
    name: "http_sent_bytes",
    help: "Bytes of bodies handed to clients",
};
/// Incomplete answers.
pub const HTTP_BROKEN_ANSWERS: Metric = Metric {
    name: "http_broken_answers",
    help: "Answers that were begun and not sent whole, because the client or the origin left",
};
/// Requests under way.
pub const HTTP_REQUESTS_IN_FLIGHT: Metric = Metric {
    name: "http_requests_in_flight",
    help: "Requests under way, from their head to the last byte of their answer",
};
/// Time to the first byte.
pub const HTTP_FIRST_BYTE_SECONDS: Metric = Metric {
    name: "http_first_byte_seconds",
    help: "Time from a request's head to the first byte of its answer",
};
/// Open connections.
pub const HTTP_CONNECTIONS: Metric = Metric {
    name: "http_connections",
    help: "Open connections",
};
/// Connections accepted.
pub const HTTP_CONNECTIONS_ACCEPTED: Metric = Metric {
    name: "http_connections_accepted",
    help: "Connections accepted",
};
/// Connections ended by a deadline.
pub const HTTP_CONNECTIONS_EXPIRED: Metric = Metric {
    name: "http_connections_expired",
    help: "Connections ended because the client was silent, slow with its head, or stalled",
};
/// Open HTTP/2 streams.
pub const HTTP_STREAMS: Metric = Metric {
    name: "http_streams",
    help: "Open HTTP/2 streams, until the last byte of their answer is taken",
};
/// Streams reset by a deadline.
pub const HTTP_STREAMS_RESET: Metric = Metric {
    name: "http_streams_reset",
    help: "HTTP/2 streams reset because their client took nothing of the answer",
};
/// Streams refused.
pub const HTTP_STREAMS_REFUSED: Metric = Metric {
    name: "http_streams_refused",
    help: "HTTP/2 streams answered 503 because their connection had its share while streams were scarce",
};
/// Memory that answers keep alive.
pub const MEMORY_PINNED: Metric = Metric {
    name: "memory_pinned_bytes",
    help: "Bytes of memory that answers on their way to clients keep alive, whole buffers and copies",
};
