//! The table of names: bounded in size and time.
//!
//! A name is known by itself, or through its whole folder (`folders`): a name that a listing has passed and not told is
//! missing. Of two answers the later one holds, and this process's own change is later than every earlier request.
//! Epochs define *later*, not the clock, which may be set back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::Facts;
use super::answer::{Meaning, NameRequest};
use tidegate_plan::{OriginId, Timestamp};
use tidegate_telemetry::locks::Recover as _;

mod doubted_folders;
mod emptied;
mod folders;
mod purge;
mod search;
mod walk;

use doubted_folders::DoubtedFolders;
use folders::Folders;
use purge::Purge;

/// The bytes of a generation of names; there are two. With paths of 60 bytes each holds about 30,000: several folders of
/// usual size, and never more than 32 MiB together.
const MAX_GENERATION_BYTES: usize = 16 << 20;

/// The bytes of an entry beside its path. Names that come in order leave the nodes of the tree half full. The path and
/// the ETag are shared texts, each with its counters and the allocator's rounding.
const ENTRY_OVERHEAD: usize =
    2 * (size_of::<Path>() + size_of::<KnownName>()) + 2 * SHARED_TEXT_OVERHEAD + ETAG_BYTES;
const SHARED_TEXT_OVERHEAD: usize = 32;
const ETAG_BYTES: usize = 34;

/// A known and fresh answer for a name.
#[derive(Debug, Clone)]
pub(super) struct FreshName {
    pub(super) meaning: Meaning,
    /// The time for which it still holds.
    pub(super) left: Duration,
    /// The time at which it was found out.
    pub(super) since: Timestamp,
}

/// Names by origin and path, the path without a slash at its end.
#[derive(Debug, Default)]
pub(crate) struct Table {
    generations: Mutex<NameGenerations>,
    epoch: AtomicU64,
}

type Path = (OriginId, Arc<str>);
/// Names in the order in which a bucket lists them.
type Names = BTreeMap<Path, KnownName>;

#[derive(Debug, Clone)]
struct KnownName {
    meaning: Meaning,
    since: Timestamp,
    /// The epoch in which it was requested, or that began with this process's own change.
    epoch: u64,
    /// Whether this process made the change.
    own: bool,
    /// The time at which a listed object was written, according to the bucket.
    stored: Option<Timestamp>,
    /// Whether a soft purge came since: the name is asked for anew.
    softened: bool,
}

