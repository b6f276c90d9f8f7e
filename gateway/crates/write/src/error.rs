//! The errors of writes, named by the writer's possible reactions.

use std::io;

use tidegate_engine::Error;
use tidegate_origin::OriginError;
use tidegate_plan::upload::GonePart;

/// A write that did not take place. `Clone`, for it reaches every caller that waits for the same
/// commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The object exists, and the caller required that it does not.
    #[error("the object exists")]
    Exists,
    /// The bucket has another version than the one that was changed: nothing was written.
    #[error("another writer changed the object")]
    Changed,
    /// Needed bytes have left the spool: the spool is too small to change earlier bytes of this
    /// object.
    #[error(transparent)]
    Gone(#[from] GonePart),
    /// Nothing left the spool in bounded time.
    #[error("the spool is full")]
    Full,
    /// More than 5 TiB, or more than the bucket takes.
    #[error("the object would be too large")]
    TooLarge,
    /// The local disk failed.
    #[error("the spool failed: {0}")]
    Spool(String),
    /// The sent parts are gone, and with them bytes that exist nowhere else: another program
    /// aborted the upload.
    #[error("the upload is gone")]
    Lost,
    /// The origin does not support the checksum or condition that was sent, and would refuse it
    /// again.
    #[error(
        "the origin knows no such checksum (CRC32C, CRC64NVME) or condition (If-Match, If-None-Match)"
    )]
    Unsupported,
    /// The bucket takes no such key.
    #[error("the origin takes no such key")]
    KeyRefused,
    /// The bucket takes no headers as large as the object's.
    #[error("the origin takes no headers as large as the object's")]
    HeadersTooLarge,
    /// The bucket has no room for it. The write is retried as long as it is in the spool.
    #[error("the origin's storage is full")]
    StorageFull,
    /// The bytes are not the ones that the client announced.
    #[error("the digest does not match")]
    Digest,
    /// The client left before the last byte.
    #[error("the bytes stopped coming")]
    Interrupted,
    /// A bug: the program panicked during the write.
    #[error("an internal fault")]
    Bug,
    /// The process is ending.
    #[error("shutting down")]
    Closing,
    /// The origin was needed and failed.
    #[error(transparent)]
    Origin(#[from] Error),
}

impl From<OriginError> for WriteError {
    fn from(error: OriginError) -> Self {
        match error {
            OriginError::Changed => Self::Changed,
            OriginError::NoSuchUpload | OriginError::InvalidPart => Self::Lost,
            OriginError::Unsupported => Self::Unsupported,
            OriginError::KeyRefused => Self::KeyRefused,
            OriginError::HeadersTooLarge => Self::HeadersTooLarge,
            OriginError::ObjectTooLarge => Self::TooLarge,
            OriginError::StorageFull => Self::StorageFull,
            error => Self::Origin(error.into()),
        }
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Spool(error.to_string()),
        }
    }
}

impl WriteError {
    /// Returns whether the bucket has something else of the key than what this process knew.
    pub(crate) fn shows_another(&self) -> bool {
        let gone = Error::NotFound;
        matches!(self, Self::Changed | Self::Exists) || *self == Self::Origin(gone)
    }

    /// Returns whether the same write may succeed later, without any change by an operator or
    /// client.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Full | Self::StorageFull | Self::Closing | Self::Spool(_) | Self::Bug => true,
            Self::Origin(error) => error.excuses_stale() || *error == Error::Forbidden,
            _ => false,
        }
    }
}
