//! The total and the free space of a file system.

use std::io;
use std::path::Path;

/// Bytes of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes in total.
    pub total: u64,
    /// Bytes free for the gateway's user (not for root alone).
    pub free: u64,
}

impl Space {
    /// Returns the space of the file system of a folder. Blocks for as long as the file system
    /// takes to answer.
    ///
    /// # Errors
    /// The system's error.
    pub fn of(folder: &Path) -> io::Result<Self> {
        let stat = rustix::fs::statvfs(folder)?;
        Ok(Self {
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
        })
    }
}
