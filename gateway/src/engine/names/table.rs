//! The table of names: bounded, and for a while.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::Facts;
use crate::plan::{OriginId, Timestamp};

/// What a generation of names may take; there are two. With names of 60 bytes that makes about
/// 80,000 of them: several folders of the kind that people have, and never more than 32 MiB.
const GENERATION: usize = 16 << 20;

/// What an entry takes beside its name: the table's slot, the shared text, an ETag.
const OVERHEAD: usize = 140;

/// What a name means, as kept.
#[derive(Debug, Clone)]
pub(super) enum Meaning {
    /// An object, as a listing told.
    File(Facts),
    Folder,
    Missing,
}

impl Meaning {
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
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
    /// The epoch that this process itself began by making it so; 0: it was asked.
    noted: u64,
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
    /// The epoch that the last purge began of those that are not among these any more.
    purged: u64,
    /// Folders that this process made, and when. All that is in one of them is known, as long as no
    /// name has left the table: whatever is not, is missing.
    made: HashMap<Path, Timestamp>,
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

    /// What is known of a path, and for how long still.
    pub(super) fn get(&self, asked: &Asked, path: &str) -> Option<(Meaning, Duration)> {
        let mut names = self.lock();
        let Known { meaning, since, .. } = names.find(asked.origin, path)?;
        let ttl = match meaning {
            Meaning::Missing => asked.negative_ttl,
            _ => asked.ttl,
        };
        let left = ttl.checked_sub(asked.at.since(since))?;
        (!left.is_zero()).then_some((meaning, left))
    }

    /// What a path meant when it was last found out, if that is not too long ago to be told while
    /// the origin fails.
    pub(super) fn stale(&self, asked: &Asked, path: &str) -> Option<Meaning> {
        let Known { meaning, since, .. } = self.lock().find(asked.origin, path)?;
        let most = asked.ttl + asked.stale_if_error;
        (asked.at.since(since) < most).then_some(meaning)
    }

    /// The `ctime` that was last told of a file, whether or not that is fresh.
    pub(in crate::engine) fn changed(&self, origin: OriginId, path: &str) -> Option<Timestamp> {
        match self.lock().find(origin, path)?.meaning {
            Meaning::File(facts) => facts.changed,
            Meaning::Folder | Meaning::Missing => None,
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
        let mut from = Bound::Excluded((origin, Arc::from(path)));
        // What is no such file is passed over, but not without end.
        for _ in 0..count * 4 {
            let Some((key, known)) = names.next(from) else {
                break;
            };
            let Some(name) = key.1.strip_prefix(folder).filter(|_| key.0 == origin) else {
                break;
            };
            if let Some((below, _)) = name.split_once('/') {
                // Past all of that folder: `0` comes after `/`.
                from = Bound::Included((origin, format!("{folder}{below}0").into()));
                continue;
            }
            if let Meaning::File(facts) = &known.meaning
                && (1..=size).contains(&facts.size)
            {
                files.push((key.1.clone(), facts.size));
            }
            if files.len() >= count {
                break;
            }
            from = Bound::Excluded(key.clone());
        }
        files
    }

    /// Remembers what was found, unless a purge came in between, or this process changed any name.
    pub(super) fn put(&self, asked: &Asked, path: &str, meaning: Meaning) {
        let mut names = self.lock();
        if self.epoch() == asked.epoch {
            names.insert((asked.origin, path.into()), Known::asked(asked, meaning));
        }
    }

    /// The same of a name that was listed, which only a change of this very name makes old: else no
    /// listing would be of use where much is written.
    pub(super) fn put_listed(&self, asked: &Asked, path: &str, meaning: Meaning) {
        let mut names = self.lock();
        if names.holds(asked, path) {
            names.insert((asked.origin, path.into()), Known::asked(asked, meaning));
        }
    }

    /// Whether what was found out of a name holds still: it was not purged, nor changed here, since it was
    /// asked.
    pub(super) fn holds(&self, asked: &Asked, path: &str) -> bool {
        self.lock().holds(asked, path)
    }

    /// Remembers what this process itself has made of a name. Newer than whatever is being found out.
    pub(super) fn note(&self, origin: OriginId, path: &str, meaning: Meaning, at: Timestamp) {
        let mut names = self.lock();
        let noted = self.begin_epoch();
        names.made.remove(&(origin, path.into()));
        if !matches!(meaning, Meaning::Missing) {
            names.forget_missing(origin, path);
        }
        let known = Known {
            meaning,
            since: at,
            noted,
        };
        names.insert((origin, path.into()), known);
    }

    /// The same for a folder that was made just now, with nothing in it.
    pub(super) fn note_made(&self, origin: OriginId, path: &str, at: Timestamp) {
        self.note(origin, path, Meaning::Folder, at);
        self.lock().made.insert((origin, path.into()), at);
    }

    /// Whether the path can only be missing, because all of its folder is known, and for how long
    /// that holds. To be asked where [`Table::get`] knows nothing.
    pub(super) fn is_missing(&self, asked: &Asked, path: &str) -> Option<Duration> {
        let (folder, _) = path.rsplit_once('/')?;
        let mut names = self.lock();
        let since = *names.made.get(&(asked.origin, folder.into()))?;
        let left = asked.ttl.checked_sub(asked.at.since(since));
        if left.is_none_or(|left| left.is_zero()) {
            names.made.remove(&(asked.origin, folder.into()));
            return None;
        }
        left
    }

    /// Forgets what may no longer be true once the key is purged: itself, a folder of its name, and
    /// that a folder on its path is missing.
    pub(in crate::engine) fn purge_key(&self, origin: OriginId, key: &str) {
        let mut names = self.lock();
        names.note_purge(self.begin_epoch(), origin, key);
        names.remove(origin, key.trim_end_matches('/'));
        names.forget_missing(origin, key);
        names.doubt(origin, key);
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
        names.doubt(origin, prefix);
        names.made.retain(|(of, path), _| !covered(*of, path));
    }
}

impl Known {
    fn asked(asked: &Asked, meaning: Meaning) -> Self {
        Self {
            meaning,
            since: asked.at,
            noted: 0,
        }
    }
}

impl Generations {
    /// See [`Table::holds`].
    fn holds(&mut self, asked: &Asked, path: &str) -> bool {
        let noted = self.find(asked.origin, path).map_or(0, |it| it.noted);
        let since = self.purges.iter().filter(|it| it.epoch > asked.epoch);
        let mut since = since.filter(|it| it.origin == asked.origin);
        self.purged.max(noted) <= asked.epoch && !since.any(|it| it.touches(path))
    }

