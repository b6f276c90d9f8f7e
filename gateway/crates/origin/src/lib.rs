//! The bucket: requests to it, checks of its answers, and bounds on every wait.
//!
//! [`Origin`] is the engine's view of it. `s3` speaks to a real bucket; `fake` is an ordinary implementation with
//! faults on demand. Each module of `decorators` wraps any origin with one concern; [`stack`] stacks them:
//!
//! ```text
//! exchange( resume( proven( breaker( limit( metered( checked( deadline( s3 ) ) ) ) ) ) ) )
//! ```

pub mod cause;
pub mod client;
mod decorators;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
pub mod list;
pub mod metrics;
pub mod payload;
pub mod s3;
pub mod settings;
mod sums;
#[cfg(test)]
mod testing;
mod wait_flag;
pub mod write;

pub use cause::Cause;
pub use decorators::exchange::{ConnectedOrigin, LiveOrigin, SettingsReader};
pub use decorators::stack;
#[cfg(any(test, feature = "testing"))]
pub use fake::FakeOrigin;
pub use list::{List, ListedObject, Listing, PageStart};
pub use metrics::Metrics;
pub use payload::Payload;
pub use s3::SetupError;
pub use settings::Settings;
pub use sums::{RunningSum, Sums};
pub use wait_flag::WaitFlag;
pub use write::{
    CompletedPart, CopySource, Guard, OriginWrite, PartSums, Upload, Write, WriteOutcome,
    WrittenVersion,
};

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_core::future::BoxFuture;
use tokio::time::Instant;

use tidegate_plan::{Bucket, ByteRange, ETag, ObjectKey, OriginId, RangeSpec, Timestamp, Version};

/// Connects to the bucket that `settings` describe, with every decorator around it.
///
/// # Errors
/// The settings do not describe a usable bucket.
pub async fn connect(
    settings: &Settings,
    metrics: &Metrics,
) -> Result<Arc<dyn Origin>, SetupError> {
    let bucket = Arc::new(s3::S3::new(settings).await?);
    Ok(stack(bucket, settings, metrics))
}

/// The bytes of an answer, in order, as they arrive. An error is the last item.
pub type Body = Pin<Box<dyn Stream<Item = Result<Bytes, OriginError>> + Send>>;

/// A bucket to read objects from; [`OriginWrite`] is the part that writes.
///
/// Implementations hold no cache and accept any number of requests at once. No request is sent before its future is
/// first polled; a caller that drops the future or its [`Body`] abandons the request.
pub trait Origin: OriginWrite {
    /// Returns the identity under which this bucket's objects are cached: the bucket as this access sees it.
    fn id(&self) -> OriginId;

    /// Returns the bucket, regardless of identity.
    fn bucket(&self) -> Bucket;

    /// Requests bytes of an object and its version, in one request.
    ///
    /// The answer's range is the one that the origin announced. It is shorter than the requested range only at the
    /// object's end.
    fn get(&self, request: Get) -> BoxFuture<'_, Result<Answer, OriginError>>;

    /// Requests the version alone. A missing object is [`OriginError::NotFound`] only if the origin said so explicitly
    /// (`NoSuchKey`); a HEAD's bare 404 is first confirmed by a GET.
    fn head(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>>;

    /// Does the same for a caller that has another request to the bucket under way, whose answer proves that the bucket
    /// exists. So a HEAD's bare 404 suffices and is `None`. Always one request.
    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>>;

    /// Requests a page of keys (`ListObjectsV2`), in one request.
    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>>;

    /// Checks whether the bucket answers, with the cheapest request. Backs `/readyz`. The refusal of an unsigned access
    /// counts as an answer: such a bucket may still serve objects.
    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>>;

    /// Returns the time of the last answer that proves that the bucket takes requests with these credentials. `None` if
    /// there was none, a request has failed since, or the implementation does not remember it.
    fn last_proof(&self) -> Option<Instant> {
        None
    }
}

impl dyn Origin + '_ {
    /// Returns the same bucket for writing.
    #[must_use]
    pub fn writing(&self) -> &(dyn OriginWrite + '_) {
        self
    }
}

/// One ranged GET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Get {
    /// The object.
    pub key: ObjectKey,
    /// The bytes; `None` requests the whole object without a `Range` header. Empty objects need that, because S3
    /// answers 416 to any range of them.
    pub range: Option<RangeSpec>,
    /// The condition of the answer.
    pub condition: Condition,
    /// Whether a reader waits for it.
    pub priority: Priority,
}

/// The condition of a GET's answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Condition {
    /// No condition: any version.
    #[default]
    None,
    /// Only this version: `If-Match`, and `versionId` if the bucket has one.
    Match {
        /// The version's validator.
        etag: ETag,
        /// The bucket's id of the version, if it keeps versions.
        version_id: Option<String>,
    },
    /// Any version but this one, which the caller has: `If-None-Match`.
    NoneMatch(ETag),
}

/// The urgency of a request. Lower goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// A reader waits for these bytes now.
    Demand,
    /// Read-ahead.
    Ahead,
    /// Read-ahead for a reader that may not come: it runs at once or is refused.
    Spare,
}

/// The result of a GET.
pub enum Answer {
    /// Bytes of a version.
    Content(Content),
    /// 304: the version in [`Condition::NoneMatch`] is still current.
    NotModified {
        /// The answer's `Last-Modified`. If it differs from the remembered one, the headers were corrected by a copy of
        /// the object onto itself, which keeps the ETag.
        last_modified: Option<Timestamp>,
    },
}

