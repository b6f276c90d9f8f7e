//! One cache disk: chunks in foyer's block engine (`blocks`), and what foyer leaves to us.
//!
//! That is a lock on the directory and a name for its layout (`layout`), values that prove
//! themselves (`value`), a write queue that is bounded before foyer is called (it would drop what is
//! too much without a word to the caller), reads that are bounded and run on threads of the disk's
//! own, and a look at the free space once a second (`space`).
//!
//! Opening scans the index in the background; until then the disk is one that holds nothing and
//! takes nothing.

pub(super) mod metrics;

mod blocks;
mod layout;
mod space;
mod value;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use foyer::Spawner;
use tokio::sync::{Semaphore, SetOnce};
use tracing::{error, info};

use self::blocks::{Blocks, Closed};
use self::layout::Layout;
use self::metrics::FoyerMetrics;
use self::space::FreeSpace;
use self::value::{Stored, Ticket, on_disk};
use super::metrics::DiskMetrics;
use super::{ChunkKey, DiskSettings, StoreError};
use crate::plan::Geometry;

/// Threads for writes, beside those for reads; foyer's flusher writes a few pieces at a time.
const WRITE_THREADS: usize = 4;

/// Why a chunk was not taken. Nothing is wrong with any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The index is still being loaded.
    Opening,
    /// The disk could not be opened.
    Failed,
    /// The store is closed.
    Closed,
    /// The file system has less than `min_free` left.
    Full,
    /// Too much waits to be written already.
    Queue,
    /// It is there already; nothing is written twice.
    Present,
}

impl Refusal {
    /// The word for it in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Failed => "failed",
            Self::Closed => "closed",
            Self::Full => "full",
            Self::Queue => "queue",
            Self::Present => "present",
        }
    }
}

/// Why a read of a chunk that the index names gave none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Overwritten meanwhile, or foyer's own checksum did not match.
    Lost,
    /// Not the bytes that were put in under this key.
    Corrupt,
    /// The system reported an error.
    Error,
}

impl Fault {
    /// The word for it in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Corrupt => "corrupt",
            Self::Error => "error",
        }
    }
}

/// One cache disk.
#[derive(Debug)]
pub(super) struct Disk {
    settings: DiskSettings,
    layout: Layout,
    /// foyer, once it has loaded its index; `None` in it when that failed.
    blocks: Arc<SetOnce<Option<Blocks>>>,
    closed: AtomicBool,
    space: Arc<FreeSpace>,
    queued: Arc<AtomicU64>,
    queue_limit: u64,
    reads: Arc<Semaphore>,
    spawner: Spawner,
    metrics: DiskMetrics,
}

impl Disk {
    /// Locks the directory, and starts to load its index in the background. Blocks.
    ///
    /// # Errors
    /// What only a change of configuration can mend; what a disk does wrong later is no error.
    pub(super) fn open(
        settings: &DiskSettings,
        geometry: Geometry,
        metrics: DiskMetrics,
        foyer: &FoyerMetrics,
    ) -> Result<Self, StoreError> {
        let layout = Layout::prepare(settings, geometry)?;
        let spawner = runtime(settings)?;
        let chunk = on_disk(usize::try_from(geometry.chunk()).unwrap_or(usize::MAX / 2));
        let queued = Arc::default();
        let disk = Self {
            space: FreeSpace::watch(settings, &layout, &queued, &metrics, &spawner),
            settings: settings.clone(),
            layout,
            blocks: Arc::default(),
            closed: AtomicBool::new(false),
            queued,
            queue_limit: settings.write_queue.max(2 * chunk),
            reads: Arc::new(Semaphore::new(settings.reads.max(1))),
            spawner,
            metrics,
        };
        disk.load_index(foyer);
        Ok(disk)
    }

    /// The directory as it was configured.
    pub(super) fn path(&self) -> &Path {
        &self.settings.path
    }

    /// The chunk, if it is there, sound, and `len` bytes long. Waits for its turn, and for the
    /// disk; bounds on that are the caller's.
    pub(super) async fn get(&self, key: &ChunkKey, len: usize) -> Option<Bytes> {
        let found = if self.contains(key) {
            self.read(*key, len).await
        } else {
            None
        };
        self.metrics.tier.looked_up(found.as_ref().map(Bytes::len));
        found
    }

    /// Whether the index names the chunk.
    pub(super) fn contains(&self, key: &ChunkKey) -> bool {
        self.opened().is_some_and(|blocks| blocks.contains(key))
    }

