//! Which plain files there are, how much they take, and who makes room for whom.
//!
//! A file makes room if nobody has it open, and if it was not used since the object that wants the room
//! was turned away last. So what is read in turns, and is more than there is room for, does not push out
//! the very file that is read next: some of it stays, and is hit.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use crate::plan::{ObjectId, VersionId};

/// The most files: each takes a descriptor.
const MOST: usize = 1024;

/// How many objects are remembered that were turned away.
const REMEMBERED: usize = 4096;

/// How often what is lent counts as used in the cache.
const FRESHENED: Duration = Duration::from_secs(600);

/// The plain file of one version of an object: whole, and never changed.
#[derive(Debug)]
pub struct Backing {
    file: File,
    room: Room,
}

impl Backing {
    pub(super) fn new(file: File, room: Room) -> Self {
        Self { file, room }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// Bytes that one file takes, until it is closed for good.
#[derive(Debug)]
pub(super) struct Room {
    taken: Gauge,
    bytes: u64,
}

impl Room {
    fn take(taken: &Gauge, bytes: u64) -> Self {
        taken.inc_by(signed(bytes));
        Self {
            taken: taken.clone(),
            bytes,
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.taken.dec_by(signed(self.bytes));
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Files that leave the shelf. Closing one can take its time, and is not for who holds a lock.
pub(super) type Leaving = Vec<Arc<Backing>>;

#[derive(Debug)]
struct Laid {
    id: ObjectId,
    backing: Arc<Backing>,
    used: u64,
    freshened: Instant,
}

/// All files. See the module's head.
#[derive(Debug)]
pub(super) struct Shelf {
    size: u64,
    taken: Gauge,
    laid: HashMap<VersionId, Laid>,
    /// Counts uses, and objects that were turned away.
    now: u64,
    turned_away: HashMap<VersionId, u64>,
}

impl Shelf {
    /// For `size` bytes at most.
    pub(super) fn new(size: u64) -> Self {
        Self {
            size,
            taken: Gauge::default(),
            laid: HashMap::new(),
            now: 0,
            turned_away: HashMap::new(),
        }
    }

    /// Bytes that files take; also those that are open still and on the shelf no more.
    pub(super) fn taken(&self) -> Gauge {
        self.taken.clone()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.laid.is_empty()
    }

    pub(super) fn has(&self, version: VersionId) -> bool {
        self.laid.contains_key(&version)
    }

    /// A version's file, which counts as a use; and whether it is time that its chunks do.
    pub(super) fn take(&mut self, version: VersionId) -> Option<(Arc<Backing>, bool)> {
        self.now += 1;
        let laid = self.laid.get_mut(&version)?;
        laid.used = self.now;
        let stale = laid.freshened.elapsed() >= FRESHENED;
        if stale {
            laid.freshened = Instant::now();
        }
        Some((laid.backing.clone(), stale))
    }

    /// Room for a version of so many bytes, and what leaves for it. `None`: too little may leave, which
    /// is remembered.
    pub(super) fn admit(&mut self, version: VersionId, bytes: u64) -> Option<(Room, Leaving)> {
        self.now += 1;
        let since = self.turned_away.remove(&version).unwrap_or(0);
        let taken = u64::try_from(self.taken.get()).unwrap_or(0);
        let over = taken.saturating_add(bytes).saturating_sub(self.size);
        let files = (self.laid.len() + 1).saturating_sub(MOST);
        let idle = self.idle(since);
        let mut freed = 0;
        let leaving: Vec<_> = idle
            .into_iter()
            .enumerate()
            .take_while(|(count, (_, bytes))| {
                let enough = freed >= over && *count >= files;
                freed += bytes;
                !enough
            })
            .map(|(_, (version, _))| version)
            .collect();
        if freed < over || leaving.len() < files {
            self.turn_away(version);
            return None;
        }
        let leaving = self.take_off(leaving);
        Some((Room::take(&self.taken, bytes), leaving))
    }

    fn turn_away(&mut self, version: VersionId) {
        if self.turned_away.len() >= REMEMBERED {
            let oldest = self.turned_away.iter().min_by_key(|(_, when)| **when);
            let oldest = oldest.map(|(version, _)| *version);
            oldest.and_then(|version| self.turned_away.remove(&version));
        }
        self.turned_away.insert(version, self.now);
    }

    /// Files that nobody has open and that were not used since, those first that were not for longest,
    /// each with its bytes.
    fn idle(&self, since: u64) -> Vec<(VersionId, u64)> {
        let idle = self.laid.iter().filter(|(_, laid)| {
            let open = Arc::strong_count(&laid.backing) > 1;
            !open && laid.used < since
        });
        let mut idle: Vec<_> = idle.collect();
        idle.sort_unstable_by_key(|(_, laid)| laid.used);
        idle.into_iter()
            .map(|(version, laid)| (*version, laid.backing.room.bytes))
            .collect()
    }

    /// Takes off what nobody has open until so many bytes are free, as far as it goes.
    pub(super) fn give(&mut self, bytes: u64) -> Leaving {
        let mut freed = 0;
        let leaving = self.idle(u64::MAX).into_iter().take_while(|(_, more)| {
            let before = freed;
            freed += more;
            before < bytes
        });
        let leaving = leaving.map(|(version, _)| version).collect();
        self.take_off(leaving)
    }

    pub(super) fn put(&mut self, version: VersionId, id: ObjectId, backing: Backing) {
        self.now += 1;
        let laid = Laid {
            id,
            backing: Arc::new(backing),
            used: self.now,
            freshened: Instant::now(),
        };
        self.laid.insert(version, laid);
    }

    /// Takes off the files of these objects, open or not.
    pub(super) fn remove(&mut self, of: impl Fn(&ObjectId) -> bool) -> Leaving {
        let removed = self.laid.extract_if(|_, laid| of(&laid.id));
        removed.map(|(_, laid)| laid.backing).collect()
    }

    fn take_off(&mut self, versions: Vec<VersionId>) -> Leaving {
        let laid = versions
            .into_iter()
            .filter_map(|version| self.laid.remove(&version));
        laid.map(|laid| laid.backing).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ObjectKey, OriginId};

    /// Whether there was room for it.
    fn lay(shelf: &mut Shelf, version: u128, bytes: u64) -> bool {
        let Some((room, leaving)) = shelf.admit(VersionId(version), bytes) else {
            return false;
        };
        drop(leaving);
        let id = ObjectId {
            origin: OriginId(1),
            key: ObjectKey::new(&version.to_string()).expect("a key"),
        };
        let file = tempfile::tempfile().expect("a file");
        shelf.put(VersionId(version), id, Backing::new(file, room));
        true
    }

    fn used(shelf: &mut Shelf, version: u128) -> bool {
        shelf.take(VersionId(version)).is_some()
    }

    #[test]
    fn what_was_not_used_since_somebody_was_turned_away_makes_room() {
        let mut shelf = Shelf::new(30);
        assert!((1..=3).all(|version| lay(&mut shelf, version, 10)));
        assert!(!lay(&mut shelf, 4, 10), "all of them were used since");
        assert!(used(&mut shelf, 1) && used(&mut shelf, 3));
        assert!(lay(&mut shelf, 4, 10), "the second was not");
        assert!(!shelf.has(VersionId(2)) && shelf.has(VersionId(4)));
        assert!(!lay(&mut shelf, 5, 20));
        assert!(used(&mut shelf, 4));
        assert!(lay(&mut shelf, 5, 20), "two make room for one");
        assert_eq!(shelf.taken.get(), 30);
        assert!(!shelf.has(VersionId(1)) && !shelf.has(VersionId(3)));
    }

    #[test]
    fn what_is_read_in_turns_and_does_not_fit_is_hit_in_part() {
        let mut shelf = Shelf::new(30);
        let mut hits = 0;
        for turn in 0..10 {
            for version in 0..9 {
                let hit = used(&mut shelf, version);
                hits += u32::from(hit && turn > 0);
                if !hit {
                    lay(&mut shelf, version, 10);
                }
            }
        }
        assert_eq!(hits, 9 * 3, "three of nine each time");
    }

    #[test]
    fn what_is_open_makes_no_room_and_takes_it_until_it_is_closed() {
        let mut shelf = Shelf::new(10);
        assert!(lay(&mut shelf, 1, 10));
        let open = shelf.take(VersionId(1));
        assert!(!lay(&mut shelf, 2, 10) && !lay(&mut shelf, 2, 10));
        assert!(shelf.give(1).is_empty());
        assert!(shelf.remove(|id| id.key.as_str() == "other").is_empty());
        assert_eq!(shelf.remove(|id| id.key.as_str() == "1").len(), 1);
        assert!(shelf.is_empty() && !lay(&mut shelf, 2, 10));
        drop(open);
        assert!(lay(&mut shelf, 2, 10));
        assert_eq!(shelf.give(1).len(), 1);
        assert_eq!(shelf.taken.get(), 0);
    }

    #[test]
    fn there_are_no_more_files_than_may_be() {
        let mut shelf = Shelf::new(u64::MAX);
        for version in 0..MOST as u128 {
            assert!(lay(&mut shelf, version, 1));
        }
        let next = MOST as u128;
        assert!(!lay(&mut shelf, next, 1));
        assert!(lay(&mut shelf, next, 1), "the first was not used since");
        assert!(!shelf.has(VersionId(0)) && shelf.has(VersionId(1)));
        // Who was turned away is remembered, and not for ever.
        for version in 0..2 * REMEMBERED as u128 {
            assert!(used(&mut shelf, next) && !lay(&mut shelf, 1 << 64 | version, u64::MAX));
        }
        assert_eq!(shelf.turned_away.len(), REMEMBERED);
    }
}
