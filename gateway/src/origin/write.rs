//! What a bucket is asked to change.
//!
//! All requests that change a bucket are one enum, [`Write`], so that each decorator is a few lines
//! and holds for all of them; [`OriginWrite`] has one duty, and the methods of `dyn OriginWrite` put
//! the questions and read the answers.
//!
//! An object appears whole or not at all: a [`Write::Put`] is one request, and the parts of an
//! [`Upload`] are no object before [`Write::Complete`]. A part number can be sent again until then,
//! and the last one sent counts; numbers need not be consecutive. All parts but the last have at
//! least [`MIN_PART`] bytes (S3 user guide, "Multipart upload limits").

use std::fmt;

use futures_core::future::BoxFuture;
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::{OriginError, Payload, Priority, Sums};
use crate::plan::{ByteRange, ETag, ObjectKey, Timestamp};

mod ask;

/// The least that a part other than the last may hold.
pub const MIN_PART: u64 = 5 << 20;

/// The most that one request copies.
pub const MAX_COPY: u64 = 5 << 30;

/// The headers that an object is stored with: those of [`crate::plan::Version::headers`].
pub type Headers = Vec<(HeaderName, HeaderValue)>;

/// A bucket whose objects can be changed.
pub trait OriginWrite: Send + Sync + fmt::Debug {
    /// Carries out one request. Dropping the future abandons it: whether it was carried out is then
    /// unknown, as it is after [`OriginError::Timeout`], [`OriginError::Unavailable`]
    /// and [`OriginError::Refused`].
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Wrote, OriginError>> {
        drop(write);
        Box::pin(std::future::ready(Err(OriginError::Forbidden)))
    }
}

/// One request that changes a bucket, or tells of changes under way.
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
        /// What must hold of the key.
        guard: Guard,
    },
    /// Begins an object that is written in parts.
    Begin {
        /// The object to be.
        key: ObjectKey,
        /// Its headers.
        headers: Headers,
        /// What its parts are to carry; the answer says what they do.
        sums: PartSums,
    },
    /// Sends a part.
    Part {
        /// Of what.
        upload: Upload,
        /// 1 to 10,000.
        number: u32,
        /// Its bytes.
        payload: Payload,
    },
    /// Makes bytes of an object a part, on the server.
    CopyPart {
        /// Of what.
        upload: Upload,
        /// 1 to 10,000.
        number: u32,
        /// Whose bytes.
        source: CopySource,
        /// Which of them, at most [`MAX_COPY`].
        range: ByteRange,
    },
    /// Makes the object out of its parts.
    Complete {
        /// Of what.
        upload: Upload,
        /// By numbers, ascending.
        parts: Vec<CompletedPart>,
        /// What must hold of the key.
        guard: Guard,
    },
    /// Gives an upload up. One that is gone is no error.
    Abort(Upload),
    /// Tells the uploads under way of exactly this key: more than that not every store answers.
    Uploads(ObjectKey),
    /// Copies an object of at most [`MAX_COPY`] bytes on the server.
    Copy {
        /// What is copied.
        source: CopySource,
        /// Where to; may be the source, to mend its headers.
        key: ObjectKey,
        /// The headers of the copy; `None`: those of the source.
        headers: Option<Headers>,
    },
    /// Removes an object, or a version of it for ever. One that is missing is no error.
    Delete {
        /// The object.
        key: ObjectKey,
        /// Where the bucket keeps versions, which one; without it the bucket keeps the last.
        version_id: Option<String>,
    },
}

/// An object under way in parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Upload {
    /// The object to be.
    pub key: ObjectKey,
    /// The store's name for the upload.
    pub id: String,
    /// What its parts carry.
    pub sums: PartSums,
}

/// Which checksum the parts of an upload carry, each for itself. Its names stand in journals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum PartSums {
    /// CRC64NVME: what S3 expects where none was named at the beginning. Parts may be copied as well.
    #[default]
    #[serde(rename = "crc64nvme")]
    Crc64,
    /// CRC32C, named at the beginning. All parts must be sent then, and each is listed with its own at
    /// the end: MinIO completes no other. It computes this one twenty times as fast as CRC64NVME, for
    /// which it has a table in place of an instruction.
    #[serde(rename = "crc32c")]
    Crc32c,
}

impl PartSums {
    /// What of a part's checksums is listed at the end.
    #[must_use]
    pub fn listed(self, sums: Sums) -> Option<u32> {
        (self == Self::Crc32c).then_some(sums.crc32c)
    }
}

/// A part as it is listed at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedPart {
    /// 1 to 10,000.
    pub number: u32,
    /// The tag that it was answered with.
    pub etag: ETag,
    /// Its CRC32C, where the upload was begun with [`PartSums::Crc32c`].
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

/// The version that bytes are copied of; another one is [`OriginError::Changed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySource {
    /// The object.
    pub key: ObjectKey,
    /// Its version (`x-amz-copy-source-if-match`).
    pub etag: ETag,
}

/// What must hold of a key for a write to take place; else [`OriginError::Changed`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Guard {
    /// Nothing.
    #[default]
    None,
    /// There is no object (`If-None-Match: *`).
    Absent,
    /// The object has this version (`If-Match`).
    Same(ETag),
}

/// What a [`Write`] came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wrote {
    /// An object: of put, complete and copy.
    Object(Written),
    /// An upload: of begin.
    Upload(Upload),
    /// A part's tag: of part and copy part.
    Part(ETag),
    /// Uploads under way.
    Uploads(Vec<Upload>),
    /// Nothing more to tell: of abort and delete.
    Done,
}

/// A version that was just written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Its validator.
    pub etag: ETag,
    /// The bucket's id of it, where the bucket keeps versions.
    pub version_id: Option<String>,
    /// When the store answered, by its own clock (`Date`, in whole seconds), where it says so.
    pub answered: Option<Timestamp>,
}

impl Write {
    /// The request's name, as metrics have it.
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

    /// Parts give way to what readers wait for; all else is short, and somebody waits for it.
    #[must_use]
    pub fn priority(&self) -> Priority {
        match self {
            Self::Part { .. } | Self::CopyPart { .. } => Priority::Ahead,
            _ => Priority::Demand,
        }
    }

    /// Whether it does no harm a second time, though the first may have been carried out. A guarded
    /// write would be refused over what it wrote itself, as would be a copy of an object onto itself,
    /// which may give it another tag; and an upload is completed once.
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        match self {
            Self::Put { guard, .. } => *guard == Guard::None,
            Self::Copy { source, key, .. } => source.key != *key,
            Self::Complete { .. } => false,
            _ => true,
        }
    }

    /// The bytes that it sends, if any.
    pub fn payload_mut(&mut self) -> Option<&mut Payload> {
        match self {
            Self::Put { payload, .. } | Self::Part { payload, .. } => Some(payload),
            _ => None,
        }
    }
}
