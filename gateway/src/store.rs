//! Keeps chunks (memory, then SSD) and what is known of each key.
//!
//! The traits here are what the engine sees. Both stores may forget anything at any time, and must
//! never answer with anything but what was put in: what cannot be verified is a miss.

pub mod error;
pub mod fake;
pub mod hash;
pub mod meta;
pub mod pins;
pub mod settings;
pub mod tiering;
pub mod tiers;

mod bays;
pub(crate) mod direct;
mod disk;
mod memory;
mod metrics;
pub(crate) mod private;
pub(crate) mod space;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_core::future::BoxFuture;
use prometheus_client::registry::Registry;

pub use error::StoreError;
pub use meta::Meta;
pub use pins::{PinId, Pinning};
pub use settings::{DiskSettings, Settings};
pub use tiering::{Tiering, TieringError};
pub use tiers::Tiers;

use crate::plan::meter::Estimate;
use crate::plan::{ObjectId, OriginId, Timestamp, Version, VersionId};

/// Both stores.
#[derive(Debug, Clone)]
pub struct Stores {
    /// Where chunks are kept.
    pub chunks: Arc<dyn ChunkStore>,
    /// The same, for who runs it.
    pub tiering: Arc<dyn Tiering>,
    /// Where versions are remembered.
    pub meta: Arc<dyn MetaStore>,
    /// What is kept from eviction on disk.
    pub pinning: Arc<dyn Pinning>,
}

/// Opens both stores, and registers what they count. Blocks, but not for the index of a disk: see
/// [`ChunkStore::ready`].
///
/// # Errors
/// What only another configuration can mend. What a disk or a file does wrong is no error: the
/// store goes on without it.
pub fn open(settings: &Settings, registry: &mut Registry) -> Result<Stores, StoreError> {
    let meta = Arc::new(Meta::open(settings, registry)?);
    let tiers = Arc::new(Tiers::open_with(settings, registry, meta.shared_pins())?);
    Ok(Stores {
        chunks: tiers.clone(),
        tiering: tiers,
        pinning: meta.clone(),
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

/// Where a chunk was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// In memory.
    Memory,
    /// On an SSD.
    Disk,
}

/// Which tiers a chunk is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// It is in memory.
    pub memory: bool,
    /// It is on an SSD, or on its way there.
    pub disk: bool,
    /// It is on an SSD, and kept from eviction there.
    pub pinned: bool,
}

/// A read of a disk that is going to be made; see [`ChunkStore::plan_read`].
#[derive(Debug, Default)]
pub struct Planned(Option<(Arc<AtomicU64>, u64)>);

impl Planned {
    /// Adds `bytes` to a count of them, until this is dropped.
    pub(crate) fn take(count: &Arc<AtomicU64>, bytes: u64) -> Self {
        count.fetch_add(bytes, Ordering::Relaxed);
        Self(Some((count.clone(), bytes)))
    }
}

impl Drop for Planned {
    fn drop(&mut self) {
        if let Some((count, bytes)) = &self.0 {
            count.fetch_sub(*bytes, Ordering::Relaxed);
        }
    }
}

/// Chunks by address, in tiers.
///
/// `insert` never waits: what the disk tier cannot take at once it refuses, counted by reason.
pub trait ChunkStore: Send + Sync + fmt::Debug {
    /// The chunk, if memory holds it. Never blocks.
    fn get_memory(&self, key: &ChunkKey) -> Option<Bytes>;

    /// The chunk, if memory or disk holds it; a chunk found on disk is promoted to memory. Any
    /// error of a disk is a miss. `len` is the chunk's expected length: another one is a miss.
    fn get<'a>(&'a self, key: &'a ChunkKey, len: usize) -> BoxFuture<'a, Option<(Bytes, Tier)>>;

    /// The same, but waits for a disk as long as that may take at all, also for one that counts as
    /// late: for when nobody else has the chunk.
    fn get_patiently<'a>(
        &'a self,
        key: &'a ChunkKey,
        len: usize,
    ) -> BoxFuture<'a, Option<(Bytes, Tier)>>;

    /// The chunk as [`get`](Self::get) finds it, for who copies it elsewhere: it is not promoted, and no
    /// reader is counted.
    fn copy<'a>(&'a self, key: &'a ChunkKey, len: usize) -> BoxFuture<'a, Option<Bytes>>;

    /// The chunk, if memory holds it, for a caller that files it under another address: no reader is counted.
    /// Never blocks.
    fn lift(&self, key: &ChunkKey) -> Option<Bytes> {
        self.get_memory(key)
    }

    /// Where the chunk probably is, without reading it. Never blocks; may be wrong either way.
    fn locate(&self, key: &ChunkKey) -> Option<Tier>;

    /// In which tiers the chunk probably is, both of them where it is in both. As [`locate`](Self::locate).
    fn held(&self, key: &ChunkKey) -> Held {
        let tier = self.locate(key);
        Held {
            memory: tier == Some(Tier::Memory),
            disk: tier == Some(Tier::Disk),
            pinned: false,
        }
    }

    /// Puts a whole chunk in. `bytes` must own its memory: no slice of a larger buffer, for the
    /// tier counts its length.
    fn insert(&self, key: ChunkKey, bytes: Bytes, admit: Admit);

    /// The same; on disk the chunk is kept from eviction for as long as the pin holds, and its limit
    /// allows. A store that knows no pins takes it as any other.
    fn insert_pinned(&self, key: ChunkKey, bytes: Bytes, admit: Admit, pin: PinId) {
        let _ = pin;
        self.insert(key, bytes, admit);
    }

    /// Has a chunk belong to another pin, or to none, if it is on disk. Never blocks.
    fn pin(&self, key: &ChunkKey, pin: PinId) {
        let _ = (key, pin);
    }

    /// Drops a chunk from every tier (it turned out wrong).
    fn remove(&self, key: &ChunkKey);

    /// What a read of the chunk from its disk would do if it began now, by what was measured lately;
    /// no time where nothing was, or where the chunk waits to be written and is in memory still.
    /// `None`: that disk cannot be asked now. Never blocks.
    fn disk_estimate(&self, key: &ChunkKey, len: usize) -> Option<Estimate>;

    /// Counts a read of the chunk's disk that was decided on and has not begun, so that what is decided
    /// next reckons with it. To be dropped when the read begins, or is not made after all.
    fn plan_read(&self, _key: &ChunkKey, _len: usize) -> Planned {
        Planned::default()
    }

    /// Bytes per second that the disks that can be asked gave lately, together; `None` while none
    /// was measured.
    fn disk_rate(&self) -> Option<f64>;

    /// How full the queue of the disk is that is most behind, from 0 to 1; `None` where no disk takes
    /// anything now.
    fn backlog(&self) -> Option<f64>;

    /// Whether the index of every tier is loaded, or what is still missing, in words.
    fn ready(&self) -> Result<(), String>;

    /// What is not as it should be with a tier, in words, though requests are answered all the same.
    fn notes(&self) -> Vec<String>;

    /// Waits until the index of every tier is loaded; until then, what is not found may be there.
    fn loaded(&self) -> BoxFuture<'_, ()>;

    /// Writes out what is queued for disk, and closes: an orderly end, after which nothing may be
    /// inserted.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What is known of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// What the origin last said of it.
    pub version: Arc<Version>,
    /// The address of its chunks: `VersionId::new` of the object, this version, and the generation
    /// that held when the origin was asked. The store believes no other.
    pub id: VersionId,
    /// When the origin last confirmed that this is the current version.
    pub confirmed: Timestamp,
    /// An invalidation, or an unclean stop, asks for confirmation whatever the age.
    pub must_confirm: bool,
}

