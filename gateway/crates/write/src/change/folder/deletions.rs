//! The deletions of a folder's objects under its old name.

use std::collections::BTreeSet;
use std::time::Instant;

use futures_util::{StreamExt as _, stream};

use super::{CopiedFolder, Item};
use crate::change::delete_moved;
use crate::{Drafts, MAX_DRAFT_STREAMS};
use tidegate_engine::ReadContext;
use tidegate_plan::{ObjectKey, folder};
use tidegate_telemetry::progress::ProgressLines;

impl Drafts {
    /// Deletes the objects under their old keys. Leaves an object that another program has overwritten since the listing.
    pub(super) async fn delete_sources(
        &self,
        source: &ReadContext,
        items: &[Item],
    ) -> CopiedFolder {
        let mut lines = ProgressLines::begin(Instant::now());
        let deletions = (0..items.len()).map(|number| async move {
            let Item { old, version, .. } = &items[number];
            (number, delete_moved(self, source, old, &version.etag).await)
        });
        let mut deletions = stream::iter(deletions).buffer_unordered(MAX_DRAFT_STREAMS);
        let (mut gone, mut left) = (0_usize, None);
        while let Some((number, deleted)) = deletions.next().await {
            let item = &items[number];
            self.folders.note_progress();
            if lines.is_due(Instant::now()) {
                let (deleted, of, key) = (gone, items.len(), item.old.key.as_str());
                tracing::info!(
                    deleted,
                    of,
                    key,
                    "still deleting a renamed folder's old objects"
                );
            }
            match deleted {
                Ok(()) => gone += 1,
                Err(error) => {
                    left.get_or_insert(error);
                }
            }
        }
        CopiedFolder { left }
    }

    /// Forgets the folder and its subfolders under the old name, also those without a marker in the bucket.
    pub(super) fn forget_folders(
        &self,
        source: &ReadContext,
        (items, unmarked): (&[Item], &[ObjectKey]),
        from: &str,
    ) {
        let mut gone = BTreeSet::from([from]);
        let keys = items.iter().map(|item| &item.old.key).chain(unmarked);
        for key in keys {
            let folders = folder::folders_of(key.as_str());
            gone.extend(folders.filter(|folder| folder.starts_with(from)));
        }
        // The deepest first: a folder is gone once nothing is in it.
        for folder in gone.into_iter().rev() {
            self.core
                .folder_removed(source.origin.id(), folder.trim_end_matches('/'));
        }
    }
}
