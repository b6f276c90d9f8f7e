//! The possible faults of a request, as data.

use std::sync::Arc;
use std::time::Duration;

use crate::OriginError;
use tidegate_plan::{ByteRange, ETag, Version};

/// One fault of a request. A request can have several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The answer's head is delayed by this time.
    Latency(Duration),
    /// The answer is this error: a refusal, a throttle with its `Retry-After`, an origin that is
    /// down.
    Refuse(OriginError),
    /// The store's client panics, as with a bug.
    Panic,
    /// The body has this rate in bytes a second.
    Rate(u64),
    /// The body pauses once.
    Pause {
        /// The number of bytes before the pause.
        after: u64,
        /// The length of the pause.
        pause: Duration,
    },
    /// The body ends after this many bytes as if it were complete.
    Truncate(u64),
    /// The connection is reset after this many bytes.
    Reset(u64),
    /// No byte follows after this many, and the connection stays open.
    Stall(u64),
    /// The body has this many bytes more than announced.
    Surplus(u64),
    /// The answer announces another range than it holds: one byte further on.
    WrongRange,
    /// The answer carries another version's ETag.
    WrongETag,
    /// `Range` is ignored: the whole object is sent.
    IgnoreRange,
    /// `If-Match`, `If-None-Match` and `versionId` are ignored.
    IgnoreConditions,
    /// A write with a condition is refused as unknown.
    RefuseConditions,
    /// A write is carried out, and its answer is lost.
    LoseAnswer,
    /// A write that the store refuses is not told so: the connection is lost.
    LoseRefusal,
    /// A payload arrives damaged, and a completed object lacks its last byte.
    Damage,
}

/// Returns the version that the answer announces.
pub(super) fn version(faults: &[Fault], mut version: Arc<Version>) -> Arc<Version> {
    if faults.contains(&Fault::WrongETag) {
        let other = ETag::parse("\"another-version\"");
        Arc::make_mut(&mut version).etag = other.expect("a valid tag");
    }
    version
}

/// Returns the range that the answer announces.
pub(super) fn range(faults: &[Fault], range: ByteRange) -> ByteRange {
    if faults.contains(&Fault::WrongRange) {
        return ByteRange::new(range.start + 1, range.end + 1);
    }
    range
}
