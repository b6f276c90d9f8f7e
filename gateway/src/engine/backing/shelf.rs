//! Which plain files there are, how much they take, and who makes room for whom.
//!
//! A file makes room if nobody has it open, and if it was not used since the object that wants the room
//! was turned away last. So what is read in turns, and is more than there is room for, does not push out
//! the very file that is read next: some of it stays, and is hit.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::plan::{ObjectId, VersionId};

/// How many objects are remembered that were turned away.
const REMEMBERED: usize = 4096;

/// How often what is used here counts as used in the cache.
const FRESHENED: Duration = Duration::from_secs(600);

/// The plain file of one version of an object: whole, and never changed. It is closed behind the back of
/// who drops it last: a large one takes its time, and a disk that hangs has no end.
#[derive(Debug)]
pub struct Backing {
    /// `None` while it is dropped.
    held: Option<(File, Room)>,
    bytes: u64,
    closer: Closer,
}

impl Backing {
    pub(super) fn new(file: File, room: Room, closer: &Closer) -> Self {
        Self {
            bytes: room.bytes,
            held: Some((file, room)),
            closer: closer.clone(),
        }
    }

    /// The file.
    ///
    /// # Panics
    /// Never: it is there until it is dropped.
    #[must_use]
    pub fn file(&self) -> &File {
        let (file, _) = self.held.as_ref().expect("it is not dropped");
        file
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            // Without its thread it is closed right here.
            let _ = self.closer.0.send(Closing::File(held));
        }
    }
}

/// Closes files on a thread of its own, one after the other.
#[derive(Debug, Clone)]
pub(super) struct Closer(Sender<Closing>);

#[derive(Debug)]
enum Closing {
    File(#[expect(dead_code, reason = "dropped, not looked at")] (File, Room)),
    Told(Sender<()>),
}

impl Closer {
    pub(super) fn start() -> io::Result<Self> {
        let (sender, files) = channel();
        let run = move || {
            for closing in files {
                if let Closing::Told(told) = closing {
                    let _ = told.send(());
                }
            }
        };
        // It ends with the last who could send it anything, and nobody waits for it.
        drop(
            std::thread::Builder::new()
                .name("close".to_owned())
                .spawn(run)?,
        );
        Ok(Self(sender))
    }

