//! What can go wrong with a request, as data.

use std::sync::Arc;
use std::time::Duration;

use crate::origin::OriginError;
use crate::plan::{ByteRange, ETag, Version};

/// One thing that goes wrong with a request. Several can meet in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The answer's head comes this late.
    Latency(Duration),
    /// No answer but this: a refusal, a throttle with its `Retry-After`, an origin that is down.
    Refuse(OriginError),
    /// The client of the store has a bug: it panics.
    Panic,
    /// The body comes at so many bytes a second.
    Rate(u64),
    /// The body pauses once, after so many bytes.
    Pause {
        /// Bytes before the pause.
        after: u64,
        /// How long it lasts.
        pause: Duration,
    },
    /// The body ends after so many bytes as if that were all.
    Truncate(u64),
    /// The connection is reset after so many bytes.
    Reset(u64),
    /// Nothing more comes after so many bytes, and the connection stays.
    Stall(u64),
    /// The body has so many bytes more than announced.
    Surplus(u64),
    /// The answer says that it holds another range than it does: one byte further on.
    WrongRange,
    /// The answer carries another version's ETag.
    WrongETag,
    /// `Range` is ignored: the whole object is sent.
    IgnoreRange,
    /// `If-Match`, `If-None-Match` and `versionId` are ignored.
    IgnoreConditions,
    /// A write is carried out, and its answer is lost.
    LoseAnswer,
    /// What arrives of a payload is not what was sent; what is completed lacks its last byte.
    Damage,
}

/// The version as the answer tells it.
pub(super) fn version(faults: &[Fault], mut version: Arc<Version>) -> Arc<Version> {
    if faults.contains(&Fault::WrongETag) {
        let other = ETag::parse("\"another-version\"");
        Arc::make_mut(&mut version).etag = other.expect("a valid tag");
    }
    version
}

/// The range as the answer tells it.
pub(super) fn range(faults: &[Fault], range: ByteRange) -> ByteRange {
    if faults.contains(&Fault::WrongRange) {
        return ByteRange::new(range.start + 1, range.end + 1);
    }
    range
}
