//! Why a store cannot be opened.

use std::io;
use std::path::{Path, PathBuf};

/// The configuration and this machine do not fit together; said before anything is served.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the directory, and two would write over each other.
    #[error("{} is in use by another process{}; give each its own directory", path.display(), holder.map(|pid| format!(" ({pid})")).unwrap_or_default())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The other's process id, where it could be read.
        holder: Option<u32>,
    },
    /// The directory cannot be made or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file system can never hold that much.
    #[error("capacity of {capacity} bytes and {min_free} bytes to be left free do not fit on the file system of {}, which has {total} in all", path.display())]
    TooLarge {
        /// The cache directory.
        path: PathBuf,
        /// What was configured.
        capacity: u64,
        /// What must stay free.
        min_free: u64,
        /// Bytes of the file system.
        total: u64,
    },
    /// Too little for a few blocks of a few chunks.
    #[error("capacity of {capacity} bytes for {} is too small: at least {least} are needed for this chunk size", path.display())]
    TooSmall {
        /// The cache directory.
        path: PathBuf,
        /// What was configured.
        capacity: u64,
        /// What would do.
        least: u64,
    },
    /// Two disks with one directory.
    #[error("{} is named twice as a cache disk", .0.display())]
    Twice(PathBuf),
    /// The metadata store cannot be used.
    #[error("cannot open the metadata store {}: {reason}", path.display())]
    Meta {
        /// Its file.
        path: PathBuf,
        /// What the database said.
        reason: String,
    },
}

impl StoreError {
    /// Wraps an I/O error with what was done to what.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}