/// The names in two generations. New names go into the young one; when it is full, it becomes the old one, and
/// requested names move on.
#[derive(Debug, Default)]
struct NameGenerations {
    young: Names,
    old: Names,
    bytes: usize,
    /// The latest purges, the oldest first.
    purges: VecDeque<Purge>,
    /// The last epoch that is no longer told apart: of a dropped purge, or of a change whose name has left the table.
    forgotten: u64,
    /// The knowledge of whole folders.
    folders: Folders,
    doubted: DoubtedFolders,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, NameGenerations> {
        self.generations.lock().recover()
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    fn begin_epoch(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Returns the fresh answer for a path, by itself or through its whole folder.
    pub(super) fn get(&self, asked: &NameRequest, path: &str) -> Option<FreshName> {
        let mut names = self.lock();
        let missing = names.folders.missing(asked, path);
        let Some(known) = names.current(asked.origin, path) else {
            return missing;
        };
        let KnownName { meaning, since, .. } = known;
        let ttl = match meaning {
            Meaning::Missing => asked.negative_ttl,
            Meaning::File(_) | Meaning::Folder => asked.ttl,
            Meaning::Unknown => return None,
        };
        let left = match known.softened {
            true => Duration::ZERO,
            false => ttl.saturating_sub(asked.age(since)),
        };
        match (left.is_zero(), &meaning) {
            (true, Meaning::Missing) => missing,
            (true, _) => None,
            (false, _) => Some(FreshName {
                meaning,
                left,
                since,
            }),
        }
    }

    /// Returns the last meaning of a path, by itself or through its whole folder, if it is recent enough to be served
    /// while the origin fails.
    pub(super) fn stale_meaning(&self, asked: &NameRequest, path: &str) -> Option<Meaning> {
        let mut names = self.lock();
        let (meaning, since) = match names.current(asked.origin, path) {
            Some(known) => (known.meaning, known.since),
            None => {
                let passed = names.folders.passed_at(asked.origin, path)?;
                (Meaning::Missing, passed)
            }
        };
        let fresh = match meaning {
            Meaning::Missing => asked.negative_ttl,
            _ => asked.ttl,
        };
        (asked.age(since) < fresh + asked.stale_if_error).then_some(meaning)
    }

    /// Returns the time at which a path was last found missing, or at which a listing was requested that passed it
    /// silently, however long ago; `None` if the path was found otherwise since.
    pub(super) fn passed_at(&self, origin: OriginId, path: &str) -> Option<Timestamp> {
        self.lock().passed_at(origin, path)
    }

    /// Returns a listing's facts about an object, the time of the listing, and the time at which the bucket says that
    /// the object was written; only if that is fresh and the object was not changed here since.
    pub(super) fn listed_facts(
        &self,
        asked: &NameRequest,
        path: &str,
    ) -> Option<(Facts, Timestamp, Timestamp)> {
        let known = self.lock().current(asked.origin, path)?;
        let fresh = asked.age(known.since) < asked.ttl && !known.softened;
        match (known.meaning, known.stored) {
            (Meaning::File(facts), Some(stored)) if fresh && !known.own => {
                Some((facts, known.since, stored))
            }
            _ => None,
        }
    }

    /// Returns whether a request sent after `since` has found a file of this name, and nothing later has contradicted it.
    pub(crate) fn is_file_since(&self, origin: OriginId, path: &str, since: Timestamp) -> bool {
        let known = self.lock().current(origin, path);
        known.is_some_and(|known| matches!(known.meaning, Meaning::File(_)) && known.since > since)
    }

    /// Returns the last known `ctime` of a file, fresh or not.
    pub(crate) fn changed(&self, origin: OriginId, path: &str) -> Option<Timestamp> {
        match self.lock().find(origin, path)?.meaning {
            Meaning::File(facts) => facts.changed,
            Meaning::Folder | Meaning::Missing | Meaning::Unknown => None,
        }
    }

    /// Records an answer, unless a purge came in between or this process changed the name.
    pub(super) fn put(&self, asked: &NameRequest, path: &str, meaning: Meaning) {
        self.lock().put(asked, path, meaning, None);
    }

    /// Returns whether an answer for a name still holds: since the request it was neither purged nor changed here.
    pub(super) fn is_current(&self, asked: &NameRequest, path: &str) -> bool {
        self.lock().is_current(asked, path)
    }

    /// Records this process's own change of a name; it is newer than every request under way.
    pub(super) fn record_change(
        &self,
        origin: OriginId,
        path: &str,
        meaning: Meaning,
        at: Timestamp,
    ) {
        let mut names = self.lock();
        let epoch = self.begin_epoch();
        names.record_change((origin, path), meaning, at, epoch);
    }

    /// Records a folder that this process has just created, with nothing in it but what this process has put there or
    /// found there meanwhile. That is as old as the answer that it was missing.
    ///
    /// Returns the names in it that were known before, and are not there.
    pub(super) fn record_made_folder(
        &self,
        origin: OriginId,
        path: &str,
        at: Timestamp,
    ) -> Vec<Path> {
        let mut names = self.lock();
        let since = names.passed_at(origin, path).unwrap_or(at);
        let told = names.find(origin, path).map(|known| known.epoch);
        let told = told.max(names.folders.passing_epoch(origin, path));
        let is_empty = !names.holds_found(origin, path, told.unwrap_or_default());
        let epoch = self.begin_epoch();
        names.record_change((origin, path), Meaning::Folder, at, epoch);
        if !is_empty || names.holds_own(origin, path) {
            return Vec::new();
        }
        names.charge(path);
        names.folders.record_made(origin, path, since, epoch);
        names.drop_passed(origin, path, epoch)
    }

    /// Records this process's own change of a version that `asked` has found, unless the name is known otherwise since.
    /// Returns whether it was recorded. The answer is as old as the one before.
    pub(super) fn record_change_of_found(
        &self,
        asked: &NameRequest,
        path: &str,
        meaning: Meaning,
    ) -> bool {
        let (mut names, origin) = (self.lock(), asked.origin);
        let found = names.find(origin, path);
        let told = found.as_ref().map(|known| known.epoch);
        let last = told.max(names.folders.passing_epoch(origin, path));
        let is_later = last.is_some_and(|epoch| epoch > asked.epoch);
        if is_later && !names.tells(origin, path, &meaning) || !names.is_current(asked, path) {
            return false;
        }
        let since = found.map_or(asked.at, |known| known.since);
        let epoch = self.begin_epoch();
        // An answer of before proves no folder on its path now.
        names.set((origin, path), meaning, since, epoch);
        true
    }

    /// Records that a folder is there, later than every request under way. What is known of its contents stays.
    pub(super) fn record_folder(&self, origin: OriginId, path: &str, at: Timestamp) {
        let mut names = self.lock();
        let epoch = self.begin_epoch();
        names.set((origin, path), Meaning::Folder, at, epoch);
    }

    /// Records that this process has changed an object, or may have, with an unknown result. The rest of its folder
    /// stays known.
    pub(crate) fn forget_key(&self, origin: OriginId, key: &str) {
        let mut names = self.lock();
        let epoch = self.begin_epoch();
        let path = key.trim_end_matches('/');
        names.folders.forget(origin, path);
        names.forget_stems(origin, path);
        for (end, _) in path.match_indices('/') {
            let folder = &path[..end];
            let known = names.current(origin, folder).map(|known| known.meaning);
            if !matches!(known, Some(Meaning::Folder)) {
                names.set((origin, folder), Meaning::Unknown, Timestamp(0), epoch);
            }
        }
        names.set((origin, path), Meaning::Unknown, Timestamp(0), epoch);
    }
}

impl NameGenerations {
    /// See [`Table::put`].
    fn put(
        &mut self,
        asked: &NameRequest,
        path: &str,
        meaning: Meaning,
        stored: Option<Timestamp>,
    ) {
        // An earlier request's answer does not replace a later one's.
        let later = self.find(asked.origin, path);
        let later = later.is_some_and(|known| known.epoch > asked.epoch);
        if !later && self.is_current(asked, path) {
            let known = KnownName {
                meaning,
                since: asked.at,
                epoch: asked.epoch,
                own: false,
                stored,
                softened: false,
            };
            self.insert((asked.origin, path.into()), known);
        }
    }

    /// See [`Table::passed_at`].
    fn passed_at(&mut self, origin: OriginId, path: &str) -> Option<Timestamp> {
        match self.current(origin, path) {
            Some(known) => known.meaning.is_missing().then_some(known.since),
            None => self.folders.passed_at(origin, path),
        }
    }

    /// See [`Table::is_current`].
    fn is_current(&mut self, asked: &NameRequest, path: &str) -> bool {
        let known = self.find(asked.origin, path).filter(|known| known.own);
        let changed = known.map_or(0, |known| known.epoch).max(self.forgotten);
        changed <= asked.epoch && !self.is_purged_since(asked, path)
    }

    /// See [`Table::record_change`]. An existing name proves the folders on its path. A name is not missing if this
    /// process has put something below it meanwhile. A file in place of a missing name is newly made.
    fn record_change(
        &mut self,
        (origin, path): (OriginId, &str),
        meaning: Meaning,
        at: Timestamp,
        epoch: u64,
    ) {
        let meaning = match meaning {
            Meaning::Missing if self.holds_own(origin, path) => Meaning::Unknown,
            meaning => meaning,
        };
        self.folders.forget(origin, path);
        if matches!(meaning, Meaning::File(_)) && self.passed_at(origin, path).is_some() {
            self.note_stem(origin, path, at);
        }
        if !matches!(meaning, Meaning::Missing | Meaning::Unknown) {
            for (end, _) in path.match_indices('/') {
                let folder = &path[..end];
                let known = self.current(origin, folder).map(|known| known.meaning);
                // A name known as a file stays one until that is no longer fresh.
                if !matches!(known, Some(Meaning::File(_))) {
                    self.set((origin, folder), Meaning::Folder, at, epoch);
                }
            }
        }
        self.set((origin, path), meaning, at, epoch);
    }

    /// Records a name's meaning as this process's own change.
    fn set(
        &mut self,
        (origin, path): (OriginId, &str),
        meaning: Meaning,
        at: Timestamp,
        epoch: u64,
    ) {
        self.folders.changed(origin, path, epoch);
        let path = (origin, Arc::from(path));
        self.doubted.changed(&path, &meaning, epoch);
        let known = KnownName {
            meaning,
            since: at,
            epoch,
            own: true,
            stored: None,
            softened: false,
        };
        self.insert(path, known);
    }

    fn find(&mut self, origin: OriginId, path: &str) -> Option<KnownName> {
        let key = (origin, Arc::from(path));
        if let Some(found) = self.young.get(&key) {
            return Some(found.clone());
        }
        let (key, found) = self.old.remove_entry(&key)?;
        self.insert(key, found.clone());
        Some(found)
    }

    /// Returns the answer for a path, unless a later listing has passed it.
    fn current(&mut self, origin: OriginId, path: &str) -> Option<KnownName> {
        let known = self.find(origin, path)?;
        let told = self.folders.passing_epoch(origin, path);
        told.is_none_or(|epoch| known.epoch >= epoch)
            .then_some(known)
    }

    fn insert(&mut self, key: Path, found: KnownName) {
        self.make_room(key.1.len() + ENTRY_OVERHEAD);
        self.old.remove(&key);
        let bytes = key.1.len() + ENTRY_OVERHEAD;
        if self.young.insert(key, found).is_none() {
            self.bytes += bytes;
        }
    }

    /// Accounts for a folder's knowledge as for a name.
    fn charge(&mut self, path: &str) {
        let bytes = path.len() + ENTRY_OVERHEAD;
        self.make_room(bytes);
        self.bytes += bytes;
    }

    fn make_room(&mut self, bytes: usize) {
        if self.bytes + bytes > MAX_GENERATION_BYTES {
            let dropped = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            let own = dropped.values().filter(|known| known.own);
            let last = own.map(|known| known.epoch).max();
            self.forgotten = self.forgotten.max(last.unwrap_or(0));
            self.folders.age();
            self.bytes = 0;
        }
    }

    fn remove(&mut self, origin: OriginId, path: &str) {
        let key = (origin, Arc::from(path));
        self.young.remove(&key);
        self.old.remove(&key);
    }
}

#[cfg(test)]
mod tests;
