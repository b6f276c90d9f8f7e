//! Pins in the engine. Chunks found on disk are pinned if their object is. Chunks of a superseded version are unpinned,
//! because they would never be evicted otherwise.

use std::sync::Arc;

use crate::Core;
use tidegate_cache::{ChunkKey, PinId, Record};
use tidegate_plan::ObjectId;

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
        let version = record.id;
        let unpin = |index| {
            let key = ChunkKey { version, index };
            keeper.chunks.pin(&key, PinId::NONE);
            true
        };
        keeper.each_chunk(record.version.size, unpin).await;
    });
}
