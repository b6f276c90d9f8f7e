//! What the kernel knows: nodes, by number.
//!
//! A node's number is a hash of bucket and key, so that it is the same after a restart: programs
//! that keep libraries know files by it. The key of a folder ends in `/`, so a file and a folder of
//! one name have different numbers. Where two keys meet on one number, the later takes the next.
//! The kernel counts how often it was told of a node, and says when it forgets.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::pages::Pages;
use crate::plan::OriginId;

/// The number of the folder that is mounted (`FUSE_ROOT_ID`).
pub(super) const ROOT: u64 = 1;

/// A file or folder that the kernel knows.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) ino: u64,
    /// The folder it lies in; the root lies in itself.
    pub(super) parent: u64,
    /// An object's key; or what the keys of a folder begin with, empty or with a `/` at its end.
    pub(super) key: Arc<str>,
    pub(super) is_folder: bool,
    pages: Mutex<Pages>,
    /// Held by an open while it sees to the kernel's pages: one at a time.
    pub(super) turn: tokio::sync::Mutex<()>,
}

impl Node {
    fn new(ino: u64, parent: u64, key: Arc<str>, is_folder: bool) -> Self {
        Self {
            ino,
            parent,
            key,
            is_folder,
            pages: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages
            .lock()
            .expect("no code panics while it holds this lock")
    }

    /// The name in its folder.
    pub(super) fn name(&self) -> &str {
        let path = self.key.trim_end_matches('/');
        path.rsplit('/').next().unwrap_or(path)
    }
}

/// All nodes that the kernel knows.
#[derive(Debug)]
pub(super) struct Nodes {
    origin: OriginId,
    root: Arc<Node>,
    /// With how often the kernel was told of each.
    known: Mutex<HashMap<u64, (Arc<Node>, u64)>>,
}

impl Nodes {
    /// The nodes of a bucket below a folder.
    pub(super) fn new(origin: OriginId, prefix: &str) -> Self {
        Self {
            origin,
            root: Arc::new(Node::new(ROOT, ROOT, prefix.into(), true)),
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<u64, (Arc<Node>, u64)>> {
        self.known
            .lock()
            .expect("no code panics while it holds this lock")
    }

    pub(super) fn get(&self, ino: u64) -> Option<Arc<Node>> {
        if ino == ROOT {
            return Some(self.root.clone());
        }
        self.known().get(&ino).map(|(node, _)| node.clone())
    }

    /// The node of a key, told to the kernel once more.
    pub(super) fn tell(&self, parent: u64, key: &str, is_folder: bool) -> Arc<Node> {
        let mut known = self.known();
        let mut ino = self.number(key);
        loop {
            match known.entry(ino) {
                Entry::Vacant(free) => {
                    let node = Arc::new(Node::new(ino, parent, key.into(), is_folder));
                    free.insert((node.clone(), 1));
                    return node;
                }
                Entry::Occupied(mut taken) if *taken.get().0.key == *key => {
                    taken.get_mut().1 += 1;
                    return taken.get().0.clone();
                }
                Entry::Occupied(_) => ino = next(ino),
            }
        }
    }

    /// The number that a key has, or is going to have; the kernel is not told.
    pub(super) fn number_of(&self, key: &str) -> u64 {
        let known = self.known();
        let mut ino = self.number(key);
        while known.get(&ino).is_some_and(|(node, _)| *node.key != *key) {
            ino = next(ino);
        }
        ino
    }

    /// The kernel forgets that it was told so often.
    pub(super) fn forget(&self, ino: u64, times: u64) {
        let mut known = self.known();
        if let Entry::Occupied(mut entry) = known.entry(ino) {
            let told = &mut entry.get_mut().1;
            *told = told.saturating_sub(times);
            if *told == 0 {
                entry.remove();
            }
        }
    }

    /// Those whose keys are covered.
    pub(super) fn covered(&self, covers: impl Fn(&str) -> bool) -> Vec<Arc<Node>> {
        let known = self.known();
        let nodes = known.values().filter(|(node, _)| covers(&node.key));
        nodes.map(|(node, _)| node.clone()).collect()
    }

    fn number(&self, key: &str) -> u64 {
        free(xxh3_64_with_seed(key.as_bytes(), self.origin.0))
    }
}

fn next(ino: u64) -> u64 {
    free(ino.wrapping_add(1))
}

/// 0 means none, and 1 is the root.
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
        nodes.known().insert(number, (other, 1));
        assert_eq!(nodes.number_of("p/a"), number + 1);
        assert_eq!(nodes.tell(ROOT, "p/a", false).ino, number + 1);
        assert_eq!((free(0), free(1), next(u64::MAX)), (2, 2, 2));
    }

    #[test]
    fn a_node_lives_until_it_is_forgotten_as_often_as_told() {
        let nodes = nodes();
        let ino = nodes.tell(ROOT, "p/f/a.txt", false).ino;
        let again = nodes.tell(ROOT, "p/f/a.txt", false);
        assert_eq!((again.ino, again.name()), (ino, "a.txt"));
        nodes.forget(ino, 1);
        assert!(nodes.get(ino).is_some());
        nodes.forget(ino, 1);
        assert!(nodes.get(ino).is_none());
        nodes.forget(ino, 1);
        nodes.forget(ROOT, 99);
        assert_eq!(nodes.get(ROOT).expect("the root").key.as_ref(), "p/");
    }
}
