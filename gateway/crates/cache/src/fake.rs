//! A chunk store with faults on demand: an ordinary implementation, for tests of the layers above.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use tokio::sync::Notify;

use super::{Admit, ChunkKey, ChunkStore, ChunkTiers, Lookup, Tier};
use tidegate_plan::meter::ReadEstimate;
use tidegate_telemetry::locks::Recover as _;

/// The missing part while the index is not loaded.
const LOADING: &str = "the index of the fake disk is still being loaded";

/// The faults to produce. The default: none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// The disk takes nothing, as when it is full or slow.
    pub refuse_disk: bool,
    /// Closing the disk never ends.
    pub hangs_at_close: bool,
    /// Memory takes nothing, as when it is too small.
    pub refuse_memory: bool,
    /// Every read of the disk takes this long (tokio's time).
    pub delay: Duration,
    /// The estimate and the rate that the disk claims: the time of a read, and bytes a second.
    /// `None` claims a millisecond, and no rate.
    pub claims: Option<(Duration, u32)>,
    /// The disk is late: reads are given up, except patient ones.
    pub late: bool,
    /// Reads of the disk find nothing, though the index names the chunk.
    pub lose: bool,
    /// The index is not loaded yet.
    pub loading: bool,
    /// The index is not loaded, and is not waited for any more.
    pub stuck: bool,
    /// The disk cannot be read: its chunks are not found, and no estimate is given.
    pub demoted: bool,
}

/// The number of calls by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads that went to the disk.
    pub disk_reads: usize,
    /// Chunks put in.
    pub inserts: usize,
    /// Chunks put in that the disk took.
    pub disk_inserts: usize,
    /// Chunks dropped.
    pub removals: usize,
}

/// Chunks in two maps, one of which plays the disk. Nothing is evicted unless a test asks for it.
#[derive(Debug, Default)]
pub struct FakeStore {
    state: Mutex<FakeState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct FakeState {
    memory: HashMap<ChunkKey, Bytes>,
    disk: HashMap<ChunkKey, Bytes>,
    /// Chunks in memory that go to disk at their next use.
    first: HashSet<ChunkKey>,
    faults: Faults,
    counts: Counts,
    closed: bool,
}

impl FakeStore {
    /// Creates an empty store without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the present faults by these.
    pub fn set(&self, faults: Faults) {
        self.lock().faults = faults;
        self.changed.notify_waiters();
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Empties memory, as eviction may at any time.
    pub fn evict_memory(&self) {
        self.lock().memory.clear();
    }

    /// Empties both tiers.
    pub fn forget_everything(&self) {
        let mut state = self.lock();
        state.memory.clear();
        state.disk.clear();
    }

    /// Returns the number of chunks that memory holds.
    #[must_use]
    pub fn in_memory(&self) -> usize {
        self.lock().memory.len()
    }

    /// Removes every `nth` chunk from the disk, as eviction may.
    pub fn lose_every(&self, nth: u32) {
        self.lock().disk.retain(|key, _| key.index % nth != 0);
    }

    /// Returns the bytes that both tiers hold together.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let inner = self.lock();
        let sum = |map: &HashMap<ChunkKey, Bytes>| map.values().map(Bytes::len).sum::<usize>();
        sum(&inner.memory) + sum(&inner.disk)
    }

    async fn find(&self, key: &ChunkKey, len: usize, rules: Lookup) -> Option<(Bytes, Tier)> {
        let (bytes, tier) = self.read(key, len, rules.patient).await?;
        let mut state = self.lock();
        if tier == Tier::Disk && !rules.bulk && !state.faults.refuse_memory {
            state.memory.insert(*key, bytes.clone());
        }
        Some((bytes, tier))
    }

