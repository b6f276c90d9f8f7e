//! The disks of a store. Each is in a bay, and can be taken out while everything else goes on.

use std::hash::BuildHasher;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwapOption, Guard};
use bytes::Bytes;
use futures_util::future::join_all;
use xxhash_rust::xxh3::xxh3_64;

use super::disk::{Disk, Refusal, can_have, same_directory};
use super::hash::Folded;
use super::metrics::{DiskMetrics, StoreMetrics};
use super::pins::{PinId, SharedPins};
use super::tiering::{DiskReport, TieringError};
use super::{ChunkKey, DiskSettings, Settings, StoreError};
use tidegate_plan::Geometry;
use tidegate_plan::placement::{DiskShare, choose_disk};

/// The time that a disk which is taken out gets for its last reads: a read that takes longer hangs.
const LAST_READS: Duration = Duration::from_secs(2);

/// The time that it gets for its last writes.
const LAST_WRITES: Duration = Duration::from_secs(20);

/// A place for a disk, which may be empty for a while.
#[derive(Debug)]
struct Bay {
    settings: Mutex<DiskSettings>,
    metrics: DiskMetrics,
    disk: ArcSwapOption<Disk>,
}

impl Bay {
    fn settings(&self) -> DiskSettings {
        let settings = self.settings.lock();
        settings.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn report(&self) -> DiskReport {
        let DiskSettings { path, capacity, .. } = self.settings();
        let disk = self.disk.load_full();
        let state = disk.as_ref().map_or("off", |disk| disk.state().name());
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
pub(super) struct Bays {
    bays: Vec<Bay>,
    /// The placement of each bay, in the same order. Changes at run time do not change it.
    places: Vec<DiskShare>,
    geometry: Geometry,
    pins: SharedPins,
}

impl Bays {
    /// Opens every disk. Blocks, but not for their indices.
    ///
    /// # Errors
    /// As for [`Tiers::open`](super::Tiers::open).
    pub(super) fn open(
        settings: &Settings,
        metrics: &StoreMetrics,
        pins: SharedPins,
    ) -> Result<Self, StoreError> {
        let mut bays: Vec<Bay> = Vec::new();
        for disk in &settings.disks {
            let same = |bay: &Bay| same_directory(&bay.settings().path, &disk.path);
            if bays.iter().any(same) {
                return Err(StoreError::Twice(disk.path.clone()));
            }
            let own = metrics.disk(&disk.path.display().to_string());
            let opened = Disk::open(disk, settings.geometry, own.clone(), &pins)?;
            bays.push(Bay {
                settings: Mutex::new(disk.clone()),
                metrics: own,
                disk: ArcSwapOption::from_pointee(opened),
            });
        }
        Ok(Self {
            bays,
            places: settings.disks.iter().map(place_of).collect(),
            geometry: settings.geometry,
            pins,
        })
    }

    /// Returns whether no disk is configured.
    pub(super) fn is_empty(&self) -> bool {
        self.bays.is_empty()
    }

    /// Returns the one disk that a chunk can be on, unless it is out.
    pub(super) fn of(&self, key: &ChunkKey) -> Option<Guard<Option<Arc<Disk>>>> {
        let bay = match self.bays.as_slice() {
            [] => None,
            [only] => Some(only),
            bays => {
                choose_disk(Folded::default().hash_one(key), &self.places).map(|index| &bays[index])
            }
        };
        bay.map(|bay| bay.disk.load())
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
    pub(super) fn leaves_memory(&self, key: &ChunkKey, bytes: &Bytes, pin: PinId) {
        if let Some(Some(disk)) = self.of(key).as_deref()
            && !disk.touch(key)
        {
            // A refusal was counted at the first offer.
            let _ = disk.offer(*key, bytes.clone(), pin);
        }
    }

    /// Returns every disk that is in.
    pub(super) fn all(&self) -> Vec<Arc<Disk>> {
        let disk = |bay: &Bay| bay.disk.load_full();
        self.bays.iter().filter_map(disk).collect()
    }

    /// Describes the faults of the disks in words.
    pub(super) fn notes(&self) -> Vec<String> {
        let notes = |bay: &Bay| match &*bay.disk.load() {
            Some(disk) => disk.notes(),
            None => vec![format!(
                "cache disk {}: switched off",
                bay.settings().path.display()
            )],
        };
        self.bays.iter().flat_map(notes).collect()
    }

    /// Closes every disk in order.
    pub(super) async fn close(&self) {
        let disks = self.all();
        join_all(disks.iter().map(|disk| disk.close())).await;
    }

    /// Returns the state of every disk.
    pub(super) fn report(&self) -> Vec<DiskReport> {
        self.bays.iter().map(Bay::report).collect()
    }

    /// Changes the capacity of one disk, also of one that is out.
    ///
    /// # Errors
    /// As [`Tiering::resize_disk`](super::Tiering::resize_disk).
    pub(super) fn resize(&self, path: &Path, capacity: u64) -> Result<(), TieringError> {
        let bay = self.bay(path)?;
        let settings = DiskSettings {
            capacity,
            ..bay.settings()
        };
        can_have(&settings, self.geometry).map_err(refused)?;
        if let Some(disk) = &*bay.disk.load() {
            disk.resize(capacity);
        }
        *bay.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        Ok(())
    }

    /// Takes one disk out and closes it in order; its chunks count as misses.
    ///
    /// # Errors
    /// There is no such disk, or its end failed.
    pub(super) async fn take_out(&self, path: &Path) -> Result<(), TieringError> {
        let Some(disk) = self.bay(path)?.disk.swap(None) else {
            return Ok(());
        };
        // If a disk hangs, its unwritten chunks are lost.
        let closed = tokio::time::timeout(LAST_WRITES, disk.close()).await;
        if closed.is_err() {
            tracing::warn!(path = %path.display(), "cache disk not closed in order");
        }
        // Reads that began before end within their deadline; the last one releases the lock.
        let until = Instant::now() + LAST_READS;
        while Arc::strong_count(&disk) > 1 && Instant::now() < until {
            tokio::time::sleep(LAST_READS / 100).await;
        }
        // Dropping the disk waits for its threads.
        let ended = tokio::task::spawn_blocking(move || drop(disk)).await;
        ended.map_err(refused)
    }

    /// Puts one disk in again, with its content. Blocks, but does not wait for its index.
    ///
    /// # Errors
    /// There is no such disk, or it cannot be opened: the reason in words.
    pub(super) fn put_in(&self, path: &Path) -> Result<(), TieringError> {
        let bay = self.bay(path)?;
        if bay.disk.load().is_some() {
            return Ok(());
        }
        let opened = Disk::open(
            &bay.settings(),
            self.geometry,
            bay.metrics.clone(),
            &self.pins,
        );
        let opened = opened.map_err(|error| match error {
            StoreError::InUse {
                holder: Some(holder),
                ..
            } if holder == std::process::id() => {
                refused("something still hangs in it since it was switched off; try again later")
            }
            error => refused(error),
        })?;
        bay.disk.store(Some(Arc::new(opened)));
        Ok(())
    }

    fn bay(&self, path: &Path) -> Result<&Bay, TieringError> {
        let found = self.bays.iter().find(|bay| bay.settings().path == path);
        found.ok_or_else(|| TieringError::NoDisk(path.to_owned()))
    }
}

fn refused(why: impl ToString) -> TieringError {
    TieringError::Refused(why.to_string())
}

/// Returns the placement of a disk. Its identity is its path as written in the configuration, so
/// that it stays the same after a restart and whatever other disks come and go.
fn place_of(disk: &DiskSettings) -> DiskShare {
    DiskShare {
        id: xxh3_64(disk.path.as_os_str().as_encoded_bytes()),
        weight: disk.capacity,
    }
}
