//! The table of names: bounded, and for a while.
//!
//! A name is known by itself, or because all of its folder is (`folders`): what a listing has passed and not
//! told is missing. Of two statements the later one holds, and what this process has changed itself is later
//! than everything that was asked before. *Later* is told by epochs, not by the clock, which may be set back.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::{Entry, Facts};
use crate::plan::{OriginId, Timestamp};

mod folders;

use folders::Folders;
pub(super) use folders::{Cursor, KnownNames, Landing, Then, Told, split};

/// What a generation of names may take; there are two. With names of 60 bytes that makes about
/// 70,000 of them: several folders of the kind that people have, and never more than 32 MiB.
const GENERATION: usize = 16 << 20;

/// What an entry takes beside its name: the table's slot, the shared text, an ETag.
const OVERHEAD: usize = 170;

/// What a name means, as kept.
#[derive(Debug, Clone)]
pub(super) enum Meaning {
    /// An object, as a listing told.
    File(Facts),
    Folder,
    Missing,
    /// It was changed here, and what came of it was not said: it is asked for by itself.
    Unknown,
}

impl Meaning {
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }

    /// What frontends are told, where there is something.
    fn entry(&self) -> Option<Entry> {
        match self {
            Self::File(facts) => Some(Entry::File(facts.clone())),
            Self::Folder => Some(Entry::Folder),
            Self::Missing | Self::Unknown => None,
        }
    }
}

/// When and how something was asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) origin: OriginId,
    /// What was asked before a purge is not remembered after it.
    pub(super) epoch: u64,
    pub(super) at: Timestamp,
    pub(super) ttl: Duration,
    pub(super) negative_ttl: Duration,
    pub(super) stale_if_error: Duration,
}

/// What is known of a name, and fresh.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) meaning: Meaning,
    /// For how long that holds.
    pub(super) left: Duration,
    /// When it was found out.
    pub(super) since: Timestamp,
}

/// Names by origin and path, the path without a slash at its end.
#[derive(Debug, Default)]
pub(in crate::engine) struct Table {
    generations: Mutex<Generations>,
    epoch: AtomicU64,
}

type Path = (OriginId, Arc<str>);
/// In the order in which a bucket lists them.
type Names = BTreeMap<Path, Known>;

#[derive(Debug, Clone)]
struct Known {
    meaning: Meaning,
    since: Timestamp,
    /// The epoch in which it was asked, or that this process itself began by making it so.
    epoch: u64,
    /// This process made it so.
    own: bool,
    /// When the bucket says that a listed object was written.
    stored: Option<Timestamp>,
}

/// So many purges are told apart; what was asked before older ones counts as purged.
const PURGES: usize = 64;

/// A purge of a key, or of all that begin with a prefix.
#[derive(Debug)]
struct Purge {
    epoch: u64,
    origin: OriginId,
    prefix: String,
}

impl Purge {
    /// Whether it may change what a path means: it lies at or below it, or the path below that.
    fn touches(&self, path: &str) -> bool {
        path.starts_with(&self.prefix) || self.prefix.starts_with(path)
    }
}

