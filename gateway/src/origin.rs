//! Asks the bucket, checks what it answers, and gives up in bounded time.
//!
//! [`Origin`] is what the engine sees. `s3` speaks to a real bucket; `fake` is an ordinary
//! implementation with faults on demand; the other modules each wrap any origin with one concern,
//! stacked by [`stack`]:
//!
//! ```text
//! resume( breaker( limit( metered( checked( deadline( s3 ) ) ) ) ) )
//! ```
//!
//! `deadline` bounds every wait, `checked` believes no answer before it has compared status,
//! `Content-Range`, length and ETag with the question, `metered` counts, `limit` bounds concurrency,
//! serves clients in turn and lets what a reader waits for go first, `breaker` answers at once while the origin is known
//! to be down, and `resume` retries and carries a broken body on from the byte it reached.
//!
//! `resume` is outermost so that its pauses hold no place in `limit`, and so that each of its tries
//! counts in `breaker`, which lies above `limit` because what it refuses need not queue.

pub mod breaker;
pub mod checked;
pub mod client;
pub mod deadline;
pub mod fake;
pub mod limit;
pub mod list;
pub mod metered;
pub mod metrics;
pub mod payload;
mod random;
pub mod resume;
pub mod s3;
pub mod settings;
mod sums;
#[cfg(test)]
mod testing;
pub mod write;

pub use fake::FakeOrigin;
pub use list::{After, List, Listed, Listing};
pub use metrics::Metrics;
pub use payload::Payload;
pub use s3::SetupError;
pub use settings::Settings;
pub use sums::{RunningSum, Sums};
pub use write::{
    CompletedPart, CopySource, Guard, OriginWrite, PartSums, Upload, Write, Written, Wrote,
};

#[cfg(feature = "demo")]
pub mod embedded;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_core::future::BoxFuture;

use crate::plan::{Bucket, ByteRange, ETag, ObjectKey, OriginId, RangeSpec, Timestamp, Version};

/// The bucket that `settings` describe, with every decorator around it.
///
/// # Errors
/// The settings describe no bucket that could be asked.
pub async fn connect(
    settings: &Settings,
    metrics: &Metrics,
) -> Result<Arc<dyn Origin>, SetupError> {
    let bucket = Arc::new(s3::S3::new(settings).await?);
    Ok(stack(bucket, settings, metrics))
}

/// Any origin with every decorator around it, in the order that the head of this module explains.
#[must_use]
pub fn stack(origin: Arc<dyn Origin>, settings: &Settings, metrics: &Metrics) -> Arc<dyn Origin> {
    let meter = metrics.of(&settings.name);
    let origin = Arc::new(deadline::Deadline::new(origin, settings.deadlines));
    let origin = Arc::new(checked::Checked::new(origin));
    let origin = Arc::new(metered::Metered::new(origin, meter.clone()));
    let origin = Arc::new(limit::Limit::new(
        origin,
        settings.max_requests,
        settings.max_queue,
        settings.deadlines.queue,
        meter.clone(),
    ));
    let origin = Arc::new(breaker::Breaker::new(
        origin,
        settings.breaker,
        meter.clone(),
    ));
    Arc::new(resume::Resume::new(origin, settings.retry, meter))
}

/// The bytes of an answer, in order, as they arrive. After an error there is nothing more.
pub type Body = Pin<Box<dyn Stream<Item = Result<Bytes, OriginError>> + Send>>;

/// A bucket that objects are read from, and written to where [`OriginWrite`] says how.
///
/// Implementations hold no cache, and may be asked any number of things at once. Nothing is sent
/// before a future is first polled; dropping it, or a [`Body`], abandons the request behind it.
pub trait Origin: OriginWrite {
    /// The identity under which this bucket's objects are cached: the bucket as this access sees it.
    fn id(&self) -> OriginId;

    /// The bucket, under whatever identity.
    fn bucket(&self) -> Bucket;

    /// Asks for bytes of an object, and with them for its version: one request.
    ///
    /// The answer's range is what the origin said it sends, which may be less than was asked for
    /// only where the object ends.
    fn get(&self, request: Get) -> BoxFuture<'_, Result<Answer, OriginError>>;

    /// Asks for the version alone. A missing object is [`OriginError::NotFound`] only where the
    /// origin said so in words (`NoSuchKey`); a HEAD's bare 404 is confirmed by a GET first.
    fn head(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>>;

    /// The same for who asks the bucket something else at the same time, whose answer shows that
    /// there is a bucket: a HEAD's bare 404 is then answer enough, and `None`. One request always.
    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>>;

    /// Asks for a page of keys (`ListObjectsV2`): one request.
    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>>;

    /// Whether the bucket answers at all: the cheapest request there is. Backs `/readyz`. An unsigned access that is
    /// refused was answered: its bucket may give out objects all the same.
    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>>;
}

impl dyn Origin + '_ {
    /// The same bucket, to be written to.
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
    /// The bytes; `None` asks for the whole without a `Range` header (needed for empty objects,
    /// whose every range S3 answers with 416).
    pub range: Option<RangeSpec>,
    /// What the answer depends on.
    pub condition: Condition,
    /// Whether a reader waits for it.
    pub priority: Priority,
}

