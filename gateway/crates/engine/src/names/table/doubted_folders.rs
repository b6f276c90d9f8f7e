//! Folders that a listing may show although no key is in them: they were removed here, or found empty.
//!
//! A store with versions may count the marks of removed objects (MinIO), and lists their folder for good. Such a folder
//! is believed once a look into it has found a key.

use super::{NameGenerations, Path, Table};
use crate::names::answer::{Meaning, NameRequest};
use tidegate_plan::{Generations, OriginId, Timestamp};

/// The maximum number of folders in a generation; there are two.
const MAX_GENERATION: usize = 1 << 12;

/// See the module documentation.
#[derive(Debug)]
pub(super) struct DoubtedFolders {
    all: Generations<Path, Doubt>,
    /// The epoch of the last purge: what looks of before it have found counts no more.
    purged: u64,
}

#[derive(Debug, Clone, Copy)]
struct Doubt {
    /// The epoch in which the folder was removed, or keys in it were changed, with an unknown result.
    changed: u64,
    /// The epoch and the time of the last look, if it has found no key.
    empty: Option<(u64, Timestamp)>,
}

/// A doubted folder of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::names) struct DoubtedFolder {
    /// It ends in `/`.
    pub(in crate::names) prefix: String,
    /// Whether a look found it empty, less than the `negative_ttl` ago.
    pub(in crate::names) is_empty: bool,
}

impl Default for DoubtedFolders {
    fn default() -> Self {
        Self {
            all: Generations::new(MAX_GENERATION),
            purged: 0,
        }
    }
}

impl DoubtedFolders {
    /// Records this process's change of a name.
    pub(super) fn changed(&mut self, path: &Path, meaning: &Meaning, epoch: u64) {
        match meaning {
            _ if self.all.is_empty() => {}
            Meaning::File(_) | Meaning::Folder => self.all.remove(path),
            Meaning::Unknown if self.all.get(path).is_some() => self.insert(path.clone(), epoch),
            Meaning::Unknown | Meaning::Missing => {}
        }
    }

    pub(super) fn purge(&mut self, epoch: u64) {
        self.purged = epoch;
    }

    fn insert(&mut self, path: Path, changed: u64) {
        let empty = None;
        self.all.insert(path, Doubt { changed, empty });
    }

    /// Returns whether the last look has found the folder empty, and is as young as a name must be that counts as missing:
    /// another gateway may have made the folder since.
    fn is_empty(&self, doubt: &Doubt, asked: &NameRequest) -> bool {
        let longest = asked.ttl.min(asked.negative_ttl);
        doubt
            .empty
            .is_some_and(|(epoch, at)| epoch >= self.purged && asked.age(at) < longest)
    }
}

impl Table {
    /// Doubts a folder from now on.
    pub(in crate::names) fn doubt_folder(&self, origin: OriginId, path: &str) {
        let mut names = self.lock();
        let epoch = self.epoch();
        names.doubted.insert((origin, path.into()), epoch);
    }

    /// Believes a folder in which a key was found.
    pub(in crate::names) fn believe_folder(&self, origin: OriginId, path: &str) {
        let mut names = self.lock();
        if !names.doubted.all.is_empty() {
            names.doubted.all.remove(&(origin, path.into()));
        }
    }

    /// Returns those of a page's folders that are doubted.
    pub(in crate::names) fn doubted_folders(
        &self,
        asked: &NameRequest,
        folders: &[String],
    ) -> Vec<DoubtedFolder> {
        let names = self.lock();
        if names.doubted.all.is_empty() {
            return Vec::new();
        }
        let doubted = folders.iter().filter_map(|prefix| {
            let path = prefix.trim_end_matches('/');
            let doubt = names.doubted.all.get(&(asked.origin, path.into()))?;
            Some(DoubtedFolder {
                prefix: prefix.clone(),
                is_empty: names.doubted.is_empty(doubt, asked),
            })
        });
        doubted.collect()
    }

    /// Records the result of a look into a doubted folder, unless it was changed or purged since `asked`.
    pub(in crate::names) fn note_look(&self, asked: &NameRequest, prefix: &str, is_empty: bool) {
        let mut names = self.lock();
        let NameGenerations { doubted, .. } = &mut *names;
        let path = (asked.origin, prefix.trim_end_matches('/').into());
        let Some(doubt) = doubted.all.get(&path).copied() else {
            return;
        };
        if doubt.changed.max(doubted.purged) > asked.epoch {
            return;
        }
        if is_empty {
            let empty = Some((asked.epoch, asked.at));
            doubted.all.insert(path, Doubt { empty, ..doubt });
        } else {
            doubted.all.remove(&path);
        }
    }
}
