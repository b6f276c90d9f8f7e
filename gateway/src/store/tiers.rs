//! Memory over disks, as one [`ChunkStore`].

use std::hash::BuildHasher;
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_util::future::join_all;
use prometheus_client::registry::Registry;
use xxhash_rust::xxh3::xxh3_64;

use super::disk::metrics::FoyerMetrics;
use super::disk::{Disk, same_directory};
use super::hash::Folded;
use super::memory::Memory;
use super::metrics::{StoreMetrics, TierMetrics};
use super::{Admit, ChunkKey, ChunkStore, DiskSettings, Settings, StoreError, Tier};
use crate::plan::placement::{Place, place};

/// The chunk store: a memory tier, and any number of disks that share the chunks among them.
#[derive(Debug)]
pub struct Tiers {
    memory: Memory,
    disks: Vec<Disk>,
    /// One for each disk, in the same order.
    places: Vec<Place>,
    metrics: TierMetrics,
}

impl Tiers {
    /// Opens the tiers and registers what they count. Blocks, but not for the disks' indices.
    ///
    /// # Errors
    /// What only another configuration can mend: a directory in use or not writable, a capacity
    /// that cannot be.
    pub fn open(settings: &Settings, registry: &mut Registry) -> Result<Self, StoreError> {
        let metrics = StoreMetrics::default();
        let foyer = FoyerMetrics::default();
        let mut disks: Vec<Disk> = Vec::new();
        for disk in &settings.disks {
            if disks
                .iter()
                .any(|other| same_directory(other.path(), &disk.path))
            {
                return Err(StoreError::Twice(disk.path.clone()));
            }
            let own = metrics.disk(&disk.path.display().to_string());
            disks.push(Disk::open(disk, settings.geometry, own, &foyer)?);
        }
        metrics.register(registry);
        foyer.register(registry);
        let (tier, own) = metrics.memory();
        Ok(Self {
            memory: Memory::new(settings.memory, settings.geometry.chunk(), own),
            places: settings.disks.iter().map(place_of).collect(),
            disks,
            metrics: tier,
        })
    }

    /// Waits until every disk's index is loaded.
    pub async fn loaded(&self) {
        join_all(self.disks.iter().map(|disk| disk.loaded())).await;
    }

    /// Bytes that wait to be written to disk, or are being written.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.disks.iter().map(|disk| disk.queued()).sum()
    }

    /// Changes the capacity of the memory tier, evicting what no longer fits. Blocks meanwhile.
    ///
    /// # Errors
    /// What the cache says of it.
    pub fn resize_memory(&self, capacity: u64) -> Result<(), String> {
        self.memory.resize(capacity)
    }

    /// The one disk that a chunk can be on.
    fn disk(&self, key: &ChunkKey) -> Option<&Disk> {
        match self.disks.as_slice() {
            [] => None,
            [only] => Some(only),
            disks => {
                place(Folded::default().hash_one(key), &self.places).map(|index| &disks[index])
            }
        }
    }

    fn remember(&self, key: ChunkKey, bytes: Bytes) {
        self.metrics.inserts.inc();
        self.memory.insert(key, bytes);
    }
}

/// A disk is known by its path, as it was written: the same after a restart, and whatever other
/// disks come and go.
fn place_of(disk: &DiskSettings) -> Place {
    Place {
        id: xxh3_64(disk.path.as_os_str().as_encoded_bytes()),
        weight: disk.capacity,
    }
}

impl ChunkStore for Tiers {
    fn get_memory(&self, key: &ChunkKey) -> Option<Bytes> {
        let found = self.memory.get(key);
        self.metrics.looked_up(found.as_ref().map(Bytes::len));
        found
    }

    fn get<'a>(&'a self, key: &'a ChunkKey, len: usize) -> BoxFuture<'a, Option<(Bytes, Tier)>> {
        Box::pin(async move {
            if let Some(bytes) = self.get_memory(key) {
                if bytes.len() == len {
                    return Some((bytes, Tier::Memory));
                }
                self.memory.remove(key);
            }
            let bytes = self.disk(key)?.get(key, len).await?;
            self.remember(*key, bytes.clone());
            Some((bytes, Tier::Disk))
        })
    }

    fn disk_estimate(&self, _: &ChunkKey, _: usize) -> Option<Duration> {
        Some(Duration::from_millis(1))
    }

    fn disk_rate(&self) -> Option<f64> {
        None
    }

    fn locate(&self, key: &ChunkKey) -> Option<Tier> {
        if self.memory.contains(key) {
            return Some(Tier::Memory);
        }
        self.disk(key)?.contains(key).then_some(Tier::Disk)
    }

    fn insert(&self, key: ChunkKey, bytes: Bytes, admit: Admit) {
        if admit != Admit::Memory
            && let Some(disk) = self.disk(&key)
        {
            disk.insert(key, bytes.clone());
        }
        if admit != Admit::Disk {
            self.remember(key, bytes);
        }
    }

    fn remove(&self, key: &ChunkKey) {
        self.memory.remove(key);
        if let Some(disk) = self.disk(key) {
            disk.remove(key);
        }
    }

    fn ready(&self) -> Result<(), String> {
        self.disks.iter().try_for_each(|disk| disk.ready())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            join_all(self.disks.iter().map(|disk| disk.close())).await;
        })
    }
}
