//! The requests that change a bucket.
//!
//! All of them are one enum, [`Write`], so that each decorator handles them in a few lines. [`OriginWrite`] has one
//! required duty; the methods of `dyn OriginWrite` build the requests and unpack the answers.
//!
//! An object appears whole or not at all: a [`Write::Put`] is one request, and the parts of an [`Upload`] are no object
//! before [`Write::Complete`]. A part number can be sent again until then, and the last one sent counts; numbers need
//! not be consecutive. All parts but the last have at least [`MIN_PART`] bytes (S3 user guide, "Multipart upload
//! limits").

use std::fmt;

use futures_core::future::BoxFuture;
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::{OriginError, Payload, Priority, Sums};
use tidegate_plan::{ByteRange, ETag, ObjectKey, Timestamp};

mod requests;

/// The smallest size of a part other than the last, in bytes.
pub const MIN_PART: u64 = 5 << 20;

/// The most bytes that one request copies.
pub const MAX_COPY: u64 = 5 << 30;

/// The headers that an object is stored with: those of [`tidegate_plan::Version::headers`].
pub type Headers = Vec<(HeaderName, HeaderValue)>;

/// A bucket whose objects can be changed.
pub trait OriginWrite: Send + Sync + fmt::Debug {
    /// Carries out one request. Dropping the future abandons it. Its effect is then unknown, as it is after
    /// [`OriginError::Timeout`], [`OriginError::Unavailable`] and [`OriginError::Refused`].
    fn write(&self, write: Write) -> BoxFuture<'_, Result<WriteOutcome, OriginError>> {
        drop(write);
        Box::pin(std::future::ready(Err(OriginError::Forbidden)))
    }
}

/// One request that changes a bucket or lists changes under way.
#[derive(Debug, Clone)]
pub enum Write {
    /// Writes an object in one request.
    Put {
        /// The object.
        key: ObjectKey,
        /// Its headers.
        headers: Headers,
        /// Its bytes.
        payload: Payload,
        /// The condition on the key.
        guard: Guard,
    },
    /// Begins an object that is written in parts.
    Begin {
        /// The final object.
        key: ObjectKey,
        /// Its headers.
        headers: Headers,
        /// The requested checksum of its parts; the answer has the one that is used.
        sums: PartSums,
    },
    /// Sends a part.
    Part {
        /// The upload.
        upload: Upload,
        /// The part number, 1 to 10,000.
        number: u32,
        /// Its bytes.
        payload: Payload,
    },
    /// Copies bytes of an object into a part, on the server.
    CopyPart {
        /// The upload.
        upload: Upload,
        /// The part number, 1 to 10,000.
        number: u32,
        /// The object with the bytes.
        source: CopySource,
        /// The range of the bytes, at most [`MAX_COPY`]; `None` is the whole object, of which AWS copies no range if it has
        /// 5 MiB or less.
        range: Option<ByteRange>,
    },
    /// Assembles the object from its parts.
    Complete {
        /// The upload.
        upload: Upload,
        /// The parts by number, ascending.
        parts: Vec<CompletedPart>,
        /// The condition on the key.
        guard: Guard,
    },
    /// Abandons an upload. A missing upload is no error.
    Abort(Upload),
    /// Lists the uploads under way of exactly this key, because not every store supports more.
    Uploads(ObjectKey),
    /// Copies an object of at most [`MAX_COPY`] bytes on the server.
    Copy {
        /// The copied object.
        source: CopySource,
        /// The key of the copy; it may be the source's, to correct the headers.
        key: ObjectKey,
        /// The headers of the copy; `None` keeps those of the source.
        headers: Option<Headers>,
        /// The condition on the key of the copy. Not every store compares: a caller looks before it copies.
        guard: Guard,
    },
    /// Removes an object, or one version of it permanently. A missing object is no error.
    Delete {
        /// The object.
        key: ObjectKey,
        /// The version to remove, in a bucket that keeps versions. Without it such a bucket keeps the last version.
        version_id: Option<String>,
        /// The condition on the key. Not every store compares: a caller looks before it deletes.
        guard: Guard,
    },
}

/// An object under way in parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Upload {
    /// The final object.
    pub key: ObjectKey,
    /// The store's id of the upload.
    pub id: String,
    /// The checksum of its parts.
    pub sums: PartSums,
}

