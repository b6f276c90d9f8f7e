//! The metadata in memory: a bounded map, and the purges that decide which entries hold.
//!
//! A purge touches no entry. Each entry remembers the generation it was made under, the time of the last soft purge of
//! it, and how many purges there were when it was last compared with them. It is compared again only after a newer
//! purge.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard};

use foyer_memory::{Cache, CacheBuilder, S3FifoConfig};

use super::batch::now_micros;
use super::purges::{PurgeEdit, PurgeEffect, PurgeScope, PurgeSet};
use crate::hash::SeededHasher;
use crate::{Entry, Record};
use tidegate_plan::{ObjectId, OriginId, Timestamp, Version, VersionId};
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
    purges: RwLock<PurgeSet>,
    /// The number of purges since the start, readable without the lock.
    changes: AtomicU64,
    /// Whether there is any soft purge.
    has_soft: AtomicBool,
}

/// An entry, and the data that decides whether it still holds.
#[derive(Debug)]
struct CachedEntry {
    /// `None`: the key is unknown, and the database has no row of it.
    entry: Option<Entry>,
    generation: u64,
    /// The number of purges when the entry was last compared with them.
    checked: AtomicU64,
    /// The time of the last soft purge that covers it, as of then.
    softened: AtomicU64,
    /// The record's `confirmed` on disk, if the record is there.
    written: Option<Timestamp>,
    /// The database had no row of the key, and none was written since.
    rowless: bool,
}

