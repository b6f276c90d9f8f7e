//! The memory tier: foyer's in-memory cache, weighed in bytes.
//!
//! Eviction is S3-FIFO. It resists scans: a chunk that is used once leaves through a queue of a tenth
//! of the memory. A hit only raises a counter under a shard's *read* lock, and hot objects are read
//! from all cores. w-TinyLFU would move list nodes and update a sketch under the write lock.
//!
//! foyer's own metrics stay off: each looks its labels up in a map, which costs more than the hit
//! itself. The tier counts for itself.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use foyer_common::event::{Event, EventListener};
use foyer_memory::{Cache, CacheBuilder, S3FifoConfig};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::ChunkKey;
use super::hash::FoldHasher;
use super::pins::PinId;
use tidegate_telemetry::sharded::Durations;

/// The cost of an entry beside its bytes: foyer's record, its share of the index and of the ghost
/// queue, the `Bytes` handle and the allocator's rounding.
const ENTRY_OVERHEAD: usize = 256;

/// The fewest chunks that a shard should hold: with less, the evenness of the hash decides which
/// stay.
const MIN_CHUNKS_PER_SHARD: u64 = 64;

/// The most shards: enough that cores rarely meet at one.
const MAX_SHARDS: u64 = 64;

/// The counters of the tier.
#[derive(Debug, Clone)]
pub(super) struct MemoryMetrics {
    /// Chunks that others displaced.
    pub(super) evictions: Counter,
    /// Bytes held now, overhead included.
    pub(super) used: Gauge,
    /// The most bytes that it may hold.
    pub(super) capacity: Gauge,
    /// The time that evicted chunks had been held.
    pub(super) eviction_age: Durations,
}

/// The state of a chunk with regard to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OfferState {
    /// The chunk is not meant for a disk.
    Never,
    /// A disk has the chunk, or took it.
    Taken,
    /// The chunk is to be offered at its next use.
    Wanted,
    /// The chunk is to be offered at its second use here: the first may be by the reader that it was
    /// read ahead for.
    Later,
}

/// The callback for a chunk that is evicted after it was used, unless it is not meant for a disk.
pub(super) type EvictionCallback = Box<dyn Fn(&ChunkKey, &Bytes, PinId) + Send + Sync>;

/// A chunk and its flags. The flags lie beside the handle of the bytes, which a hit touches anyway,
/// and are written once each.
#[derive(Debug)]
struct MemoryEntry {
    bytes: Bytes,
    disk: bool,
    wanted: AtomicBool,
    /// The chunk is not to be offered before its second use here.
    later: bool,
    used: AtomicBool,
    inserted: Instant,
    /// The pin that is to keep it from eviction on disk.
    pin: PinId,
}

/// Chunks in memory.
#[derive(Debug)]
pub(super) struct Memory {
    cache: Cache<ChunkKey, MemoryEntry, FoldHasher>,
    shards: usize,
    /// Bytes of a whole chunk with its overhead.
    chunk: usize,
    capacity: AtomicUsize,
    /// The heaviest entry that is taken: one that fills a shard would displace all its other chunks.
    largest: AtomicUsize,
    metrics: MemoryMetrics,
}

impl Memory {
    /// Creates a tier of `capacity` bytes for chunks of up to `chunk` bytes.
    pub(super) fn new(
        capacity: u64,
        chunk: u64,
        metrics: MemoryMetrics,
        on_evict: EvictionCallback,
    ) -> Self {
        let shards = (capacity / (chunk * MIN_CHUNKS_PER_SHARD)).clamp(1, MAX_SHARDS);
        let shards = usize::try_from(shards).expect("at most 64");
        metrics.capacity.set(in_i64(capacity));
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        let largest = AtomicUsize::new(capacity / shards);
        let cache = CacheBuilder::new(capacity)
            .with_name("memory")
            .with_shards(shards)
            .with_eviction_config(S3FifoConfig::default())
            .with_hash_builder(FoldHasher::default())
            .with_weighter(|_: &ChunkKey, entry: &MemoryEntry| weight(&entry.bytes))
            .with_event_listener(Arc::new(EvictionListener {
                metrics: metrics.clone(),
                on_evict,
            }))
            .build();
        Self {
            cache,
            shards,
            chunk: usize::try_from(chunk).unwrap_or(usize::MAX) + ENTRY_OVERHEAD,
            capacity: AtomicUsize::new(capacity),
            largest,
            metrics,
        }
    }

