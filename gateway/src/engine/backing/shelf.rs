//! Which plain files there are, and how much they take.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;

use crate::plan::{ObjectId, VersionId};

/// The plain file of one version of an object: whole, and never changed.
#[derive(Debug)]
pub struct Backing {
    file: File,
    _room: Room,
}

impl Backing {
    pub(super) fn new(file: File, room: Room) -> Self {
        Self { file, _room: room }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// Bytes that one file takes, until it is gone for good.
#[derive(Debug)]
pub(super) struct Room {
    taken: Gauge,
    bytes: i64,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.taken.dec_by(self.bytes);
    }
}

#[derive(Debug)]
struct Laid {
    id: ObjectId,
    backing: Arc<Backing>,
    used: u64,
}

/// All files. See the module's head.
#[derive(Debug)]
pub(super) struct Shelf {
    size: u64,
    taken: Gauge,
    laid: HashMap<VersionId, Laid>,
    /// Counts uses.
    uses: u64,
}

impl Shelf {
    /// For `size` bytes at most.
    pub(super) fn new(size: u64) -> Self {
        Self {
            size,
            taken: Gauge::default(),
            laid: HashMap::new(),
            uses: 0,
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
        let laid = self.laid.get_mut(&version)?;
        self.uses += 1;
        laid.used = self.uses;
        Some(laid.backing.clone())
    }

    /// Room for `bytes`, if it is there.
    pub(super) fn reserve(&self, bytes: u64) -> Option<Room> {
        let taken = u64::try_from(self.taken.get()).unwrap_or(0);
        let fits = taken.saturating_add(bytes) <= self.size;
        let bytes = i64::try_from(bytes).ok().filter(|_| fits)?;
        self.taken.inc_by(bytes);
        Some(Room {
            taken: self.taken.clone(),
            bytes,
        })
    }

    pub(super) fn put(&mut self, version: VersionId, id: ObjectId, backing: Backing) {
        self.uses += 1;
        let laid = Laid {
            id,
            backing: Arc::new(backing),
            used: self.uses,
        };
        self.laid.insert(version, laid);
    }

    /// Takes off the file that nobody has open and that was not used for longest.
    pub(super) fn pop_idle(&mut self) -> Option<Arc<Backing>> {
        let all = self.laid.iter();
        let idle = all.filter(|(_, laid)| Arc::strong_count(&laid.backing) == 1);
        let (&version, _) = idle.min_by_key(|(_, laid)| laid.used)?;
        self.laid.remove(&version).map(|laid| laid.backing)
    }

    /// Takes off the files of these objects, open or not.
    pub(super) fn remove(&mut self, of: impl Fn(&ObjectId) -> bool) -> Vec<Arc<Backing>> {
        let removed = self.laid.extract_if(|_, laid| of(&laid.id));
        removed.map(|(_, laid)| laid.backing).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ObjectKey, OriginId};

    fn put(shelf: &mut Shelf, version: u128, key: &str, bytes: u64) {
        let id = ObjectId {
            origin: OriginId(1),
            key: ObjectKey::new(key).expect("a key"),
        };
        let room = shelf.reserve(bytes).expect("room");
        let file = tempfile::tempfile().expect("a file");
        shelf.put(VersionId(version), id, Backing::new(file, room));
    }

    #[test]
    fn what_was_not_used_for_longest_and_is_not_open_makes_room() {
        let mut shelf = Shelf::new(30);
        for version in 1..=3 {
            put(&mut shelf, version, "a", 10);
        }
        assert!(shelf.reserve(1).is_none(), "it is full");
        let open = shelf.take(VersionId(2)).expect("there");
        drop(shelf.take(VersionId(1)).expect("there"));
        shelf.pop_idle().expect("the third");
        assert!(!shelf.has(VersionId(3)) && shelf.has(VersionId(1)));
        shelf.pop_idle().expect("the first");
        assert!(shelf.pop_idle().is_none(), "the second is open");
        drop(open);
        shelf.pop_idle().expect("the second");
        assert!(shelf.is_empty() && shelf.taken.get() == 0);
    }

    #[test]
    fn what_is_open_takes_room_until_it_is_closed() {
        let mut shelf = Shelf::new(10);
        put(&mut shelf, 1, "a/b", 10);
        let open = shelf.take(VersionId(1));
        assert!(shelf.remove(|id| id.key.as_str() == "other").is_empty());
        assert_eq!(shelf.remove(|id| id.key.as_str() == "a/b").len(), 1);
        assert!(!shelf.has(VersionId(1)) && shelf.reserve(10).is_none());
        drop(open);
        assert!(shelf.reserve(10).is_some());
    }
}
