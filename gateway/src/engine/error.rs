//! Why the engine does not deliver, named by what the caller can do about it.

use std::time::Duration;

use crate::origin::OriginError;

/// An answer of the engine that is no data. Reaches every waiter of a flight, hence `Clone`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no such object.
    #[error("no such object")]
    NotFound,
    /// The origin refuses us this object.
    #[error("the origin refused access")]
    Forbidden,
    /// The object changed under the reader: open it anew.
    #[error("the object changed while it was read")]
    Changed,
    /// Nothing cached, and the caller allowed nothing else.
    #[error("not cached")]
    NotCached,
    /// The origin asks for a pause, or a bound of ours is reached.
    #[error("overloaded")]
    Overloaded {
        /// When to ask again.
        retry_after: Option<Duration>,
    },
    /// The origin cannot be reached.
    #[error("the origin is unavailable")]
    Unavailable,
    /// A deadline passed while waiting for the origin.
    #[error("the origin took too long")]
    Timeout,
    /// The origin's answer was wrong, or our configuration of it is.
    #[error("the origin's answer is wrong: {0}")]
    BadOrigin(&'static str),
}

impl From<OriginError> for Error {
    fn from(error: OriginError) -> Self {
        match error {
            OriginError::NotFound => Self::NotFound,
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
            OriginError::StorageFull => Self::BadOrigin("its storage is full"),
            OriginError::Damaged => Self::BadOrigin("the bytes were damaged on their way"),
        }
    }
}

impl Error {
    /// Whether a stale answer may stand in for this one. A refusal may not: it says something about
    /// the object, not about the state of the origin.
    #[must_use]
    pub fn excuses_stale(&self) -> bool {
        match self {
            Self::Overloaded { .. } | Self::Unavailable | Self::Timeout | Self::BadOrigin(_) => {
                true
            }
            Self::NotFound | Self::Forbidden | Self::Changed | Self::NotCached => false,
        }
    }

    /// Whether chunks of the version that was asked for may stand in for this one, where a disk is slow to
    /// bring them. They are what they were, also of an object that has changed.
    #[must_use]
    pub(super) fn excuses_slow_disk(&self) -> bool {
        self.excuses_stale() || *self == Self::Changed
    }
}
