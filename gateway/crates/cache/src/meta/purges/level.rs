//! A level of purges: by hash, and by age so that the oldest can be found.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// The newest purge of each hash. No two have the same number.
#[derive(Debug)]
pub(super) struct PurgeLevel<K> {
    numbers: HashMap<K, u64>,
    by_age: BTreeMap<u64, K>,
}

impl<K> Default for PurgeLevel<K> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            by_age: BTreeMap::new(),
        }
    }
}

impl<K: Copy + Eq + Hash> PurgeLevel<K> {
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(super) fn get(&self, key: &K) -> Option<u64> {
        self.numbers.get(key).copied()
    }

    /// Sets the number of a purge, unless there is a newer one.
    pub(super) fn set(&mut self, key: K, number: u64) {
        let newest = self.numbers.entry(key).or_insert(0);
        if *newest < number {
            self.by_age.remove(newest);
            *newest = number;
            self.by_age.insert(number, key);
        }
    }

    /// Removes and returns the oldest purge if there are more than `most`.
    pub(super) fn pop_beyond(&mut self, most: usize) -> Option<(K, u64)> {
        if self.numbers.len() <= most {
            return None;
        }
        let (number, key) = self.by_age.pop_first()?;
        self.numbers.remove(&key);
        Some((key, number))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (K, u64)> {
        self.numbers.iter().map(|(key, number)| (*key, *number))
    }
}