/// The checksum that each part of an upload carries. The names are stored in journals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum PartSums {
    /// CRC64NVME, which S3 expects if none was named at the beginning. Parts may also be copied.
    #[default]
    #[serde(rename = "crc64nvme")]
    Crc64,
    /// CRC32C, named at the beginning. Then all parts must be sent, and each is listed with its checksum at the end, or
    /// MinIO refuses the completion. MinIO computes it twenty times as fast as CRC64NVME, for which it uses a table
    /// instead of an instruction.
    #[serde(rename = "crc32c")]
    Crc32c,
}

impl PartSums {
    /// Returns the checksum of a part that is listed at the end, if any.
    #[must_use]
    pub fn listed(self, sums: Sums) -> Option<u32> {
        (self == Self::Crc32c).then_some(sums.crc32c)
    }
}

/// A part in the list at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedPart {
    /// The part number, 1 to 10,000.
    pub number: u32,
    /// The tag in the store's answer.
    pub etag: ETag,
    /// Its CRC32C, if the upload was begun with [`PartSums::Crc32c`].
    pub crc32c: Option<u32>,
}

impl From<(u32, ETag)> for CompletedPart {
    fn from((number, etag): (u32, ETag)) -> Self {
        Self {
            number,
            etag,
            crc32c: None,
        }
    }
}

/// The version to copy bytes from; if the object has another, the result is [`OriginError::Changed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySource {
    /// The object.
    pub key: ObjectKey,
    /// Its version (`x-amz-copy-source-if-match`).
    pub etag: ETag,
}

/// The condition on a key for a write; if it does not hold, the result is [`OriginError::Changed`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Guard {
    /// No condition.
    #[default]
    None,
    /// There is no object (`If-None-Match: *`).
    Absent,
    /// The object has this version (`If-Match`).
    Same(ETag),
}

impl Guard {
    /// Returns whether a write may replace the version with this tag.
    #[must_use]
    pub fn holds_for(&self, present: &ETag) -> bool {
        match self {
            Self::None => true,
            Self::Absent => false,
            Self::Same(wanted) => wanted.weak_eq(present),
        }
    }
}

/// The result of a [`Write`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteOutcome {
    /// An object, after put, complete and copy.
    Object(WrittenVersion),
    /// An upload, after begin.
    Upload(Upload),
    /// A part's tag, after part and copy part.
    Part(ETag),
    /// The uploads under way.
    Uploads(Vec<Upload>),
    /// No further result, after abort and delete.
    Done,
}

/// A version that was just written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenVersion {
    /// Its validator.
    pub etag: ETag,
    /// The bucket's id of it, if the bucket keeps versions.
    pub version_id: Option<String>,
    /// The time of the store's answer by its own clock (`Date`, in whole seconds), if it has one.
    pub answered: Option<Timestamp>,
}

impl Write {
    /// Returns the request's name in metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Put { .. } => "put",
            Self::Begin { .. } => "begin",
            Self::Part { .. } => "part",
            Self::CopyPart { .. } => "copy_part",
            Self::Complete { .. } => "complete",
            Self::Abort(_) => "abort",
            Self::Uploads(_) => "uploads",
            Self::Copy { .. } => "copy",
            Self::Delete { .. } => "delete",
        }
    }

    /// Returns the priority. Parts give way to requests of readers; all other writes are short, and a caller waits for
    /// them.
    #[must_use]
    pub fn priority(&self) -> Priority {
        match self {
            Self::Part { .. } | Self::CopyPart { .. } => Priority::Ahead,
            _ => Priority::Demand,
        }
    }

    /// Returns whether a repetition does no harm even if the first try was carried out. A repeated guarded write would
    /// be refused because of its own result. So would a copy of an object onto itself, which may change the tag. An
    /// upload can be completed only once.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        match self {
            Self::Put { guard, .. } => *guard == Guard::None,
            Self::Copy {
                source, key, guard, ..
            } => source.key != *key && *guard == Guard::None,
            Self::Complete { .. } => false,
            _ => true,
        }
    }

    /// Returns whether it has a condition on its key.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn is_guarded(&self) -> bool {
        match self {
            Self::Put { guard, .. }
            | Self::Complete { guard, .. }
            | Self::Copy { guard, .. }
            | Self::Delete { guard, .. } => *guard != Guard::None,
            _ => false,
        }
    }

    /// Returns the bytes that it sends, if any.
    pub fn payload_mut(&mut self) -> Option<&mut Payload> {
        match self {
            Self::Put { payload, .. } | Self::Part { payload, .. } => Some(payload),
            _ => None,
        }
    }
}
