//! The errors of opening a store.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// The errors of a disk that fails, is full or takes no writes. No configuration of Tidegate mends them.
const DISK_ERRNOS: [Errno; 11] = [
    Errno::ROFS,
    Errno::IO,
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::NXIO,
    Errno::NODEV,
    Errno::UCLEAN,
    Errno::REMOTEIO,
    Errno::STALE,
    Errno::TIMEDOUT,
    Errno::NOMEDIUM,
];

/// A mismatch between the configuration and this machine, reported before anything is served.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the directory, and two would write over each other.
    #[error("{} is in use by another process{}; give each its own directory", path.display(), holder.map(|pid| format!(" ({pid})")).unwrap_or_default())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The other's process id, if it could be read.
        holder: Option<u32>,
    },
    /// The directory cannot be created or written.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// The failed operation.
        action: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file system can never hold the capacity.
    #[error("capacity of {capacity} bytes and {min_free} bytes to be left free do not fit on the file system of {}, which has {total} in all", path.display())]
    TooLarge {
        /// The cache directory.
        path: PathBuf,
        /// The configured capacity in bytes.
        capacity: u64,
        /// The bytes that must stay free.
        min_free: u64,
        /// Bytes of the file system.
        total: u64,
    },
    /// The capacity is too small for a few segments of a few chunks.
    #[error("capacity of {capacity} bytes for {} is too small: at least {least} are needed for this chunk size", path.display())]
    TooSmall {
        /// The cache directory.
        path: PathBuf,
        /// The configured capacity in bytes.
        capacity: u64,
        /// The smallest possible capacity in bytes.
        least: u64,
    },
    /// Two disks have the same directory.
    #[error("{} is named twice as a cache disk", .0.display())]
    Twice(PathBuf),
    /// The metadata store cannot be used.
    #[error("cannot open the metadata store {}: {reason}", path.display())]
    Meta {
        /// Its file.
        path: PathBuf,
        /// The database's error.
        reason: String,
    },
}

impl StoreError {
    /// Returns whether the disk has failed, and not the configuration: the store goes on without it.
    pub(crate) fn is_of_disk(&self) -> bool {
        let Self::Io { error, .. } = self else {
            return false;
        };
        let errno = Errno::from_io_error(error);
        errno.is_some_and(|errno| DISK_ERRNOS.contains(&errno))
    }

    /// Wraps an I/O error with the operation and its path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |error| Self::Io {
            action,
            path,
            error,
        }
    }
}
