//! The failure of a call into the database.

use std::io::ErrorKind;

/// A failed call of the database.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(super) struct DbFailure {
    /// The file is corrupt, and a new one must be begun.
    pub(super) corrupt: bool,
    pub(super) message: String,
}

impl DbFailure {
    /// Creates a failure that does not concern the file's content.
    pub(super) fn io(error: impl ToString) -> Self {
        Self {
            corrupt: false,
            message: error.to_string(),
        }
    }

    pub(super) fn corrupt(message: &str) -> Self {
        Self {
            corrupt: true,
            message: message.to_owned(),
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
        Self {
            corrupt,
            message: error.to_string(),
        }
    }
}
