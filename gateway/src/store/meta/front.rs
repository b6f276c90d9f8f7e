//! What is known of keys, in memory: a bounded map, and the purges that decide what of it holds.
//!
//! A purge touches no entry. Each entry remembers the generation it was made under, and the number
//! of the last purge that it was compared with; only where a purge came since is it compared again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use foyer::{Cache, CacheBuilder, S3FifoConfig};

use super::purges::{Edit, Purges};
use crate::plan::{ObjectId, OriginId, Timestamp, VersionId};
use crate::store::hash::Seeded;
use crate::store::{Entry, Record};

/// Shards of the map: enough that cores rarely meet in one.
const SHARDS: usize = 16;

/// What an entry costs beside the texts in it: the records of both maps, `Arc`s, vectors.
const OVERHEAD: usize = 384;

/// One header's cost beside its text.
const PER_HEADER: usize = 72;

#[derive(Debug)]
pub(super) struct Front {
    entries: Cache<ObjectId, Kept, Seeded>,
    purges: RwLock<Purges>,
    /// [`Purges::last`], for a look without the lock.
    last: AtomicU64,
}

/// An entry, and what decides whether it still holds.
#[derive(Debug)]
struct Kept {
    /// `None`: the key is unknown, and the database has no row of it.
    entry: Option<Entry>,
    generation: u64,
    /// The last purge known when `generation` was last found to be the key's.
    checked: AtomicU64,
    /// What `confirmed` is on disk, where the record is there.
    written: Option<Timestamp>,
    /// The database was asked, and had no row of the key; nothing was written of it since.
    rowless: bool,
}

impl Front {
    /// A front of `capacity` bytes.
    pub(super) fn new(capacity: u64, purges: Purges) -> Self {
        let entries = CacheBuilder::new(usize::try_from(capacity).unwrap_or(usize::MAX))
            .with_name("meta")
            .with_shards(SHARDS)
            .with_eviction_config(S3FifoConfig::default())
            .with_hash_builder(Seeded::random())
            .with_weighter(|id: &ObjectId, kept: &Kept| weight(id, kept.entry.as_ref()))
            .build();
        Self {
            entries,
            last: AtomicU64::new(purges.last()),
            purges: RwLock::new(purges),
        }
    }

    /// The entry, unless a purge covers it.
    pub(super) fn peek(&self, id: &ObjectId) -> Option<Entry> {
        self.holds(id).map(|(entry, _)| entry)
    }

    /// The entry and what `confirmed` is on disk.
    pub(super) fn holds(&self, id: &ObjectId) -> Option<(Entry, Option<Timestamp>)> {
        let found = self.entries.get(id)?;
        let kept = found.value();
        let entry = kept.entry.as_ref()?;
        let last = self.last.load(Ordering::Acquire);
        if kept.checked.load(Ordering::Relaxed) != last {
            if self.generation(id) != kept.generation {
                return None;
            }
            kept.checked.store(last, Ordering::Relaxed);
        }
        Some((entry.clone(), kept.written))
    }

    /// Takes an entry in, unless it was made before a purge that covers it: then `false`.
    pub(super) fn put(&self, id: &ObjectId, entry: Entry, written: Option<Timestamp>) -> bool {
        // Held until the entry is in, so that no purge comes in between.
        let purges = self.purges();
        let generation = purges.generation(id);
        if let Entry::Present(record) = &entry
            && !made_under(generation, id, record)
        {
            return false;
        }
        let rowless = matches!(entry, Entry::Missing { .. }) && self.is_rowless(id);
        let kept = Kept {
            entry: Some(entry),
            generation,
            checked: AtomicU64::new(purges.last()),
            written,
            rowless,
        };
        self.entries.insert(id.clone(), kept);
        true
    }

    /// Remembers that the database has no row of a key of which nothing else is known.
    pub(super) fn put_rowless(&self, id: &ObjectId) {
        let kept = Kept {
            entry: None,
            generation: 0,
            checked: AtomicU64::new(0),
            written: None,
            rowless: true,
        };
        self.entries.insert(id.clone(), kept);
    }

    /// Whether it is certain that the database has no row of the key.
    pub(super) fn is_rowless(&self, id: &ObjectId) -> bool {
        let found = self.entries.get(id);
        found.is_some_and(|found| found.value().rowless)
    }

    /// What memory has of the key is no longer on disk.
    pub(super) fn unwritten(&self, id: &ObjectId) {
        if let Some((entry, Some(_))) = self.holds(id) {
            self.put(id, entry, None);
        }
    }

    pub(super) fn remove(&self, id: &ObjectId) {
        self.entries.remove(id);
    }

    pub(super) fn generation(&self, id: &ObjectId) -> u64 {
        self.purges().generation(id)
    }

    /// Purges one key; says what is to be written down.
    pub(super) fn purge_key(&self, id: &ObjectId, now: u64) -> Vec<Edit> {
        let edits = self.change(|purges| purges.purge_key(id, now));
        self.entries.remove(id);
        edits
    }

    /// Purges a prefix; says what is to be written down.
    pub(super) fn purge_prefix(&self, origin: OriginId, prefix: &str, now: u64) -> Vec<Edit> {
        self.change(|purges| purges.purge_prefix(origin, prefix, now))
    }

    /// How many purges there are.
    pub(super) fn purge_count(&self) -> usize {
        self.purges().len()
    }

    /// The purges as they are, to write them all down anew.
    pub(super) fn purge_rows(&self) -> Vec<(Vec<u8>, u64)> {
        self.purges().rows()
    }

    fn change(&self, change: impl FnOnce(&mut Purges) -> Vec<Edit>) -> Vec<Edit> {
        let mut purges = self.purges.write().unwrap_or_else(PoisonError::into_inner);
        let edits = change(&mut purges);
        self.last.store(purges.last(), Ordering::Release);
        edits
    }

    fn purges(&self) -> RwLockReadGuard<'_, Purges> {
        self.purges.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a record's address was made under this generation. The address proves it; nothing else
/// need be stored.
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
                    .map(|(n, v)| PER_HEADER + n.as_str().len() + v.len())
                    .sum::<usize>()
        }
    };
    OVERHEAD + id.key.as_str().len() + texts
}
