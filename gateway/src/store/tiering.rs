//! What whoever runs the cache sees of its tiers, and may change while it runs.

use std::fmt;
use std::path::{Path, PathBuf};

use futures_core::future::BoxFuture;

/// The tiers, to be looked at and changed at run time. What is changed holds until the process ends.
///
/// Readers are served meanwhile: what is out or evicted counts as a miss.
pub trait Tiering: Send + Sync + fmt::Debug {
    /// How each tier is now. Never blocks: what a file system says of itself is from the last look
    /// at it, a second ago.
    fn report(&self) -> Report;

    /// Changes the capacity of the memory tier, evicting what no longer fits. Blocks meanwhile.
    ///
    /// # Errors
    /// [`TieringError::Refused`]: too little for the tier to keep a single chunk.
    fn resize_memory(&self, capacity: u64) -> Result<(), TieringError>;

    /// Changes the capacity of the disk at `path`, as the configuration names it; what no longer
    /// fits is evicted in the background. Its share of the chunks among the disks stays. Blocks for
    /// as long as the file system takes to say how large it is.
    ///
    /// # Errors
    /// There is no such disk, or it cannot have this capacity.
    fn resize_disk(&self, path: &Path, capacity: u64) -> Result<(), TieringError>;

    /// Closes the disk at `path` in order, and goes on without it. When it returns, nothing of ours
    /// uses the directory, unless a read hangs in it.
    ///
    /// # Errors
    /// There is no such disk.
    fn switch_off<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<(), TieringError>>;

    /// Opens a disk again that was switched off, with what it holds. Blocks, but not for its index.
    ///
    /// # Errors
    /// There is no such disk, or it cannot be opened.
    fn switch_on(&self, path: &Path) -> Result<(), TieringError>;
}

/// How each tier is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The memory tier.
    pub memory: MemoryReport,
    /// Every configured disk, in the order of the configuration.
    pub disks: Vec<DiskReport>,
}

/// How the memory tier is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryReport {
    /// Bytes that it may hold.
    pub capacity: u64,
    /// Bytes that it holds, overhead included.
    pub used: u64,
}

/// How one disk is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskReport {
    /// Its directory, as the configuration writes it.
    pub path: PathBuf,
    /// Bytes that its files may take up.
    pub capacity: u64,
    /// The state in one word, as `tidegate_store_disk_state` has it; `off` where it is switched off.
    pub state: &'static str,
    /// Why it is not `up`, in words.
    pub why: Vec<String>,
    /// What is in it; `None` where it is switched off.
    pub content: Option<DiskContent>,
    /// Bytes written to it since the start, over [`DiskReport::admitted`] the write amplification.
    pub written: u64,
    /// Bytes of chunks written to it for the first time since the start.
    pub admitted: u64,
}

/// What is in a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskContent {
    /// Bytes that its files take up, at most.
    pub used: u64,
    /// Bytes that are free on its file system, also for others.
    pub free: u64,
    /// Bytes that wait to be written, or are being written.
    pub queued: u64,
    /// Bytes that pins keep from eviction.
    pub pinned: u64,
    /// Chunks in its index.
    pub chunks: u64,
}

/// Why a tier was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TieringError {
    /// No disk of this path is configured.
    #[error("there is no cache disk {}; GET /cache lists them", .0.display())]
    NoDisk(PathBuf),
    /// It cannot be done; in words.
    #[error("{0}")]
    Refused(String),
}
