//! The knowledge of whole folders: how far each was listed and when, and how often its names were requested singly.
//!
//! A listing tells which names exist and, up to the last key that it has passed, which do not. Names live as long as
//! their generation of the table: a folder's knowledge is dropped before any of its names.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::walk::Walk;
use super::{FreshName, NameGenerations, Path, Table};
use crate::names::answer::{ListedPage, ListingCursor, Meaning, NameRequest, split};
use tidegate_plan::folder;
use tidegate_plan::{OriginId, Timestamp};

mod reading;
mod stems;

use stems::Stems;

/// The number of a folder's names that are requested singly; for the next one the folder is listed.
const MAX_BY_NAME: u32 = 2;

/// The knowledge of the folders whose names are in each generation.
#[derive(Debug, Default)]
pub(super) struct Folders {
    young: HashMap<Path, Folder>,
    old: HashMap<Path, Folder>,
}

/// The knowledge of one folder.
#[derive(Debug, Clone, Default)]
pub(super) struct Folder {
    extent: Extent,
    /// The time at which its first page was requested or it was made, and the epoch.
    since: Timestamp,
    epoch: u64,
    /// The number of pages listed so far.
    pages: u32,
    /// Whether it has keys that are no valid names: then it is not empty, even without names.
    odd: bool,
    /// The last epoch in which this process changed one of its names.
    changed: u64,
    /// The number of names requested while they were not known, the time of the first of them, and their number before
    /// the last page.
    asked: u32,
    asked_since: Timestamp,
    asked_before: u32,
    /// The files that this process has newly made in it.
    stems: Stems,
    /// The readers of its folders.
    pub(super) walk: Walk,
}

/// The known extent of a folder.
#[derive(Debug, Clone, Default)]
enum Extent {
    /// Single names at most.
    #[default]
    Nothing,
    /// The names on the pages that have arrived.
    UpTo(ListingCursor),
    /// All of it.
    Whole,
    /// All of it, because this process made it.
    Made,
}

impl Folder {
    /// Returns whether its listing has passed a name, so that a silent pass means missing.
    fn has_passed(&self, name: &str) -> bool {
        match &self.extent {
            Extent::Nothing => false,
            Extent::UpTo(cursor) => folder::is_listed(&cursor.reached, name),
            Extent::Whole | Extent::Made => true,
        }
    }

    /// Returns the time for which its answers still hold, for existing names and for missing ones.
    fn time_left(&self, asked: &NameRequest) -> (Duration, Duration) {
        let age = asked.age(self.since);
        let left = |ttl: Duration| match self.extent {
            Extent::Nothing => Duration::ZERO,
            _ => ttl.saturating_sub(age),
        };
        (left(asked.ttl), left(asked.negative_ttl))
    }

    /// See [`Table::is_worth_listing`].
    fn is_worth_listing(
        &mut self,
        asked: &NameRequest,
        name: &str,
        by_name: u32,
        bound: u32,
    ) -> bool {
        let (here, missing) = self.time_left(asked);
        let is_told = !here.is_zero() && self.has_passed(name);
        match &self.extent {
            Extent::Whole | Extent::Made if self.pages <= by_name => return true,
            // Another listing tells no more, or does not go as far.
            _ if is_told && (!missing.is_zero() || self.pages > bound) => return false,
            Extent::UpTo(cursor) if !here.is_zero() && cursor.number >= bound => return false,
            _ => {}
        }
        self.count_unknown(asked);
        match is_told {
            // Only what is missing has become old: listed again once single requests cost as much.
            true => (self.asked - self.asked_before).saturating_mul(by_name) >= self.pages,
            false => self.asked > MAX_BY_NAME,
        }
    }

    /// Counts a name that is not known, within a `ttl`.
    fn count_unknown(&mut self, asked: &NameRequest) {
        if asked.at.since(self.asked_since) >= asked.ttl {
            self.reset_unknown();
        }
        if self.asked == 0 {
            self.asked_since = asked.at;
        }
        self.asked = self.asked.saturating_add(1);
    }

    fn reset_unknown(&mut self) {
        (self.asked, self.asked_before) = (0, 0);
    }
}

impl Folders {
    fn get(&self, origin: OriginId, path: &str) -> Option<&Folder> {
        let key = (origin, Arc::from(path));
        self.young.get(&key).or_else(|| self.old.get(&key))
    }

    pub(super) fn get_mut(&mut self, origin: OriginId, path: &str) -> Option<&mut Folder> {
        let key = (origin, Arc::from(path));
        self.young.get_mut(&key).or_else(|| self.old.get_mut(&key))
    }