    /// Returns the chunk, if it is held, and whether it is to be offered to a disk. Counts as a use.
    pub(super) fn get(&self, key: &ChunkKey) -> Option<(Bytes, bool)> {
        let entry = self.cache.get(key)?;
        let held = entry.value();
        let again = held.used.load(Ordering::Relaxed);
        if !again {
            held.used.store(true, Ordering::Relaxed);
        }
        let wanted = held.wanted.load(Ordering::Relaxed) && (again || !held.later);
        Some((held.bytes.clone(), wanted))
    }

    /// Returns the pin that is to keep a chunk from eviction on disk.
    pub(super) fn pin(&self, key: &ChunkKey) -> PinId {
        let entry = self.cache.get(key);
        entry.map_or(PinId::NONE, |entry| entry.value().pin)
    }

    /// Records that a chunk need not be offered any more.
    pub(super) fn settle(&self, key: &ChunkKey) {
        if let Some(entry) = self.cache.get(key) {
            entry.value().wanted.store(false, Ordering::Relaxed);
        }
    }

    /// Returns whether the chunk is held. Does not count as a use.
    pub(super) fn contains(&self, key: &ChunkKey) -> bool {
        self.cache.contains(key)
    }

    /// Inserts a chunk, unless it is larger than a shard.
    pub(super) fn insert(&self, key: ChunkKey, bytes: Bytes, disk: OfferState, pin: PinId) {
        if weight(&bytes) > self.largest.load(Ordering::Relaxed) {
            // The chunk held under this key is no longer the latest.
            self.remove(&key);
            return;
        }
        self.metrics.used.inc_by(weight_i64(&bytes));
        let entry = MemoryEntry {
            bytes,
            disk: disk != OfferState::Never,
            wanted: AtomicBool::new(matches!(disk, OfferState::Wanted | OfferState::Later)),
            later: disk == OfferState::Later,
            used: AtomicBool::new(false),
            inserted: Instant::now(),
            pin,
        };
        self.cache.insert(key, entry);
    }

    /// Drops a chunk.
    pub(super) fn remove(&self, key: &ChunkKey) {
        self.cache.remove(key);
    }

    /// Returns the bytes that it may hold.
    pub(super) fn capacity(&self) -> u64 {
        u64::try_from(self.capacity.load(Ordering::Relaxed)).unwrap_or(u64::MAX)
    }

    /// Changes the capacity and evicts at once the chunks that no longer fit; 0 keeps nothing. Blocks
    /// for as long as that takes. The number of shards stays, and each needs room for a chunk.
    ///
    /// # Errors
    /// The capacity is too small, or foyer refuses it: the reason in words.
    pub(super) fn resize(&self, capacity: u64) -> Result<(), String> {
        self.check_capacity(capacity)?;
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        self.cache
            .resize(capacity)
            .map_err(|error| error.to_string())?;
        self.metrics.capacity.set(in_i64(capacity as u64));
        self.capacity.store(capacity, Ordering::Relaxed);
        self.largest
            .store(capacity / self.shards, Ordering::Relaxed);
        Ok(())
    }

    /// Checks whether the tier can have a capacity.
    ///
    /// # Errors
    /// It is too small: the reason in words.
    pub(super) fn check_capacity(&self, capacity: u64) -> Result<(), String> {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
        let least = self.shards * self.chunk;
        if capacity != 0 && capacity < least {
            return Err(format!(
                "{capacity} bytes are too few for the memory tier as it was started: at least \
                 {least}, or 0 for none; less takes a restart"
            ));
        }
        Ok(())
    }
}

fn weight(bytes: &Bytes) -> usize {
    bytes.len() + ENTRY_OVERHEAD
}

fn weight_i64(bytes: &Bytes) -> i64 {
    in_i64(weight(bytes) as u64)
}

fn in_i64(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Counts the chunks that leave. foyer reports each inserted entry exactly once. (One that its own
/// filter rejected it would report twice: hence the check in [`Memory::insert`].)
struct EvictionListener {
    metrics: MemoryMetrics,
    on_evict: EvictionCallback,
}

impl fmt::Debug for EvictionListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvictionListener").finish_non_exhaustive()
    }
}

impl EventListener for EvictionListener {
    type Key = ChunkKey;
    type Value = MemoryEntry;

    fn on_leave(&self, reason: Event, key: &ChunkKey, entry: &MemoryEntry) {
        if reason == Event::Evict {
            self.metrics.evictions.inc();
            self.metrics.eviction_age.observe(entry.inserted.elapsed());
            if entry.disk && entry.used.load(Ordering::Relaxed) {
                (self.on_evict)(key, &entry.bytes, entry.pin);
            }
        }
        self.metrics.used.dec_by(weight_i64(&entry.bytes));
    }
}

#[cfg(test)]
mod tests;
