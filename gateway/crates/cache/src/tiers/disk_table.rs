//! The disks of one configuration, and the way from one configuration to the next.

use std::hash::BuildHasher;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::disk_slot::{DiskSlot, not_opened, refusal};
use crate::disk::{Disk, same_directory};
use crate::hash::FoldHasher;
use crate::metrics::StoreMetrics;
use crate::pins::SharedPins;
use crate::tiering::TieringError;
use crate::{ChunkKey, DiskSettings, StoreError};
use tidegate_plan::Geometry;
use tidegate_plan::placement::{DiskShare, choose_disk};

/// The slots of the disks, and the share of the chunks of each. The disk of a chunk depends on the configuration alone, so
/// that a disk that is out for a while finds its chunks again.
#[derive(Debug, Clone, Default)]
pub(super) struct DiskTable {
    pub(super) slots: Vec<Arc<DiskSlot>>,
    /// The placement of each disk, in the order of the slots. A change of the capacity at run time does not change it.
    placements: Vec<DiskShare>,
}

/// The disks of another configuration: opened, and not in use. Dropped, it leaves no metrics of those that are new.
#[derive(Debug)]
pub(super) struct PreparedTable {
    table: DiskTable,
    /// The disks that are new.
    opened: Vec<Arc<DiskSlot>>,
    /// Other settings of disks that stay.
    changes: Vec<(Arc<DiskSlot>, DiskSettings)>,
    metrics: StoreMetrics,
}

/// The parts that disks are opened with.
#[derive(Debug)]
pub(super) struct DiskParts {
    pub(super) metrics: StoreMetrics,
    pub(super) geometry: Geometry,
    pub(super) pins: SharedPins,
}

impl DiskTable {
    /// Returns the slot of a chunk.
    pub(super) fn slot_of(&self, key: &ChunkKey) -> Option<&DiskSlot> {
        match self.slots.as_slice() {
            [] => None,
            [only] => Some(only),
            slots => choose_disk(FoldHasher::default().hash_one(key), &self.placements)
                .map(|index| &*slots[index]),
        }
    }

    /// Opens the disks of a configuration; blocks.
    ///
    /// # Errors
    /// As for [`Tiers::open`](super::Tiers::open).
    pub(super) fn open(disks: &[DiskSettings], parts: &DiskParts) -> Result<Self, StoreError> {
        let mut table = Self::default();
        for disk in disks {
            table.open_slot(disk, parts)?;
        }
        Ok(table)
    }

    /// Returns the table of another configuration. A disk whose path is written as before stays; the others are opened.
    /// Changes nothing that is in force. Blocks.
    ///
    /// # Errors
    /// A disk cannot be opened, takes no writes, or cannot have its capacity.
    pub(super) fn prepare(
        &self,
        disks: &[DiskSettings],
        parts: &DiskParts,
    ) -> Result<PreparedTable, TieringError> {
        let mut prepared = PreparedTable {
            table: Self::default(),
            opened: Vec::new(),
            changes: Vec::new(),
            metrics: parts.metrics.clone(),
        };
        prepared.build(self, disks, parts)?;
        Ok(prepared)
    }

    /// Returns the slots that `new` does not have.
    pub(super) fn without(&self, new: &Self) -> Vec<Arc<DiskSlot>> {
        let is_gone = |slot: &&Arc<DiskSlot>| !new.slots.iter().any(|one| Arc::ptr_eq(one, slot));
        self.slots.iter().filter(is_gone).cloned().collect()
    }

    fn find(&self, path: &Path) -> Option<(Arc<DiskSlot>, DiskShare)> {
        let mut slots = self.slots.iter().zip(&self.placements);
        let (slot, share) = slots.find(|(slot, _)| slot.path() == path)?;
        Some((slot.clone(), *share))
    }

    fn open_slot(&mut self, disk: &DiskSettings, parts: &DiskParts) -> Result<(), StoreError> {
        let is_same = |slot: &Arc<DiskSlot>| same_directory(slot.path(), &disk.path);
        if self.slots.iter().any(is_same) {
            return Err(StoreError::Twice(disk.path.clone()));
        }
        let slot = DiskSlot::open(disk, parts.geometry, (&parts.metrics, &parts.pins))?;
        self.slots.push(Arc::new(slot));
        self.placements.push(placement_of(disk));
        Ok(())
    }
}

impl PreparedTable {
    fn build(
        &mut self,
        old: &DiskTable,
        disks: &[DiskSettings],
        parts: &DiskParts,
    ) -> Result<(), TieringError> {
        for disk in disks {
            let Some((slot, share)) = old.find(&disk.path) else {
                self.table.open_slot(disk, parts).map_err(not_opened)?;
                self.opened.extend(self.table.slots.last().cloned());
                continue;
            };
            if slot.check(disk, parts.geometry)? {
                self.changes.push((slot.clone(), disk.clone()));
            }
            self.table.slots.push(slot);
            self.table.placements.push(share);
        }
        for disk in self.new_disks() {
            disk.check_start().map_err(refusal)?;
        }
        Ok(())
    }

    /// Returns the disks that are new.
    pub(super) fn new_disks(&self) -> Vec<Arc<Disk>> {
        let new = self.opened.iter();
        new.filter_map(|slot| slot.disk.load_full()).collect()
    }

    /// Puts the other settings in force, and returns the table that is to be.
    pub(super) fn apply(mut self) -> DiskTable {
        self.opened.clear();
        for (slot, settings) in self.changes.drain(..) {
            slot.configure(settings);
        }
        std::mem::take(&mut self.table)
    }
}

impl Drop for PreparedTable {
    fn drop(&mut self) {
        for slot in &self.opened {
            self.metrics.forget_disk(&slot.path().display().to_string());
        }
    }
}

/// Returns the placement of a disk. Its identity is its path as written in the configuration, so
/// that it stays the same after a restart and whatever other disks come and go.
fn placement_of(disk: &DiskSettings) -> DiskShare {
    DiskShare {
        id: xxh3_64(disk.path.as_os_str().as_encoded_bytes()),
        weight: disk.capacity,
    }
}