    fn put(&mut self, origin: OriginId, path: &str, folder: Folder) {
        let key = (origin, Arc::from(path));
        self.old.remove(&key);
        self.young.insert(key, folder);
    }

    /// Drops the folders of the old generation, whose names leave the table.
    pub(super) fn age(&mut self) {
        self.old = std::mem::take(&mut self.young);
    }

    /// Records a folder that this process has made, with nothing in it at `since`.
    pub(super) fn record_made(
        &mut self,
        origin: OriginId,
        path: &str,
        since: Timestamp,
        epoch: u64,
    ) {
        let folder = Folder {
            extent: Extent::Made,
            since,
            epoch,
            changed: epoch,
            ..Folder::default()
        };
        self.put(origin, path, folder);
    }

    /// Records that this process has changed a name.
    pub(super) fn changed(&mut self, origin: OriginId, path: &str, epoch: u64) {
        if let Some(folder) = self.get_mut(origin, split(path).0) {
            folder.changed = epoch;
        }
    }

    pub(super) fn forget(&mut self, origin: OriginId, path: &str) {
        let key = (origin, Arc::from(path));
        self.young.remove(&key);
        self.old.remove(&key);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(OriginId, &str) -> bool) {
        self.young.retain(|(of, path), _| keep(*of, path));
        self.old.retain(|(of, path), _| keep(*of, path));
    }

    /// Drops the knowledge of the folders on the way to a key.
    pub(super) fn doubt(&mut self, origin: OriginId, key: &str) {
        self.forget(origin, "");
        for (at, _) in key.match_indices('/') {
            self.forget(origin, &key[..at]);
        }
    }

    /// Returns the epoch of the listing that has passed this path, however old.
    pub(super) fn passing_epoch(&self, origin: OriginId, path: &str) -> Option<u64> {
        let (folder, name) = split(path);
        let folder = self.get(origin, folder)?;
        folder.has_passed(name).then_some(folder.epoch)
    }

    /// Returns the time at which that listing was requested.
    pub(super) fn passed_at(&self, origin: OriginId, path: &str) -> Option<Timestamp> {
        let (folder, name) = split(path);
        let folder = self.get(origin, folder)?;
        folder.has_passed(name).then_some(folder.since)
    }

    /// Returns that a name outside the table is missing, if the listing of its folder has passed it. That holds for
    /// `negative_ttl`; for a name that continues the stem of a file newly made here, as long as the listing itself.
    pub(super) fn missing(&self, asked: &NameRequest, path: &str) -> Option<FreshName> {
        let (folder, name) = split(path);
        let folder = self.get(asked.origin, folder)?;
        let (here, missing) = folder.time_left(asked);
        let left = missing.max(here.min(folder.stems.time_left(asked, name)));
        (!left.is_zero() && folder.has_passed(name)).then_some(FreshName {
            meaning: Meaning::Missing,
            left,
            since: folder.since,
        })
    }
}

impl NameGenerations {
    pub(super) fn folder(&mut self, origin: OriginId, path: &str) -> &mut Folder {
        let key = (origin, Arc::from(path));
        if self.folders.get(origin, path).is_none() {
            self.charge(path);
        }
        let Folders { young, old } = &mut self.folders;
        match old.get_mut(&key) {
            Some(folder) => folder,
            None => young.entry(key).or_default(),
        }
    }

    /// See [`Table::record_page`].
    fn record_page(&mut self, asked: &NameRequest, landing: ListedPage<'_>) -> Vec<Path> {
        let ListedPage { folder, epoch, .. } = landing;
        let before = self.folders.get(asked.origin, folder).cloned();
        for listed in landing.names {
            let path = match folder {
                "" => listed.name,
                folder => format!("{folder}/{}", listed.name),
            };
            self.put(&listed.asked, &path, listed.meaning, listed.stored);
        }
        // Without this entry, names have left the table meanwhile, or the listed names may be purged.
        let still = self.folders.get(asked.origin, folder).is_some();
        let Some(before) = before.filter(|_| still && epoch > 0) else {
            return Vec::new();
        };
        let extent = match landing.next {
            Some(cursor) => Extent::UpTo(cursor),
            None => Extent::Whole,
        };
        let goes_on = before.epoch == epoch && before.pages == landing.number;
        let begins = landing.number == 0 && before.epoch < epoch;
        if !(goes_on || begins) || self.is_purged_since(asked, folder) {
            return Vec::new();
        }
        let now = Folder {
            extent,
            epoch,
            since: if begins { asked.at } else { before.since },
            pages: landing.number + 1,
            odd: landing.odd || (goes_on && before.odd),
            asked_before: before.asked,
            ..before
        };
        let whole = matches!(now.extent, Extent::Whole);
        if let Some(folder) = self.folders.get_mut(asked.origin, folder) {
            *folder = now;
        }
        match whole {
            true => self.drop_passed(asked.origin, folder, epoch),
            false => Vec::new(),
        }
    }

