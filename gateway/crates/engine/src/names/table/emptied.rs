//! Folders that a removal may have emptied: a folder is gone with its last key.

use super::{NameGenerations, Table};
use crate::names::answer::Meaning;
use tidegate_plan::{OriginId, Timestamp};

/// The most names of a folder among which one is sought that is there: removals come by the thousand.
const MAX_SOUGHT: usize = 64;

impl Table {
    /// Records that an object was removed elsewhere, or may have been. Like [`Table::forget_key`] and
    /// [`Table::forget_emptied`].
    pub(crate) fn forget_removed(&self, origin: OriginId, key: &str) -> Vec<String> {
        self.forget_key(origin, key);
        self.forget_emptied(origin, key)
    }

    /// Forgets the folders on the way to a removed object that may be gone with it. Returns those that were known, the
    /// innermost first, with a `/` at their ends.
    pub(crate) fn forget_emptied(&self, origin: OriginId, key: &str) -> Vec<String> {
        let mut names = self.lock();
        let epoch = self.begin_epoch();
        let mut emptied = Vec::new();
        for (end, _) in key.trim_end_matches('/').rmatch_indices('/') {
            let folder = &key[..end];
            if names.holds_any(origin, folder) {
                break;
            }
            let known = names.current(origin, folder).map(|known| known.meaning);
            if matches!(known, Some(Meaning::Folder)) {
                names.set((origin, folder), Meaning::Unknown, Timestamp(0), epoch);
                emptied.push(key[..=end].to_owned());
            }
        }
        emptied
    }

    /// Returns whether a name was changed with an unknown result, and has not been asked for since.
    pub(in crate::names) fn is_unknown(&self, origin: OriginId, path: &str) -> bool {
        let known = self.lock().find(origin, path);
        known.is_some_and(|known| matches!(known.meaning, Meaning::Unknown))
    }
}

impl NameGenerations {
    /// Returns whether one of a folder's first names is known to be there.
    fn holds_any(&self, origin: OriginId, folder: &str) -> bool {
        let prefix = format!("{folder}/");
        let mut names = self.in_folder(origin, &prefix, None).take(MAX_SOUGHT);
        names.any(|(_, path, known)| {
            let passed = self.folders.passing_epoch(origin, path);
            known.meaning.entry().is_some() && passed.is_none_or(|epoch| known.epoch >= epoch)
        })
    }
}
