//! Memory over disks, as one [`ChunkStore`].

mod control;
mod disk_set;
mod disk_slot;
mod disk_table;

use std::sync::Arc;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_util::future::join_all;
use prometheus_client::registry::Registry;

use self::disk_set::DiskSet;
use self::disk_table::PreparedTable;
use super::disk::{Disk, ReadDeadline};
use super::memory::{Memory, OfferState};
use super::metrics::{StoreMetrics, TierMetrics};
use super::pins::{PinId, SharedPins};
use super::{
    Admit, ChunkKey, ChunkStore, ChunkTiers, Lookup, PlannedRead, Settings, StoreError, Tier,
};
use tidegate_plan::meter::ReadEstimate;

/// The sizes and disks of another configuration: allowed and opened, and not in use. If they are dropped, the new disks are
/// closed; that blocks.
#[derive(Debug)]
pub struct PreparedTiers {
    memory: Option<u64>,
    disks: PreparedTable,
}

/// The chunk store: a memory tier, and any number of disks that share the chunks among them.
///
/// A chunk that a disk refused temporarily is offered again when it is used in memory. A chunk that
/// was used in memory counts as used on disk when it leaves. So hot chunks stay on disk, though they
/// are not read there.
#[derive(Debug)]
pub struct Tiers {
    memory: Memory,
    disks: Arc<DiskSet>,
    metrics: TierMetrics,
}

impl Tiers {
    /// Opens the tiers and registers their metrics. Blocks, but does not wait for the disks' indices.
    ///
    /// # Errors
    /// A fault that only another configuration can mend: a directory in use or not writable, or an
    /// impossible capacity.
    pub fn open(settings: &Settings, registry: &mut Registry) -> Result<Self, StoreError> {
        Self::open_with(settings, registry, SharedPins::default())
    }

    /// Opens the tiers with these pins.
    pub(super) fn open_with(
        settings: &Settings,
        registry: &mut Registry,
        pins: SharedPins,
    ) -> Result<Self, StoreError> {
        let metrics = StoreMetrics::default();
        let disks = Arc::new(DiskSet::open(settings, metrics.clone(), pins)?);
        metrics.register(registry);
        let (tier, own) = metrics.memory();
        let lower = Arc::clone(&disks);
        let on_evict = Box::new(move |key: &ChunkKey, bytes: &Bytes, pin: PinId| {
            lower.record_memory_eviction(key, bytes, pin);
        });
        Ok(Self {
            memory: Memory::new(settings.memory, settings.geometry.chunk(), own, on_evict),
            disks,
            metrics: tier,
        })
    }

    /// Bytes that wait to be written to disk, or are being written.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.disks.all().iter().map(|disk| disk.queued()).sum()
    }

    fn insert_memory(&self, key: ChunkKey, bytes: Bytes, disk: OfferState, pin: PinId) {
        self.metrics.inserts.inc();
        self.memory.insert(key, bytes, disk, pin);
    }

    /// Offers a chunk that is wanted on disk, once at each use.
    #[cold]
    fn offer(&self, key: &ChunkKey, bytes: &Bytes) {
        let offered = self.disks.offer(*key, bytes, self.memory.pin(key));
        if offered.is_ok() || offered.is_err_and(|refusal| !refusal.is_transient()) {
            self.memory.settle(key);
        }
    }

    fn is_on_disk(&self, key: &ChunkKey) -> bool {
        self.with_disk(key, |disk| disk.contains(key))
    }

    /// Applies `ask` to the only disk that can hold a chunk.
    fn with_disk(&self, key: &ChunkKey, ask: impl FnOnce(&Disk) -> bool) -> bool {
        let disk = self.disks.of(key);
        matches!(disk.as_deref(), Some(Some(disk)) if ask(disk))
    }

    async fn find(&self, key: &ChunkKey, len: usize, rules: Lookup) -> Option<(Bytes, Tier)> {
        if let Some(bytes) = self.get_memory(key) {
            if bytes.len() == len {
                return Some((bytes, Tier::Memory));
            }
            self.memory.remove(key);
        }
        // The disk is owned: one that is switched off meanwhile ends after its last read.
        let disk = self.disks.of(key)?.clone()?;
        let deadline = match rules.patient {
            true => ReadDeadline::Longest,
            false => ReadDeadline::Usual,
        };
        let bytes = disk.get(key, len, deadline).await?;
        if !rules.bulk {
            self.insert_memory(*key, bytes.clone(), OfferState::Taken, PinId::NONE);
        }
        Some((bytes, Tier::Disk))
    }
}