impl EntryCache {
    /// Creates a cache of `capacity` bytes.
    pub(super) fn new(capacity: u64, purges: PurgeSet) -> Self {
        let entries = CacheBuilder::new(usize::try_from(capacity).unwrap_or(usize::MAX))
            .with_name("meta")
            .with_shards(SHARD_COUNT)
            .with_eviction_config(S3FifoConfig::default())
            .with_hash_builder(SeededHasher::random())
            .with_weighter(|id: &ObjectId, cached: &CachedEntry| weight(id, cached.entry.as_ref()))
            .build();
        Self {
            entries,
            changes: AtomicU64::new(0),
            has_soft: AtomicBool::new(purges.has_soft()),
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
        let changes = self.changes.load(Ordering::Acquire);
        if cached.checked.load(Ordering::Relaxed) != changes && !self.compare(id, cached, changes) {
            return None;
        }
        Some((entry.clone(), cached.written))
    }

    /// Compares an entry with all purges, and returns whether it still holds.
    fn compare(&self, id: &ObjectId, cached: &CachedEntry, changes: u64) -> bool {
        let (generation, softened) = {
            let purges = self.purges();
            let version = cached.version();
            (
                generation_of(&purges, id, version),
                purges.softened(id, version),
            )
        };
        let is_softened = match &cached.entry {
            Some(Entry::Missing { since }) => softened >= *since && softened > Timestamp(0),
            _ => false,
        };
        if generation != cached.generation || is_softened {
            return false;
        }
        // Another thread may have compared it with more purges.
        cached.softened.fetch_max(softened.0, Ordering::Relaxed);
        cached.checked.store(changes, Ordering::Release);
        true
    }

    /// Returns the time of the last soft purge that covers the record, if it was confirmed no later.
    pub(super) fn softened(&self, id: &ObjectId, record: &Record) -> Option<Timestamp> {
        if !self.has_soft.load(Ordering::Acquire) {
            return None;
        }
        let softened = self
            .known_softened(id, record)
            .unwrap_or_else(|| self.purges().softened(id, Some(&record.version)));
        (softened > Timestamp(0) && softened >= record.confirmed).then_some(softened)
    }

    /// Returns that time as the entry of this very record has it, if no purge came since.
    fn known_softened(&self, id: &ObjectId, record: &Record) -> Option<Timestamp> {
        let changes = self.changes.load(Ordering::Acquire);
        let found = self.entries.get(id)?;
        let cached = found.value();
        let Some(Entry::Present(own)) = &cached.entry else {
            return None;
        };
        let is_current = std::ptr::eq(Arc::as_ptr(own), record)
            && cached.checked.load(Ordering::Acquire) == changes;
        is_current.then(|| Timestamp(cached.softened.load(Ordering::Relaxed)))
    }

    /// Stores an entry. `false`: it was made before a purge that covers it, and is not stored.
    pub(super) fn put(&self, id: &ObjectId, entry: Entry, written: Option<Timestamp>) -> bool {
        // The lock is held until the entry is in, so that no purge comes in between.
        let purges = self.purges();
        let version = version_of(&entry);
        let generation = generation_of(&purges, id, version);
        let softened = purges.softened(id, version);
        if let Entry::Present(record) = &entry
            && !made_under(generation, id, record)
        {
            return false;
        }
        let rowless = matches!(entry, Entry::Missing { .. }) && self.is_rowless(id);
        let cached = CachedEntry {
            entry: Some(entry),
            generation,
            checked: AtomicU64::new(self.changes.load(Ordering::Acquire)),
            softened: AtomicU64::new(softened.0),
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
            softened: AtomicU64::new(0),
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

    /// Returns the largest number of a purge of tags so far.
    pub(super) fn last_tag_purge(&self) -> u64 {
        self.purges().last_tag_purge()
    }

    /// Returns the number of the last purge of a tag of the version; 0 if there is none.
    pub(super) fn tag_generation(&self, origin: OriginId, version: &Version) -> u64 {
        self.purges().tag_generation(origin, version)
    }

    /// Returns whether no purge has covered the record since it was made.
    pub(super) fn holds(&self, id: &ObjectId, record: &Record) -> bool {
        let generation = self.purges().version_generation(id, &record.version);
        made_under(generation, id, record)
    }

    /// Purges, and returns the changes to write down.
    pub(super) fn purge(&self, scope: PurgeScope<'_>, effect: PurgeEffect) -> Vec<PurgeEdit> {
        let edits = {
            let mut purges = self.purges.write().recover();
            let edits = change(&mut purges, scope, effect);
            self.has_soft.store(purges.has_soft(), Ordering::Release);
            self.changes.fetch_add(1, Ordering::AcqRel);
            edits
        };
        if let (PurgeScope::Key(id), PurgeEffect::Remove) = (scope, effect) {
            self.entries.remove(id);
        }
        edits
    }

    /// Returns the number of purges.
    pub(super) fn purge_count(&self) -> usize {
        self.purges().len()
    }

    /// Returns all present purges, to write them down again.
    pub(super) fn purge_rows(&self) -> Vec<(Vec<u8>, u64)> {
        self.purges().rows()
    }

    fn purges(&self) -> RwLockReadGuard<'_, PurgeSet> {
        self.purges.read().recover()
    }
}

impl CachedEntry {
    fn version(&self) -> Option<&Version> {
        self.entry.as_ref().and_then(version_of)
    }
}

fn version_of(entry: &Entry) -> Option<&Version> {
    match entry {
        Entry::Present(record) => Some(&record.version),
        Entry::Missing { .. } => None,
    }
}

/// Returns the generation of a key, and of this version of it if there is one.
fn generation_of(purges: &PurgeSet, id: &ObjectId, version: Option<&Version>) -> u64 {
    match version {
        Some(version) => purges.version_generation(id, version),
        None => purges.generation(id),
    }
}

fn change(purges: &mut PurgeSet, scope: PurgeScope<'_>, effect: PurgeEffect) -> Vec<PurgeEdit> {
    match (scope, effect) {
        (PurgeScope::Key(id), PurgeEffect::Remove) => purges.purge_key(id, now_micros()),
        (PurgeScope::Prefix(origin, prefix), PurgeEffect::Remove) => {
            purges.purge_prefix(origin, prefix, now_micros())
        }
        (PurgeScope::Tag(origin, tag), PurgeEffect::Remove) => {
            purges.purge_tag(origin, tag, now_micros())
        }
        (PurgeScope::Key(id), PurgeEffect::Soften(at)) => purges.soften_key(id, at),
        (PurgeScope::Prefix(origin, prefix), PurgeEffect::Soften(at)) => {
            purges.soften_prefix(origin, prefix, at)
        }
        (PurgeScope::Tag(origin, tag), PurgeEffect::Soften(at)) => {
            purges.soften_tag(origin, tag, at)
        }
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