/// New names go into the young generation. When it is full it becomes the old one, and what is
/// still asked for moves on.
#[derive(Debug, Default)]
struct Generations {
    young: Names,
    old: Names,
    bytes: usize,
    /// What was purged last, the oldest first.
    purges: VecDeque<Purge>,
    /// The last epoch of those that are told apart no more: of a purge that is not among these, or of a change
    /// whose name has left the table.
    forgotten: u64,
    /// What is known of folders as a whole.
    folders: Folders,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.generations
            .lock()
            .expect("no code panics while it holds this lock")
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    fn begin_epoch(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// What is known of a path and fresh, by itself or because all of its folder is.
    pub(super) fn get(&self, asked: &Asked, path: &str) -> Option<Seen> {
        let mut names = self.lock();
        let missing = names.folders.missing(asked, path);
        let Some(Known { meaning, since, .. }) = names.standing(asked.origin, path) else {
            return missing;
        };
        let ttl = match meaning {
            Meaning::Missing => asked.negative_ttl,
            Meaning::File(_) | Meaning::Folder => asked.ttl,
            Meaning::Unknown => return None,
        };
        let left = ttl.saturating_sub(asked.at.since(since));
        match (left.is_zero(), &meaning) {
            (true, Meaning::Missing) => missing,
            (true, _) => None,
            (false, _) => Some(Seen {
                meaning,
                left,
                since,
            }),
        }
    }

    /// What a path meant when it was last found out, if that is not too long ago to be told while
    /// the origin fails.
    pub(super) fn stale(&self, asked: &Asked, path: &str) -> Option<Meaning> {
        let Known { meaning, since, .. } = self.lock().standing(asked.origin, path)?;
        let most = asked.ttl + asked.stale_if_error;
        (asked.at.since(since) < most).then_some(meaning)
    }

    /// When a path was last found missing, or a listing was asked for that has passed it in silence, if nothing
    /// else was found of it since; however long ago that was.
    pub(super) fn passed(&self, origin: OriginId, path: &str) -> Option<Timestamp> {
        let mut names = self.lock();
        match names.standing(origin, path) {
            Some(known) => known.meaning.is_missing().then_some(known.since),
            None => names.folders.passed(origin, path),
        }
    }

    /// What a listing told of an object, when it was asked, and when the bucket says that the object was
    /// written: if that is fresh, and nothing was changed here since.
    pub(super) fn listed(
        &self,
        asked: &Asked,
        path: &str,
    ) -> Option<(Facts, Timestamp, Timestamp)> {
        let known = self.lock().standing(asked.origin, path)?;
        let fresh = asked.at.since(known.since) < asked.ttl;
        match (known.meaning, known.stored) {
            (Meaning::File(facts), Some(stored)) if fresh && !known.own => {
                Some((facts, known.since, stored))
            }
            _ => None,
        }
    }

    /// The `ctime` that was last told of a file, whether or not that is fresh.
    pub(in crate::engine) fn changed(&self, origin: OriginId, path: &str) -> Option<Timestamp> {
        match self.lock().find(origin, path)?.meaning {
            Meaning::File(facts) => facts.changed,
            Meaning::Folder | Meaning::Missing | Meaning::Unknown => None,
        }
    }

    /// The files of its folder that come after `path`, whether or not what is known of them is fresh:
    /// at most `count` of no more than `size` bytes, with their sizes. Empty ones are left out.
    pub(in crate::engine) fn files_after(
        &self,
        (origin, path): (OriginId, &str),
        count: usize,
        size: u64,
    ) -> Vec<(Arc<str>, u64)> {
        let names = self.lock();
        let folder = &path[..path.rfind('/').map_or(0, |at| at + 1)];
        let mut files = Vec::new();
        // What is no such file is passed over, but not without end.
        let all = names.in_folder(origin, folder, Some(&path[folder.len()..]));
        for (_, path, known) in all.take(count * 4) {
            if let Meaning::File(facts) = &known.meaning
                && (1..=size).contains(&facts.size)
            {
                files.push((path.clone(), facts.size));
            }
            if files.len() >= count {
                break;
            }
        }
        files
    }

    /// Remembers what was found, unless a purge came in between, or this process changed the name.
    pub(super) fn put(&self, asked: &Asked, path: &str, meaning: Meaning) {
        self.lock().put(asked, path, meaning, None);
    }

    /// Whether what was found out of a name holds still: it was not purged, nor changed here, since it was
    /// asked.
    pub(super) fn holds(&self, asked: &Asked, path: &str) -> bool {
        self.lock().holds(asked, path)
    }

    /// Remembers what this process itself has made of a name. Newer than whatever is being found out.
    pub(super) fn note(&self, origin: OriginId, path: &str, meaning: Meaning, at: Timestamp) {
        let mut names = self.lock();
        let epoch = self.begin_epoch();
        names.note((origin, path), meaning, at, epoch);
    }

    /// The same for a folder that was made just now, with nothing in it.
    pub(super) fn note_made(&self, origin: OriginId, path: &str, at: Timestamp) {
        let mut names = self.lock();
        let epoch = self.begin_epoch();
        names.note((origin, path), Meaning::Folder, at, epoch);
        names.charge(path);
        names.folders.made(origin, path, at, epoch);
    }

    /// Remembers that this process has changed an object, or may have, and does not say into what. What else
    /// is known of its folder stands.
    pub(in crate::engine) fn forget_key(&self, origin: OriginId, key: &str) {
        let mut names = self.lock();
        let epoch = self.begin_epoch();
        let path = key.trim_end_matches('/');
        names.folders.forget(origin, path);
        for (end, _) in path.match_indices('/') {
            let folder = &path[..end];
            let known = names.standing(origin, folder).map(|known| known.meaning);
            if !matches!(known, Some(Meaning::Folder)) {
                names.set((origin, folder), Meaning::Unknown, Timestamp(0), epoch);
            }
        }
        names.set((origin, path), Meaning::Unknown, Timestamp(0), epoch);
    }

    /// Forgets what may no longer be true once the key is purged: itself, a folder of its name, and
    /// that a folder on its path is missing.
    pub(in crate::engine) fn purge_key(&self, origin: OriginId, key: &str) {
        let mut names = self.lock();
        names.note_purge(self.begin_epoch(), origin, key);
        names.remove(origin, key.trim_end_matches('/'));
        names.forget_missing(origin, key);
        names.folders.doubt(origin, key);
    }

    /// The same for every key that begins with `prefix`.
    pub(in crate::engine) fn purge_prefix(&self, origin: OriginId, prefix: &str) {
        let mut names = self.lock();
        names.note_purge(self.begin_epoch(), origin, prefix);
        let bare = prefix.trim_end_matches('/');
        let covered = |of: OriginId, path: &str| of == origin && path.starts_with(bare);
        names.young.retain(|(of, path), _| !covered(*of, path));
        names.old.retain(|(of, path), _| !covered(*of, path));
        names.forget_missing(origin, prefix);
        names.folders.doubt(origin, prefix);
        names.folders.retain(|of, path| !covered(of, path));
    }
}

impl Generations {
    /// See [`Table::put`].
    fn put(&mut self, asked: &Asked, path: &str, meaning: Meaning, stored: Option<Timestamp>) {
        // What was asked later is not replaced by what was asked before.
        let later = self.find(asked.origin, path);
        let later = later.is_some_and(|known| known.epoch > asked.epoch);
        if !later && self.holds(asked, path) {
            let known = Known {
                meaning,
                since: asked.at,
                epoch: asked.epoch,
                own: false,
                stored,
            };
            self.insert((asked.origin, path.into()), known);
        }
    }

