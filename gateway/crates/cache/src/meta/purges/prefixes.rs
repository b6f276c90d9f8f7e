//! The purges of prefixes.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Included, Unbounded};

use super::{PurgeEdit, prefix_row};
use tidegate_plan::OriginId;

/// The purges of prefixes of each origin. A prefix in here is always newer than every shorter one that
/// covers it.
#[derive(Debug, Default)]
pub(super) struct PrefixPurges {
    of: HashMap<OriginId, BTreeMap<Box<str>, u64>>,
    len: usize,
}

impl PrefixPurges {
    /// Returns the number of prefixes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of the newest purge that covers a key.
    pub(super) fn covering(&self, origin: OriginId, key: &str) -> Option<u64> {
        longest_covering(self.of.get(&origin)?, key)
    }

    /// Purges a prefix, unless a newer purge covers it. Older purges that it covers are removed.
    pub(super) fn set(
        &mut self,
        origin: OriginId,
        prefix: &str,
        number: u64,
        edits: &mut Vec<PurgeEdit>,
    ) {
        if self
            .covering(origin, prefix)
            .is_some_and(|newer| newer >= number)
        {
            return;
        }
        let prefixes = self.of.entry(origin).or_default();
        let covered: Vec<Box<str>> = prefixes
            .range::<str, _>((Included(prefix), Unbounded))
            .take_while(|(other, _)| other.starts_with(prefix))
            .filter(|(other, older)| **older < number && ***other != *prefix)
            .map(|(other, _)| other.clone())
            .collect();
        for other in &covered {
            prefixes.remove(other);
            edits.push(PurgeEdit::Remove(prefix_row(origin, other)));
        }
        self.len -= covered.len();
        self.len += usize::from(prefixes.insert(prefix.into(), number).is_none());
        edits.push(PurgeEdit::Set(prefix_row(origin, prefix), number));
    }

    /// Replaces the deepest prefixes by their folders, until at most `most` are left. A folder is set once, however many
    /// prefixes it had: all look-ups wait meanwhile.
    pub(super) fn coarsen(&mut self, most: usize, edits: &mut Vec<PurgeEdit>) {
        let mut by_depth: BTreeMap<usize, Vec<(OriginId, Box<str>)>> = BTreeMap::new();
        for (origin, prefixes) in &self.of {
            for prefix in prefixes.keys() {
                let same = by_depth.entry(depth(prefix)).or_default();
                same.push((*origin, prefix.clone()));
            }
        }
        while self.len > most
            && let Some((deepest, all)) = by_depth.pop_last()
        {
            let mut folders: BTreeMap<(OriginId, &str), u64> = BTreeMap::new();
            for (origin, prefix) in &all {
                // The folder of another prefix may have covered it.
                let prefixes = self.of.entry(*origin).or_default();
                let Some(number) = prefixes.remove(prefix) else {
                    continue;
                };
                self.len -= 1;
                edits.push(PurgeEdit::Remove(prefix_row(*origin, prefix)));
                let newest = folders.entry((*origin, folder(prefix))).or_default();
                *newest = number.max(*newest);
            }
            for ((origin, folder), number) in folders {
                self.set(origin, folder, number, edits);
                if deepest > 0 {
                    let same = by_depth.entry(deepest - 1).or_default();
                    same.push((origin, folder.into()));
                }
            }
        }
    }

    /// Adds a stored row.
    pub(super) fn restore(&mut self, origin: OriginId, prefix: &str, number: u64) {
        let prefixes = self.of.entry(origin).or_default();
        self.len += usize::from(prefixes.insert(prefix.into(), number).is_none());
    }

    /// Returns all rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Vec<u8>, u64)> {
        self.of.iter().flat_map(|(origin, prefixes)| {
            prefixes
                .iter()
                .map(|(prefix, number)| (prefix_row(*origin, prefix), *number))
        })
    }
}

/// Returns the folder of a prefix: up to the last slash that it does not end with.
fn folder(prefix: &str) -> &str {
    let within = prefix.strip_suffix('/').unwrap_or(prefix);
    within.rfind('/').map_or("", |at| &prefix[..=at])
}

/// Returns the number of folders that a prefix lies in, the bucket included; 0 for the whole bucket.
fn depth(prefix: &str) -> usize {
    let mut depth = 0;
    let mut prefix = prefix;
    while !prefix.is_empty() {
        prefix = folder(prefix);
        depth += 1;
    }
    depth
}

/// Returns the number of the longest prefix of `key` in the map, which is also the newest.
///
/// The last entry before `key` in order either covers it or shares some beginning with it. In the second
/// case, a prefix that covers the key can be no longer than that beginning.
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
