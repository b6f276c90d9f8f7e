//! The position of every chunk of one disk, in memory.
//!
//! A chunk costs 48 bytes and one for the table, over a table that is between seven sixteenths and
//! seven eighths full: at most 112 bytes.

pub(super) mod pinned_bytes;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use self::pinned_bytes::PinnedBytes;
use super::entry::{DiskLocation, pages};
use super::files::PAGE_SIZE;
use crate::ChunkKey;
use crate::hash::FoldHasher;
use crate::pins::PinId;
use tidegate_plan::VersionId;
use tidegate_telemetry::locks::Recover as _;

/// Number of locks: enough that readers on all cores seldom meet at one, and that a growing table is
/// a small part of the whole.
const SHARD_COUNT: usize = 16;

/// A key in 24 bytes; a [`ChunkKey`] takes 32, for the sake of its alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PackedKey {
    high: u64,
    low: u64,
    index: u32,
}

impl PackedKey {
    fn new(key: &ChunkKey) -> Self {
        let mask = u128::from(u64::MAX);
        let [high, low] = [key.version.0 >> 64, key.version.0]
            .map(|half| u64::try_from(half & mask).unwrap_or(0));
        Self {
            high,
            low,
            index: key.index,
        }
    }

    fn key(&self) -> ChunkKey {
        ChunkKey {
            version: VersionId(u128::from(self.high) << 64 | u128::from(self.low)),
            index: self.index,
        }
    }
}

impl Hash for PackedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.low);
        state.write_u64(self.high);
        state.write_u32(self.index);
    }
}

#[derive(Debug)]
struct IndexEntry {
    sum: u64,
    segment: u32,
    page: u32,
    len: u32,
    /// It was read since the clock's hand was here last.
    hit: AtomicBool,
    /// Its pin, if its bytes are counted as pinned.
    pin: PinId,
}

impl IndexEntry {
    fn new(location: &DiskLocation) -> Self {
        Self {
            sum: location.sum,
            segment: location.segment,
            page: u32::try_from(location.offset / PAGE_SIZE)
                .expect("a segment has far fewer pages"),
            len: location.len,
            hit: AtomicBool::new(false),
            pin: location.pin,
        }
    }

    fn location(&self) -> DiskLocation {
        DiskLocation {
            segment: self.segment,
            offset: u64::from(self.page) * PAGE_SIZE,
            len: self.len,
            sum: self.sum,
            pin: self.pin,
        }
    }

    /// Returns the bytes that the chunk takes up.
    fn taken(&self) -> u64 {
        pages(self.len as usize)
    }
}

/// The result of the clock hand's visit to a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visit {
    /// The chunk is no longer at that location.
    Moved,
    /// The chunk was read since the last visit, and stays until the next; or it is pinned.
    Kept,
    /// The chunk was neither, and is no longer in the index.
    Evicted,
}

type Shard = HashMap<PackedKey, IndexEntry, FoldHasher>;

/// The chunks of one disk by key. No method does I/O or waits for it.
#[derive(Debug)]
pub(super) struct Index {
    shards: Box<[RwLock<Shard>]>,
    /// The bytes of it that are pinned.
    pub(super) pinned_bytes: PinnedBytes,
}

impl Index {
    /// Creates an empty index that counts pinned bytes in `pinned_bytes`.
    pub(super) fn new(pinned_bytes: PinnedBytes) -> Self {
        Self {
            shards: (0..SHARD_COUNT).map(|_| RwLock::default()).collect(),
            pinned_bytes,
        }
    }

    /// Returns the chunk's location.
    pub(super) fn find(&self, key: &ChunkKey) -> Option<DiskLocation> {
        let key = PackedKey::new(key);
        self.read(&key).get(&key).map(IndexEntry::location)
    }

    /// Returns the chunk's location, and counts the chunk as used.
    pub(super) fn touch(&self, key: &ChunkKey) -> Option<DiskLocation> {
        let key = PackedKey::new(key);
        let shard = self.read(&key);
        let entry = shard.get(&key)?;
        // A store to a cache line that all cores read is expensive; most hits find the flag set.
        if !entry.hit.load(Ordering::Relaxed) {
            entry.hit.store(true, Ordering::Relaxed);
        }
        Some(entry.location())
    }

