//! The metadata in memory: a bounded map, and the purges that decide which entries hold.
//!
//! A purge touches no entry. Each entry remembers the generation it was made under, and the number
//! of the last purge that it was compared with. It is compared again only after a newer purge.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{RwLock, RwLockReadGuard};

use foyer_memory::{Cache, CacheBuilder, S3FifoConfig};

use super::purges::{PurgeEdit, Purges};
use crate::hash::SeededHasher;
use crate::{Entry, Record};
use tidegate_plan::{ObjectId, OriginId, Timestamp, VersionId};
use tidegate_telemetry::locks::Recover as _;

/// Shards of the map: enough that cores rarely meet at one.
const SHARD_COUNT: usize = 16;

/// The cost of an entry beside its texts: the records of both maps, `Arc`s, vectors.
const ENTRY_OVERHEAD: usize = 384;

/// The cost of a header beside its text.
const HEADER_OVERHEAD: usize = 72;

#[derive(Debug)]
pub(super) struct EntryCache {
    entries: Cache<ObjectId, CachedEntry, SeededHasher>,
    purges: RwLock<Purges>,
    /// The value of [`Purges::last`], readable without the lock.
    last: AtomicU64,
}

/// An entry, and the data that decides whether it still holds.
#[derive(Debug)]
struct CachedEntry {
    /// `None`: the key is unknown, and the database has no row of it.
    entry: Option<Entry>,
    generation: u64,
    /// The last purge known when `generation` was last found to be the key's.
    checked: AtomicU64,
    /// The record's `confirmed` on disk, if the record is there.
    written: Option<Timestamp>,
    /// The database had no row of the key, and none was written since.
    rowless: bool,
}

impl EntryCache {
    /// Creates a cache of `capacity` bytes.
    pub(super) fn new(capacity: u64, purges: Purges) -> Self {
        let entries = CacheBuilder::new(usize::try_from(capacity).unwrap_or(usize::MAX))
            .with_name("meta")
            .with_shards(SHARD_COUNT)
            .with_eviction_config(S3FifoConfig::default())
            .with_hash_builder(SeededHasher::random())
            .with_weighter(|id: &ObjectId, cached: &CachedEntry| weight(id, cached.entry.as_ref()))
            .build();
        Self {
            entries,
            last: AtomicU64::new(purges.last()),
            purges: RwLock::new(purges),
        }
    }

    /// Returns the entry, unless a purge covers it.
    pub(super) fn peek(&self, id: &ObjectId) -> Option<Entry> {
        self.get(id).map(|(entry, _)| entry)
    }

    /// Returns the entry and its `confirmed` on disk, unless a purge covers it.
    pub(super) fn get(&self, id: &ObjectId) -> Option<(Entry, Option<Timestamp>)> {
        let found = self.entries.get(id)?;
        let cached = found.value();
        let entry = cached.entry.as_ref()?;
        let last = self.last.load(Ordering::Acquire);
        if cached.checked.load(Ordering::Relaxed) != last {
            if self.generation(id) != cached.generation {
                return None;
            }
            cached.checked.store(last, Ordering::Relaxed);
        }
        Some((entry.clone(), cached.written))
    }

    /// Stores an entry. `false`: it was made before a purge that covers it, and is not stored.
    pub(super) fn put(&self, id: &ObjectId, entry: Entry, written: Option<Timestamp>) -> bool {
        // The lock is held until the entry is in, so that no purge comes in between.
        let purges = self.purges();
        let generation = purges.generation(id);
        if let Entry::Present(record) = &entry
            && !made_under(generation, id, record)
        {
            return false;
        }
        let rowless = matches!(entry, Entry::Missing { .. }) && self.is_rowless(id);
        let cached = CachedEntry {
            entry: Some(entry),
            generation,
            checked: AtomicU64::new(purges.last()),
            written,
            rowless,
        };
        self.entries.insert(id.clone(), cached);
        true
    }

    /// Remembers that the database has no row of an otherwise unknown key.
    pub(super) fn put_rowless(&self, id: &ObjectId) {
        let cached = CachedEntry {
            entry: None,
            generation: 0,
            checked: AtomicU64::new(0),
            written: None,
            rowless: true,
        };
        self.entries.insert(id.clone(), cached);
    }

    /// Returns whether the database certainly has no row of the key.
    pub(super) fn is_rowless(&self, id: &ObjectId) -> bool {
        let found = self.entries.get(id);
        found.is_some_and(|found| found.value().rowless)
    }

    /// Records that the key's entry is no longer on disk.
    pub(super) fn mark_unwritten(&self, id: &ObjectId) {
        if let Some((entry, Some(_))) = self.get(id) {
            self.put(id, entry, None);
        }
    }

    pub(super) fn remove(&self, id: &ObjectId) {
        self.entries.remove(id);
    }

    pub(super) fn generation(&self, id: &ObjectId) -> u64 {
        self.purges().generation(id)
    }

    /// Purges one key, and returns the changes to write down.
    pub(super) fn purge_key(&self, id: &ObjectId, now: u64) -> Vec<PurgeEdit> {
        let edits = self.change(|purges| purges.purge_key(id, now));
        self.entries.remove(id);
        edits
    }

    /// Purges a prefix, and returns the changes to write down.
    pub(super) fn purge_prefix(&self, origin: OriginId, prefix: &str, now: u64) -> Vec<PurgeEdit> {
        self.change(|purges| purges.purge_prefix(origin, prefix, now))
    }

    /// Returns the number of purges.
    pub(super) fn purge_count(&self) -> usize {
        self.purges().len()
    }

    /// Returns all present purges, to write them down again.
    pub(super) fn purge_rows(&self) -> Vec<(Vec<u8>, u64)> {
        self.purges().rows()
    }

    fn change(&self, change: impl FnOnce(&mut Purges) -> Vec<PurgeEdit>) -> Vec<PurgeEdit> {
        let mut purges = self.purges.write().recover();
        let edits = change(&mut purges);
        self.last.store(purges.last(), Ordering::Release);
        edits
    }

    fn purges(&self) -> RwLockReadGuard<'_, Purges> {
        self.purges.read().recover()
    }
}

/// Returns whether a record's address was made under this generation. The address itself proves it.
fn made_under(generation: u64, id: &ObjectId, record: &Record) -> bool {
    VersionId::new(id, &record.version, generation) == record.id
}

fn weight(id: &ObjectId, entry: Option<&Entry>) -> usize {
    let texts = match entry {
        None | Some(Entry::Missing { .. }) => 0,
        Some(Entry::Present(record)) => {
            let version = &record.version;
            let headers = version.headers.iter();
            version.etag.as_str().len()
                + version.version_id.as_ref().map_or(0, String::len)
                + headers
                    .map(|(n, v)| HEADER_OVERHEAD + n.as_str().len() + v.len())
                    .sum::<usize>()
        }
    };
    ENTRY_OVERHEAD + id.key.as_str().len() + texts
}
