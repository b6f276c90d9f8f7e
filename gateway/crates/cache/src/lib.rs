//! The cache: chunks (in memory, then on SSD) and the metadata of each key.
//!
//! The engine sees the traits of this module. Both stores may forget anything at any time, and must never
//! return anything that was not put in. An entry that cannot be verified is a miss.

pub mod error;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
pub mod meta;
pub mod pins;
pub mod settings;
pub mod tiering;
pub mod tiers;

mod blocking;
pub mod direct;
mod disk;
mod hash;
mod memory;
mod metrics;
pub mod private_files;
pub mod space;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use prometheus_client::registry::Registry;

pub use error::StoreError;
pub use meta::{Meta, PurgeEffect, PurgeScope};
pub use pins::PinId;
pub use settings::{DiskSettings, Settings, StateTimeouts};
pub use tiering::TieringError;
pub use tiers::{PreparedTiers, Tiers};

use tidegate_plan::meter::ReadEstimate;
use tidegate_plan::{ObjectId, OriginId, Timestamp, Version, VersionId};

/// Both stores.
#[derive(Debug, Clone)]
pub struct Stores {
    /// The chunk store.
    pub chunks: Arc<dyn ChunkStore>,
    /// The same, as it is inspected and changed at run time.
    pub tiers: Arc<Tiers>,
    /// The metadata store: which version each key has.
    pub meta: Arc<dyn MetaStore>,
    /// The same, as it keeps the pins.
    pub pins: Arc<Meta>,
}

/// Checks the settings, as far as that needs no disk to be there.
///
/// # Errors
/// [`StoreError::TooSmall`]: a disk's capacity is too small for chunks of this size.
pub fn check(settings: &Settings) -> Result<(), StoreError> {
    let chunk = settings.geometry.chunk();
    let mut disks = settings.disks.iter();
    disks.try_for_each(|disk| disk::check_least(disk, chunk))
}

/// Opens both stores and registers their metrics. Blocks, but does not wait for the index of a disk: see
/// [`ChunkStore::ready`].
///
/// # Errors
/// A fault that only another configuration can mend. A failing disk or file is no error: the store goes on
/// without it.
pub fn open(settings: &Settings, registry: &mut Registry) -> Result<Stores, StoreError> {
    let meta = Arc::new(Meta::open(settings, registry)?);
    // A start that fails has served nothing: the next one believes the same as this one.
    let tiers = Tiers::open_with(settings, registry, meta.shared_pins())
        .inspect_err(|_| meta.end_in_order())?;
    let tiers = Arc::new(tiers);
    Ok(Stores {
        chunks: tiers.clone(),
        tiers,
        pins: meta.clone(),
        meta,
    })
}

/// The address of one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChunkKey {
    /// The version it belongs to.
    pub version: VersionId,
    /// Its number within the version, from 0.
    pub index: u32,
}

/// Whether a chunk is also offered to disk when it is put into the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admit {
    /// Memory only.
    Memory,
    /// Memory, and the disk tier when the chunk is used there a second time.
    MemoryFirst,
    /// Memory, and in the background the disk tier, which may refuse (full, slow, failing).
    MemoryAndDisk,
    /// The disk tier only: bulk that must not displace what memory holds.
    Disk,
}

/// The rules of a look-up of a chunk. The default: promoted, and within the usual time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lookup {
    /// No other source has the chunk: a disk gets the longest time that it may take, also one that counts as late.
    pub patient: bool,
    /// The chunk is bulk, which must not displace what memory holds: it is not promoted.
    pub bulk: bool,
}

/// The tier that a chunk was found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Memory.
    Memory,
    /// An SSD.
    Disk,
}

/// The tiers that hold a chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChunkTiers {
    /// The chunk is in memory.
    pub memory: bool,
    /// The chunk is on an SSD, or on its way there.
    pub disk: bool,
    /// The chunk is on an SSD, and kept from eviction there.
    pub pinned: bool,
}

/// A planned read of a disk; see [`ChunkStore::plan_read`].
#[derive(Debug, Default)]
pub struct PlannedRead(Option<(Arc<AtomicU64>, u64)>);

impl PlannedRead {
    /// Adds `bytes` to `count` until the returned guard is dropped.
    pub(crate) fn take(count: &Arc<AtomicU64>, bytes: u64) -> Self {
        count.fetch_add(bytes, Ordering::Relaxed);
        Self(Some((count.clone(), bytes)))
    }
}

impl Drop for PlannedRead {
    fn drop(&mut self) {
        if let Some((count, bytes)) = &self.0 {
            count.fetch_sub(*bytes, Ordering::Relaxed);
        }
    }
}

/// Chunks by address, in tiers.
///
/// `insert` never waits: the disk tier refuses a chunk that it cannot take at once, and counts the refusal by
/// reason.
pub trait ChunkStore: Send + Sync + fmt::Debug {
    /// Returns the chunk if memory holds it. Never blocks.
    fn get_memory(&self, key: &ChunkKey) -> Option<Bytes>;

    /// Returns the chunk if memory holds it, as [`get_memory`](Self::get_memory) does. A miss is not counted: the caller
    /// looks again.
    fn get_held(&self, key: &ChunkKey) -> Option<Bytes> {
        self.get_memory(key)
    }

