//! Files of certificates: read with a bound, and looked at for changes.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::TlsError;

/// The longest file that is read: some hundred certificates.
const MAX_FILE: u64 = 1 << 20;

/// The identity and the times of a file, to see that it was written or replaced. A link stands for the file that it leads
/// to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    place: (u64, u64),
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// Returns the stamp of a file; `None` if it is not there, or cannot be looked at.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let data = std::fs::metadata(path).ok()?;
        Some(Self {
            place: (data.dev(), data.ino()),
            length: data.len(),
            modified: (data.mtime(), data.mtime_nsec()),
            changed: (data.ctime(), data.ctime_nsec()),
        })
    }
}

/// Reads a whole file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let read = || {
        #[cfg(test)]
        failing::check(path)?;
        let mut bytes = Vec::new();
        File::open(path)?
            .take(MAX_FILE + 1)
            .read_to_end(&mut bytes)?;
        match bytes.len() as u64 > MAX_FILE {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok(bytes),
        }
    };
    read().map_err(|error| TlsError::File {
        path: path.to_owned(),
        error,
    })
}

/// Reads that fail in this thread, for tests.
#[cfg(test)]
pub(crate) mod failing {
    use std::cell::RefCell;
    use std::path::PathBuf;

    use super::{Path, io};

    thread_local! {
        static PATH: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
    }

    /// Has reads of a file fail from now on; `None`: of no file.
    pub(crate) fn set(path: Option<&Path>) {
        PATH.set(path.map(Path::to_owned));
    }

    pub(super) fn check(path: &Path) -> io::Result<()> {
        match PATH.with_borrow(|failing| failing.as_deref() == Some(path)) {
            true => Err(io::Error::other("the tests say so")),
            false => Ok(()),
        }
    }
}
