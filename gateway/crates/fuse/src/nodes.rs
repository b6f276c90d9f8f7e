//! The nodes that the kernel knows, by number.
//!
//! A node's number is a hash of bucket and key, so that it is the same after a restart: programs that keep libraries
//! identify files by it. The key of a folder ends in `/`, so a file and a folder of one name have different numbers. If
//! two keys have the same hash, the later one takes the next number. The kernel counts how often it was told of a node,
//! and says when it forgets.
//!
//! A file that is renamed keeps its node, and so its number, until the kernel forgets it; after that it has the number
//! of its new key. A node whose file was removed lives on for its open handles.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::pages::Pages;
use super::slot::Slot;
use tidegate_plan::OriginId;
use tidegate_write::Writer;

/// The number of the folder that is mounted (`FUSE_ROOT_ID`).
pub(super) const ROOT: u64 = 1;

/// A file or folder that the kernel knows.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) ino: u64,
    pub(super) is_folder: bool,
    place: Mutex<Place>,
    pages: Mutex<Pages>,
    slot: Mutex<Slot>,
    /// Held by an open or a close while it updates the kernel's pages: one at a time.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// Write-locked while the name is changed, in the bucket and here; read-locked by each handle that begins to write
    /// to the file. Taken before the turn.
    pub(super) naming: Arc<RwLock<()>>,
}

/// The location of a node.
#[derive(Debug, Clone)]
struct Place {
    /// The number of the folder that contains it; the root contains itself.
    parent: u64,
    /// An object's key; or the prefix of the keys in a folder: empty, or ending in `/`.
    key: Arc<str>,
    /// Whether it still has this name: false once it was removed.
    linked: bool,
}

impl Node {
    fn new(ino: u64, parent: u64, key: Arc<str>, is_folder: bool) -> Self {
        Self {
            ino,
            is_folder,
            place: Mutex::new(Place {
                parent,
                key,
                linked: true,
            }),
            pages: Mutex::default(),
            slot: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            naming: Arc::default(),
        }
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place
            .lock()
            .expect("no code panics while it holds this lock")
    }

    /// Returns the object's key, or the prefix of the folder's keys. For a removed file, its last key.
    pub(super) fn key(&self) -> Arc<str> {
        self.place().key.clone()
    }

    /// Returns the number of the folder that contains it.
    pub(super) fn parent(&self) -> u64 {
        self.place().parent
    }

    /// Returns whether it still has a name.
    pub(super) fn is_linked(&self) -> bool {
        self.place().linked
    }

    /// Returns whether it has this key now.
    pub(super) fn is_at(&self, key: &str) -> bool {
        let place = self.place();
        place.linked && *place.key == *key
    }

    pub(super) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages
            .lock()
            .expect("no code panics while it holds this lock")
    }

    pub(super) fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot
            .lock()
            .expect("no code panics while it holds this lock")
    }

    /// Returns the draft, as long as readers of the node read it.
    pub(super) fn draft(&self) -> Option<Arc<Writer>> {
        let is_draft = self.pages().is_draft();
        self.slot().writer().filter(|_| is_draft)
    }

    /// Returns the name in its folder.
    pub(super) fn name(&self) -> String {
        let key = self.key();
        let path = key.trim_end_matches('/');
        path.rsplit('/').next().unwrap_or(path).to_owned()
    }
}

/// All nodes that the kernel knows.
#[derive(Debug)]
pub(super) struct Nodes {
    origin: OriginId,
    root: Arc<Node>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Each node, with the number of times that the kernel was told of it.
    nodes: HashMap<u64, (Arc<Node>, u64)>,
    /// The numbers of nodes whose number is not their key's hash: it was taken, or they were renamed.
    elsewhere: HashMap<Arc<str>, u64>,
}

impl Known {
    /// Returns the number of the node of this key, whose own number is `first`.
    fn at(&self, key: &str, first: u64) -> Option<u64> {
        if let Some(ino) = self.elsewhere.get(key) {
            return Some(*ino);
        }
        let (node, _) = self.nodes.get(&first)?;
        node.is_at(key).then_some(first)
    }

    /// Returns the first free number from this one on.
    fn vacant(&self, mut ino: u64) -> u64 {
        while self.nodes.contains_key(&ino) {
            ino = next(ino);
        }
        ino
    }