    async fn read(&self, key: &ChunkKey, len: usize, patient: bool) -> Option<(Bytes, Tier)> {
        let faults = {
            let mut state = self.lock();
            if let Some(bytes) = state.memory.get(key).filter(|bytes| bytes.len() == len) {
                return Some((bytes.clone(), Tier::Memory));
            }
            if state.faults.demoted || !state.disk.contains_key(key) {
                return None;
            }
            state.counts.disk_reads += 1;
            state.faults
        };
        if !faults.delay.is_zero() {
            tokio::time::sleep(faults.delay).await;
        }
        if faults.lose || faults.late && !patient {
            return None;
        }
        let state = self.lock();
        let bytes = state.disk.get(key).filter(|bytes| bytes.len() == len)?;
        Some((bytes.clone(), Tier::Disk))
    }

    fn lock(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().recover()
    }
}

impl ChunkStore for FakeStore {
    fn get_memory(&self, key: &ChunkKey) -> Option<Bytes> {
        let mut state = self.lock();
        let bytes = state.memory.get(key).cloned()?;
        if !state.faults.refuse_disk && !state.closed && state.first.remove(key) {
            state.counts.disk_inserts += 1;
            state.disk.insert(*key, bytes.clone());
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
        Box::pin(async move { Some(self.read(key, len, false).await?.0) })
    }

    fn copy_memory(&self, key: &ChunkKey) -> Option<Bytes> {
        self.lock().memory.get(key).cloned()
    }

    fn disk_estimate(&self, _: &ChunkKey, _: usize) -> Option<ReadEstimate> {
        let faults = self.lock().faults;
        let takes = faults
            .claims
            .map_or(Duration::from_millis(1), |(takes, _)| takes);
        (!faults.demoted).then_some(ReadEstimate {
            takes,
            ..ReadEstimate::default()
        })
    }

    fn disk_rate(&self) -> Option<f64> {
        let faults = self.lock().faults;
        let claims = faults.claims.filter(|_| !faults.demoted);
        claims.map(|(_, rate)| rate.into())
    }

    fn locate(&self, key: &ChunkKey) -> Option<Tier> {
        let state = self.lock();
        if state.memory.contains_key(key) {
            return Some(Tier::Memory);
        }
        let found = !state.faults.demoted && state.disk.contains_key(key);
        found.then_some(Tier::Disk)
    }

    fn insert(&self, key: ChunkKey, bytes: Bytes, admit: Admit) {
        let mut state = self.lock();
        state.counts.inserts += 1;
        let disk = matches!(admit, Admit::MemoryAndDisk | Admit::Disk);
        if admit == Admit::MemoryFirst {
            state.first.insert(key);
        }
        if disk && !state.faults.refuse_disk && !state.closed {
            state.counts.disk_inserts += 1;
            state.disk.insert(key, bytes.clone());
        }
        if admit != Admit::Disk && !state.faults.refuse_memory {
            state.memory.insert(key, bytes);
        }
    }

    fn remove(&self, key: &ChunkKey) {
        let mut state = self.lock();
        state.counts.removals += 1;
        state.memory.remove(key);
        state.disk.remove(key);
    }

    fn backlog(&self) -> Option<f64> {
        let state = self.lock();
        let takes = !state.closed && !state.faults.refuse_disk;
        takes.then_some(0.0)
    }

    fn tiers_of(&self, key: &ChunkKey) -> ChunkTiers {
        let state = self.lock();
        ChunkTiers {
            memory: state.memory.contains_key(key),
            disk: !state.faults.demoted && state.disk.contains_key(key),
            pinned: false,
        }
    }

    fn ready(&self) -> Result<(), String> {
        if self.lock().faults.loading {
            return Err(LOADING.to_owned());
        }
        Ok(())
    }

    fn check_loaded(&self) -> Result<(), String> {
        let faults = self.lock().faults;
        if faults.loading || faults.stuck {
            return Err(LOADING.to_owned());
        }
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let demoted = self.lock().faults.demoted;
        let note = demoted.then(|| "the fake disk: nothing is read from it (told so)".to_owned());
        note.into_iter().collect()
    }

    fn loaded(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if !self.lock().faults.loading {
                    return;
                }
                changed.await;
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        let mut state = self.lock();
        state.closed = true;
        match state.faults.hangs_at_close {
            true => Box::pin(std::future::pending()),
            false => Box::pin(std::future::ready(())),
        }
    }
}