/// What a GET's answer depends on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Condition {
    /// Any version will do.
    #[default]
    None,
    /// This version or nothing: `If-Match`, and by `versionId` where the bucket has one.
    Match {
        /// The version's validator.
        etag: ETag,
        /// The bucket's id of the version, if it keeps versions.
        version_id: Option<String>,
    },
    /// Anything but this version, which is at hand: `If-None-Match`.
    NoneMatch(ETag),
}

/// Who waits for a request. Lower goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// A reader waits for these bytes now.
    Demand,
    /// Fetched ahead of a reader.
    Ahead,
    /// As that, and for a reader that may not come: carried out at once, or turned away.
    Spare,
}

/// What a GET brought.
pub enum Answer {
    /// Bytes of a version.
    Content(Content),
    /// 304: the version named in [`Condition::NoneMatch`] still stands.
    NotModified {
        /// `Last-Modified` of the answer; another one than remembered means that the headers were
        /// mended by a copy of the object onto itself, which keeps the ETag.
        last_modified: Option<Timestamp>,
    },
}

/// Bytes of one version, on their way.
pub struct Content {
    /// The version they belong to.
    pub version: Arc<Version>,
    /// Which of its bytes.
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

/// Why an origin did not deliver; named by what the caller can do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// The object does not exist, and the origin said so in words (404 `NoSuchKey`; 403 where
    /// `missing_is_403`; a delete marker).
    #[error("no such key")]
    NotFound,
    /// The bucket does not exist, or is not where we look: our configuration is wrong, no object
    /// is missing.
    #[error("no such bucket")]
    NoSuchBucket,
    /// 401 or 403: our credentials do not reach this object.
    #[error("the origin refused access")]
    Forbidden,
    /// 412: the version asked for with [`Condition::Match`] is no longer the current one.
    #[error("the object changed")]
    Changed,
    /// 416: the object is shorter than the range, or empty.
    #[error("the range lies outside of the object")]
    Unsatisfiable {
        /// The object's size, where the answer's `Content-Range: bytes */N` told it.
        size: Option<u64>,
    },
    /// 429, 503 `SlowDown`, or our own limit's queue is full.
    #[error("the origin asks us to slow down")]
    Throttled {
        /// When it wants to be asked again (`Retry-After`).
        retry_after: Option<Duration>,
    },
    /// A deadline passed.
    #[error("the origin took too long ({0})")]
    Timeout(Phase),
    /// Not reached, cut off, or a 5xx.
    #[error("the origin is unavailable ({0})")]
    Unavailable(&'static str),
    /// The upload is not there (any more).
    #[error("no such upload")]
    NoSuchUpload,
    /// A part that an upload was to be completed from is another one, or is not taken with the others.
    #[error("a part is another one")]
    InvalidPart,
    /// The store does not know something that was asked for with the request (501 `NotImplemented`,
    /// 400 `InvalidArgument`): it would refuse the same again.
    #[error("the origin does not know this kind of request")]
    Unsupported,
    /// The store has no room for what was to be written (507; a quota that is used up). It answers, and what
    /// it has can be read: it is not down.
    #[error("the origin's storage is full")]
    StorageFull,
    /// 409, 408: the store answers, and did not carry this request out because another write of the key was
    /// taking place, or because the request arrived too slowly. The same may succeed soon; the store is not
    /// down.
    #[error("the origin did not take this request now ({0})")]
    Refused(&'static str),
    /// What arrived is not what was sent: the checksums differ.
    #[error("the bytes were damaged on their way")]
    Damaged,
    /// An answer that contradicts the question: never believed, never passed on.
    #[error("the origin's answer is wrong ({0})")]
    BadAnswer(&'static str),
}

/// Which wait a deadline ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Establishing a connection.
    Connect,
    /// From the request to the first byte of its answer.
    FirstByte,
    /// Between two pieces of a body.
    Stall,
    /// The request as a whole.
    Total,
    /// Waiting for a place among the bounded concurrent requests.
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

/// The answer to a change that was not sent, because the state disk did not take the mark that the key
/// is about to be changed.
pub const UNMARKED: OriginError = OriginError::Unavailable("the state disk takes no mark");

impl OriginError {
    /// Whether it proves that a request was not carried out, so that it may be sent again whatever
    /// it was.
    #[must_use]
    pub fn proves_undone(&self) -> bool {
        matches!(
            self,
            Self::Throttled { .. } | Self::Timeout(Phase::Connect | Phase::Queue) | Self::Damaged
        ) || [breaker::OPEN, UNMARKED].contains(self)
    }

    /// Whether an upload that was to be completed may be an object all the same.
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

    /// Whether the same question may be answered if it is asked again soon.
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