impl ChunkStore for Tiers {
    fn get_memory(&self, key: &ChunkKey) -> Option<Bytes> {
        let held = self.get_held(key);
        if held.is_none() {
            self.metrics.count_lookup(None);
        }
        held
    }

    fn get_held(&self, key: &ChunkKey) -> Option<Bytes> {
        let (bytes, wanted) = self.memory.get(key)?;
        self.metrics.count_lookup(Some(bytes.len()));
        if wanted {
            self.offer(key, &bytes);
        }
        Some(bytes)
    }

    fn look_up<'a>(
        &'a self,
        key: &'a ChunkKey,
        len: usize,
        rules: Lookup,
    ) -> BoxFuture<'a, Option<(Bytes, Tier)>> {
        Box::pin(self.find(key, len, rules))
    }

    fn copy<'a>(&'a self, key: &'a ChunkKey, len: usize) -> BoxFuture<'a, Option<Bytes>> {
        Box::pin(async move {
            let disk = self.disks.of(key).and_then(|disk| disk.clone());
            let found = match disk {
                Some(disk) => disk.copy(key, len).await,
                None => None,
            };
            // The disk first: a chunk that is used in memory would stay there for longer.
            found
                .or_else(|| self.memory.get(key).map(|(bytes, _)| bytes))
                .filter(|bytes| bytes.len() == len)
        })
    }

    fn copy_memory(&self, key: &ChunkKey) -> Option<Bytes> {
        self.memory.get(key).map(|(bytes, _)| bytes)
    }

    fn locate(&self, key: &ChunkKey) -> Option<Tier> {
        if self.memory.contains(key) {
            return Some(Tier::Memory);
        }
        self.is_on_disk(key).then_some(Tier::Disk)
    }

    fn tiers_of(&self, key: &ChunkKey) -> ChunkTiers {
        ChunkTiers {
            memory: self.memory.contains(key),
            disk: self.is_on_disk(key),
            pinned: self.with_disk(key, |disk| disk.is_pinned(key)),
        }
    }

    fn insert(&self, key: ChunkKey, bytes: Bytes, admit: Admit) {
        self.insert_pinned(key, bytes, admit, PinId::NONE);
    }

    fn insert_pinned(&self, key: ChunkKey, bytes: Bytes, admit: Admit, pin: PinId) {
        let disk = match admit {
            Admit::Memory => OfferState::Never,
            Admit::MemoryFirst if self.disks.is_empty() => OfferState::Never,
            Admit::MemoryFirst => OfferState::Later,
            Admit::MemoryAndDisk | Admit::Disk => match self.disks.insert(key, &bytes, pin) {
                None => OfferState::Never,
                Some(Err(refusal)) if refusal.is_transient() => OfferState::Wanted,
                Some(_) => OfferState::Taken,
            },
        };
        if admit != Admit::Disk {
            self.insert_memory(key, bytes, disk, pin);
        }
    }

    fn pin(&self, key: &ChunkKey, pin: PinId) {
        if let Some(Some(disk)) = self.disks.of(key).as_deref() {
            disk.set_pin(key, pin);
        }
    }

    fn remove(&self, key: &ChunkKey) {
        self.memory.remove(key);
        if let Some(Some(disk)) = self.disks.of(key).as_deref() {
            disk.remove(key);
        }
    }

    fn disk_estimate(&self, key: &ChunkKey, len: usize) -> Option<ReadEstimate> {
        let disk = self.disks.of(key)?;
        disk.as_ref()?.estimate(key, len)
    }

    fn plan_read(&self, key: &ChunkKey, len: usize) -> PlannedRead {
        let disk = self.disks.of(key);
        let disk = disk.as_ref().and_then(|disk| disk.as_ref());
        disk.map_or_else(PlannedRead::default, |disk| disk.plan_read(key, len))
    }

    fn disk_rate(&self) -> Option<f64> {
        let rates = self.disks.all().into_iter().filter_map(|disk| disk.rate());
        rates.reduce(|sum, rate| sum + rate)
    }

    fn backlog(&self) -> Option<f64> {
        let shares = self
            .disks
            .all()
            .into_iter()
            .filter_map(|disk| disk.backlog());
        shares.reduce(f64::max)
    }

    fn ready(&self) -> Result<(), String> {
        self.disks.all().iter().try_for_each(|disk| disk.ready())
    }

    fn check_loaded(&self) -> Result<(), String> {
        let disks = self.disks.all();
        disks.iter().try_for_each(|disk| disk.check_loaded())
    }

    fn notes(&self) -> Vec<String> {
        self.disks.notes()
    }

    fn loaded(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let disks = self.disks.all();
            join_all(disks.iter().map(|disk| disk.loaded())).await;
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.disks.close())
    }
}