    /// Takes a chunk to be written behind. Never waits; a refusal is counted.
    pub(super) fn insert(&self, key: ChunkKey, bytes: Bytes) {
        match self.try_insert(key, bytes) {
            Ok(()) => {
                self.metrics.tier.inserts.inc();
            }
            Err(refusal) => self.metrics.refused(refusal),
        }
    }

    fn try_insert(&self, key: ChunkKey, bytes: Bytes) -> Result<(), Refusal> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Refusal::Closed);
        }
        let blocks = match self.blocks.get() {
            Some(Some(blocks)) => blocks,
            Some(None) => return Err(Refusal::Failed),
            None => return Err(Refusal::Opening),
        };
        if self.space.full.load(Ordering::Relaxed) {
            return Err(Refusal::Full);
        }
        if blocks.contains(&key) {
            return Err(Refusal::Present);
        }
        let ticket =
            Ticket::take(&self.queued, bytes.len(), self.queue_limit).ok_or(Refusal::Queue)?;
        blocks.insert(key, Stored::new(key, bytes, ticket));
        Ok(())
    }

    /// Drops a chunk. One that is being written at this moment may still be found until it is.
    pub(super) fn remove(&self, key: &ChunkKey) {
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        if let Some(blocks) = self.opened() {
            blocks.delete(key);
        }
    }

    /// Whether the index is loaded (or never will be: a disk that failed is a disk we do without).
    pub(super) fn ready(&self) -> Result<(), String> {
        if self.blocks.initialized() {
            return Ok(());
        }
        Err(format!(
            "the index of cache disk {} is still being loaded",
            self.path().display()
        ))
    }

    /// Waits until the index is loaded.
    pub(super) async fn loaded(&self) {
        self.blocks.wait().await;
    }

    /// Bytes that wait to be written, or are being written.
    pub(super) fn queued(&self) -> u64 {
        self.queued.load(Ordering::Relaxed)
    }

    /// Takes nothing more, and waits until everything queued is written.
    pub(super) async fn close(&self) {
        if self.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(blocks) = self.blocks.wait().await {
            blocks.close().await;
        }
        self.metrics.up.set(0);
    }

    fn opened(&self) -> Option<&Blocks> {
        self.blocks.get().and_then(Option::as_ref)
    }

    /// Reads on the disk's own threads: verifying a chunk takes longer than a request's turn
    /// should, and a reader that leaves must not give its place away while the disk still works.
    async fn read(&self, key: ChunkKey, len: usize) -> Option<Bytes> {
        let started = Instant::now();
        let blocks = self.opened()?.clone();
        let permit = Arc::clone(&self.reads).acquire_owned().await.ok()?;
        let outcome = self.spawner.spawn(async move {
            let _permit = permit;
            blocks.load(&key, len).await
        });
        let outcome = outcome.await.unwrap_or(Err(Fault::Error));
        self.metrics
            .read_seconds
            .observe(started.elapsed().as_secs_f64());
        outcome
            .map_err(|fault| {
                self.metrics.fault(fault);
                self.remove(&key);
            })
            .ok()
    }

    /// Opens the blocks in the background, which reads every block's index.
    fn load_index(&self, foyer: &FoyerMetrics) {
        let path = self.path().display().to_string();
        let closed = Closed::new(
            path.clone(),
            &self.layout,
            self.queue_limit,
            self.spawner.clone(),
            foyer,
        );
        let (cell, up) = (Arc::clone(&self.blocks), self.metrics.up.clone());
        let count = self.layout.blocks;
        self.spawner.spawn(async move {
            let started = Instant::now();
            let opened = match closed.open().await {
                Ok(blocks) => {
                    let seconds = started.elapsed().as_secs_f64();
                    info!(path, blocks = count, seconds, "cache disk is open");
                    up.set(1);
                    Some(blocks)
                }
                Err(error) => {
                    error!(path, %error, "cannot open the cache disk; going on without it");
                    None
                }
            };
            cell.set(opened).expect("set by this task alone");
        });
    }
}

/// The disk's own runtime, so that a slow disk can hold up no thread that serves requests.
fn runtime(settings: &DiskSettings) -> Result<Spawner, StoreError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(settings.reads.max(1) + WRITE_THREADS)
        .thread_name("tidegate-disk")
        .enable_time()
        .build()
        .map(Spawner::from)
        .map_err(StoreError::io("start threads for", &settings.path))
}

/// Whether two configured paths are one directory, as far as the file system can tell.
pub(super) fn same_directory(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
    real(a) == real(b)
}
