//! The nodes that the kernel knows, by number.
//!
//! A node's number is a hash of bucket and key, so that it is the same after a restart: programs that keep libraries
//! identify files by it. The key of a folder ends in `/`, so a file and a folder of one name have different numbers. If
//! two keys have the same hash, the later one takes the next number. The kernel counts how often it was told of a node,
//! and says when it forgets.
//!
//! A file or folder that is renamed keeps its node until the kernel forgets it, and its number for good: `numbers` has
//! it then. A node whose file was removed lives on for its open handles.

pub(crate) mod file_draft;
pub(crate) mod numbers;
pub(crate) mod pages;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{OwnedRwLockWriteGuard, RwLock};

use self::file_draft::FileDraft;
use self::numbers::{NumberTable, hashed_number, next};
use self::pages::Pages;
use tidegate_engine::RenamedFolder;
use tidegate_plan::OriginId;
use tidegate_telemetry::locks::Recover as _;
use tidegate_write::Writer;

/// The number of the folder that is mounted (`FUSE_ROOT_ID`).
pub(crate) const ROOT_INO: u64 = 1;

/// A file or folder that the kernel knows.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) ino: u64,
    pub(crate) is_folder: bool,
    location: Mutex<NodeLocation>,
    pages: Mutex<Pages>,
    file_draft: Mutex<FileDraft>,
    /// Held by an open or a close while it updates the kernel's pages: one at a time.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// Write-locked while the name is changed, in the bucket and here; read-locked by each handle that begins to write
    /// to the file. Taken before the turn.
    pub(crate) naming: Arc<RwLock<()>>,
}

/// The location of a node.
#[derive(Debug, Clone)]
struct NodeLocation {
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
            location: Mutex::new(NodeLocation {
                parent,
                key,
                linked: true,
            }),
            pages: Mutex::default(),
            file_draft: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            naming: Arc::default(),
        }
    }

    fn location(&self) -> MutexGuard<'_, NodeLocation> {
        self.location.lock().recover()
    }

    /// Returns the object's key, or the prefix of the folder's keys. For a removed file, its last key.
    pub(crate) fn key(&self) -> Arc<str> {
        self.location().key.clone()
    }

    /// Returns the number of the folder that contains it.
    pub(crate) fn parent(&self) -> u64 {
        self.location().parent
    }

    /// Returns whether it still has a name.
    pub(crate) fn is_linked(&self) -> bool {
        self.location().linked
    }

    /// Returns whether it has this key now.
    pub(crate) fn is_at(&self, key: &str) -> bool {
        let location = self.location();
        location.linked && *location.key == *key
    }

    pub(crate) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().recover()
    }

    pub(crate) fn file_draft(&self) -> MutexGuard<'_, FileDraft> {
        self.file_draft.lock().recover()
    }

    /// Returns the draft, as long as readers of the node read it.
    pub(crate) fn draft(&self) -> Option<Arc<Writer>> {
        let is_draft = self.pages().is_draft();
        self.file_draft().writer().filter(|_| is_draft)
    }

    /// Returns the name in its folder.
    pub(crate) fn name(&self) -> String {
        let key = self.key();
        let path = key.trim_end_matches('/');
        path.rsplit('/').next().unwrap_or(path).to_owned()
    }
}

/// All nodes that the kernel knows.
#[derive(Debug)]
pub(crate) struct Nodes {
    origin: OriginId,
    root: Arc<Node>,
    known: Mutex<NodeTable>,
    /// The numbers of keys that were renamed.
    numbers: Arc<NumberTable>,
}

#[derive(Debug, Default)]
struct NodeTable {
    /// Each node, with the number of times that the kernel was told of it.
    nodes: HashMap<u64, (Arc<Node>, u64)>,
    /// The numbers of nodes whose number is not their key's hash: it was taken, or they were renamed.
    elsewhere: HashMap<Arc<str>, u64>,
}