    fn note_purge(&mut self, epoch: u64, origin: OriginId, prefix: &str) {
        if self.purges.len() == PURGES
            && let Some(oldest) = self.purges.pop_front()
        {
            self.purged = oldest.epoch;
        }
        self.purges.push_back(Purge {
            epoch,
            origin,
            prefix: prefix.trim_end_matches('/').to_owned(),
        });
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

    fn insert(&mut self, key: Path, found: Known) {
        let bytes = key.1.len() + OVERHEAD;
        if self.bytes + bytes > GENERATION {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
            // What leaves the table may have been in one of them.
            self.made.clear();
        }
        self.old.remove(&key);
        if self.young.insert(key, found).is_none() {
            self.bytes += bytes;
        }
    }

    fn remove(&mut self, origin: OriginId, path: &str) {
        let key = (origin, Arc::from(path));
        self.young.remove(&key);
        self.old.remove(&key);
    }

    /// Not all of the folders on the way to a key is known any more.
    fn doubt(&mut self, origin: OriginId, key: &str) {
        if self.made.is_empty() {
            return;
        }
        for (at, _) in key.match_indices('/') {
            self.made.remove(&(origin, Arc::from(&key[..at])));
        }
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
mod tests {
    use super::*;

    const ORIGIN: OriginId = OriginId(1);

    fn asked(table: &Table, at: u64) -> Asked {
        Asked {
            origin: ORIGIN,
            epoch: table.epoch(),
            at: Timestamp(at),
            ttl: Duration::from_millis(100),
            negative_ttl: Duration::from_millis(10),
            stale_if_error: Duration::from_millis(1000),
        }
    }

    fn has(table: &Table, at: u64, path: &str) -> bool {
        table.get(&asked(table, at), path).is_some()
    }

    #[test]
    fn names_live_for_their_time() {
        let table = Table::default();
        table.put(&asked(&table, 0), "f", Meaning::Folder);
        table.put(&asked(&table, 0), "m", Meaning::Missing);
        assert!(has(&table, 9, "f") && has(&table, 9, "m"));
        assert!(has(&table, 99, "f") && !has(&table, 10, "m"));
        assert!(!has(&table, 100, "f"));
    }

    #[test]
    fn a_purge_forgets_what_it_may_have_made_wrong() {
        let table = Table::default();
        for (path, meaning) in [
            ("a", Meaning::Folder),
            ("a/new", Meaning::Missing),
            ("a/old", Meaning::Folder),
            ("b", Meaning::Folder),
        ] {
            table.put(&asked(&table, 0), path, meaning);
        }
        let before = asked(&table, 0);
        table.purge_key(ORIGIN, "a/new/x");
        assert!(!has(&table, 1, "a/new") && has(&table, 1, "a") && has(&table, 1, "a/old"));
        table.put(&before, "a/new", Meaning::Missing);
        assert!(!has(&table, 1, "a/new"));
        table.purge_prefix(ORIGIN, "a/");
        assert!(!has(&table, 1, "a") && !has(&table, 1, "a/old") && has(&table, 1, "b"));
    }

    #[test]
    fn a_listing_brings_nothing_old_back() {
        let table = Table::default();
        let before = asked(&table, 0);
        let list = |asked: &Asked| {
            for path in ["f/here", "f/gone", "f/other"] {
                table.put_listed(asked, path, Meaning::Folder);
            }
        };
        let missing = |path| {
            let (meaning, _) = table.get(&asked(&table, 1), path).expect("known");
            meaning.is_missing()
        };
        table.note(ORIGIN, "f/gone", Meaning::Missing, Timestamp(0));
        list(&before);
        assert!(missing("f/gone") && !missing("f/here") && !missing("f/other"));
        list(&asked(&table, 1));
        assert!(!missing("f/gone"), "somebody else has put it there");
        table.purge_key(ORIGIN, "f/here");
        list(&before);
        assert!(!has(&table, 1, "f/here") && has(&table, 1, "f/other"));
    }

    #[test]
    fn all_of_a_folder_that_was_made_is_known() {
        let table = Table::default();
        let missing = |at, path: &str| table.is_missing(&asked(&table, at), path).is_some();
        assert!(!missing(0, "f/a") && !missing(0, "top"));
        table.note_made(ORIGIN, "f", Timestamp(0));
        assert!(has(&table, 1, "f") && missing(99, "f/a") && !missing(1, "f/a/b"));
        table.note(ORIGIN, "f/a", Meaning::Folder, Timestamp(50));
        assert!(has(&table, 99, "f/a") && missing(99, "f/b") && !missing(60, "f/a/b"));
        assert!(!missing(100, "f/b"), "it is no longer fresh");
        // Something was put there that the table was not told of.
        for put in ["f/a/new", "f/b"] {
            table.note_made(ORIGIN, "f", Timestamp(0));
            table.purge_key(ORIGIN, put);
            assert!(!missing(1, "f/c"), "{put}");
        }
        table.note_made(ORIGIN, "f", Timestamp(0));
        table.note(ORIGIN, "f", Meaning::Missing, Timestamp(1));
        assert!(!missing(1, "f/c"));
    }

    #[test]
    fn the_files_of_a_folder_come_in_their_order() {
        let table = Table::default();
        let file = |size| {
            Meaning::File(Facts {
                size,
                modified: None,
                changed: None,
                etag: None,
                version: None,
            })
        };
        for (path, meaning) in [
            ("f/c", file(3)),
            ("f/a", file(1)),
            ("f/sub/x", file(1)),
            ("f/sub", Meaning::Folder),
            ("f/z", file(9)),
            ("f/b", Meaning::Missing),
            ("f/empty", file(0)),
            ("f/large", file(10)),
            ("g", file(1)),
            ("e/0", file(1)),
        ] {
            table.put(&asked(&table, 0), path, meaning);
        }
        let after = |path: &str, count| {
            let files = table.files_after((ORIGIN, path), count, 9);
            files
                .iter()
                .map(|(path, size)| format!("{path} {size}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let check = || {
            assert_eq!(after("f/a", 9), "f/c 3, f/z 9");
            assert_eq!(after("f/a", 1), "f/c 3");
            assert_eq!(after("f/z", 9), "");
            assert_eq!(after("d", 9), "g 1");
            assert_eq!(table.files_after((OriginId(0), "f/a"), 9, 9), []);
        };
        check();
        // Half of them among the old.
        {
            let mut names = table.lock();
            let names = &mut *names;
            names.old = names.young.split_off(&(ORIGIN, "f/d".into()));
        }
        check();
    }

    #[test]
    fn it_is_bounded_and_keeps_what_is_asked_for() {
        let table = Table::default();
        table.put(&asked(&table, 0), "kept", Meaning::Folder);
        for n in 0..300_000 {
            table.put(&asked(&table, 0), &format!("folder/{n}"), Meaning::Folder);
            if n % 1000 == 0 {
                assert!(has(&table, 1, "kept"));
            }
        }
        let names = table.lock();
        assert!((names.young.len() + names.old.len()) * OVERHEAD <= 2 * GENERATION);
    }
}
