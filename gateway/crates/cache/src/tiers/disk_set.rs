//! The disks of a store. Each is in a slot, and can be switched off while everything else goes on; the slots are
//! exchanged when the configuration changes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::disk_slot::{DiskSlot, refusal};
use super::disk_table::{DiskParts, DiskTable, PreparedTable};
use crate::disk::{Disk, Refusal};
use crate::metrics::StoreMetrics;
use crate::pins::{PinId, SharedPins};
use crate::tiering::{DiskReport, TieringError};
use crate::{ChunkKey, DiskSettings, Settings, StoreError};

/// The time that a new disk gets to load its index before it takes its share of the chunks: until then they are misses.
const LOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The time that the disks of another configuration get to be opened, together: a file system that takes longer hangs.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// All disks.
#[derive(Debug)]
pub(super) struct DiskSet {
    table: ArcSwap<DiskTable>,
    parts: DiskParts,
}

impl DiskSet {
    /// Opens every disk. Blocks, but not for their indices.
    ///
    /// # Errors
    /// As for [`Tiers::open`](super::Tiers::open).
    pub(super) fn open(
        settings: &Settings,
        metrics: StoreMetrics,
        pins: SharedPins,
    ) -> Result<Self, StoreError> {
        let parts = DiskParts {
            metrics,
            geometry: settings.geometry,
            pins,
        };
        let table = DiskTable::open(&settings.disks, &parts)?;
        Ok(Self {
            table: ArcSwap::from_pointee(table),
            parts,
        })
    }

    /// Opens the disks of another configuration that are new, within 30 s, and waits for their indices, 10 s at most.
    ///
    /// # Errors
    /// As [`Tiers::prepare`](crate::Tiers::prepare).
    pub(super) async fn prepare(
        self: &Arc<Self>,
        disks: Vec<DiskSettings>,
    ) -> Result<PreparedTable, TieringError> {
        let set = Arc::clone(self);
        let prepare = move || set.table.load().prepare(&disks, &set.parts);
        // What is opened too late is closed again.
        let prepared = timeout(OPEN_TIMEOUT, spawn_blocking(prepare)).await;
        let prepared =
            prepared.map_err(|_| refusal("a disk hangs: it was not opened within 30 s"))?;
        let prepared = prepared.map_err(refusal)??;
        let new = prepared.new_disks();
        let loaded = join_all(new.iter().map(|disk| disk.loaded()));
        let _ = timeout(LOAD_TIMEOUT, loaded).await;
        Ok(prepared)
    }

    /// Puts the disks of another configuration in force, and closes those that have left it.
    pub(super) async fn apply(&self, prepared: PreparedTable) {
        let old = self.table.swap(Arc::new(prepared.apply()));
        let gone = old.without(&self.table.load());
        let close = async |slot: &Arc<DiskSlot>| {
            let path = slot.path();
            if let Err(error) = slot.switch_off().await {
                tracing::warn!(path = %path.display(), %error, "a cache disk ended badly");
            }
            self.parts.metrics.forget_disk(&path.display().to_string());
            tracing::info!(path = %path.display(), "cache disk closed: it has left the configuration");
        };
        join_all(gone.iter().map(close)).await;
    }

    /// Returns whether no disk is configured.
    pub(super) fn is_empty(&self) -> bool {
        self.table.load().slots.is_empty()
    }

    /// Returns the one disk that a chunk can be on, unless it is out.
    pub(super) fn of(&self, key: &ChunkKey) -> Option<Guard<Option<Arc<Disk>>>> {
        let table = self.table.load();
        table.slot_of(key).map(|slot| slot.disk.load())
    }

    /// Offers a chunk to its disk. `None`: no disk is configured.
    pub(super) fn insert(
        &self,
        key: ChunkKey,
        bytes: &Bytes,
        pin: PinId,
    ) -> Option<Result<(), Refusal>> {
        let disk = self.of(&key)?;
        Some(match &*disk {
            Some(disk) => disk.insert(key, bytes.clone(), pin),
            None => Err(Refusal::Demoted),
        })
    }

    /// Offers a chunk again, without counting a refusal.
    pub(super) fn offer(&self, key: ChunkKey, bytes: &Bytes, pin: PinId) -> Result<(), Refusal> {
        match self.of(&key).as_deref() {
            Some(Some(disk)) => disk.offer(key, bytes.clone(), pin),
            _ => Err(Refusal::Demoted),
        }
    }

    /// Handles a used chunk that leaves the memory: on disk it counts as used. If the disk has
    /// evicted it meanwhile, or never took it, it is offered.
    pub(super) fn record_memory_eviction(&self, key: &ChunkKey, bytes: &Bytes, pin: PinId) {
        if let Some(Some(disk)) = self.of(key).as_deref()
            && !disk.touch(key)
        {
            // A refusal was counted at the first offer.
            let _ = disk.offer(*key, bytes.clone(), pin);
        }
    }

    /// Returns every disk that is in.
    pub(super) fn all(&self) -> Vec<Arc<Disk>> {
        let table = self.table.load();
        let slots = table.slots.iter();
        slots.filter_map(|slot| slot.disk.load_full()).collect()
    }

    /// Describes the faults of the disks in words.
    pub(super) fn notes(&self) -> Vec<String> {
        let notes = |slot: &Arc<DiskSlot>| match &*slot.disk.load() {
            Some(disk) => disk.notes(),
            None => vec![format!(
                "cache disk {}: switched off",
                slot.path().display()
            )],
        };
        self.table.load().slots.iter().flat_map(notes).collect()
    }

    /// Closes every disk in order.
    pub(super) async fn close(&self) {
        let disks = self.all();
        join_all(disks.iter().map(|disk| disk.close())).await;
    }

    /// Returns the state of every disk.
    pub(super) fn report(&self) -> Vec<DiskReport> {
        let table = self.table.load();
        table.slots.iter().map(|slot| slot.report()).collect()
    }

    /// Takes one disk out and closes it in order; its chunks count as misses.
    ///
    /// # Errors
    /// There is no such disk, or its end failed.
    pub(super) async fn switch_off(&self, path: &Path) -> Result<(), TieringError> {
        self.slot(path)?.switch_off().await
    }

    /// Puts one disk in again, with its content. Blocks, but does not wait for its index.
    ///
    /// # Errors
    /// There is no such disk, or it cannot be opened: the reason in words.
    pub(super) fn switch_on(&self, path: &Path) -> Result<(), TieringError> {
        let slot = self.slot(path)?;
        slot.switch_on(self.parts.geometry, &self.parts.pins)
    }

    fn slot(&self, path: &Path) -> Result<Arc<DiskSlot>, TieringError> {
        let table = self.table.load();
        let found = table.slots.iter().find(|slot| slot.path() == path);
        found
            .cloned()
            .ok_or_else(|| TieringError::NoDisk(path.to_owned()))
    }
}
