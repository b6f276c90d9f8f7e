//! Which purges cover a key: a pure structure, kept in memory whole.
//!
//! Every purge has a number, and a key's generation is the largest number among the purges that
//! cover it. The generation is part of every version's address, so a purge takes one insertion
//! here, whatever it covers, and nothing need be searched for or deleted.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Included, Unbounded};

use xxhash_rust::xxh3::Xxh3;

use crate::plan::{ObjectId, OriginId};

/// Purges of single keys that are remembered one by one; each takes about 40 bytes. Beyond that
/// they become one purge of everything, which costs each object one confirmation, and no more.
const MAX_KEYS: usize = 200_000;

/// The same for prefixes.
const MAX_PREFIXES: usize = 50_000;

/// Every purge there was, as far as no later one makes it superfluous.
#[derive(Debug, Default)]
pub(super) struct Purges {
    /// The largest number given out.
    last: u64,
    /// Number of the last purge of everything.
    floor: u64,
    /// By hash of the object: a collision in 128 bits would hide a record too many, nothing worse.
    keys: HashMap<u128, u64>,
    /// A prefix in here is always newer than every shorter one that covers it.
    prefixes: HashMap<OriginId, BTreeMap<Box<str>, u64>>,
}

/// A change of what is stored of the purges; rows are opaque but to [`Purges::restore`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    /// Removes all rows.
    Clear,
    /// Sets a row.
    Set(Vec<u8>, u64),
    /// Removes a row.
    Remove(Vec<u8>),
}

const EVERYTHING: u8 = 0;
const KEY: u8 = 1;
const PREFIX: u8 = 2;

impl Purges {
    /// The number of the last purge that covers the object; 0 if none does.
    pub(super) fn generation(&self, id: &ObjectId) -> u64 {
        let key = if self.keys.is_empty() {
            0
        } else {
            self.keys.get(&hash(id)).copied().unwrap_or(0)
        };
        let prefix = self
            .prefixes
            .get(&id.origin)
            .and_then(|prefixes| longest_covering(prefixes, id.key.as_str()))
            .unwrap_or(0);
        self.floor.max(key).max(prefix)
    }

    /// The largest number given out: as long as it stays, so does every generation.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Purges one object. `now` (microseconds since 1970) keeps numbers from coming back after a
    /// failure to write one down.
    pub(super) fn purge_key(&mut self, id: &ObjectId, now: u64) -> Vec<Edit> {
        if self.keys.len() >= MAX_KEYS {
            return self.purge_everything(now);
        }
        let number = self.next(now);
        let hash = hash(id);
        self.keys.insert(hash, number);
        vec![Edit::Set(key_row(hash), number)]
    }

    /// Purges every object of an origin whose key starts with `prefix`.
    pub(super) fn purge_prefix(&mut self, origin: OriginId, prefix: &str, now: u64) -> Vec<Edit> {
        let count: usize = self.prefixes.values().map(BTreeMap::len).sum();
        if count >= MAX_PREFIXES {
            return self.purge_everything(now);
        }
        let number = self.next(now);
        let prefixes = self.prefixes.entry(origin).or_default();
        let longer: Vec<Box<str>> = prefixes
            .range::<str, _>((Included(prefix), Unbounded))
            .map(|(other, _)| other.clone())
            .take_while(|other| other.starts_with(prefix))
            .collect();
        let mut edits: Vec<Edit> = Vec::with_capacity(longer.len() + 1);
        for other in longer {
            prefixes.remove(&other);
            edits.push(Edit::Remove(prefix_row(origin, &other)));
        }
        prefixes.insert(prefix.into(), number);
        edits.push(Edit::Set(prefix_row(origin, prefix), number));
        edits
    }

    /// Purges all there is: also what is left to do when purges can no longer be told apart.
    pub(super) fn purge_everything(&mut self, now: u64) -> Vec<Edit> {
        let number = self.next(now);
        self.keys = HashMap::new();
        self.prefixes = HashMap::new();
        self.floor = number;
        vec![Edit::Clear, Edit::Set(vec![EVERYTHING], number)]
    }

    /// Takes up a stored row. `None` when it cannot be read.
    pub(super) fn restore(&mut self, row: &[u8], number: u64) -> Option<()> {
        match row.split_first()? {
            (&EVERYTHING, []) => self.floor = self.floor.max(number),
            (&KEY, hash) => {
                let hash = u128::from_le_bytes(hash.try_into().ok()?);
                self.keys.insert(hash, number);
            }
            (&PREFIX, rest) => {
                let (origin, prefix) = rest.split_first_chunk()?;
                let origin = OriginId(u64::from_le_bytes(*origin));
                let prefix = std::str::from_utf8(prefix).ok()?;
                self.prefixes
                    .entry(origin)
                    .or_default()
                    .insert(prefix.into(), number);
            }
            _ => return None,
        }
        self.last = self.last.max(number);
        Some(())
    }

