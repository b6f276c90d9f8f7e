//! The origins.

use crate::metric::{Metric, counter, gauge, histogram};

/// Requests sent to an origin.
pub const ORIGIN_REQUESTS: Metric = counter(
    "origin_requests",
    &["origin", "kind", "result"],
    "Requests sent to the origin, by kind and result; a HEAD that a GET confirms is one",
);

/// Bytes received from an origin.
pub const ORIGIN_BYTES: Metric = counter(
    "origin_received_bytes",
    &["origin"],
    "Bytes of bodies received from the origin",
);

/// Bytes sent to an origin.
pub const ORIGIN_SENT: Metric = counter(
    "origin_sent_bytes",
    &["origin"],
    "Bytes of objects and parts sent to the origin, those sent again included",
);

/// Time to an answer's head.
pub const ORIGIN_FIRST_BYTE: Metric = histogram(
    "origin_first_byte_seconds",
    &["origin"],
    "Time from a request to the head of the origin's answer, connecting included",
);

/// Requests tried again.
pub const ORIGIN_RETRIES: Metric = counter(
    "origin_retries",
    &["origin"],
    "Requests tried again after a passing failure, broken bodies included",
);

/// Bodies that broke.
pub const ORIGIN_BROKEN_BODIES: Metric = counter(
    "origin_broken_bodies",
    &["origin", "reason"],
    "Bodies that broke off, stalled or were wrong, by reason",
);

/// State of an origin's breaker.
pub const ORIGIN_BREAKER_OPEN: Metric = gauge(
    "origin_breaker_open",
    &["origin"],
    "1 while the origin is known to be down and is left alone, 0 otherwise",
);

/// Requests at an origin.
pub const ORIGIN_RUNNING: Metric = gauge(
    "origin_requests_running",
    &["origin", "priority"],
    "Requests at the origin now, by priority",
);

/// Requests that wait for a permit at an origin.
pub const ORIGIN_QUEUED: Metric = gauge(
    "origin_requests_queued",
    &["origin", "priority"],
    "Requests that wait for a place at the origin now, by priority",
);