    /// Returns the chunk if memory or disk holds it; a chunk found on disk is promoted to memory. Any error
    /// of a disk is a miss. `len` is the chunk's expected length: another one is a miss.
    fn get<'a>(&'a self, key: &'a ChunkKey, len: usize) -> BoxFuture<'a, Option<(Bytes, Tier)>> {
        self.look_up(key, len, Lookup::default())
    }

    /// Returns the chunk as [`get`](Self::get) does, by these rules.
    fn look_up<'a>(
        &'a self,
        key: &'a ChunkKey,
        len: usize,
        rules: Lookup,
    ) -> BoxFuture<'a, Option<(Bytes, Tier)>>;

    /// Returns the chunk as [`get`](Self::get) finds it, for a caller that copies it elsewhere: the chunk is
    /// not promoted, and no reader is counted.
    fn copy<'a>(&'a self, key: &'a ChunkKey, len: usize) -> BoxFuture<'a, Option<Bytes>>;

    /// Returns the chunk, if memory holds it, for a caller that files it under another address: no reader is
    /// counted. Never blocks.
    fn copy_memory(&self, key: &ChunkKey) -> Option<Bytes> {
        self.get_memory(key)
    }

    /// Returns the tier that probably holds the chunk, without reading it. Never blocks; may be wrong either
    /// way.
    fn locate(&self, key: &ChunkKey) -> Option<Tier>;

    /// Returns all tiers that probably hold the chunk. As [`locate`](Self::locate).
    fn tiers_of(&self, key: &ChunkKey) -> ChunkTiers {
        let tier = self.locate(key);
        ChunkTiers {
            memory: tier == Some(Tier::Memory),
            disk: tier == Some(Tier::Disk),
            pinned: false,
        }
    }

    /// Inserts a whole chunk. `bytes` must own its memory, not be a slice of a larger buffer, because the
    /// tier counts its length.
    fn insert(&self, key: ChunkKey, bytes: Bytes, admit: Admit);

    /// Inserts a chunk that disk keeps from eviction for as long as the pin holds and its limit allows. A
    /// store without pins takes it as any other chunk.
    fn insert_pinned(&self, key: ChunkKey, bytes: Bytes, admit: Admit, pin: PinId) {
        let _ = pin;
        self.insert(key, bytes, admit);
    }

    /// Assigns a chunk that is on disk to another pin, or to none. Never blocks.
    fn pin(&self, key: &ChunkKey, pin: PinId) {
        let _ = (key, pin);
    }

    /// Drops a chunk from every tier (it turned out wrong).
    fn remove(&self, key: &ChunkKey);

    /// Estimates a read of the chunk from its disk that would begin now, by recent measurements. It is zero
    /// if the chunk still waits in memory to be written, or if nothing was measured and no read is ahead.
    /// `None`: that disk cannot be asked now. Never blocks.
    fn disk_estimate(&self, key: &ChunkKey, len: usize) -> Option<ReadEstimate>;

    /// Counts a read of the chunk's disk that was decided on and has not begun, so that the next decision
    /// considers it. The caller drops the result when the read begins or is given up.
    fn plan_read(&self, _key: &ChunkKey, _len: usize) -> PlannedRead {
        PlannedRead::default()
    }

    /// Returns the bytes per second that all readable disks together gave lately; `None` while none was
    /// measured.
    fn disk_rate(&self) -> Option<f64>;

    /// Returns the fill of the fullest disk queue, from 0 to 1; `None` if no disk takes anything now.
    fn backlog(&self) -> Option<f64>;

    /// Returns `Ok` if the index of every tier is loaded, or is not waited for any more because its disk keeps it from
    /// loading; otherwise, in words, the missing part.
    fn ready(&self) -> Result<(), String>;

    /// Returns `Ok` if the index of every tier is loaded; otherwise, in words, the missing part, however long it has been
    /// missing. Until then, a chunk that is not found may still be there.
    fn check_loaded(&self) -> Result<(), String>;

    /// Describes in words the faults of the tiers that keep no request from its answer.
    fn notes(&self) -> Vec<String>;

    /// Waits until [`ready`](Self::ready) is `Ok`.
    fn loaded(&self) -> BoxFuture<'_, ()>;

    /// Writes out the chunks that are queued for disk, and closes in order. Nothing may be inserted
    /// afterwards.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The metadata of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The version that the origin reported last.
    pub version: Arc<Version>,
    /// The address of its chunks: [`MetaStore::address`] of this version under the generation that held when the origin
    /// was asked. The store accepts no other.
    pub id: VersionId,
    /// The time at which the origin last confirmed that this is the current version.
    pub confirmed: Timestamp,
    /// `true` after an invalidation or an unclean stop: the version must be confirmed whatever its age.
    pub must_confirm: bool,
    /// The bounds of the store's time of a version that is known only from its write.
    pub written: Option<WriteSpan>,
}

/// The bounds of the time at which a store wrote an object, by its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteSpan {
    /// The `Date` of the answer.
    pub answered: Timestamp,
    /// The duration of the request.
    pub took: Duration,
}

