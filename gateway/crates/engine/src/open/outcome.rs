//! The way in which the version of an opened object was found.

use std::time::Duration;

/// The way in which the version of an [`Object`](crate::Object) was found: the data of `Cache-Status` (RFC 9211).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOutcome {
    /// The reason for asking the origin; `None` if it was not asked.
    pub forward: Option<ForwardReason>,
    /// Whether this request waited for the answer to another one's question.
    pub collapsed: bool,
    /// Whether the object may be kept.
    pub stored: bool,
    /// Time since the origin last confirmed the version.
    pub age: Duration,
    /// Milliseconds of freshness left; negative when stale.
    pub ttl_ms: i64,
}

impl OpenOutcome {
    /// Returns the seconds of freshness left, rounded down also below zero: an answer that is stale by a moment has no 0 s
    /// left.
    #[must_use]
    pub fn ttl_secs(&self) -> i64 {
        self.ttl_ms.div_euclid(1000)
    }
}

/// The reason for asking the origin (RFC 9211, 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardReason {
    /// The key was unknown (`uri-miss`).
    Miss,
    /// The key was known and stale, and has another version now (`stale`).
    Stale,
    /// The key was known and stale, and the origin confirmed it with 304 (`stale`, `fwd-status=304`).
    Revalidated,
    /// The client asked for confirmation (`request`), and the origin sent another version.
    Request,
    /// The key was known and stale, and is served stale because the origin failed (`stale-if-error`).
    Failed,
}