    /// Enters a chunk, unless it is there. It is pinned as its location says, if limits allow.
    pub(super) fn insert(&self, key: &ChunkKey, location: &DiskLocation) -> bool {
        let key = PackedKey::new(key);
        match self.write(&key).entry(key) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                let entry = vacant.insert(IndexEntry::new(location));
                if !self.pinned_bytes.reserve(entry.pin, entry.taken()) {
                    entry.pin = PinId::NONE;
                }
                true
            }
        }
    }

    /// Assigns a chunk to another pin, or to none. Returns its location if anything changed.
    pub(super) fn set_pin(&self, key: &ChunkKey, pin: PinId) -> Option<DiskLocation> {
        let key = PackedKey::new(key);
        if self.read(&key).get(&key)?.pin == pin {
            return None;
        }
        let mut shard = self.write(&key);
        let entry = shard.get_mut(&key)?;
        let before = entry.pin;
        self.unpin(entry);
        if self.pinned_bytes.reserve(pin, entry.taken()) {
            entry.pin = pin;
        }
        (entry.pin != before).then(|| entry.location())
    }

    /// Returns whether the chunk is there and kept from eviction.
    pub(super) fn is_pinned(&self, key: &ChunkKey) -> bool {
        let key = PackedKey::new(key);
        let pin = self.read(&key).get(&key).map(|entry| entry.pin);
        pin.is_some_and(|pin| self.pinned_bytes.keeps(pin))
    }

    fn unpin(&self, entry: &mut IndexEntry) {
        self.pinned_bytes.release(entry.pin, entry.taken());
        entry.pin = PinId::NONE;
    }

    /// Enters the new location of a chunk, if it is at `old`.
    pub(super) fn relocate(&self, key: &ChunkKey, old: &DiskLocation, new: &DiskLocation) -> bool {
        let key = PackedKey::new(key);
        match self.write(&key).get_mut(&key) {
            Some(entry) if entry.location() == *old => {
                let pin = entry.pin;
                // The hand has passed it before: its new location does not put it on trial again.
                *entry = IndexEntry {
                    pin,
                    hit: AtomicBool::new(true),
                    ..IndexEntry::new(new)
                };
                true
            }
            _ => false,
        }
    }

    /// Removes a chunk.
    pub(super) fn remove(&self, key: &ChunkKey) -> Option<DiskLocation> {
        let key = PackedKey::new(key);
        let entry = self.write(&key).remove(&key)?;
        self.pinned_bytes.release(entry.pin, entry.taken());
        Some(entry.location())
    }

    /// Removes a chunk if it is at `location`.
    pub(super) fn remove_at(&self, key: &ChunkKey, location: &DiskLocation) -> bool {
        let key = PackedKey::new(key);
        let mut shard = self.write(&key);
        match shard.get_mut(&key) {
            Some(entry) if entry.location() == *location => {
                self.unpin(entry);
                shard.remove(&key).is_some()
            }
            _ => false,
        }
    }

    /// Removes a chunk at `location`, unless it was read since the last visit, or is pinned. A pin that
    /// is gone, or exceeds a limit, is released; so is every pin if `pins_hold` is `false`.
    pub(super) fn visit(&self, key: &ChunkKey, location: &DiskLocation, pins_hold: bool) -> Visit {
        let key = PackedKey::new(key);
        let mut shard = self.write(&key);
        match shard.get_mut(&key) {
            Some(entry) if entry.location() == *location => {
                let pinned = pins_hold && self.pinned_bytes.keeps(entry.pin);
                if !pinned {
                    self.unpin(entry);
                }
                if entry.hit.swap(false, Ordering::Relaxed) || pinned {
                    return Visit::Kept;
                }
                shard.remove(&key);
                Visit::Evicted
            }
            _ => Visit::Moved,
        }
    }

    /// Removes all chunks of a segment whose index file is lost, and returns their number. Slow.
    pub(super) fn drop_segment(&self, segment: u32) -> usize {
        let drop = |shard: &RwLock<Shard>| {
            let mut shard = shard.write().recover();
            let before = shard.len();
            shard.retain(|_, entry| {
                let stays = entry.segment != segment;
                if !stays {
                    self.unpin(entry);
                }
                stays
            });
            before - shard.len()
        };
        self.shards.iter().map(drop).sum()
    }

    /// Returns all chunks of a segment, by offset. Slow.
    pub(super) fn chunks_of(&self, segment: u32) -> Vec<(ChunkKey, DiskLocation)> {
        let mut chunks = Vec::new();
        for shard in &self.shards {
            let shard = shard.read().recover();
            let own = shard.iter().filter(|(_, entry)| entry.segment == segment);
            chunks.extend(own.map(|(key, entry)| (key.key(), entry.location())));
        }
        chunks.sort_unstable_by_key(|(_, location)| location.offset);
        chunks
    }

    /// Returns any one chunk, if there is one.
    pub(super) fn sample(&self) -> Option<(ChunkKey, DiskLocation)> {
        self.shards.iter().find_map(|shard| {
            let shard = shard.read().recover();
            let (key, entry) = shard.iter().next()?;
            Some((key.key(), entry.location()))
        })
    }

    /// Removes all chunks.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            *shard.write().recover() = Shard::default();
        }
        self.pinned_bytes.clear();
    }

    /// Returns the number of chunks.
    pub(super) fn len(&self) -> usize {
        let len = |shard: &RwLock<Shard>| shard.read().recover().len();
        self.shards.iter().map(len).sum()
    }

    fn shard(&self, key: &PackedKey) -> &RwLock<Shard> {
        // Bits that the table itself hardly uses.
        let hash = FoldHasher::default().hash_one(key) >> 40;
        &self.shards[usize::try_from(hash).unwrap_or(0) % SHARD_COUNT]
    }

    fn read(&self, key: &PackedKey) -> RwLockReadGuard<'_, Shard> {
        let shard = self.shard(key).read();
        shard.recover()
    }

    fn write(&self, key: &PackedKey) -> RwLockWriteGuard<'_, Shard> {
        let shard = self.shard(key).write();
        shard.recover()
    }
}

#[cfg(test)]
mod tests;
