//! Every metric, declared once: name, type, labels, help. Components build and register their own from these; `docs/METRICS.md`
//! shows all in this order.
//!
//! Names are without the `tidegate_` prefix and without the `_total` suffix, which the registry and the encoder add. Their
//! unit, a base unit, is part of them: `_seconds`, `_bytes`, `_ratio`.

use crate::metric::{Metric, MetricKind};

/// Declares metrics as constants, and [`ALL`] of them. The help of a metric is its doc.
macro_rules! metrics {
    ($($constant:ident = $kind:ident($name:literal, $labels:expr, $help:literal);)*) => {
        $(
            #[doc = $help]
            pub const $constant: Metric = Metric {
                name: $name,
                kind: MetricKind::$kind,
                labels: &$labels,
                help: $help,
            };
        )*

        /// Every metric, in the order of the documentation.
        pub const ALL: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    // The process.
    AMPLIFICATION = Gauge("amplification_ratio", [],
        "Bytes fetched from origins over bytes delivered to readers, since the start; absent until something was delivered");
    BUILD = Info("build", ["version"], "Version of the program that runs");
    PROCESS_START_TIME = Gauge("process_start_time_seconds", [], "When the process started, in seconds since 1970");
    PROCESS_CPU = Counter("process_cpu_seconds", [], "Processor time used, in user and kernel mode");
    PROCESS_RESIDENT_MEMORY = Gauge("process_resident_memory_bytes", [], "Memory of the process that is in RAM");
    PROCESS_THREADS = Gauge("process_threads", [], "Threads of the process");
    PROCESS_OPEN_FDS = Gauge("process_open_fds", [], "Open file descriptors: sockets, cache files, and the rest");
    PROCESS_MAX_FDS = Gauge("process_max_fds", [], "The most file descriptors that the process may open");
    LOG_LINES_DROPPED = Counter("log_lines_dropped", [],
        "Lines of the log that were dropped: standard error did not take them, or too many waited for its reader");

    TRACE_SPANS = Counter("trace_spans", ["result"],
        "Spans of traced requests by result: sent, failed (the collector did not take them), dropped (too many waited)");

    // The engine.
    ENGINE_FETCHED = Counter("fetched_bytes", [], "Bytes of objects that the origin sent");
    ENGINE_FILED = Counter("filed_bytes", ["cause"],
        "Bytes of chunks that were cached because they were written through this process, by cause: put (sent in one request), part (sent in parts), base (of the version that was changed), rename (of the object under its old name)");
    ENGINE_REPORTED = Counter("reported_changes", ["effect"],
        "Changes of keys that the bucket's events reported, by effect: ours (written or removed here), same (known already), other (may differ from what was known)");
    ENGINE_DELIVERED = Counter("delivered_bytes", [], "Bytes of objects that readers took");
    ENGINE_RESOLVES = Counter("resolves", [],
        "Requests to the origin that asked which version a key has, with its first bytes");
    ENGINE_PARTS = Counter("parts", [], "Requests to the origin for further parts of a known version");
    ENGINE_FOLDER_PREFETCHES = Counter("siblings_ahead", [],
        "Small objects of a folder fetched ahead because those before them were read");
    ENGINE_HEDGES = Counter("hedges", [],
        "Second requests for parts that kept a reader waiting three times as long as usual");
    ENGINE_DISK_READS = Counter("disk_reads", [], "Chunks that readers or read-ahead asked of a disk");
    ENGINE_DISK_RACES = Counter("disk_races", ["winner"],
        "Chunks that a disk was late with and the origin was asked for as well, by who had them first");
    ENGINE_HEDGED = Counter("hedged_bytes", [],
        "Bytes that second requests were allowed to cost: at most 1 MiB, and 1 % of all that is fetched");
    ENGINE_JOINED = Counter("flights_joined", [], "Reads that joined a chunk already on its way");
    ENGINE_ABANDONED = Counter("fetches_abandoned", [], "Fetches stopped because no reader wanted them any more");
    ENGINE_STALE_ON_ERROR = Counter("stale_on_error", [],
        "Opens answered with a stale version because the origin failed");
    READER_WAITS = Histogram("reader_wait_seconds", ["frontend", "profile"],
        "Time of each wait of a reader for bytes that memory did not have, the bucket's answer at an open included, by frontend (http, fuse) and profile");
    READER_GAPS = Counter("reader_gaps", ["frontend", "profile"],
        "Waits of more than 100 ms for bytes of an object that was open already");
    BUDGET_SIZE = Gauge("budget_size_bytes", [],
        "Memory for everything on its way from the bucket and from disks: three quarters of `cache.budget`");
    BUDGET_USED = Gauge("budget_used_bytes", [], "Bytes of it that are reserved now");
    BUDGET_WAITS = Counter("budget_waits", [], "Reservations of demand that had to wait in line");
    BUDGET_REFUSED = Counter("budget_refused", [],
        "Reservations of demand that were given up after 10 s in line; their readers got 503");
    ENGINE_NAME_REQUESTS = Counter("name_requests", ["cause"],
        "Requests to the origin about names and folders of mounts, by cause: name (one that is not known), confirm (a known object may have changed), folder (a program reads a folder), tree (it reads the folders of one parent one after another), names (a folder is listed because names in it are not known)");
    ENGINE_ENCODER_RUNS = Counter("encoder_runs", ["coding", "result"],
        "Runs of encoders, by coding and result: kept, identity (the object gets no smaller, which is remembered), failed");
    ENGINE_ENCODERS_REFUSED = Counter("encoders_refused", ["reason"],
        "Answers sent as they are because no encoder was free (busy) or no budget for one (memory)");

    // Writes.
    WRITE_COMMITS = Counter("write_commits", ["result"],
        "Objects that were to be published, by what came of it: committed, failed (it is tried again), changed, refused");
    WRITE_BYTES = Counter("write_bytes", [], "Bytes taken from writers into the spool");
    WRITE_RESENT = Counter("write_parts_resent", [],
        "Parts that were written to while they were sent, and are sent again");
    WRITE_HIDDEN = Counter("write_hidden_uploads", [],
        "Uploads completed under a hidden key, to read back what had left the spool");
    WRITE_PENDING = Gauge("write_pending", ["stage"],
        "Objects that are open for writing, or closed and not yet in the bucket, by stage: open, sending, waiting (for its next try), refused (until an operator decides)");
    WRITE_OLDEST_UNSENT = Gauge("write_oldest_unsent_seconds", [],
        "Age of the oldest write that was closed and is not in the bucket, refused ones included; 0 if there is none");
    WRITE_ATTRIBUTES = Counter("write_attributes", ["result"],
        "Changes of attributes after a close, and new folders, that were to be sent, by what came of it: sent, failed (it is tried again), refused");
    WRITE_ATTRIBUTES_PENDING = Gauge("write_attributes_pending", [],
        "Objects with changed attributes, and new folders, that are not yet in the bucket");
    SPOOL_USED = Gauge("spool_used_bytes", [], "Bytes in the spool");
    SPOOL_SIZE = Gauge("spool_size_bytes", [], "The most bytes that the spool may take");
    SPOOL_EVICTED = Counter("spool_parts_evicted", [],
        "Parts that were sent and left the spool before their object was complete");
    SPOOL_WAITS = Counter("spool_waits", [], "Writes that waited for room in the spool");

    // Origins.
    ORIGIN_REQUESTS = Counter("origin_requests", ["origin", "kind", "result", "cause"],
        "Requests sent to the origin, by kind, result and cause: demand (a reader or a writer waits), ahead (read-ahead, which may bring what a reader waits for as well), folder (small objects of a folder, ahead of their readers), hedge (the first request is late), revalidate (a known version may have changed), warm, names (of a mount), write, heartbeat (of bucket events), probe (`/readyz` and the doctor); a HEAD that a GET confirms is one");
    ORIGIN_BYTES = Counter("origin_received_bytes", ["origin", "cause"],
        "Bytes of bodies received from the origin, by the cause of their request as in origin_requests");
    ORIGIN_SENT = Counter("origin_sent_bytes", ["origin"],
        "Bytes of objects and parts sent to the origin, those sent again included");
    ORIGIN_FIRST_BYTE = Histogram("origin_first_byte_seconds", ["origin"],
        "Time from a request to the head of the origin's answer, connecting included");
    ORIGIN_RETRIES = Counter("origin_retries", ["origin"],
        "Requests tried again after a passing failure, broken bodies included");
    ORIGIN_BROKEN_BODIES = Counter("origin_broken_bodies", ["origin", "reason"],
        "Bodies that broke off, stalled or were wrong, by reason");
    ORIGIN_BREAKER_OPEN = Gauge("origin_breaker_open", ["origin"],
        "1 while the origin is known to be down and is left alone, 0 otherwise");
    ORIGIN_RUNNING = Gauge("origin_requests_running", ["origin", "priority"],
        "Requests at the origin now, by priority");
    ORIGIN_QUEUED = Gauge("origin_requests_queued", ["origin", "priority"],
        "Requests that wait for a place at the origin now, by priority");

    // The tiers of the cache.
    STORE_HITS = Counter("store_hits", ["tier", "disk"], "Chunks found in a tier");
    STORE_MISSES = Counter("store_misses", ["tier", "disk"], "Chunks asked of a tier that it did not hold");
    STORE_HIT_BYTES = Counter("store_hit_bytes", ["tier", "disk"], "Bytes of the chunks found in a tier");
    STORE_INSERTS = Counter("store_inserts", ["tier", "disk"], "Chunks taken into a tier");
    STORE_REFUSALS = Counter("store_refusals", ["disk", "reason"],
        "Chunks offered to a disk that it did not take, by reason: opening, demoted, closed, full, queue, present, size");
    STORE_EVICTIONS = Counter("store_evictions", [], "Chunks pushed out of memory by others");
    STORE_EVICTION_AGE = Histogram("store_eviction_age_seconds", ["tier", "disk"],
        "Time that a chunk had been in its tier when others pushed it out; on disk, since its segment was begun");
    STORE_CAPACITY_BYTES = Gauge("store_capacity_bytes", ["tier", "disk"], "The most bytes that a tier may take up");
    STORE_USED_BYTES = Gauge("store_used_bytes", ["tier", "disk"], "Bytes that a tier takes up");
    STORE_FREE_BYTES = Gauge("store_free_bytes", ["disk"], "Bytes free on the file system of a cache disk");
    STORE_QUEUED_BYTES = Gauge("store_queued_bytes", ["disk"], "Bytes that wait to be written to a cache disk");
    STORE_PINNED_BYTES = Gauge("store_pinned_bytes", ["disk"], "Bytes on a cache disk that pins keep from eviction");
    STORE_FAULTS = Counter("store_faults", ["disk", "reason"],
        "Reads of a disk that gave no sound chunk, by reason: lost, corrupt, error, late");
    STORE_DISK_UP = Gauge("store_disk_up", ["disk"],
        "1 while a cache disk is read, 0 while its index loads, after late or failed reads, and when it is closed or off");
    STORE_DISK_STATE = Gauge("store_disk_state", ["disk", "state"],
        "1 for the state that a cache disk is in, 0 for the others: loading, up, slow, demoted, full, closed");
    STORE_DISK_CHUNKS = Gauge("store_disk_chunks", ["disk"], "Chunks in the index of a cache disk");
    STORE_HUNG_READS = Gauge("store_hung_reads", ["disk"],
        "Reads of a cache disk that no reader waits for any more and that have not returned");
    STORE_DISK_EVICTIONS = Counter("store_disk_evictions", ["disk"],
        "Chunks pushed off a cache disk by others, or to leave space free");
    STORE_WRITTEN_BYTES = Counter("store_written_bytes", ["disk"],
        "Bytes written to a cache disk; over the admitted ones, the write amplification");
    STORE_ADMITTED_BYTES = Counter("store_admitted_bytes", ["disk"],
        "Bytes of chunks that a cache disk has taken and written");
    STORE_REWRITTEN_BYTES = Counter("store_rewritten_bytes", ["disk"],
        "Bytes of chunks that were written again, to do away with nearly empty segments");
    STORE_READ_SECONDS = Histogram("store_read_seconds", ["disk"],
        "Time to read one chunk from a disk, waiting for its turn included");

    // Metadata.
    META_LOOKUPS = Counter("meta_lookups", ["found"],
        "Lookups of an object's metadata, by where it was found: memory, disk, nowhere");
    META_UNKNOWN = Counter("meta_unknown", [],
        "Lookups of metadata that the state disk did not answer in time, or was not asked for because it hangs; the bucket was asked instead");
    META_READS_UP = Gauge("meta_reads_up", [],
        "1 while the metadata database is read, 0 after a read came too late until a probe comes in time; 0 also without a state directory");
    META_HUNG_READS = Gauge("meta_hung_reads", [],
        "Reads of the metadata database that no request waits for any more and that have not returned");
    META_CORRUPT = Counter("meta_corrupt", [], "Metadata records that failed their check and were removed");
    META_PURGED = Counter("meta_purged", [],
        "Metadata records hidden because a purge covers them, also those put too late");
    META_ERRORS = Counter("meta_errors", [], "Failures of the metadata database");
    META_LOST = Counter("meta_lost_writes", [],
        "Changes of metadata that were dropped because too much waited for the state disk; what is on record is confirmed after that before it counts as fresh");
    META_WRITES = Counter("meta_writes", [], "Changes of metadata written to the database");
    META_COMMITS = Counter("meta_commits", [],
        "Durable commits of the metadata database: one a second at most while objects are read, and more for purges, pins and the end");
    META_PURGES = Gauge("meta_purges", [],
        "Purges on record. 200,000 single keys are kept by themselves, and 900,000 more by a short hash: all of them take up to 60 MiB of memory and 100 MiB of `state.path`, and hide 0.03 % of the other objects that are cached. Each one beyond that hides one object in two million, and takes nothing more beyond 20 MiB and 200 MiB. Of more than 50,000 prefixes the deepest give way to their folders. Soft purges, and purges of tags, are bounded in the same way by half of these numbers");
    META_COALESCED = Counter("meta_coalesced", [],
        "Confirmations not written because the last one is less than five minutes old");
    META_SWEPT = Counter("meta_swept", [],
        "Metadata records removed because the database has its size (`state.size`): those confirmed longest ago go first, and cost one request at their next use");

    // Events of buckets.
    EVENTS = Counter("bucket_events", ["subscription", "result"],
        "Events that a bucket reported, by result: applied, duplicate, late (after a later one of their key: the key is confirmed), foreign (of another bucket), ignored (nothing changed that is served), unknown (by name), invalid (unreadable), failed (not applied)");
    EVENTS_LAG = Histogram("bucket_event_lag_seconds", ["subscription"],
        "Time from a change, by the bucket's clock, until its event was applied");
    EVENTS_ALIVE = Gauge("bucket_events_alive", ["subscription"],
        "1 while heartbeats come back, so that no change can have been missed, 0 while ttl stands; none without a heartbeat");
    EVENTS_GAPS = Counter("bucket_events_gaps", ["subscription", "reason"],
        "Times at which a change may have been missed, by reason: heartbeat (did not come back), connection, sequence (skips a message), unreadable, failed (not applied), overflow (too many at once)");
    EVENTS_HEARTBEATS = Counter("bucket_events_heartbeats", ["subscription", "result"],
        "Heartbeats by result: written, failed (not written), seen (an event came, also of another gateway's)");

    // The fleet.
    FLEET_CONNECTED = Gauge("fleet_connected", [], "1 while the fleet's NATS is connected, 0 otherwise: `ttl` stands then");
    FLEET_PEERS = Gauge("fleet_peers", [], "Other gateways of the fleet that were heard of in the last 5 s");
    FLEET_SENT = Counter("fleet_sent", ["kind"],
        "Messages for the fleet that were taken for sending, by kind: purge, change, pin, heartbeat, bye, missed (asks for pins)");
    FLEET_DROPPED = Counter("fleet_dropped", [],
        "Messages for the fleet that were dropped because too many waited; the others confirm everything in their place");
    FLEET_RECEIVED = Counter("fleet_received", ["kind", "result"],
        "Messages of other gateways, by kind (see fleet_sent; unknown) and result: applied, known (an older one of a pin), foreign (of an unknown bucket), failed (not durable), invalid (unreadable)");
    FLEET_DOUBTS = Counter("fleet_doubts", ["reason"],
        "Times at which messages may have been missed, so that everything is confirmed before its next use, by reason: joined (a gateway that was not known), gap (in a gateway's numbers), lost (a gateway fell silent), failed (a purge or a change was not applied, or had no room to wait in)");
    FLEET_LAG = Histogram("fleet_lag_seconds", [],
        "Time from a change at one gateway until it was applied here, by both clocks");
    // Frontends.
    FUSE_OPERATIONS = Counter("fuse_operations", ["operation", "result"],
        "Requests of the kernel to mounts, by operation and result: ok, error (an answer, such as a name that is missing, or a 403 of the bucket), failed (by the bucket, a disk or the gateway: EIO, ENOSPC)");
    FUSE_OPEN_FILES = Gauge("fuse_open_files", [], "Files that programs hold open on mounts");
    HTTP_REQUESTS = Counter("http_requests", ["method", "status"],
        "Requests by method and class of status; gone: the client left before an answer");
    HTTP_CACHE_RESULTS = Counter("http_cache_results", ["result"],
        "Answers by what the cache had: hit, stale, revalidated, partial, miss, or none");
    HTTP_ACCESS_REFUSED = Counter("http_access_refused", ["reason"],
        "Reads that the access of a route refused, by reason: missing (no credentials), token (a wrong one), signature (a wrong one), key (an unknown one), expired, early (signed for later), prefix (signed for another path), claims (those of a JWT), keys (none to verify a JWT with), denied and unanswered (by the server of `auth_request`), referer");
    ACCESS_KEYS = Gauge("access_keys", ["access"],
        "Keys that verify JWTs, by access; with 0 of them no JWT is admitted");
    ACCESS_KEY_LOADS = Counter("access_key_loads", ["access", "result"],
        "Attempts to read the key set of an access from its file or URL: loaded, failed");
    ACCESS_AUTH_REQUESTS = Counter("access_auth_requests", ["access", "result"],
        "Questions to the server of `auth_request`, by result: admitted, refused, failed, kept (answered by an earlier answer), shared (answered by a sub-request that was under way)");
    HTTP_LIMITED = Counter("http_limited", ["limit"],
        "Reads answered with 429 because a limit of their route was reached: requests (in a time), connections (under way at once)");
    HTTP_SENT_BYTES = Counter("http_sent_bytes", [], "Bytes of bodies handed to clients");
    HTTP_BROKEN_ANSWERS = Counter("http_broken_answers", ["reason"],
        "Answers that were begun and not sent whole, by reason: client (it left, or took nothing for too long), error (of the origin or the gateway), stopped (by an operator, or by the end of the gateway, also before they were begun)");
    HTTP_REQUESTS_IN_FLIGHT = Gauge("http_requests_in_flight", [],
        "Requests under way, from their head to the last byte of their answer");
    HTTP_FIRST_BYTE_SECONDS = Histogram("http_first_byte_seconds", [],
        "Time from a request's head to the first byte of its answer");
    HTTP_CONNECTIONS = Gauge("http_connections", [], "Open connections");
    HTTP_CONNECTIONS_ACCEPTED = Counter("http_connections_accepted", [], "Connections accepted");
    HTTP_CONNECTIONS_EXPIRED = Counter("http_connections_expired", [],
        "Connections ended because the client was silent, slow with its head, or stalled");
    HTTP_CONNECTIONS_DISPLACED = Counter("http_connections_displaced", [],
        "Connections without a request ended because all of `max_connections` were open and another client waited");
    HTTP_STREAMS = Gauge("http_streams", [], "Open HTTP/2 streams, until the last byte of their answer is taken");
    HTTP_STREAMS_RESET = Counter("http_streams_reset", [],
        "HTTP/2 streams reset because their client took nothing of the answer");
    HTTP_STREAMS_REFUSED = Counter("http_streams_refused", [],
        "HTTP/2 streams answered 503 because their connection had its share while streams were scarce");
    TLS_HANDSHAKES = Counter("tls_handshakes", ["result"],
        "TLS handshakes of all listeners, by result: full, resumed (an earlier session), failed (no agreement, or the client left), late (not done within `http.header_timeout`), no_tls (the client speaks another protocol), challenge (an authority looked for the answer to its challenge)");
    TLS_RELOADS = Counter("tls_reloads", ["result"],
        "Certificates whose files had changed and were read again, by result; failed: the files are broken, and the old certificate stays");
    TLS_EXPIRY = Gauge("tls_certificate_expiry_seconds", ["certificate"],
        "When a certificate in force ends, in seconds since 1970, by the path of its file");
    ACME_ORDERS = Counter("acme_orders", ["result"],
        "Orders of certificates from an authority, by result: issued, refused (the authority does not issue it, or has not found that the name leads here), limited (too many orders), failed (the authority was not reached, or the certificate could not be kept)");
    MEMORY_PINNED = Gauge("memory_pinned_bytes", [],
        "Bytes of memory that answers on their way to clients keep alive, whole buffers and copies");

    // Hooks.
    HOOK_REQUESTS = Counter("hook_requests", ["hook", "result"],
        "Requests to the receivers of hooks, by result: done (2xx), redirected, refused (4xx), failed (5xx, 408, 429), timeout, unreachable");
    HOOK_DROPPED = Counter("hook_dropped_calls", ["hook", "reason"],
        "Calls that were given up, by reason: failed (all tries, or refused), silent (an earlier call of the same window had no answer), stopped (at the end of the process)");
    HOOK_WIDENED = Counter("hook_widened", ["hook"],
        "Times that too many keys had changed for a list, and their common folder was reported instead");
    HOOK_PENDING = Gauge("hook_pending_changes", ["hook"], "Changed keys that wait for their call");
}

#[cfg(test)]
mod tests;
