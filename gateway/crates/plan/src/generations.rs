//! A map of bounded size that forgets the entries inserted longest ago.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

/// A map in two generations. New entries go into the young one; when it is full, it becomes the old one, and the entries of
/// the old one are forgotten. So at least the last `max` keys are known, and at most twice as many.
#[derive(Debug)]
pub struct Generations<K, V> {
    max: usize,
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Eq + Hash, V> Generations<K, V> {
    /// Returns an empty map whose generations have `max` entries, one at least.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            max: max.max(1),
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// Inserts a value, in place of an earlier one of its key. Returns the generation that was forgotten for it; empty if
    /// there was room.
    pub fn insert(&mut self, key: K, value: V) -> HashMap<K, V> {
        let is_full = self.young.len() >= self.max && !self.young.contains_key(&key);
        let forgotten = match is_full {
            true => mem::replace(&mut self.old, mem::take(&mut self.young)),
            false => HashMap::new(),
        };
        self.young.insert(key, value);
        forgotten
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    /// Returns each key with its last value, those of the old generation first.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let old = self.old.iter();
        let old = old.filter(|(key, _)| !self.young.contains_key(key));
        old.chain(&self.young)
    }

    /// Returns the number of entries that take memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Returns whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_generation_ages_and_the_one_before_it_is_forgotten() {
        let mut map = Generations::new(2);
        for key in 0..4 {
            assert!(map.insert(key, key).is_empty(), "{key}");
        }
        assert!(map.insert(2, 20).is_empty(), "its key is there");
        let forgotten = map.insert(4, 4);
        assert_eq!(forgotten, HashMap::from([(0, 0), (1, 1)]));
        assert_eq!(
            [map.get(&0), map.get(&2), map.get(&4)],
            [None, Some(&20), Some(&4)]
        );
        for key in [2, 4] {
            map.remove(&key);
            assert_eq!(map.get(&key), None);
        }
        assert_eq!(map.len(), 1);
    }

    proptest! {
        #[test]
        fn the_last_keys_are_known_with_their_last_values(
            max in 1usize..8, keys in prop::collection::vec(0u8..20, 0..100),
        ) {
            let mut map = Generations::new(max);
            for (value, key) in keys.iter().enumerate() {
                map.insert(*key, value);
                prop_assert!(map.len() <= 2 * max);
            }
            let mut seen = Vec::new();
            for (value, key) in keys.iter().enumerate().rev() {
                if seen.contains(key) {
                    continue;
                }
                seen.push(*key);
                if seen.len() <= max {
                    prop_assert_eq!(map.get(key), Some(&value));
                }
            }
            let listed: HashMap<_, _> = map.iter().collect();
            prop_assert_eq!(listed.len(), map.iter().count(), "each key once");
            for (key, value) in listed {
                prop_assert_eq!(map.get(key), Some(value));
            }
        }
    }
}
