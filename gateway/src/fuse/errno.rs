//! From the engine's reason to the number that a program sees: one table.

use fuser::Errno;

use crate::engine::{Error, WriteError};

/// What a failure is to a program.
pub(super) fn of(error: &Error) -> Errno {
    match error {
        Error::NotFound => Errno::ENOENT,
        Error::Forbidden => Errno::EACCES,
        // The bytes of the version that a handle is on are nowhere any more; a program cannot be
        // told to begin anew, and must not get others.
        Error::Changed => Errno::EIO,
        Error::Overloaded { .. }
        | Error::Unavailable
        | Error::Timeout
        | Error::NotCached
        | Error::BadOrigin(_) => Errno::EIO,
    }
}

/// The number, and a line in the log where it is ours or the origin's fault.
pub(super) fn logged(error: &Error, key: &str) -> Errno {
    match error {
        Error::NotFound => {}
        // What an operator mends. How an origin fares that is down is told once, not for each file.
        Error::Forbidden | Error::BadOrigin(_) => {
            tracing::warn!(%error, key, "a file could not be read");
        }
        error => tracing::debug!(%error, key, "a file could not be read"),
    }
    of(error)
}

/// What a failure to write is to a program.
pub(super) fn written(error: &WriteError, key: &str) -> Errno {
    if *error != WriteError::Exists {
        tracing::warn!(%error, key, "a file could not be written");
    }
    match error {
        WriteError::Exists => Errno::EEXIST,
        // The file that was opened is not there any more: another has taken its place.
        WriteError::Changed => Errno::ESTALE,
        WriteError::Full | WriteError::StorageFull => Errno::ENOSPC,
        WriteError::TooLarge => Errno::EFBIG,
        WriteError::Origin(error) => of(error),
        WriteError::Unsupported => Errno::EOPNOTSUPP,
        WriteError::Gone(_)
        | WriteError::Spool(_)
        | WriteError::Bug
        | WriteError::Lost
        | WriteError::Digest
        | WriteError::Interrupted
        | WriteError::Closing => Errno::EIO,
    }
}
