//! Purges, as far as they make answers about names old.

use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use super::{KnownName, NameGenerations, Names, Table};
use crate::names::answer::{Meaning, NameRequest};
use tidegate_plan::OriginId;

/// The number of purges told apart; requests from before older ones count as purged.
const MAX_PURGES: usize = 64;

/// A purge of a key, or of all keys with a prefix.
#[derive(Debug)]
pub(super) struct Purge {
    epoch: u64,
    origin: OriginId,
    prefix: String,
}

impl Purge {
    /// Returns whether it may change the meaning of a path: one of the two lies at or below the other.
    fn touches(&self, path: &str) -> bool {
        path.starts_with(&self.prefix) || self.prefix.starts_with(path)
    }
}

impl Table {
    /// Returns whether anything is known of a key's name.
    pub(crate) fn knows(&self, origin: OriginId, key: &str) -> bool {
        let known = self.lock().find(origin, key.trim_end_matches('/'));
        known.is_some_and(|known| !matches!(known.meaning, Meaning::Unknown))
    }

    /// Returns whether a path is known as a file's, fresh or not.
    pub(in crate::names) fn is_file(&self, origin: OriginId, path: &str) -> bool {
        let known = self.lock().current(origin, path);
        known.is_some_and(|known| matches!(known.meaning, Meaning::File(_)))
    }

    /// Forgets the answers that a purge of the key may make wrong: the key's, a folder's of its name, and that a folder
    /// on its path is missing.
    pub(crate) fn purge_key(&self, origin: OriginId, key: &str) {
        let mut names = self.lock();
        names.begin_purge(self.begin_epoch(), origin, key);
        names.remove(origin, key.trim_end_matches('/'));
    }

    /// Like [`Table::purge_key`], for every key that begins with `prefix`.
    pub(crate) fn purge_prefix(&self, origin: OriginId, prefix: &str) {
        let mut names = self.lock();
        names.begin_purge(self.begin_epoch(), origin, prefix);
        let bare = prefix.trim_end_matches('/');
        for generation in names.both() {
            for path in paths_with(generation, origin, bare) {
                generation.remove(&(origin, path));
            }
        }
        names.retain_folders(origin, bare);
    }

    /// Makes the key's name stale: it is asked for anew, and while the origin fails its last meaning holds.
    pub(crate) fn soften_key(&self, origin: OriginId, key: &str) {
        let mut names = self.lock();
        names.begin_purge(self.begin_epoch(), origin, key);
        let path = (origin, Arc::from(key.trim_end_matches('/')));
        for generation in names.both() {
            if let Some(known) = generation.get_mut(&path) {
                known.softened = true;
            }
        }
    }

    /// Like [`Table::soften_key`], for every key that begins with `prefix`.
    pub(crate) fn soften_prefix(&self, origin: OriginId, prefix: &str) {
        let mut names = self.lock();
        names.begin_purge(self.begin_epoch(), origin, prefix);
        let bare = prefix.trim_end_matches('/');
        for generation in names.both() {
            let from = (Included((origin, Arc::from(bare))), Unbounded);
            let covered = generation
                .range_mut(from)
                .take_while(|((of, path), _)| *of == origin && path.starts_with(bare));
            covered.for_each(|(_, known)| known.softened = true);
        }
        names.retain_folders(origin, bare);
    }
}

impl NameGenerations {
    fn both(&mut self) -> [&mut Names; 2] {
        [&mut self.young, &mut self.old]
    }

    /// Drops what a purge of any kind makes wrong beside the names that it covers.
    fn begin_purge(&mut self, epoch: u64, origin: OriginId, prefix: &str) {
        self.note_purge(epoch, origin, prefix);
        self.doubted.purge(epoch);
        self.forget_missing(origin, prefix);
        self.folders.doubt(origin, prefix);
    }

    /// Returns whether a purge after the request may have changed the meaning of the path.
    pub(super) fn is_purged_since(&self, asked: &NameRequest, path: &str) -> bool {
        let since = self.purges.iter().filter(|it| it.epoch > asked.epoch);
        let mut since = since.filter(|it| it.origin == asked.origin);
        self.forgotten > asked.epoch || since.any(|it| it.touches(path))
    }

    fn note_purge(&mut self, epoch: u64, origin: OriginId, prefix: &str) {
        if self.purges.len() == MAX_PURGES
            && let Some(oldest) = self.purges.pop_front()
        {
            self.forgotten = self.forgotten.max(oldest.epoch);
        }
        self.purges.push_back(Purge {
            epoch,
            origin,
            prefix: prefix.trim_end_matches('/').to_owned(),
        });
    }

    /// Forgets that a folder on the way to a key is missing.
    fn forget_missing(&mut self, origin: OriginId, key: &str) {
        for (at, _) in key.match_indices('/') {
            let path = &key[..at];
            let known = self.find(origin, path);
            if known.is_some_and(|known: KnownName| known.meaning.is_missing()) {
                self.remove(origin, path);
            }
        }
    }

    /// Drops the knowledge of the folders whose paths begin so.
    fn retain_folders(&mut self, origin: OriginId, bare: &str) {
        let covered = |of: OriginId, path: &str| of == origin && path.starts_with(bare);
        self.folders.retain(|of, path| !covered(of, path));
    }
}

/// Returns the paths that begin so.
fn paths_with(names: &Names, origin: OriginId, prefix: &str) -> Vec<Arc<str>> {
    let from = (Included((origin, Arc::from(prefix))), Unbounded);
    names
        .range(from)
        .take_while(|((of, path), _)| *of == origin && path.starts_with(prefix))
        .map(|((_, path), _)| path.clone())
        .collect()
}
