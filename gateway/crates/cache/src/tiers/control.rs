//! The tiers, inspected and changed at run time: by another configuration ([`Tiers::prepare`] and [`Tiers::apply`], one at
//! a time). A disk is switched off and on by request.
//!
//! Readers are served meanwhile: a chunk that is evicted or on a disk that is off counts as a miss.

use std::path::Path;

use super::{PreparedTiers, Tiers};
use crate::DiskSettings;
use crate::tiering::{MemoryReport, Report, TieringError};

impl Tiers {
    /// Reports each tier. Never blocks: the figures of a file system are from the last check, up to
    /// a second ago.
    #[must_use]
    pub fn report(&self) -> Report {
        Report {
            memory: MemoryReport {
                capacity: self.memory.capacity(),
                used: u64::try_from(self.metrics.used.get()).unwrap_or(0),
            },
            disks: self.disks.report(),
        }
    }

    /// Prepares the tiers of another configuration: opens the disks that are new, and checks the capacities that have
    /// changed. `memory` is the capacity of the memory tier, if it has changed. Changes nothing that is in force. Waits for
    /// the indices of the new disks, 10 s at most.
    ///
    /// # Errors
    /// [`TieringError::Refused`]: a disk cannot be opened, or not within 30 s, or a tier cannot have its capacity.
    pub async fn prepare(
        &self,
        memory: Option<u64>,
        disks: Vec<DiskSettings>,
    ) -> Result<PreparedTiers, TieringError> {
        if let Some(capacity) = memory {
            let checked = self.memory.check_capacity(capacity);
            checked.map_err(TieringError::Refused)?;
        }
        let disks = self.disks.prepare(disks).await?;
        Ok(PreparedTiers { memory, disks })
    }

    /// Puts prepared tiers in force. A disk that has left the configuration gets no new chunk from now on; its chunks
    /// count as misses, reads that have begun end, and it is closed in order before this returns. Its files stay in its
    /// folder. Blocks while the memory tier evicts.
    ///
    /// # Errors
    /// [`TieringError::Refused`]: the memory tier keeps its capacity. The disks are in force.
    pub async fn apply(&self, prepared: PreparedTiers) -> Result<(), TieringError> {
        let resized = prepared.memory.map(|capacity| self.memory.resize(capacity));
        self.disks.apply(prepared.disks).await;
        resized.unwrap_or(Ok(())).map_err(TieringError::Refused)
    }

    /// Closes the disk at `path` in order, and goes on without it. When this returns, the gateway no
    /// longer uses the directory, unless a read hangs in it.
    ///
    /// # Errors
    /// There is no such disk.
    pub async fn switch_off(&self, path: &Path) -> Result<(), TieringError> {
        self.disks.switch_off(path).await
    }

    /// Opens a disk again that was switched off, with its content. Blocks, but does not wait for its
    /// index.
    ///
    /// # Errors
    /// There is no such disk, or it cannot be opened.
    pub fn switch_on(&self, path: &Path) -> Result<(), TieringError> {
        self.disks.switch_on(path)
    }
}