/// The metadata store's entry of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The key has this version.
    Present(Arc<Record>),
    /// The origin said that the key does not exist: a *negative entry*, which counts for `negative_ttl`. Kept in memory
    /// only. A refusal (401, 403) makes no entry.
    Missing {
        /// The time at which the origin said so.
        since: Timestamp,
    },
}

/// A failure to make something durable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the metadata store failed: {0}")]
pub struct MetaError(pub String);

/// The version of each key, and the purges that cover it; kept across restarts.
///
/// Reads come from memory if they can. A version is durable about a second after it became known.
/// Confirmations are written behind, coalesced to at most one write in five minutes a key. Purges are durable
/// before they are answered.
pub trait MetaStore: Send + Sync + fmt::Debug {
    /// Returns the entry if memory holds it. Never blocks.
    fn peek(&self, id: &ObjectId) -> Option<Entry>;

    /// Returns the entry from memory or disk. A record that fails its check is removed, and the result is
    /// `None`.
    fn load<'a>(&'a self, id: &'a ObjectId) -> BoxFuture<'a, Option<Entry>>;

    /// Stores an entry: at once in memory, durably about a second later.
    fn put(&self, id: &ObjectId, entry: Entry);

    /// Forgets the entry of a key: nothing is known of it afterwards. A key that the origin says is missing gets
    /// [`Entry::Missing`] instead.
    fn remove(&self, id: &ObjectId);

    /// Returns the number of the last purge that covers the key, 0 if none does. It is part of every
    /// [`VersionId`], so that no chunk from before a purge can be addressed after it.
    fn generation<'a>(&'a self, id: &'a ObjectId) -> BoxFuture<'a, u64>;

    /// Returns the number of the last purge of a tag of the version, 0 if there is none. Never blocks.
    fn tag_generation(&self, origin: OriginId, version: &Version) -> u64;

    /// Returns the largest number of a purge of tags so far, whatever it covers; 0 if there is none. Never blocks.
    fn last_tag_purge(&self) -> u64;

    /// Returns the address of a version that the origin was asked for under this [`generation`](Self::generation) and this
    /// [`last_tag_purge`](Self::last_tag_purge): a tag purged since then covers the answer as well.
    fn address_of_answer(
        &self,
        id: &ObjectId,
        version: &Version,
        (generation, tag_purge): (u64, u64),
    ) -> VersionId {
        let of_tags = self.tag_generation(id.origin, version).min(tag_purge);
        VersionId::new(id, version, generation.max(of_tags))
    }

    /// Returns the address of a version of a key, whose [`generation`](Self::generation) the caller has read.
    fn address(&self, id: &ObjectId, version: &Version, generation: u64) -> VersionId {
        let of_tags = self.tag_generation(id.origin, version);
        VersionId::new(id, version, generation.max(of_tags))
    }

    /// Returns the time of the last soft purge that covers this record of the key, if the record was confirmed no later.
    /// Never blocks.
    fn softened(&self, id: &ObjectId, record: &Record) -> Option<Timestamp>;

    /// Returns the pin that keeps chunks of this key from eviction on disk, if any. Never blocks.
    fn pin_of(&self, id: &ObjectId) -> PinId {
        let _ = id;
        PinId::NONE
    }

    /// Purges what `scope` covers, in constant time and durably. From the moment of the call, `peek` and `load` return
    /// none of the entries that a hard purge covers, and no negative entry that a soft one covers.
    ///
    /// # Errors
    /// The purge could not be made durable; it still holds in memory.
    fn purge<'a>(
        &'a self,
        scope: PurgeScope<'a>,
        effect: PurgeEffect,
    ) -> BoxFuture<'a, Result<(), MetaError>>;

    /// Forgets a key for good and gives it a new generation, durably.
    fn purge_key<'a>(&'a self, id: &'a ObjectId) -> BoxFuture<'a, Result<(), MetaError>> {
        self.purge(PurgeScope::Key(id), PurgeEffect::Remove)
    }

    /// Does the same for every key of a bucket that starts with `prefix`.
    fn purge_prefix<'a>(
        &'a self,
        origin: OriginId,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<(), MetaError>> {
        self.purge(PurgeScope::Prefix(origin, prefix), PurgeEffect::Remove)
    }

    /// Records durably that the key is about to be changed in the bucket. From the moment of the call, no
    /// version of the key is on disk, and none is written there before [`end_change`](Self::end_change),
    /// which must follow, whatever the result. Memory keeps what it holds.
    ///
    /// # Errors
    /// The state disk did not take it in time. Nothing may be changed then.
    fn begin_change<'a>(&'a self, id: &'a ObjectId) -> BoxFuture<'a, Result<(), MetaError>> {
        let _ = id;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Ends a change: the bucket has answered, or no caller waits for it any more.
    fn end_change(&self, id: &ObjectId) {
        let _ = id;
    }

    /// Makes everything that was put durable, and does not close.
    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Describes the faults of the store that keep no request from its answer, one line each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Writes out everything that is still pending, and marks the store as closed in order.
    fn close(&self) -> BoxFuture<'_, ()>;
}
