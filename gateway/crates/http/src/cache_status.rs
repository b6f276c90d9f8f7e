//! `Cache-Status` (RFC 9211): the way the cache handled a request.

use std::fmt::Write;

use http::{HeaderName, HeaderValue};

use tidegate_engine::{Coverage, ForwardReason, Object, OpenOutcome};
use tidegate_plan::ByteRange;

/// RFC 9211.
pub(crate) const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Returns the status of a request that was refused before the cache was used: by its `access` or by a `limit`.
pub(crate) fn refused_status(by: &str, reason: &str) -> HeaderValue {
    let text = format!("tidegate; detail={by}-{reason}");
    HeaderValue::try_from(text).expect("plain ASCII is a valid header value")
}

/// The part of an answer's bytes that was cached before it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CachedPart {
    /// All of them, or the answer has no bytes.
    All,
    /// Some of them.
    Part,
    /// None of them.
    Nothing,
}

impl CachedPart {
    /// Returns the cached part of `pieces`, all taken together.
    pub(crate) fn of(object: &Object, pieces: &[ByteRange]) -> Self {
        let mut each = pieces.iter().map(|range| match object.locate(*range) {
            Coverage::All(_) => Self::All,
            Coverage::Some => Self::Part,
            Coverage::Nothing => Self::Nothing,
        });
        let first = each.next().unwrap_or(Self::All);
        each.fold(first, |all, one| if all == one { all } else { Self::Part })
    }
}

/// The cache's part in an answer, in one word: for metrics and the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheResult {
    /// Version and bytes were cached, and fresh.
    Hit,
    /// They were cached, and no longer fresh.
    Stale,
    /// The origin confirmed the version, the bytes were cached.
    Revalidated,
    /// The version was known or confirmed, and some of the answer's bytes were not cached.
    Partial,
    /// The origin sent the bytes, or some of them together with the version.
    Miss,
    /// The cache had no part in it.
    None,
}

impl CacheResult {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Self; 6] = [
        Self::Hit,
        Self::Stale,
        Self::Revalidated,
        Self::Partial,
        Self::Miss,
        Self::None,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Stale => "stale",
            Self::Revalidated => "revalidated",
            Self::Partial => "partial",
            Self::Miss => "miss",
            Self::None => "none",
        }
    }

    /// Returns the result for a version's `outcome`, and the part of its bytes that was cached before the read.
    pub(crate) fn of(outcome: &OpenOutcome, cached: CachedPart) -> Self {
        match (outcome.forward, cached) {
            (_, CachedPart::All) if outcome.ttl_ms < 0 => Self::Stale,
            (None, CachedPart::All) => Self::Hit,
            (Some(ForwardReason::Failed), CachedPart::All) => Self::Stale,
            (Some(ForwardReason::Revalidated), CachedPart::All) => Self::Revalidated,
            (None | Some(ForwardReason::Revalidated), CachedPart::Part) => Self::Partial,
            _ => Self::Miss,
        }
    }
}

/// Returns the header's value. `fwd-status` is given only if it is known to be 304: any other would only reflect the
/// cache's own range requests.
pub(crate) fn cache_status(outcome: &OpenOutcome, cached: CachedPart) -> HeaderValue {
    let mut text = String::with_capacity(64);
    text.push_str("tidegate; ");
    text.push_str(match (outcome.forward, cached) {
        (None, CachedPart::All) => "hit",
        (None, CachedPart::Part) => "fwd=partial",
        (None, CachedPart::Nothing) => "fwd=miss",
        (Some(ForwardReason::Miss), _) => "fwd=uri-miss",
        (Some(ForwardReason::Stale), _) => "fwd=stale",
        (Some(ForwardReason::Revalidated), _) => "fwd=stale; fwd-status=304",
        (Some(ForwardReason::Request), _) => "fwd=request",
        (Some(ForwardReason::Failed), _) => "fwd=stale; detail=stale-if-error",
    });
    let forwarded = !matches!((outcome.forward, cached), (None, CachedPart::All));
    if forwarded && outcome.stored {
        text.push_str("; stored");
    }
    if forwarded && outcome.collapsed {
        text.push_str("; collapsed");
    }
    write!(text, "; ttl={}", outcome.ttl_secs()).expect("a string takes any text");
    HeaderValue::try_from(text).expect("plain ASCII is a valid header value")
}

#[cfg(test)]
mod tests;
