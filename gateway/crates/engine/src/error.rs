//! The errors of the engine, divided by the caller's possible reactions.

use std::time::Duration;

use tidegate_origin::OriginError;

/// A failure of the engine. Each waiter of a flight gets it, hence `Clone`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such object.
    #[error("no such object")]
    NotFound,
    /// The origin denies access to this object.
    #[error("the origin refused access")]
    Forbidden,
    /// The object changed while it was read: open it again.
    #[error("the object changed while it was read")]
    Changed,
    /// It is not cached, and the caller allowed no request to the origin.
    #[error("not cached")]
    NotCached,
    /// The origin asks for a pause, or a limit of this process is reached.
    #[error("overloaded")]
    Overloaded {
        /// The time after which to ask again.
        retry_after: Option<Duration>,
    },
    /// The origin cannot be reached.
    #[error("the origin is unavailable")]
    Unavailable,
    /// The operator has stopped this reader.
    #[error("stopped by the operator")]
    Stopped,
    /// A deadline passed while waiting for the origin.
    #[error("the origin took too long")]
    Timeout,
    /// The origin's answer was wrong, or its configuration here is.
    #[error("the origin's answer is wrong: {0}")]
    BadOrigin(&'static str),
}

impl From<OriginError> for Error {
    fn from(error: OriginError) -> Self {
        match error {
            OriginError::NotFound | OriginError::KeyRefused => Self::NotFound,
            OriginError::NoSuchBucket => Self::BadOrigin("no such bucket"),
            OriginError::Forbidden => Self::Forbidden,
            OriginError::Changed | OriginError::Unsatisfiable { .. } => Self::Changed,
            OriginError::Throttled { retry_after } => Self::Overloaded { retry_after },
            OriginError::Timeout(_) => Self::Timeout,
            OriginError::Unavailable(_) | OriginError::Refused(_) => Self::Unavailable,
            OriginError::BadAnswer(what) => Self::BadOrigin(what),
            OriginError::NoSuchUpload => Self::BadOrigin("the upload is gone"),
            OriginError::InvalidPart => Self::BadOrigin("a part is another one"),
            OriginError::Unsupported => Self::BadOrigin("it does not know this kind of request"),
            OriginError::HeadersTooLarge => {
                Self::BadOrigin("it takes no headers as large as these")
            }
            OriginError::ObjectTooLarge => {
                Self::BadOrigin("it takes no object as large as this one")
            }
            OriginError::StorageFull => Self::BadOrigin("its storage is full"),
            OriginError::Damaged => Self::BadOrigin("the bytes were damaged on their way"),
        }
    }
}

impl Error {
    /// Returns whether a stale answer may replace this one. It may not replace a refusal, which concerns the object and
    /// not the state of the origin.
    #[must_use]
    pub fn excuses_stale(&self) -> bool {
        match self {
            Self::Overloaded { .. } | Self::Unavailable | Self::Timeout | Self::BadOrigin(_) => {
                true
            }
            Self::NotFound | Self::Forbidden | Self::Changed | Self::NotCached | Self::Stopped => {
                false
            }
        }
    }

    /// Returns whether chunks of the requested version from a slow disk may replace this error. They are valid even if
    /// the object has changed, or the credentials have expired: a fast disk serves them without a request.
    #[must_use]
    pub(crate) fn excuses_slow_disk(&self) -> bool {
        self.excuses_stale() || matches!(self, Self::Changed | Self::Forbidden)
    }
}