    /// All rows, to write them anew.
    pub(super) fn rows(&self) -> Vec<(Vec<u8>, u64)> {
        let keys = self.keys.iter().map(|(hash, n)| (key_row(*hash), *n));
        let prefixes = self.prefixes.iter().flat_map(|(origin, prefixes)| {
            prefixes
                .iter()
                .map(|(prefix, n)| (prefix_row(*origin, prefix), *n))
        });
        let floor = (self.floor > 0).then(|| (vec![EVERYTHING], self.floor));
        keys.chain(prefixes).chain(floor).collect()
    }

    fn next(&mut self, now: u64) -> u64 {
        self.last = now.max(self.last + 1);
        self.last
    }
}

/// The number of the longest prefix of `key` in the map, which is the newest as well.
///
/// What comes last before `key` in order either covers it, or shares some beginning with it, and
/// then a prefix that covers the key can be no longer than that beginning.
fn longest_covering(prefixes: &BTreeMap<Box<str>, u64>, key: &str) -> Option<u64> {
    let mut probe = key;
    loop {
        let (prefix, number) = prefixes
            .range::<str, _>((Unbounded, Included(probe)))
            .next_back()?;
        if key.starts_with(&**prefix) {
            return Some(*number);
        }
        let same = key.chars().zip(prefix.chars()).take_while(|(a, b)| a == b);
        probe = &key[..same.map(|(a, _)| a.len_utf8()).sum()];
    }
}

fn hash(id: &ObjectId) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&id.origin.0.to_le_bytes());
    hash.update(id.key.as_str().as_bytes());
    hash.digest128()
}

fn key_row(hash: u128) -> Vec<u8> {
    [&[KEY][..], &hash.to_le_bytes()].concat()
}

fn prefix_row(origin: OriginId, prefix: &str) -> Vec<u8> {
    [&[PREFIX][..], &origin.0.to_le_bytes(), prefix.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::ObjectKey;

    fn id(origin: u64, key: &str) -> ObjectId {
        ObjectId {
            origin: OriginId(origin),
            key: ObjectKey::new(key).expect("a valid key"),
        }
    }

    #[derive(Debug, Clone)]
    enum Op {
        Key(u64, String),
        Prefix(u64, String),
        Everything,
        Reload,
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let key = "[ab/ü]{1,4}";
        let prefix = "[ab/ü]{0,4}";
        let op = prop_oneof![
            4 => (0u64..2, key).prop_map(|(o, k)| Op::Key(o, k)),
            8 => (0u64..2, prefix).prop_map(|(o, p)| Op::Prefix(o, p)),
            1 => Just(Op::Everything),
            1 => Just(Op::Reload),
        ];
        proptest::collection::vec(op, 0..24)
    }

    /// Applies edits to stored rows as the database does.
    fn apply(rows: &mut BTreeMap<Vec<u8>, u64>, edits: Vec<Edit>) {
        for edit in edits {
            match edit {
                Edit::Clear => rows.clear(),
                Edit::Set(row, number) => drop(rows.insert(row, number)),
                Edit::Remove(row) => drop(rows.remove(&row)),
            }
        }
    }

    proptest! {
        /// Against a list of all purges that is searched from end to end.
        #[test]
        fn generation_is_the_last_purge_that_covers(ops in ops(), probes in proptest::collection::vec((0u64..2, "[ab/ü]{1,5}"), 8)) {
            let mut purges = Purges::default();
            let mut rows: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            let mut model: Vec<(Op, u64)> = Vec::new();
            for op in ops {
                let edits = match &op {
                    Op::Key(origin, key) => purges.purge_key(&id(*origin, key), 0),
                    Op::Prefix(origin, prefix) => purges.purge_prefix(OriginId(*origin), prefix, 0),
                    Op::Everything => purges.purge_everything(0),
                    Op::Reload => {
                        let last = purges.last();
                        purges = Purges::default();
                        for (row, number) in &rows {
                            purges.restore(row, *number).expect("a row of ours");
                        }
                        prop_assert_eq!(purges.last(), last);
                        Vec::new()
                    }
                };
                apply(&mut rows, edits);
                model.push((op, purges.last()));
                prop_assert_eq!(&purges.rows().into_iter().collect::<BTreeMap<_, _>>(), &rows);
            }
            for (origin, key) in probes {
                let covers = |op: &Op| match op {
                    Op::Key(o, k) => (*o, k) == (origin, &key),
                    Op::Prefix(o, p) => *o == origin && key.starts_with(p.as_str()),
                    Op::Everything => true,
                    Op::Reload => false,
                };
                let expected = model.iter().filter(|(op, _)| covers(op)).map(|(_, n)| *n).max();
                prop_assert_eq!(purges.generation(&id(origin, &key)), expected.unwrap_or(0));
            }
        }
    }

    #[test]
    fn numbers_grow_whatever_the_clock_does() {
        let mut purges = Purges::default();
        purges.purge_key(&id(1, "a"), 100);
        purges.purge_key(&id(1, "a"), 50);
        assert_eq!(purges.generation(&id(1, "a")), 101);
    }
}
