//! The disks of a store. Each is in a slot, and can be switched off while everything else goes on.

use std::hash::BuildHasher;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwapOption, Guard};
use bytes::Bytes;
use futures_util::future::join_all;
use xxhash_rust::xxh3::xxh3_64;

use crate::disk::{Disk, Refusal, check_capacity, same_directory};
use crate::hash::FoldHasher;
use crate::metrics::{DiskMetrics, StoreMetrics};
use crate::pins::{PinId, SharedPins};
use crate::tiering::{DiskReport, DiskState, TieringError};
use crate::{ChunkKey, DiskSettings, Settings, StoreError};
use tidegate_plan::Geometry;
use tidegate_plan::placement::{DiskShare, choose_disk};
use tidegate_telemetry::locks::Recover as _;

/// The time that a disk which is switched off gets for its last reads: a read that takes longer hangs.
const LAST_READS_TIMEOUT: Duration = Duration::from_secs(2);

/// The time that it gets for its last writes.
const LAST_WRITES_TIMEOUT: Duration = Duration::from_secs(20);

/// A slot for a disk, which is empty while the disk is switched off.
#[derive(Debug)]
struct DiskSlot {
    settings: Mutex<DiskSettings>,
    metrics: DiskMetrics,
    disk: ArcSwapOption<Disk>,
}

impl DiskSlot {
    fn settings(&self) -> DiskSettings {
        let settings = self.settings.lock();
        settings.recover().clone()
    }

    fn report(&self) -> DiskReport {
        let DiskSettings { path, capacity, .. } = self.settings();
        let disk = self.disk.load_full();
        let state = disk.as_ref().map_or(DiskState::Off, |disk| disk.state());
        DiskReport {
            state,
            why: disk.as_ref().map(|disk| disk.why()).unwrap_or_default(),
            content: disk.map(|disk| disk.content()),
            path,
            capacity,
            written: self.metrics.written.get(),
            admitted: self.metrics.admitted.get(),
        }
    }
}

/// All disks. The disk of a chunk depends on the configuration alone, so that a disk that is out
/// for a while finds its chunks again.
#[derive(Debug)]
pub(super) struct DiskSet {
    slots: Vec<DiskSlot>,
    /// The placement of each disk, in the order of the slots. Changes at run time do not change it.
    placements: Vec<DiskShare>,
    geometry: Geometry,
    pins: SharedPins,
}

impl DiskSet {
    /// Opens every disk. Blocks, but not for their indices.
    ///
    /// # Errors
    /// As for [`Tiers::open`](super::Tiers::open).
    pub(super) fn open(
        settings: &Settings,
        metrics: &StoreMetrics,
        pins: SharedPins,
    ) -> Result<Self, StoreError> {
        let mut slots: Vec<DiskSlot> = Vec::new();
        for disk in &settings.disks {
            let same = |slot: &DiskSlot| same_directory(&slot.settings().path, &disk.path);
            if slots.iter().any(same) {
                return Err(StoreError::Twice(disk.path.clone()));
            }
            let own = metrics.disk(&disk.path.display().to_string());
            let opened = Disk::open(disk, settings.geometry, own.clone(), &pins)?;
            slots.push(DiskSlot {
                settings: Mutex::new(disk.clone()),
                metrics: own,
                disk: ArcSwapOption::from_pointee(opened),
            });
        }
        Ok(Self {
            slots,
            placements: settings.disks.iter().map(placement_of).collect(),
            geometry: settings.geometry,
            pins,
        })
    }

    /// Returns whether no disk is configured.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the one disk that a chunk can be on, unless it is out.
    pub(super) fn of(&self, key: &ChunkKey) -> Option<Guard<Option<Arc<Disk>>>> {
        let slot = match self.slots.as_slice() {
            [] => None,
            [only] => Some(only),
            slots => choose_disk(FoldHasher::default().hash_one(key), &self.placements)
                .map(|index| &slots[index]),
        };
        slot.map(|slot| slot.disk.load())
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
        let disk = |slot: &DiskSlot| slot.disk.load_full();
        self.slots.iter().filter_map(disk).collect()
    }

