//! What pins mean to the engine: chunks that are found on disk are pinned if their object is, and those
//! of a version that is no more are let go of, lest they stay for ever.

use std::sync::Arc;

use super::core::Core;
use crate::plan::ObjectId;
use crate::store::{ChunkKey, Entry, PinId, Record};

/// How many chunks are let go of before others have their turn.
const TURN: u32 = 4096;

/// A chunk was found on disk.
pub(super) fn found(core: &Core, id: &ObjectId, key: &ChunkKey) {
    let pin = core.meta.pin_of(id);
    if !pin.is_none() {
        core.chunks.pin(key, pin);
    }
}

/// A version is no longer the object's: its chunks are evicted in their turn.
pub(super) fn release(core: &Arc<Core>, id: &ObjectId, record: Option<Arc<Record>>) {
    let Some(record) = record.filter(|_| !core.meta.pin_of(id).is_none()) else {
        return;
    };
    let keeper = core.clone();
    core.spawn(async move {
        for index in 0..keeper.geometry.count(record.version.size) {
            let version = record.id;
            let key = ChunkKey { version, index };
            keeper.chunks.pin(&key, PinId::NONE);
            if index % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
        }
    });
}

/// The same for the version that is known of a key, which is about to be purged.
pub(super) async fn release_known(core: &Arc<Core>, id: &ObjectId) {
    if core.meta.pin_of(id).is_none() {
        return;
    }
    if let Some(Entry::Present(record)) = core.meta.load(id).await {
        release(core, id, Some(record));
    }
}
