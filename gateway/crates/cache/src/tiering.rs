//! The operator's view of the tiers, and the changes possible at run time.

use std::fmt;
use std::path::{Path, PathBuf};

use futures_core::future::BoxFuture;

use crate::DiskSettings;
use crate::tiers::PreparedTiers;

/// The tiers, to be inspected and changed at run time: by another configuration ([`prepare`](Self::prepare) and
/// [`apply`](Self::apply), one at a time), or by request, which holds until the configuration changes the same.
///
/// Readers are served meanwhile: a chunk that is evicted or on a disk that is off counts as a miss.
pub trait Tiering: Send + Sync + fmt::Debug {
    /// Reports each tier. Never blocks: the figures of a file system are from the last check, up to
    /// a second ago.
    fn report(&self) -> Report;

    /// Prepares the tiers of another configuration: opens the disks that are new, and checks the capacities that have
    /// changed. `memory` is the capacity of the memory tier, if it has changed. Changes nothing that is in force. Waits for
    /// the indices of the new disks, 10 s at most.
    ///
    /// # Errors
    /// [`TieringError::Refused`]: a disk cannot be opened, or a tier cannot have its capacity.
    fn prepare(
        &self,
        memory: Option<u64>,
        disks: Vec<DiskSettings>,
    ) -> BoxFuture<'_, Result<PreparedTiers, TieringError>>;

    /// Puts prepared tiers in force. A disk that has left the configuration gets no new chunk from now on; its chunks
    /// count as misses, reads that have begun end, and it is closed in order before this returns. Its files stay in its
    /// folder.
    fn apply(&self, prepared: PreparedTiers) -> BoxFuture<'_, ()>;

    /// Changes the capacity of the memory tier, and evicts the chunks that no longer fit. Blocks
    /// meanwhile.
    ///
    /// # Errors
    /// [`TieringError::Refused`]: it is too small for the tier to keep a single chunk.
    fn resize_memory(&self, capacity: u64) -> Result<(), TieringError>;

    /// Changes the capacity of the disk at `path`, as the configuration names it. Chunks that no
    /// longer fit are evicted in the background. Its share of the chunks among the disks stays.
    /// Blocks for as long as the file system takes to report its size.
    ///
    /// # Errors
    /// There is no such disk, or it cannot have this capacity.
    fn resize_disk(&self, path: &Path, capacity: u64) -> Result<(), TieringError>;

    /// Closes the disk at `path` in order, and goes on without it. When this returns, the gateway no
    /// longer uses the directory, unless a read hangs in it.
    ///
    /// # Errors
    /// There is no such disk.
    fn switch_off<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<(), TieringError>>;

    /// Opens a disk again that was switched off, with its content. Blocks, but does not wait for its
    /// index.
    ///
    /// # Errors
    /// There is no such disk, or it cannot be opened.
    fn switch_on(&self, path: &Path) -> Result<(), TieringError>;
}

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

/// The state of a disk: the operations that it is trusted with now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskState {
    /// Its index is being loaded.
    Loading,
    /// It is read and written.
    Up,
    /// It is written; reads were late or failed.
    Slow,
    /// Writes failed.
    Demoted,
    /// It is read; there is no space for more.
    Full,
    /// It was closed in order.
    Closed,
    /// It is switched off.
    Off,
}

impl DiskState {
    /// The states of a disk that is switched on, which `tidegate_store_disk_state` shows.
    pub const SWITCHED_ON: [Self; 6] = [
        Self::Loading,
        Self::Up,
        Self::Slow,
        Self::Demoted,
        Self::Full,
        Self::Closed,
    ];

    /// Returns the state's word in metrics and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Up => "up",
            Self::Slow => "slow",
            Self::Demoted => "demoted",
            Self::Full => "full",
            Self::Closed => "closed",
            Self::Off => "off",
        }
    }
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
