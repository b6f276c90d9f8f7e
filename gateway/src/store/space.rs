//! How full a file system is.

use std::io;
use std::path::Path;

/// Bytes of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Space {
    /// In all.
    pub(crate) total: u64,
    /// Left for us (not for root alone).
    pub(crate) free: u64,
}

impl Space {
    /// Of the one that a folder is on. Blocks, for as long as the file system takes to tell.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        let stat = rustix::fs::statvfs(folder)?;
        Ok(Self {
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
        })
    }
}
