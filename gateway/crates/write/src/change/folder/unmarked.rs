//! Changes of attributes that wait while their folder is renamed. Those of folders without a marker in the bucket move
//! with it here; those of listed objects go with their copies.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::locks::key_locks::KeyLock;
use crate::{Drafts, WriteError};
use tidegate_engine::ReadContext;
use tidegate_plan::folder::has_sure_name;
use tidegate_plan::{ObjectId, ObjectKey};

impl Drafts {
    /// Locks the keys whose changes wait, under both names, so that none of them is sent: a listed object would have
    /// another time or tag afterwards. Nothing but the rename of a folder locks keys like these together with others:
    /// these may be locked before smaller ones.
    pub(super) async fn lock_changed(
        &self,
        source: &ReadContext,
        (from, to): (&str, &str),
    ) -> BTreeMap<ObjectId, KeyLock> {
        let below = self.attributes.changed_below(source.origin.id(), from);
        let keys = renamed(source, below, (from, to));
        let (mut held, keys) = (BTreeMap::new(), keys.iter().flatten());
        self.path.keys.lock_more(&mut held, keys).await;
        held
    }

    /// Puts the marker of an empty folder that is to be replaced, if it waits for that, so that a listing shows it. So is
    /// the folder's own one if the store may refuse its new name: the copy of a marker in the bucket tells.
    pub(super) async fn send_waiting_markers(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        (from, to): (&str, &str),
    ) -> Result<(), WriteError> {
        self.send_waiting_marker(source, to).await?;
        match has_sure_name(to) {
            true => Ok(()),
            false => self.send_waiting_marker(source, from).await,
        }
    }

    async fn send_waiting_marker(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        prefix: &str,
    ) -> Result<(), WriteError> {
        let Ok(key) = ObjectKey::new(prefix) else {
            return Ok(());
        };
        let id = source.object(&key);
        match self.attributes.get(&id) {
            Some(change) => self.send_folder_now(source, &id, &change).await,
            None => Ok(()),
        }
    }

    /// Moves the changes that wait for folders whose marker is not in the bucket, so that no listing has them. Returns
    /// their old keys.
    pub(super) async fn move_folder_changes(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        names: (&str, &str),
    ) -> Vec<ObjectKey> {
        let mut moved = Vec::new();
        let below = self.attributes.folders_below(source.origin.id(), names.0);
        for [old, new] in renamed(source, below, names) {
            let Some(change) = self.attributes.get(&old) else {
                continue;
            };
            self.attributes.remove(&old, None);
            self.core.forget_times(&old);
            let path = old.key.as_str().trim_end_matches('/');
            self.core.forget_name(old.origin, path);
            self.core.folder_written(&new);
            self.put_folder_change(source, &new, change.attributes);
            moved.push(old.key);
        }
        self.write_changes_out().await;
        moved
    }
}

/// Returns keys with their new ones.
fn renamed(
    source: &ReadContext,
    below: Vec<ObjectKey>,
    (from, to): (&str, &str),
) -> Vec<[ObjectId; 2]> {
    let renamed = |old: ObjectKey| {
        let new = ObjectKey::new(&old.as_str().replacen(from, to, 1)).ok()?;
        Some([source.object(&old), source.object(&new)])
    };
    below.into_iter().filter_map(renamed).collect()
}
