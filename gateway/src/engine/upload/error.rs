//! Why something was not written, named by what the writer can do about it.

use std::io;

use crate::engine::Error;
use crate::origin::OriginError;
use crate::plan::upload::Gone;

/// A write that did not take place. Reaches everybody who waits for the same commit, hence `Clone`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// There is such an object, and there was to be none.
    #[error("the object exists")]
    Exists,
    /// The object has another version than the one that was changed: nothing was written.
    #[error("the object was changed by somebody else")]
    Changed,
    /// Bytes that have left the spool would be needed: the spool is too small to go back in this
    /// object.
    #[error("{0}")]
    Gone(#[from] Gone),
    /// Nothing left the spool in bounded time.
    #[error("the spool is full")]
    Full,
    /// More than 5 TiB.
    #[error("the object would be too large")]
    TooLarge,
    /// The local disk failed.
    #[error("the spool failed: {0}")]
    Spool(String),
    /// The parts that were sent are gone, and with them bytes that are nowhere else: somebody gave
    /// the upload up behind our back.
    #[error("the upload is gone")]
    Lost,
    /// The origin does not know the checksum or the condition that was sent with them, and would refuse
    /// them again.
    #[error(
        "the origin knows no such checksum (CRC32C, CRC64NVME) or condition (If-Match, If-None-Match)"
    )]
    Unsupported,
    /// The bucket has no room for it. It is tried again as long as it is in the spool.
    #[error("the origin's storage is full")]
    StorageFull,
    /// The bytes are not the ones that the client announced.
    #[error("the digest does not match")]
    Digest,
    /// The bytes stopped coming: the client left.
    #[error("the bytes stopped coming")]
    Interrupted,
    /// This program has a bug: it panicked in the midst of it.
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
    /// Whether the same may succeed later, without anybody doing anything about it.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Full | Self::StorageFull | Self::Closing | Self::Spool(_) | Self::Bug => true,
            Self::Origin(error) => error.excuses_stale() || *error == Error::Forbidden,
            _ => false,
        }
    }
}
