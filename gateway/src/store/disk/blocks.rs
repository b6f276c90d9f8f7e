//! foyer's block engine, without the memory it comes with.
//!
//! foyer offers its disk engine only as the lower half of a hybrid cache. The upper half is kept
//! empty here: chunks are written through `storage_writer` (which inserts a phantom entry: written
//! on insertion, never held), and read through `storage().load`. So memory and disk are two caches
//! of ours, and a chunk read from disk takes no second place in memory.

use bytes::Bytes;
use foyer::{
    BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder,
    HybridCacheBuilderPhaseMemory, HybridCachePolicy, Load, PsyncIoEngineConfig, RecoverMode,
    Spawner,
};
use tracing::warn;

use super::Fault;
use super::layout::Layout;
use super::metrics::FoyerMetrics;
use super::value::Stored;
use crate::store::ChunkKey;
use crate::store::hash::Folded;

/// The chunks on one disk. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Blocks(HybridCache<ChunkKey, Stored, Folded>);

/// Blocks that are yet to be opened.
pub(super) struct Closed {
    builder: HybridCacheBuilderPhaseMemory<ChunkKey, Stored, Folded>,
    device: FsDeviceBuilder,
    block: usize,
    queue: usize,
    spawner: Spawner,
}

impl Closed {
    /// Prepares blocks called `name`, with `queue` bytes of room for chunks to be written. Only
    /// what it counts is registered now; the disk is not touched.
    pub(super) fn new(
        name: String,
        layout: &Layout,
        queue: u64,
        spawner: Spawner,
        metrics: &FoyerMetrics,
    ) -> Self {
        let usize_of = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let builder = HybridCacheBuilder::new()
            .with_name(name)
            .with_policy(HybridCachePolicy::WriteOnInsertion)
            .with_flush_on_close(false)
            .with_metrics_registry(Box::new(metrics.clone()))
            .memory(1)
            .with_shards(1)
            .with_hash_builder(Folded::default())
            .with_filter(|_, _| false);
        Self {
            builder,
            device: FsDeviceBuilder::new(&layout.dir)
                .with_capacity(usize_of(layout.block * layout.blocks)),
            block: usize_of(layout.block),
            queue: usize_of(queue),
            spawner,
        }
    }

    /// Opens every block and reads its index.
    pub(super) async fn open(self) -> foyer::Result<Blocks> {
        // The queue is bounded by us; foyer's own bounds must never be the ones that are met.
        let engine = BlockEngineConfig::new(self.device.build()?)
            .with_block_size(self.block)
            .with_buffer_pool_size(self.queue)
            .with_submit_queue_size_threshold(usize::MAX);
        let cache = self
            .builder
            .storage()
            .with_io_engine_config(PsyncIoEngineConfig::new())
            .with_engine_config(engine)
            .with_recover_mode(RecoverMode::Quiet)
            .with_spawner(self.spawner)
            .build()
            .await?;
        Ok(Blocks(cache))
    }
}

impl Blocks {
    /// Whether the index names the chunk, or it is being written.
    pub(super) fn contains(&self, key: &ChunkKey) -> bool {
        self.0.storage().may_contains(key)
    }

    /// Reads and verifies a chunk that the index names.
    pub(super) async fn load(&self, key: &ChunkKey, len: usize) -> Result<Bytes, Fault> {
        let verified = match self.0.storage().load(key).await {
            Ok(Load::Entry { value, .. }) => value.verified(key, len),
            Ok(Load::Piece { piece, .. }) => piece.value().verified(key, len),
            Ok(Load::Miss | Load::Throttled) => return Err(Fault::Lost),
            Err(error) => {
                warn!(path = self.0.name(), %error, "cannot read a chunk");
                return Err(Fault::Error);
            }
        };
        verified.ok_or(Fault::Corrupt)
    }

    /// Hands a chunk over to be written.
    pub(super) fn insert(&self, key: ChunkKey, chunk: Stored) {
        // `force`: a filter that refuses would delete what stands on disk under this key.
        self.0.storage_writer(key).force().insert(chunk);
    }

    /// Takes a chunk out of the index.
    pub(super) fn delete(&self, key: &ChunkKey) {
        self.0.storage().delete(key);
    }

    /// Waits until everything handed over is written, and takes nothing more.
    pub(super) async fn close(&self) {
        if let Err(error) = self.0.close().await {
            warn!(path = self.0.name(), %error, "cache disk not closed in order");
        }
    }
}
