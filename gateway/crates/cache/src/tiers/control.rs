//! The changes of the tiers that are possible at run time.

use std::fmt;
use std::path::Path;

use futures_core::future::BoxFuture;

use super::PreparedTiers;
use crate::DiskSettings;
use crate::tiering::{Report, TieringError};

/// The tiers, to be inspected and changed at run time: by another configuration ([`prepare`](Self::prepare) and
/// [`apply`](Self::apply), one at a time). A disk is switched off and on by request.
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
    /// [`TieringError::Refused`]: a disk cannot be opened, or not within 30 s, or a tier cannot have its capacity.
    fn prepare(
        &self,
        memory: Option<u64>,
        disks: Vec<DiskSettings>,
    ) -> BoxFuture<'_, Result<PreparedTiers, TieringError>>;

    /// Puts prepared tiers in force. A disk that has left the configuration gets no new chunk from now on; its chunks
    /// count as misses, reads that have begun end, and it is closed in order before this returns. Its files stay in its
    /// folder. Blocks while the memory tier evicts.
    ///
    /// # Errors
    /// [`TieringError::Refused`]: the memory tier keeps its capacity. The disks are in force.
    fn apply(&self, prepared: PreparedTiers) -> BoxFuture<'_, Result<(), TieringError>>;

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