/// A stream of bytes of one version.
pub struct Content {
    /// The version they belong to.
    pub version: Arc<Version>,
    /// The range of the bytes in the version.
    pub range: ByteRange,
    /// The bytes; exactly `range.len()` of them, or an error.
    pub body: Body,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Content(content) => content.fmt(f),
            Self::NotModified { last_modified } => f
                .debug_struct("NotModified")
                .field("last_modified", last_modified)
                .finish(),
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content")
            .field("version", &self.version)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// The error of an origin, named by the caller's possible reaction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// The object does not exist, and the origin said so explicitly (404 `NoSuchKey`; 403 with `missing_is_403`; a
    /// delete marker).
    #[error("no such key")]
    NotFound,
    /// The bucket does not exist at the configured place: the configuration is wrong, and no object is missing.
    #[error("no such bucket")]
    NoSuchBucket,
    /// 401 or 403: the configured credentials do not reach this object; or they are none, expired or invalid.
    #[error("the origin refused access")]
    Forbidden,
    /// 412: the version in [`Condition::Match`] is no longer the current one.
    #[error("the object changed")]
    Changed,
    /// 416: the object is shorter than the range, or empty.
    #[error("the range lies outside of the object")]
    Unsatisfiable {
        /// The object's size, if the answer has it in `Content-Range: bytes */N`.
        size: Option<u64>,
    },
    /// 429, 503 `SlowDown`, or the queue of the gateway's own limit is full.
    #[error("the origin asks us to slow down")]
    Throttled {
        /// The pause that the origin requests (`Retry-After`).
        retry_after: Option<Duration>,
    },
    /// A deadline passed.
    #[error("the origin took too long ({0})")]
    Timeout(Phase),
    /// The origin was not reached, the connection was cut, or the answer was a 5xx.
    #[error("the origin is unavailable ({0})")]
    Unavailable(&'static str),
    /// The upload does not exist or no longer exists.
    #[error("no such upload")]
    NoSuchUpload,
    /// A listed part of an upload differs from the store's, or the store does not accept it with the others.
    #[error("a part is another one")]
    InvalidPart,
    /// The store does not support a property of the request (501 `NotImplemented`, 400 `InvalidArgument`) and would
    /// refuse the same request again.
    #[error("the origin does not know this kind of request")]
    Unsupported,
    /// The store refuses to write under this key: a name in it is too long, or has characters that it does not take.
    #[error("the origin takes no such key")]
    KeyRefused,
    /// The store refuses to keep an object's headers, which are too large (400 `MetadataTooLarge`).
    #[error("the origin takes no headers as large as the object's")]
    HeadersTooLarge,
    /// The store takes no object, or no part, of this size (`EntityTooLarge`).
    #[error("the origin takes no object as large as this one")]
    ObjectTooLarge,
    /// The store has no room for the object (507; an exhausted quota). It is not down: its objects can be read.
    #[error("the origin's storage is full")]
    StorageFull,
    /// 409, 408: the store answers, but did not carry out this request, because another write of the key was under way
    /// or the request arrived too slowly. The same request may succeed soon; the store is not down.
    #[error("the origin did not take this request now ({0})")]
    Refused(&'static str),
    /// The checksums of the sent and the arrived bytes differ.
    #[error("the bytes were damaged on their way")]
    Damaged,
    /// An answer that contradicts the request; it is never used.
    #[error("the origin's answer is wrong ({0})")]
    BadAnswer(&'static str),
}

/// The wait that a deadline ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The wait for a connection.
    Connect,
    /// The wait from the request to the first byte of its answer.
    FirstByte,
    /// The wait between two pieces of a body.
    Stall,
    /// The request as a whole.
    Total,
    /// The wait for a slot among the bounded concurrent requests.
    Queue,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::FirstByte => "first byte",
            Self::Stall => "stall",
            Self::Total => "total",
            Self::Queue => "queue",
        })
    }
}

/// The error of a change that was not sent, because the state disk did not take the mark that the key is about to
/// change.
pub const MARK_REFUSED: OriginError = OriginError::Unavailable("the state disk takes no mark");

impl OriginError {
    /// Returns whether the error proves that the request was not carried out, so that it may be repeated whatever it
    /// was.
    #[must_use]
    pub fn proves_undone(&self) -> bool {
        matches!(
            self,
            Self::Throttled { .. } | Self::Timeout(Phase::Connect | Phase::Queue) | Self::Damaged
        ) || [decorators::breaker::BREAKER_OPEN, MARK_REFUSED].contains(self)
    }

    /// Returns whether a failed completion of an upload may have created the object all the same.
    #[must_use]
    pub fn leaves_doubt(&self) -> bool {
        matches!(
            self,
            Self::NoSuchUpload
                | Self::Timeout(_)
                | Self::Unavailable(_)
                | Self::Refused(_)
                | Self::StorageFull
                | Self::BadAnswer(_)
        )
    }

    /// Returns whether the same request may succeed soon.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Throttled { .. }
                | Self::Timeout(_)
                | Self::Unavailable(_)
                | Self::Refused(_)
                | Self::BadAnswer(_)
                | Self::Damaged
        )
    }
}
