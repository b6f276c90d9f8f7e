//! Folders without a marker in the bucket: their waiting changes move with a renamed folder.

use std::sync::Arc;

use crate::Drafts;
use tidegate_engine::ReadContext;
use tidegate_engine::times::KnownAttributes;
use tidegate_plan::ObjectKey;

impl Drafts {
    /// Moves the changes that wait for folders whose marker is not in the bucket, so that no listing has them.
    pub(super) async fn move_folder_changes(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        (from, to): (&str, &str),
    ) {
        for key in self.attributes.folders_below(source.origin.id(), from) {
            let rest = key.as_str().get(from.len()..).unwrap_or_default();
            let Ok(new) = ObjectKey::new(&format!("{to}{rest}")) else {
                continue;
            };
            let (old, new) = (source.object(&key), source.object(&new));
            let Some(change) = self.attributes.get(&old) else {
                continue;
            };
            self.attributes.remove(&old, None);
            let known = KnownAttributes::Pending(change.attributes);
            let place = (new.origin, new.key.as_str());
            self.core.keep_folder(place, known);
            self.put_change(source, &new, None, change.attributes);
        }
        self.attributes.write_out().await;
    }
}
