//! The operator's view of the tiers: reports, and the reasons why one was not changed.

use std::path::PathBuf;

pub use tidegate_plan::DiskState;

/// The state of each tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The memory tier.
    pub memory: MemoryReport,
    /// Every configured disk, in the order of the configuration.
    pub disks: Vec<DiskReport>,
}

/// The state of the memory tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryReport {
    /// Bytes that it may hold.
    pub capacity: u64,
    /// Bytes that it holds, overhead included.
    pub used: u64,
}

/// The state of one disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskReport {
    /// Its directory, as the configuration writes it.
    pub path: PathBuf,
    /// Bytes that its files may take up.
    pub capacity: u64,
    /// Its state.
    pub state: DiskState,
    /// The reasons in words why it is not up.
    pub why: Vec<String>,
    /// Its content; `None` if it is switched off.
    pub content: Option<DiskContent>,
    /// Bytes written to it since the start; divided by [`DiskReport::admitted`], the write
    /// amplification.
    pub written: u64,
    /// Bytes of chunks written to it for the first time since the start.
    pub admitted: u64,
}

/// The content of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskContent {
    /// The most bytes that its files take up.
    pub used: u64,
    /// Bytes that are free on its file system, also for other programs.
    pub free: u64,
    /// Bytes that wait to be written, or are being written.
    pub queued: u64,
    /// Bytes that pins keep from eviction.
    pub pinned: u64,
    /// Chunks in its index.
    pub chunks: u64,
}

/// The reason why a tier was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TieringError {
    /// No disk of this path is configured.
    #[error("there is no cache disk {}; GET /cache lists them", .0.display())]
    NoDisk(PathBuf),
    /// The change is not possible; the reason in words.
    #[error("{0}")]
    Refused(String),
}