    /// Removes the names of a folder that its listing has passed silently, so that they are not found again once the
    /// folder's knowledge is dropped. Returns their paths.
    pub(super) fn drop_passed(&mut self, origin: OriginId, folder: &str, epoch: u64) -> Vec<Path> {
        let prefix = match folder {
            "" => String::new(),
            folder => format!("{folder}/"),
        };
        let all = self.in_folder(origin, &prefix, None);
        let passed = all.filter(|(_, _, known)| known.epoch < epoch);
        let passed: Vec<Path> = passed.map(|(_, path, _)| (origin, path.clone())).collect();
        for (_, path) in &passed {
            self.remove(origin, path);
        }
        passed
    }
}

impl Table {
    /// Begins a listing of a folder. Returns the epoch that begins with it.
    pub(in crate::names) fn begin_listing(&self, origin: OriginId, folder: &str) -> u64 {
        let mut names = self.lock();
        names.folder(origin, folder);
        self.begin_epoch()
    }

    /// Returns whether this process has changed a name in the folder since that epoch, or may have.
    pub(in crate::names) fn is_changed_since(
        &self,
        origin: OriginId,
        folder: &str,
        epoch: u64,
    ) -> bool {
        let names = self.lock();
        let folder = names.folders.get(origin, folder);
        folder.is_none_or(|folder| folder.changed > epoch)
    }

    /// Records a page of a folder. Only a change of the same name makes a listed name old; otherwise listings would be
    /// useless in a folder with many writes. Returns the known names that the listing has passed silently.
    pub(in crate::names) fn record_page(
        &self,
        asked: &NameRequest,
        landing: ListedPage<'_>,
    ) -> Vec<Path> {
        self.lock().record_page(asked, landing)
    }

    /// Returns whether to ask for an unknown name by listing its folder, at most `bound` pages of it. `by_name` is the
    /// number of requests otherwise. True if the whole folder takes no more pages than that, if several other names in
    /// the folder were requested within the `ttl`, or if a listing that is too old for missing names took no more pages
    /// than such names have cost since.
    pub(in crate::names) fn is_worth_listing(
        &self,
        asked: &NameRequest,
        path: &str,
        by_name: u32,
        bound: u32,
    ) -> bool {
        if bound == 0 || asked.ttl.min(asked.negative_ttl).is_zero() {
            return false;
        }
        let (folder, name) = split(path);
        let mut names = self.lock();
        let folder = names.folder(asked.origin, folder);
        folder.is_worth_listing(asked, name, by_name, bound)
    }

    /// Returns the position of a listing that has not reached a name yet, if what it has told is fresh.
    pub(in crate::names) fn listing_position(
        &self,
        asked: &NameRequest,
        path: &str,
    ) -> Option<ListingCursor> {
        let (folder, name) = split(path);
        let names = self.lock();
        let folder = names.folders.get(asked.origin, folder)?;
        let (here, _) = folder.time_left(asked);
        match &folder.extent {
            Extent::UpTo(cursor) if !here.is_zero() && !folder.has_passed(name) => {
                Some(cursor.clone())
            }
            _ => None,
        }
    }

    /// Gives up listing the folder, which failed: names in it are requested singly. `keeps`: what was listed before still
    /// tells names while the origin fails.
    pub(in crate::names) fn stop_listing(&self, asked: &NameRequest, folder: &str, keeps: bool) {
        if let Some(folder) = self.lock().folders.get_mut(asked.origin, folder) {
            folder.reset_unknown();
            if !keeps {
                folder.extent = Extent::Nothing;
            }
        }
    }

    /// Returns whether the known and fresh part of a listing goes beyond this position.
    pub(in crate::names) fn is_known_behind(
        &self,
        asked: &NameRequest,
        folder: &str,
        cursor: &ListingCursor,
    ) -> bool {
        let names = self.lock();
        let folder = names.folders.get(asked.origin, folder);
        folder.is_some_and(|folder| {
            let further = folder.epoch == cursor.epoch && folder.pages > cursor.number;
            further && !folder.time_left(asked).0.is_zero()
        })
    }

    /// Returns the time for which a path is certainly missing, because its whole folder is known. Only valid if the
    /// table has no answer for the path itself.
    #[cfg(test)]
    pub(super) fn is_missing(&self, asked: &NameRequest, path: &str) -> Option<Duration> {
        self.lock()
            .folders
            .missing(asked, path)
            .map(|seen| seen.left)
    }
}