    /// See [`Table::holds`].
    fn holds(&mut self, asked: &Asked, path: &str) -> bool {
        let known = self.find(asked.origin, path).filter(|known| known.own);
        let changed = known.map_or(0, |known| known.epoch).max(self.forgotten);
        changed <= asked.epoch && !self.is_purged_since(asked, path)
    }

    /// Whether a purge after it was asked may have changed what the path means.
    fn is_purged_since(&self, asked: &Asked, path: &str) -> bool {
        let since = self.purges.iter().filter(|it| it.epoch > asked.epoch);
        let mut since = since.filter(|it| it.origin == asked.origin);
        self.forgotten > asked.epoch || since.any(|it| it.touches(path))
    }

    fn note_purge(&mut self, epoch: u64, origin: OriginId, prefix: &str) {
        if self.purges.len() == PURGES
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

    /// See [`Table::note`]. What is there is in folders that are.
    fn note(
        &mut self,
        (origin, path): (OriginId, &str),
        meaning: Meaning,
        at: Timestamp,
        epoch: u64,
    ) {
        self.folders.forget(origin, path);
        if !meaning.is_missing() {
            for (end, _) in path.match_indices('/') {
                let folder = &path[..end];
                let known = self.standing(origin, folder).map(|known| known.meaning);
                // A name that was known as a file before stays one until that is no longer fresh.
                if !matches!(known, Some(Meaning::File(_))) {
                    self.set((origin, folder), Meaning::Folder, at, epoch);
                }
            }
        }
        self.set((origin, path), meaning, at, epoch);
    }

    /// This process has made a name mean this.
    fn set(
        &mut self,
        (origin, path): (OriginId, &str),
        meaning: Meaning,
        at: Timestamp,
        epoch: u64,
    ) {
        self.folders.changed(origin, path, epoch);
        let known = Known {
            meaning,
            since: at,
            epoch,
            own: true,
            stored: None,
        };
        self.insert((origin, path.into()), known);
    }

    fn find(&mut self, origin: OriginId, path: &str) -> Option<Known> {
        let key = (origin, Arc::from(path));
        if let Some(found) = self.young.get(&key) {
            return Some(found.clone());
        }
        let (key, found) = self.old.remove_entry(&key)?;
        self.insert(key, found.clone());
        Some(found)
    }

    /// What was found of a path, unless a listing that was begun later has passed it.
    fn standing(&mut self, origin: OriginId, path: &str) -> Option<Known> {
        let known = self.find(origin, path)?;
        let told = self.folders.told(origin, path);
        told.is_none_or(|epoch| known.epoch >= epoch)
            .then_some(known)
    }

    /// The first name from there on.
    fn next(&self, from: Bound<Path>) -> Option<(&Path, &Known)> {
        let range = (from, Bound::Unbounded);
        let young = self.young.range(range.clone()).next();
        let old = self.old.range(range).next();
        match (young, old) {
            (Some(young), Some(old)) => Some(if old.0 < young.0 { old } else { young }),
            (one, other) => one.or(other),
        }
    }

    /// The names in the folder of this prefix (empty, or with a `/` at its end), in their order, from the one
    /// behind `after` on: the name, its path, what is known.
    fn in_folder<'a>(
        &'a self,
        origin: OriginId,
        prefix: &'a str,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&'a str, &'a Arc<str>, &'a Known)> {
        let mut from = match after {
            Some(name) => Bound::Excluded((origin, format!("{prefix}{name}").into())),
            None => Bound::Included((origin, prefix.into())),
        };
        std::iter::from_fn(move || {
            loop {
                let (key, known) = self.next(from.clone())?;
                let name = key.1.strip_prefix(prefix).filter(|_| key.0 == origin)?;
                if let Some((below, _)) = name.split_once('/') {
                    // Past all of that folder: `0` comes after `/`.
                    from = Bound::Included((origin, format!("{prefix}{below}0").into()));
                    continue;
                }
                from = Bound::Excluded(key.clone());
                return Some((name, &key.1, known));
            }
        })
    }

    fn insert(&mut self, key: Path, found: Known) {
        self.make_room(key.1.len() + OVERHEAD);
        self.old.remove(&key);
        let bytes = key.1.len() + OVERHEAD;
        if self.young.insert(key, found).is_none() {
            self.bytes += bytes;
        }
    }

    /// What is known of a folder as a whole takes room as a name does.
    fn charge(&mut self, path: &str) {
        let bytes = path.len() + OVERHEAD;
        self.make_room(bytes);
        self.bytes += bytes;
    }

    fn make_room(&mut self, bytes: usize) {
        if self.bytes + bytes > GENERATION {
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

    fn forget_missing(&mut self, origin: OriginId, key: &str) {
        for (at, _) in key.match_indices('/') {
            let path = &key[..at];
            let known = self.find(origin, path);
            if known.is_some_and(|known| known.meaning.is_missing()) {
                self.remove(origin, path);
            }
        }
    }
}

#[cfg(test)]
mod tests;