impl NodeTable {
    /// Returns the number of the node of this key, whose own number is `first`.
    fn at(&self, key: &str, first: u64) -> Option<u64> {
        if let Some(ino) = self.elsewhere.get(key) {
            return Some(*ino);
        }
        let (node, _) = self.nodes.get(&first)?;
        node.is_at(key).then_some(first)
    }

    /// Returns the nodes whose keys are covered.
    fn covered(&self, covers: impl Fn(&str) -> bool) -> Vec<Arc<Node>> {
        let nodes = self.nodes.values();
        let nodes = nodes.filter(|(node, _)| node.is_linked() && covers(&node.key()));
        nodes.map(|(node, _)| node.clone()).collect()
    }

    /// Takes the key from its node, and returns the node.
    fn unlink(&mut self, key: &str, first: u64) -> Option<Arc<Node>> {
        let ino = self.at(key, first)?;
        self.elsewhere.remove(key);
        let (node, _) = self.nodes.get(&ino)?;
        node.location().linked = false;
        Some(node.clone())
    }
}

impl Nodes {
    /// Returns the nodes of a bucket below a folder, with the numbers that were given to renamed keys.
    pub(crate) fn new(origin: OriginId, prefix: &str, numbers: Arc<NumberTable>) -> Self {
        Self {
            origin,
            numbers,
            root: Arc::new(Node::new(ROOT_INO, ROOT_INO, prefix.into(), true)),
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, NodeTable> {
        self.known.lock().recover()
    }

    /// Returns the folder that is mounted.
    pub(crate) fn root(&self) -> Arc<Node> {
        self.root.clone()
    }

    pub(crate) fn get(&self, ino: u64) -> Option<Arc<Node>> {
        if ino == ROOT_INO {
            return Some(self.root.clone());
        }
        self.known().nodes.get(&ino).map(|(node, _)| node.clone())
    }

    /// Returns the node of a key, and counts that the kernel is told of it once more.
    pub(crate) fn tell(&self, parent: u64, key: &str, is_folder: bool) -> Arc<Node> {
        let mut known = self.known();
        let first = self.number(key);
        if let Some(ino) = known.at(key, first)
            && let Some((node, told)) = known.nodes.get_mut(&ino)
        {
            *told += 1;
            return node.clone();
        }
        let ino = self.vacant(&known, key);
        let node = Arc::new(Node::new(ino, parent, key.into(), is_folder));
        if ino != first {
            known.elsewhere.insert(node.key(), ino);
        }
        if self.numbers.is_taken(self.origin, key, first) {
            // Else it would get its own number once the other key is gone.
            self.numbers.keep(self.origin, key, ino);
        }
        known.nodes.insert(ino, (node.clone(), 1));
        node
    }

    /// Returns the number that a key has, or is going to have; the kernel is not told.
    pub(crate) fn number_of(&self, key: &str) -> u64 {
        let known = self.known();
        let found = known.at(key, self.number(key));
        found.unwrap_or_else(|| self.vacant(&known, key))
    }

    /// Returns the number of a key that has no node: the one that was given to it, or the first from its own on that no
    /// node and no other key has.
    fn vacant(&self, known: &NodeTable, key: &str) -> u64 {
        let given = self.numbers.get(self.origin, key);
        let mut ino = given.unwrap_or_else(|| self.number(key));
        while known.nodes.contains_key(&ino) || self.numbers.is_taken(self.origin, key, ino) {
            ino = next(ino);
        }
        ino
    }

    /// Subtracts `times` from the node's count; at zero the node is forgotten.
    pub(crate) fn forget(&self, ino: u64, times: u64) {
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
    pub(crate) fn with_keys(&self, keys: &[&str]) -> BTreeMap<u64, Arc<Node>> {
        let known = self.known();
        let numbers = keys
            .iter()
            .filter_map(|key| known.at(key, self.number(key)));
        let found = numbers.filter_map(|ino| Some((ino, known.nodes.get(&ino)?.0.clone())));
        found.collect()
    }

    /// Waits for handles that are about to write to the files of these keys, and blocks new ones until the returned
    /// guards are dropped.
    pub(crate) async fn hold_names(&self, keys: &[&str]) -> Vec<OwnedRwLockWriteGuard<()>> {
        Self::hold(|| self.with_keys(keys)).await
    }

    /// Does the same for a folder and all nodes below it.
    pub(crate) async fn hold_folder(&self, folder: &str) -> Vec<OwnedRwLockWriteGuard<()>> {
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
    pub(crate) fn unlink(&self, key: &str) -> Option<Arc<Node>> {
        let mut known = self.known();
        self.numbers.forget(self.origin, key);
        known.unlink(key, self.number(key))
    }

    /// Does the same, if this node still has its key: another may have it by now.
    pub(crate) fn unlink_node(&self, node: &Node) {
        let (mut known, key) = (self.known(), node.key());
        let first = self.number(&key);
        if node.is_linked() && known.at(&key, first) == Some(node.ino) {
            known.unlink(&key, first);
        }
    }

    /// Gives a file another key, in this folder; a node that had that key loses it. The file keeps its number.
    pub(crate) fn rename(&self, from: &str, to: &str, parent: u64) -> Option<Arc<Node>> {
        let mut known = self.known();
        known.unlink(to, self.number(to));
        let number = known.at(from, self.number(from));
        let number = number.unwrap_or_else(|| self.vacant(&known, from));
        self.renumber(from, to, number);
        let node = known.unlink(from, self.number(from))?;
        *node.location() = NodeLocation {
            parent,
            key: self.file_under(&mut known, to.into(), node.ino),
            linked: true,
        };
        Some(node)
    }

    /// Gives a folder and all nodes below it new keys. Nodes that had those keys lose them. All that is in it keeps its
    /// number: nodes, and the objects that the kernel does not know.
    pub(crate) fn rename_folder(&self, folder: &RenamedFolder, parent: u64) {
        let mut known = self.known();
        self.numbers.move_folder(self.origin, folder);
        let (from, to) = (folder.from.as_str(), folder.to.as_str());
        // When a rename is reported again, these are the folder's own.
        let replaced = known.covered(|key| !folder.is_resumed && key.starts_with(to));
        for node in replaced {
            known.unlink(&node.key(), self.number(&node.key()));
        }
        for node in known.covered(|key| key.starts_with(from)) {
            let old = node.key();
            let new = format!("{to}{}", &old[from.len()..]);
            known.unlink(&new, self.number(&new));
            if self.numbers.get(self.origin, &new) != Some(node.ino) {
                self.renumber(&old, &new, node.ino);
            }
            if known.elsewhere.get(&old) == Some(&node.ino) {
                known.elsewhere.remove(&old);
            }
            let key = self.file_under(&mut known, new.into(), node.ino);
            let mut location = node.location();
            if *location.key == *from {
                location.parent = parent;
            }
            location.key = key;
        }
    }

    /// Moves a number from one key to another.
    fn renumber(&self, from: &str, to: &str, number: u64) {
        self.numbers.forget(self.origin, from);
        match self.number(to) == number {
            true => self.numbers.forget(self.origin, to),
            false => self.numbers.keep(self.origin, to, number),
        }
    }

    /// Returns the key, under which this number is found from now on.
    fn file_under(&self, known: &mut NodeTable, key: Arc<str>, ino: u64) -> Arc<str> {
        if self.number(&key) != ino {
            known.elsewhere.insert(key.clone(), ino);
        }
        key
    }

    /// Returns a folder and all nodes below it, in the order of their numbers.
    pub(crate) fn within(&self, folder: &str) -> BTreeMap<u64, Arc<Node>> {
        let all = self.covered(|key| key.starts_with(folder));
        all.into_iter().map(|node| (node.ino, node)).collect()
    }

    /// Returns the nodes whose keys are covered.
    pub(crate) fn covered(&self, covers: impl Fn(&str) -> bool) -> Vec<Arc<Node>> {
        self.known().covered(covers)
    }

    fn number(&self, key: &str) -> u64 {
        hashed_number(self.origin, key)
    }
}

#[cfg(test)]
mod tests;
