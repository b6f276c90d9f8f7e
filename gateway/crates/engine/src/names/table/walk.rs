//! Walks: which trees programs go through, folder by folder; and the files that come next in one.

use std::ops::Bound;
use std::sync::Arc;

use super::{KnownName, Table};
use crate::names::answer::{Meaning, NameRequest, parent_prefix, split};
use tidegate_plan::{OriginId, Timestamp};

/// The number of a folder's folders that are read by themselves; the next ones are listed together.
const MAX_ONE_BY_ONE: u32 = 1;

/// The readers of a folder's folders.
#[derive(Debug, Clone, Default)]
pub(super) struct Walk {
    /// The number of folders read one by one, and the time of the first of them.
    read: u32,
    since: Timestamp,
    /// Whether a listing of the tree has not told the folder that it was requested for.
    in_vain: bool,
}

impl Walk {
    /// See [`Table::is_worth_listing_tree`].
    pub(super) fn is_worth_listing(&mut self, asked: &NameRequest) -> bool {
        if self.read == 0 || asked.at.since(self.since) >= asked.ttl {
            *self = Self {
                since: asked.at,
                ..Self::default()
            };
        }
        self.read = self.read.saturating_add(1);
        self.read > MAX_ONE_BY_ONE && !self.in_vain
    }
}

impl Table {
    /// Counts a reader of a folder that is not known. Returns whether to list it with those that follow it in its parent:
    /// another one was read within the `ttl`.
    pub(in crate::names) fn is_worth_listing_tree(
        &self,
        asked: &NameRequest,
        folder: &str,
    ) -> bool {
        if folder.is_empty() || asked.ttl.is_zero() {
            return false;
        }
        let (parent, _) = split(folder);
        let mut names = self.lock();
        let parent = names.folder(asked.origin, parent);
        parent.walk.is_worth_listing(asked)
    }

    /// Gives up listing a folder together with those that follow it, for a `ttl`.
    pub(in crate::names) fn stop_listing_tree(&self, asked: &NameRequest, folder: &str) {
        let (parent, _) = split(folder);
        if let Some(parent) = self.lock().folders.get_mut(asked.origin, parent) {
            parent.walk.in_vain = true;
        }
    }

    /// Makes room for the knowledge of a folder.
    pub(in crate::names) fn note_folder(&self, origin: OriginId, folder: &str) {
        self.lock().folder(origin, folder);
    }

    /// Returns the files that follow `path`, fresh or not: at most `count`, of at most `size` bytes each, with their
    /// sizes. Empty files are left out. They are those of its folder and then of the next ones in the same parent; with
    /// `tree`, also those in the folders below it, in the order of their paths.
    pub(crate) fn files_after(
        &self,
        (origin, path): (OriginId, &str),
        (count, size): (usize, u64),
        tree: bool,
    ) -> Vec<(Arc<str>, u64)> {
        let names = self.lock();
        let folder = parent_prefix(path);
        let parent = parent_prefix(folder);
        let mut files = Vec::new();
        let mut add = |path: &Arc<str>, known: &KnownName| {
            if let Meaning::File(facts) = &known.meaning
                && (1..=size).contains(&facts.size)
            {
                files.push((path.clone(), facts.size));
            }
            files.len() < count
        };
        // Other names are skipped, but only a bounded number.
        let most = count * 4;
        let mut from = Bound::Excluded((origin, Arc::from(path)));
        if !tree {
            let all = names.in_folder(origin, folder, Some(&path[folder.len()..]));
            let mut wants_more = true;
            for (_, path, known) in all.take(most) {
                wants_more = add(path, known);
                if !wants_more {
                    break;
                }
            }
            if !wants_more || folder.is_empty() {
                return files;
            }
            // `0` sorts after `/`.
            from = Bound::Included((origin, format!("{}0", folder.trim_end_matches('/')).into()));
        }
        for _ in 0..most {
            let Some((key, known)) = names.next(from) else {
                break;
            };
            if key.0 != origin || !key.1.starts_with(parent) || !add(&key.1, known) {
                break;
            }
            from = Bound::Excluded(key.clone());
        }
        files
    }
}
