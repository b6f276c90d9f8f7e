//! Pins in the engine. Chunks found on disk are pinned if their object is. Chunks of a superseded version are unpinned,
//! because they would never be evicted otherwise.

use std::sync::Arc;

use crate::Core;
use tidegate_cache::{ChunkKey, Entry, PinId, Record};
use tidegate_plan::ObjectId;

/// The number of chunks to unpin before the task yields.
const CHUNKS_PER_TURN: u32 = 4096;

/// Pins a chunk that was found on disk, if its object is pinned.
pub(crate) fn pin_found(core: &Core, id: &ObjectId, key: &ChunkKey) {
    let pin = core.meta.pin_of(id);
    if !pin.is_none() {
        core.chunks.pin(key, pin);
    }
}

/// Unpins the chunks of a superseded version, so that they can be evicted.
pub(crate) fn release(core: &Arc<Core>, id: &ObjectId, record: Option<Arc<Record>>) {
    let Some(record) = record.filter(|_| !core.meta.pin_of(id).is_none()) else {
        return;
    };
    let keeper = core.clone();
    core.spawn(async move {
        for index in 0..keeper.geometry.count(record.version.size) {
            let version = record.id;
            let key = ChunkKey { version, index };
            keeper.chunks.pin(&key, PinId::NONE);
            if index % CHUNKS_PER_TURN == CHUNKS_PER_TURN - 1 {
                tokio::task::yield_now().await;
            }
        }
    });
}

/// Unpins the chunks of a key's known version, which is about to be purged.
pub(crate) async fn release_known(core: &Arc<Core>, id: &ObjectId) {
    if core.meta.pin_of(id).is_none() {
        return;
    }
    if let Some(Entry::Present(record)) = core.meta.load(id).await {
        release(core, id, Some(record));
    }
}