    /// Returns when everything is closed that was dropped before.
    pub(super) async fn settled(&self) {
        let (told, settled) = channel();
        let _ = self.0.send(Closing::Told(told));
        let _ = spawn_blocking(move || settled.recv()).await;
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

#[derive(Debug)]
struct Laid {
    id: ObjectId,
    backing: Arc<Backing>,
    used: u64,
    /// When its chunks counted as used last, and what `used` was then.
    freshened: (Instant, u64),
}

/// All files. See the module's head.
#[derive(Debug)]
pub(super) struct Shelf {
    size: u64,
    /// The most files: each takes a descriptor.
    most: usize,
    taken: Gauge,
    laid: HashMap<VersionId, Laid>,
    /// Counts uses, and objects that were turned away.
    now: u64,
    turned_away: HashMap<VersionId, u64>,
}

impl Shelf {
    /// For `size` bytes at most, in `most` files.
    pub(super) fn new(size: u64, most: usize) -> Self {
        Self {
            size,
            most,
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

    /// A version's file, which counts as a use.
    pub(super) fn take(&mut self, version: VersionId) -> Option<Arc<Backing>> {
        self.now += 1;
        let laid = self.laid.get_mut(&version)?;
        laid.used = self.now;
        Some(laid.backing.clone())
    }

    /// Versions and sizes of what was used, or is open, and did not count as used in the cache for long.
    /// Now it does.
    pub(super) fn freshen(&mut self) -> Vec<(VersionId, u64)> {
        let mut stale = Vec::new();
        for (version, laid) in &mut self.laid {
            let (when, used) = laid.freshened;
            let in_use = laid.used > used || Arc::strong_count(&laid.backing) > 1;
            if in_use && when.elapsed() >= FRESHENED {
                laid.freshened = (Instant::now(), laid.used);
                stale.push((*version, laid.backing.bytes));
            }
        }
        stale
    }

    /// Room for a version of so many bytes, of which so many are lacking on the file system. What has to
    /// leave for it does. `None`: too little may leave, so nothing does, which is remembered.
    pub(super) fn admit(&mut self, version: VersionId, bytes: u64, lacking: u64) -> Option<Room> {
        self.now += 1;
        let since = self.turned_away.remove(&version).unwrap_or(0);
        let taken = u64::try_from(self.taken.get()).unwrap_or(0);
        let over = taken.saturating_add(bytes).saturating_sub(self.size);
        let over = over.max(lacking);
        let files = (self.laid.len() + 1).saturating_sub(self.most);
        let (mut freed, mut leaving) = (0, Vec::new());
        for (version, bytes) in self.idle(since) {
            if freed >= over && leaving.len() >= files {
                break;
            }
            freed += bytes;
            leaving.push(version);
        }
        if freed < over || leaving.len() < files {
            self.turn_away(version);
            return None;
        }
        self.laid.retain(|version, _| !leaving.contains(version));
        Some(Room::take(&self.taken, bytes))
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
            .map(|(version, laid)| (*version, laid.backing.bytes))
            .collect()
    }

    /// Takes off what nobody has open until so many bytes are free, as far as it goes.
    pub(super) fn give(&mut self, bytes: u64) {
        let mut freed = 0;
        for (version, more) in self.idle(u64::MAX) {
            if freed >= bytes {
                return;
            }
            freed += more;
            self.laid.remove(&version);
        }
    }

    pub(super) fn put(&mut self, version: VersionId, id: ObjectId, backing: Backing) {
        self.now += 1;
        let laid = Laid {
            id,
            backing: Arc::new(backing),
            used: self.now,
            freshened: (Instant::now(), self.now),
        };
        self.laid.insert(version, laid);
    }

    /// Takes off the files of these objects, open or not.
    pub(super) fn remove(&mut self, of: impl Fn(&ObjectId) -> bool) {
        self.laid.retain(|_, laid| !of(&laid.id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ObjectKey, OriginId};

    const MOST: usize = 8;

    fn shelf(size: u64) -> (Shelf, Closer) {
        (Shelf::new(size, MOST), Closer::start().expect("a thread"))
    }

    /// Whether there was room for it, of which so much is lacking on the file system.
    async fn lay_lacking(
        (shelf, closer): &mut (Shelf, Closer),
        version: u128,
        bytes: u64,
        lacking: u64,
    ) -> bool {
        let Some(room) = shelf.admit(VersionId(version), bytes, lacking) else {
            return false;
        };
        closer.settled().await;
        let id = ObjectId {
            origin: OriginId(1),
            key: ObjectKey::new(&version.to_string()).expect("a key"),
        };
        let file = tempfile::tempfile().expect("a file");
        shelf.put(VersionId(version), id, Backing::new(file, room, closer));
        true
    }

    async fn lay(shelf: &mut (Shelf, Closer), version: u128, bytes: u64) -> bool {
        lay_lacking(shelf, version, bytes, 0).await
    }

    fn used(shelf: &mut (Shelf, Closer), version: u128) -> bool {
        shelf.0.take(VersionId(version)).is_some()
    }

    fn has(shelf: &(Shelf, Closer), version: u128) -> bool {
        shelf.0.has(VersionId(version))
    }

    #[tokio::test]
    async fn what_was_not_used_since_somebody_was_turned_away_makes_room() {
        let mut shelf = shelf(30);
        for version in 1..=3 {
            assert!(lay(&mut shelf, version, 10).await);
        }
        assert!(!lay(&mut shelf, 4, 10).await, "all of them were used since");
        assert!(used(&mut shelf, 1) && used(&mut shelf, 3));
        assert!(lay(&mut shelf, 4, 10).await, "the second was not");
        assert!(!has(&shelf, 2) && has(&shelf, 4));
        assert!(!lay(&mut shelf, 5, 20).await);
        assert!(used(&mut shelf, 4));
        assert!(lay(&mut shelf, 5, 20).await, "two make room for one");
        assert_eq!(shelf.0.taken.get(), 30);
        assert!(!has(&shelf, 1) && !has(&shelf, 3));
    }

    #[tokio::test]
    async fn a_file_system_that_is_full_is_no_other_than_a_full_shelf() {
        let mut shelf = shelf(1000);
        assert!(lay(&mut shelf, 1, 10).await && lay(&mut shelf, 2, 10).await);
        assert!(!lay_lacking(&mut shelf, 3, 10, 5).await, "it is remembered");
        assert!(used(&mut shelf, 2));
        assert!(lay_lacking(&mut shelf, 3, 10, 5).await);
        assert!(!has(&shelf, 1) && has(&shelf, 2));
        assert!(!lay_lacking(&mut shelf, 4, 10, 50).await);
        assert!(!lay_lacking(&mut shelf, 4, 10, 50).await);
        assert!(has(&shelf, 2) && has(&shelf, 3), "nobody left for nothing");
    }

    #[tokio::test]
    async fn what_is_read_in_turns_and_does_not_fit_is_hit_in_part() {
        let mut shelf = shelf(30);
        let mut hits = 0;
        for turn in 0..10 {
            for version in 0..9 {
                let hit = used(&mut shelf, version);
                hits += u32::from(hit && turn > 0);
                if !hit {
                    lay(&mut shelf, version, 10).await;
                }
            }
        }
        assert_eq!(hits, 9 * 3, "three of nine each time");
    }

    #[tokio::test]
    async fn what_is_open_makes_no_room_and_takes_it_until_it_is_closed() {
        let mut shelf = shelf(10);
        assert!(lay(&mut shelf, 1, 10).await);
        let open = shelf.0.take(VersionId(1));
        assert!(!lay(&mut shelf, 2, 10).await && !lay(&mut shelf, 2, 10).await);
        shelf.0.give(1);
        shelf.0.remove(|id| id.key.as_str() == "other");
        assert!(has(&shelf, 1));
        shelf.0.remove(|id| id.key.as_str() == "1");
        shelf.1.settled().await;
        assert!(shelf.0.is_empty() && !lay(&mut shelf, 2, 10).await);
        drop(open);
        shelf.1.settled().await;
        assert!(lay(&mut shelf, 2, 10).await);
        shelf.0.give(1);
        shelf.1.settled().await;
        assert_eq!(shelf.0.taken.get(), 0);
    }

    #[tokio::test]
    async fn there_are_no_more_files_than_may_be() {
        let mut shelf = shelf(u64::MAX);
        for version in 0..MOST as u128 {
            assert!(lay(&mut shelf, version, 1).await);
        }
        let next = MOST as u128;
        assert!(!lay(&mut shelf, next, 1).await);
        assert!(
            lay(&mut shelf, next, 1).await,
            "the first was not used since"
        );
        assert!(!has(&shelf, 0) && has(&shelf, 1));
        // Who was turned away is remembered, and not for ever.
        for version in 0..2 * REMEMBERED as u128 {
            assert!(!lay(&mut shelf, 1 << 64 | version, u64::MAX).await);
        }
        assert_eq!(shelf.0.turned_away.len(), REMEMBERED);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_used_or_open_counts_for_the_cache_now_and_then() {
        let mut shelf = shelf(30);
        assert!(lay(&mut shelf, 1, 10).await && lay(&mut shelf, 2, 10).await);
        let open = shelf.0.take(VersionId(1)).expect("there");
        assert!(shelf.0.freshen().is_empty(), "they were just read");
        for _ in 0..2 {
            tokio::time::advance(FRESHENED).await;
            assert_eq!(shelf.0.freshen(), [(VersionId(1), 10)]);
            assert!(shelf.0.freshen().is_empty());
        }
        drop(open);
        tokio::time::advance(FRESHENED).await;
        assert!(shelf.0.freshen().is_empty());
        assert!(used(&mut shelf, 2));
        assert_eq!(shelf.0.freshen(), [(VersionId(2), 10)]);
    }
}
