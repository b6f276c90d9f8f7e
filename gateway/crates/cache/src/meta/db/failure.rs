//! The failure of a call into the database.

use std::io::ErrorKind;

use rustix::io::Errno;

/// A failed call of the database.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(in crate::meta) struct DbFailure {
    /// The file is corrupt, and a new one must be begun.
    pub(in crate::meta) corrupt: bool,
    pub(in crate::meta) message: String,
    /// The system's error of a call that the disk refused.
    pub(in crate::meta) errno: Option<i32>,
}

impl DbFailure {
    /// Creates a failure that does not concern the file's content.
    pub(in crate::meta) fn io(error: impl ToString) -> Self {
        Self {
            corrupt: false,
            message: error.to_string(),
            errno: None,
        }
    }

    pub(in crate::meta) fn corrupt(message: &str) -> Self {
        Self {
            corrupt: true,
            message: message.to_owned(),
            errno: None,
        }
    }
}

impl<E: Into<redb::Error>> From<E> for DbFailure {
    fn from(error: E) -> Self {
        let error = error.into();
        let corrupt = match &error {
            redb::Error::Io(error) => matches!(
                error.kind(),
                ErrorKind::InvalidData | ErrorKind::UnexpectedEof | ErrorKind::InvalidInput
            ),
            redb::Error::PreviousIo | redb::Error::DatabaseAlreadyOpen => false,
            // A sound file produces none of the other errors.
            _ => true,
        };
        let errno = match &error {
            redb::Error::Io(error) => error.raw_os_error(),
            redb::Error::PreviousIo => Some(Errno::IO.raw_os_error()),
            _ => None,
        };
        Self {
            corrupt,
            message: error.to_string(),
            errno,
        }
    }
}