/// What the metadata store says of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// It has this version.
    Present(Arc<Record>),
    /// The origin said that it does not exist: a negative entry. Kept in memory only.
    Missing {
        /// When it said so.
        since: Timestamp,
    },
}

/// A failure to make something durable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the metadata store failed: {0}")]
pub struct MetaError(pub String);

/// Which version each key has, and which purges cover it; kept across restarts.
///
/// Reads come from memory where they can. A version is durable about a second after it became known;
/// confirmations are written behind, coalesced to at most one write in five minutes a key; purges are
/// durable before they are answered.
pub trait MetaStore: Send + Sync + fmt::Debug {
    /// The entry, if memory holds it. Never blocks.
    fn peek(&self, id: &ObjectId) -> Option<Entry>;

    /// The entry from memory or disk. A record that fails its check is `None` and is removed.
    fn load<'a>(&'a self, id: &'a ObjectId) -> BoxFuture<'a, Option<Entry>>;

    /// Remembers an entry: at once in memory, durably about a second later.
    fn put(&self, id: &ObjectId, entry: Entry);

    /// Forgets the entry of a key, as when the origin says `NoSuchKey`.
    fn remove(&self, id: &ObjectId);

    /// The number of the last purge that covers the key, 0 if none does. Part of every
    /// [`VersionId`], so that what was cached before a purge cannot be addressed after it.
    fn generation<'a>(&'a self, id: &'a ObjectId) -> BoxFuture<'a, u64>;

    /// The pin that keeps chunks of this key from eviction on disk, if any. Never blocks.
    fn pin_of(&self, id: &ObjectId) -> PinId {
        let _ = id;
        PinId::NONE
    }

    /// Forgets a key for good and gives it a new generation, durably.
    fn purge_key<'a>(&'a self, id: &'a ObjectId) -> BoxFuture<'a, Result<(), MetaError>>;

    /// The same for every key of a bucket that starts with `prefix`, in constant time, durably.
    /// From the moment it is called, `peek` and `load` answer none of them from before.
    fn purge_prefix<'a>(
        &'a self,
        origin: OriginId,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<(), MetaError>>;

    /// Notes durably that the key is about to be changed in the bucket. From the moment it is called, no
    /// version of the key is on disk, and none is written there before [`end_change`](Self::end_change),
    /// which must follow, whatever the result: what memory holds stays as it is.
    ///
    /// # Errors
    /// The state disk did not take it in time. Nothing may be changed then.
    fn begin_change<'a>(&'a self, id: &'a ObjectId) -> BoxFuture<'a, Result<(), MetaError>> {
        let _ = id;
        Box::pin(std::future::ready(Ok(())))
    }

    /// The bucket has answered, or no caller waits for it any more.
    fn end_change(&self, id: &ObjectId) {
        let _ = id;
    }

    /// Makes everything that was put durable, and does not close.
    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// The faults of the store that keep no request from its answer, in words, one line each.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Writes out everything that is still pending, and marks the store as closed in order.
    fn close(&self) -> BoxFuture<'_, ()>;
}
