//! Folders without a marker in the bucket: their waiting changes move with a renamed folder.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Drafts;
use crate::locks::key_locks::KeyLock;
use tidegate_engine::ReadContext;
use tidegate_plan::{ObjectId, ObjectKey};

impl Drafts {
    /// Locks the folders whose changes wait, under both names, so that none of them is sent. Nothing but the rename of a
    /// folder locks keys like these together with others: these may be locked before smaller ones.
    pub(super) async fn lock_changed_folders(
        &self,
        source: &ReadContext,
        names: (&str, &str),
    ) -> BTreeMap<ObjectId, KeyLock> {
        let (mut held, folders) = (BTreeMap::new(), self.changed_folders(source, names));
        let keys = folders.iter().flatten();
        self.path.lock_more(&mut held, keys).await;
        held
    }

    /// Moves the changes that wait for folders whose marker is not in the bucket, so that no listing has them.
    pub(super) async fn move_folder_changes(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        names: (&str, &str),
    ) {
        for [old, new] in self.changed_folders(source, names) {
            let Some(change) = self.attributes.get(&old) else {
                continue;
            };
            self.attributes.remove(&old, None);
            self.core.forget_times(&old);
            self.put_folder_change(source, &new, change.attributes);
        }
        self.write_changes_out().await;
    }

    /// Returns the folders whose changes wait, under the old and the new name.
    fn changed_folders(
        &self,
        source: &ReadContext,
        (from, to): (&str, &str),
    ) -> Vec<[ObjectId; 2]> {
        let below = self.attributes.folders_below(source.origin.id(), from);
        let renamed = |old: ObjectKey| {
            let new = ObjectKey::new(&old.as_str().replacen(from, to, 1)).ok()?;
            Some([source.object(&old), source.object(&new)])
        };
        below.into_iter().filter_map(renamed).collect()
    }
}
