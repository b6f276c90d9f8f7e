//! HTTP, FUSE, and the memory of answers.

use crate::metric::{Metric, counter, gauge, histogram};

/// Answered requests of the kernel.
pub const FUSE_OPERATIONS: Metric = counter(
    "fuse_operations",
    &["operation", "result"],
    "Requests of the kernel to mounts, by operation and result; a name that is missing is an error",
);

/// Files held open.
pub const FUSE_HANDLES: Metric = gauge(
    "fuse_open_files",
    &[],
    "Files that programs hold open on mounts",
);

/// Requests answered.
pub const HTTP_REQUESTS: Metric = counter(
    "http_requests",
    &["method", "status"],
    "Requests by method and class of status; gone: the client left before an answer",
);

/// Answers by cache result.
pub const HTTP_CACHE_RESULTS: Metric = counter(
    "http_cache_results",
    &["result"],
    "Answers by what the cache had: hit, stale, revalidated, partial, miss, or none",
);

/// Bytes of bodies.
pub const HTTP_SENT_BYTES: Metric =
    counter("http_sent_bytes", &[], "Bytes of bodies handed to clients");

/// Incomplete answers.
pub const HTTP_BROKEN_ANSWERS: Metric = counter(
    "http_broken_answers",
    &[],
    "Answers that were begun and not sent whole, because the client or the origin left",
);

/// Requests under way.
pub const HTTP_REQUESTS_IN_FLIGHT: Metric = gauge(
    "http_requests_in_flight",
    &[],
    "Requests under way, from their head to the last byte of their answer",
);

/// Time to the first byte.
pub const HTTP_FIRST_BYTE_SECONDS: Metric = histogram(
    "http_first_byte_seconds",
    &[],
    "Time from a request's head to the first byte of its answer",
);

/// Open connections.
pub const HTTP_CONNECTIONS: Metric = gauge("http_connections", &[], "Open connections");

/// Connections accepted.
pub const HTTP_CONNECTIONS_ACCEPTED: Metric =
    counter("http_connections_accepted", &[], "Connections accepted");

/// Connections ended by a deadline.
pub const HTTP_CONNECTIONS_EXPIRED: Metric = counter(
    "http_connections_expired",
    &[],
    "Connections ended because the client was silent, slow with its head, or stalled",
);

/// Open HTTP/2 streams.
pub const HTTP_STREAMS: Metric = gauge(
    "http_streams",
    &[],
    "Open HTTP/2 streams, until the last byte of their answer is taken",
);

/// Streams reset by a deadline.
pub const HTTP_STREAMS_RESET: Metric = counter(
    "http_streams_reset",
    &[],
    "HTTP/2 streams reset because their client took nothing of the answer",
);

/// Streams refused.
pub const HTTP_STREAMS_REFUSED: Metric = counter(
    "http_streams_refused",
    &[],
    "HTTP/2 streams answered 503 because their connection had its share while streams were scarce",
);

/// Memory that answers keep alive.
pub const MEMORY_PINNED: Metric = gauge(
    "memory_pinned_bytes",
    &[],
    "Bytes of memory that answers on their way to clients keep alive, whole buffers and copies",
);