    /// Describes the faults of the disks in words.
    pub(super) fn notes(&self) -> Vec<String> {
        let notes = |slot: &DiskSlot| match &*slot.disk.load() {
            Some(disk) => disk.notes(),
            None => vec![format!(
                "cache disk {}: switched off",
                slot.settings().path.display()
            )],
        };
        self.slots.iter().flat_map(notes).collect()
    }

    /// Closes every disk in order.
    pub(super) async fn close(&self) {
        let disks = self.all();
        join_all(disks.iter().map(|disk| disk.close())).await;
    }

    /// Returns the state of every disk.
    pub(super) fn report(&self) -> Vec<DiskReport> {
        self.slots.iter().map(DiskSlot::report).collect()
    }

    /// Changes the capacity of one disk, also of one that is out.
    ///
    /// # Errors
    /// As [`Tiering::resize_disk`](crate::Tiering::resize_disk).
    pub(super) fn resize(&self, path: &Path, capacity: u64) -> Result<(), TieringError> {
        let slot = self.slot(path)?;
        let settings = DiskSettings {
            capacity,
            ..slot.settings()
        };
        check_capacity(&settings, self.geometry).map_err(refusal)?;
        if let Some(disk) = &*slot.disk.load() {
            disk.resize(capacity);
        }
        *slot.settings.lock().recover() = settings;
        Ok(())
    }

    /// Takes one disk out and closes it in order; its chunks count as misses.
    ///
    /// # Errors
    /// There is no such disk, or its end failed.
    pub(super) async fn switch_off(&self, path: &Path) -> Result<(), TieringError> {
        let Some(disk) = self.slot(path)?.disk.swap(None) else {
            return Ok(());
        };
        // If a disk hangs, its unwritten chunks are lost.
        let closed = tokio::time::timeout(LAST_WRITES_TIMEOUT, disk.close()).await;
        if closed.is_err() {
            tracing::warn!(path = %path.display(), "cache disk not closed in order");
        }
        // Reads that began before end within their deadline; the last one releases the lock.
        let until = Instant::now() + LAST_READS_TIMEOUT;
        while Arc::strong_count(&disk) > 1 && Instant::now() < until {
            tokio::time::sleep(LAST_READS_TIMEOUT / 100).await;
        }
        // Dropping the disk waits for its threads.
        let ended = tokio::task::spawn_blocking(move || drop(disk)).await;
        ended.map_err(refusal)
    }

    /// Puts one disk in again, with its content. Blocks, but does not wait for its index.
    ///
    /// # Errors
    /// There is no such disk, or it cannot be opened: the reason in words.
    pub(super) fn switch_on(&self, path: &Path) -> Result<(), TieringError> {
        let slot = self.slot(path)?;
        if slot.disk.load().is_some() {
            return Ok(());
        }
        let opened = Disk::open(
            &slot.settings(),
            self.geometry,
            slot.metrics.clone(),
            &self.pins,
        );
        let opened = opened.map_err(|error| match error {
            StoreError::InUse {
                holder: Some(holder),
                ..
            } if holder == std::process::id() => {
                refusal("something still hangs in it since it was switched off; try again later")
            }
            error => refusal(error),
        })?;
        slot.disk.store(Some(Arc::new(opened)));
        Ok(())
    }

    fn slot(&self, path: &Path) -> Result<&DiskSlot, TieringError> {
        let found = self.slots.iter().find(|slot| slot.settings().path == path);
        found.ok_or_else(|| TieringError::NoDisk(path.to_owned()))
    }
}

fn refusal(why: impl ToString) -> TieringError {
    TieringError::Refused(why.to_string())
}

/// Returns the placement of a disk. Its identity is its path as written in the configuration, so
/// that it stays the same after a restart and whatever other disks come and go.
fn placement_of(disk: &DiskSettings) -> DiskShare {
    DiskShare {
        id: xxh3_64(disk.path.as_os_str().as_encoded_bytes()),
        weight: disk.capacity,
    }
}