    /// Takes the key from its node, and returns the node.
    fn unlink(&mut self, key: &str, first: u64) -> Option<Arc<Node>> {
        let ino = self.at(key, first)?;
        self.elsewhere.remove(key);
        let (node, _) = self.nodes.get(&ino)?;
        node.place().linked = false;
        Some(node.clone())
    }
}

impl Nodes {
    /// Returns the nodes of a bucket below a folder.
    pub(super) fn new(origin: OriginId, prefix: &str) -> Self {
        Self {
            origin,
            root: Arc::new(Node::new(ROOT, ROOT, prefix.into(), true)),
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known
            .lock()
            .expect("no code panics while it holds this lock")
    }

    pub(super) fn get(&self, ino: u64) -> Option<Arc<Node>> {
        if ino == ROOT {
            return Some(self.root.clone());
        }
        self.known().nodes.get(&ino).map(|(node, _)| node.clone())
    }

    /// Returns the node of a key, and counts that the kernel is told of it once more.
    pub(super) fn tell(&self, parent: u64, key: &str, is_folder: bool) -> Arc<Node> {
        let mut known = self.known();
        let first = self.number(key);
        if let Some(ino) = known.at(key, first)
            && let Some((node, told)) = known.nodes.get_mut(&ino)
        {
            *told += 1;
            return node.clone();
        }
        let ino = known.vacant(first);
        let node = Arc::new(Node::new(ino, parent, key.into(), is_folder));
        if ino != first {
            known.elsewhere.insert(node.key(), ino);
        }
        known.nodes.insert(ino, (node.clone(), 1));
        node
    }

    /// Returns the number that a key has, or is going to have; the kernel is not told.
    pub(super) fn number_of(&self, key: &str) -> u64 {
        let known = self.known();
        let first = self.number(key);
        known.at(key, first).unwrap_or_else(|| known.vacant(first))
    }

    /// Subtracts `times` from the node's count; at zero the node is forgotten.
    pub(super) fn forget(&self, ino: u64, times: u64) {
        let mut known = self.known();
        let Some((node, told)) = known.nodes.get_mut(&ino) else {
            return;
        };
        *told = told.saturating_sub(times);
        if *told == 0 {
            let key = node.key();
            if known.elsewhere.get(&key) == Some(&ino) {
                known.elsewhere.remove(&key);
            }
            known.nodes.remove(&ino);
        }
    }

    /// Returns the nodes with one of these keys, in the order of their numbers.
    pub(super) fn having(&self, keys: &[&str]) -> BTreeMap<u64, Arc<Node>> {
        let known = self.known();
        let numbers = keys
            .iter()
            .filter_map(|key| known.at(key, self.number(key)));
        let found = numbers.filter_map(|ino| Some((ino, known.nodes.get(&ino)?.0.clone())));
        found.collect()
    }

    /// Waits for handles that are about to write to the files of these keys, and blocks new ones until the returned
    /// guards are dropped.
    pub(super) async fn hold_names(&self, keys: &[&str]) -> Vec<OwnedRwLockWriteGuard<()>> {
        Self::hold(|| self.having(keys)).await
    }

    /// Does the same for a folder and all nodes below it.
    pub(super) async fn hold_folder(&self, folder: &str) -> Vec<OwnedRwLockWriteGuard<()>> {
        Self::hold(|| self.within(folder)).await
    }

    async fn hold(find: impl Fn() -> BTreeMap<u64, Arc<Node>>) -> Vec<OwnedRwLockWriteGuard<()>> {
        loop {
            let nodes = find();
            let mut held = Vec::new();
            // In one order: otherwise two renames in opposite directions would wait for each other.
            for node in nodes.values() {
                held.push(node.naming.clone().write_owned().await);
            }
            // Another node may have one of the names by now.
            if find().keys().eq(nodes.keys()) {
                return held;
            }
        }
    }

    /// Removes the key from its node. The kernel may know the node for longer; a file that comes under the key later is
    /// another node.
    pub(super) fn unlink(&self, key: &str) -> Option<Arc<Node>> {
        self.known().unlink(key, self.number(key))
    }

    /// Does the same, if this node still has its key: another may have it by now.
    pub(super) fn unlink_node(&self, node: &Node) {
        let (mut known, key) = (self.known(), node.key());
        let first = self.number(&key);
        if node.is_linked() && known.at(&key, first) == Some(node.ino) {
            known.unlink(&key, first);
        }
    }

    /// Gives a file another key, in this folder; a node that had that key loses it. The file keeps its number.
    pub(super) fn rename(&self, from: &str, to: &str, parent: u64) -> Option<Arc<Node>> {
        let mut known = self.known();
        known.unlink(to, self.number(to));
        let node = known.unlink(from, self.number(from))?;
        *node.place() = Place {
            parent,
            key: self.file_under(&mut known, to.into(), node.ino),
            linked: true,
        };
        Some(node)
    }

    /// Gives a folder and all nodes below it new keys. Nodes that had those keys lose them.
    pub(super) fn rename_folder(&self, from: &str, to: &str, parent: u64) {
        let all = self.within(from);
        let mut known = self.known();
        for node in all.values() {
            let old = node.key();
            let new = format!("{to}{}", &old[from.len()..]);
            known.unlink(&new, self.number(&new));
            if known.elsewhere.get(&old) == Some(&node.ino) {
                known.elsewhere.remove(&old);
            }
            let key = self.file_under(&mut known, new.into(), node.ino);
            let mut place = node.place();
            if *place.key == *from {
                place.parent = parent;
            }
            place.key = key;
        }
    }

    /// Returns the key, under which this number is found from now on.
    fn file_under(&self, known: &mut Known, key: Arc<str>, ino: u64) -> Arc<str> {
        if self.number(&key) != ino {
            known.elsewhere.insert(key.clone(), ino);
        }
        key
    }

    /// Returns a folder and all nodes below it, in the order of their numbers.
    pub(super) fn within(&self, folder: &str) -> BTreeMap<u64, Arc<Node>> {
        let all = self.covered(|key| key.starts_with(folder));
        all.into_iter().map(|node| (node.ino, node)).collect()
    }

    /// Returns the nodes whose keys are covered.
    pub(super) fn covered(&self, covers: impl Fn(&str) -> bool) -> Vec<Arc<Node>> {
        let known = self.known();
        let nodes = known.nodes.values();
        let nodes = nodes.filter(|(node, _)| node.is_linked() && covers(&node.key()));
        nodes.map(|(node, _)| node.clone()).collect()
    }

    fn number(&self, key: &str) -> u64 {
        free(xxh3_64_with_seed(key.as_bytes(), self.origin.0))
    }
}

fn next(ino: u64) -> u64 {
    free(ino.wrapping_add(1))
}

/// Replaces the numbers 0 (none) and 1 (the root).
fn free(ino: u64) -> u64 {
    if ino > ROOT { ino } else { ROOT + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Nodes {
        Nodes::new(OriginId(7), "p/")
    }

    #[test]
    fn numbers_are_the_same_after_a_restart() {
        let (before, after) = (nodes(), nodes());
        after.tell(ROOT, "p/other", false);
        let ino = before.tell(ROOT, "p/a", false).ino;
        assert_eq!(after.tell(ROOT, "p/a", false).ino, ino);
        assert_eq!(after.number_of("p/a"), ino);
        assert_ne!(after.tell(ROOT, "p/a/", true).ino, ino);
        assert_ne!(Nodes::new(OriginId(8), "p/").number_of("p/a"), ino);
    }

    #[test]
    fn two_keys_never_share_a_number() {
        let nodes = nodes();
        let number = nodes.number("p/a");
        let other = Arc::new(Node::new(number, ROOT, "p/b".into(), false));
        nodes.known().nodes.insert(number, (other, 1));
        assert_eq!(nodes.number_of("p/a"), number + 1);
        assert_eq!(nodes.tell(ROOT, "p/a", false).ino, number + 1);
        assert_eq!((free(0), free(1), next(u64::MAX)), (2, 2, 2));
    }

    #[test]
    fn a_node_lives_until_it_is_forgotten_as_often_as_told() {
        let nodes = nodes();
        let ino = nodes.tell(ROOT, "p/f/a.txt", false).ino;
        let again = nodes.tell(ROOT, "p/f/a.txt", false);
        assert_eq!((again.ino, again.name().as_str()), (ino, "a.txt"));
        nodes.forget(ino, 1);
        assert!(nodes.get(ino).is_some());
        nodes.forget(ino, 1);
        assert!(nodes.get(ino).is_none());
        nodes.forget(ino, 1);
        nodes.forget(ROOT, 99);
        assert_eq!(nodes.get(ROOT).expect("the root").key().as_ref(), "p/");
    }

    #[test]
    fn a_node_keeps_its_number_when_it_is_renamed() {
        let nodes = nodes();
        let old = nodes.tell(ROOT, "p/old", false);
        let over = nodes.tell(ROOT, "p/new", false);
        let renamed = nodes.rename("p/old", "p/new", 9).expect("known");
        assert_eq!((renamed.ino, renamed.parent()), (old.ino, 9));
        assert_eq!(&*old.key(), "p/new");
        assert_eq!(nodes.tell(9, "p/new", false).ino, old.ino);
        assert_eq!(nodes.number_of("p/new"), old.ino);
        assert!(!over.is_linked() && nodes.get(over.ino).is_some());
        // The old key's number is taken as long as the kernel knows the node.
        let again = nodes.tell(ROOT, "p/old", false);
        assert_eq!(again.ino, next(old.ino));
        nodes.forget(old.ino, 2);
        assert_eq!(nodes.number_of("p/old"), again.ino, "it has its number now");
        nodes.forget(over.ino, 1);
        assert_eq!(nodes.number_of("p/new"), nodes.number("p/new"));
    }

    #[test]
    fn nodes_keep_their_numbers_when_their_folder_is_renamed() {
        let nodes = nodes();
        let old = nodes.tell(ROOT, "p/old/", true);
        let file = nodes.tell(old.ino, "p/old/file", false);
        let deep = nodes.tell(old.ino, "p/old/deep/", true);
        let beside = nodes.tell(ROOT, "p/old-file", false);
        let over = nodes.tell(ROOT, "p/new/", true);
        assert_eq!(nodes.within("p/old/").len(), 3);
        nodes.rename_folder("p/old/", "p/new/", 9);
        assert_eq!((&*old.key(), old.parent()), ("p/new/", 9));
        assert_eq!((&*file.key(), file.parent()), ("p/new/file", old.ino));
        assert_eq!(&*beside.key(), "p/old-file");
        assert!(!over.is_linked() && nodes.within("p/old/").is_empty());
        for (key, node) in [
            ("p/new/", &old),
            ("p/new/file", &file),
            ("p/new/deep/", &deep),
        ] {
            assert_eq!(nodes.number_of(key), node.ino, "{key}");
        }
        // And once more, back.
        nodes.rename_folder("p/new/", "p/old/", ROOT);
        assert_eq!(nodes.number_of("p/old/file"), file.ino);
        for (node, told) in [(&old, 1), (&file, 1), (&deep, 1), (&over, 1)] {
            nodes.forget(node.ino, told);
        }
        assert!(nodes.known().elsewhere.is_empty());
    }

    #[test]
    fn what_comes_after_a_removed_file_is_another() {
        let nodes = nodes();
        let old = nodes.tell(ROOT, "p/a", false);
        assert_eq!(nodes.unlink("p/a").expect("known").ino, old.ino);
        assert!(nodes.covered(|_| true).is_empty());
        let new = nodes.tell(ROOT, "p/a", false);
        assert_ne!(new.ino, old.ino);
        nodes.forget(old.ino, 1);
        assert_eq!(nodes.number_of("p/a"), new.ino);
        nodes.forget(new.ino, 1);
        assert!(nodes.known().elsewhere.is_empty());
    }

    #[test]
    fn who_is_late_takes_the_name_from_nobody_else() {
        let nodes = nodes();
        let old = nodes.tell(ROOT, "p/a", false);
        nodes.unlink_node(&old);
        let new = nodes.tell(ROOT, "p/a", false);
        nodes.unlink_node(&old);
        assert!(!old.is_linked() && new.is_linked());
        assert_eq!(nodes.tell(ROOT, "p/a", false).ino, new.ino);
        nodes.unlink_node(&new);
        assert!(!new.is_linked());
    }
}
