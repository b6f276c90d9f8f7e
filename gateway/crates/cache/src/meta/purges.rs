//! The purges that cover a key: a pure structure, kept in memory as a whole.
//!
//! Every purge has a number, and a key's generation is the largest number among the purges that cover it.
//! The generation is part of every version's address. So a purge takes one insertion here, whatever it
//! covers, and nothing need be searched for or deleted.
//!
//! Purges of single keys are kept in levels. When the first is full, its oldest purge moves to the next,
//! where it covers every key whose hash begins with the same bits. An unpurged object may then lose its
//! cached chunks, but no purged one is found. So memory and rows are bounded, whatever is purged, and the
//! cost is spread. If there are too many prefixes, their folders replace them.

mod level;
mod prefixes;
mod scope;
mod set;

use std::collections::HashMap;

use xxhash_rust::xxh3::Xxh3;

use self::level::PurgeLevel;
use self::prefixes::PrefixPurges;
pub use self::scope::{PurgeEffect, PurgeScope};
pub(super) use self::set::PurgeSet;
use tidegate_plan::{ObjectId, OriginId};

/// The number of purges of single keys in each level, and the bits of a key's hash that it compares.
#[derive(Debug, Clone, Copy)]
struct PurgeLimits {
    /// Also the number of tags.
    keys: usize,
    groups: (u32, usize),
    coarse: u32,
    prefixes: usize,
}

/// 200,000 single keys; 900,000 more in 2^32 possible groups, so that they hide 0.02 % of all other
/// objects. Each further purge hides one in 2^21. `docs/METRICS.md` has the figures.
const PURGE_LIMITS: PurgeLimits = PurgeLimits {
    keys: 200_000,
    groups: (32, 900_000),
    coarse: 21,
    prefixes: 50_000,
};

/// The limits of soft purges, and of purges of tags.
const OTHER_LIMITS: PurgeLimits = PurgeLimits {
    keys: 100_000,
    groups: (32, 400_000),
    coarse: 20,
    prefixes: 25_000,
};

/// All purges, except those that a later one makes superfluous.
#[derive(Debug)]
pub(super) struct Purges {
    limits: PurgeLimits,
    /// The largest number given out.
    last: u64,
    /// The number of the last purge of everything.
    floor: u64,
    /// Purges by hash of the object: a collision in 128 bits would hide one record too many, nothing
    /// worse.
    keys: PurgeLevel<u128>,
    /// Purges by the first bits of the hash.
    groups: PurgeLevel<u32>,
    /// Purges by fewer bits. Bounded by the number of bit patterns.
    coarse: HashMap<u32, u64>,
    prefixes: PrefixPurges,
}

/// A change of the stored purges; only [`PurgeSet::restore`] interprets the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PurgeEdit {
    /// Removes all rows.
    Clear,
    /// Sets a row.
    Set(Vec<u8>, u64),
    /// Removes a row.
    Remove(Vec<u8>),
}

const EVERYTHING_ROW: u8 = 0;
const KEY_ROW: u8 = 1;
const PREFIX_ROW: u8 = 2;
const GROUP_ROW: u8 = 3;
const COARSE_ROW: u8 = 4;

impl Default for Purges {
    fn default() -> Self {
        Self::with_limits(PURGE_LIMITS)
    }
}

impl Purges {
    fn with_limits(limits: PurgeLimits) -> Self {
        Self {
            limits,
            last: 0,
            floor: 0,
            keys: PurgeLevel::default(),
            groups: PurgeLevel::default(),
            coarse: HashMap::new(),
            prefixes: PrefixPurges::default(),
        }
    }

    /// Returns the number of the last purge that covers the object; 0 if none does.
    pub(super) fn generation(&self, id: &ObjectId) -> u64 {
        let prefix = self.prefixes.covering(id.origin, id.key.as_str());
        let purged = self.floor.max(prefix.unwrap_or(0));
        if !self.has_single() {
            return purged;
        }
        purged.max(self.single(hash(id)))
    }

    /// Returns whether a single key or tag was ever purged.
    fn has_single(&self) -> bool {
        // A purge reaches the other levels only through the first, which is then never empty again.
        !self.keys.is_empty()
    }

    /// Returns the number of the last purge of a single key or tag, by its hash; 0 if there is none.
    fn single(&self, hash: u128) -> u64 {
        let key = self.keys.get(&hash).unwrap_or(0);
        let group = self.groups.get(&self.group(hash)).unwrap_or(0);
        let coarse = self.coarse.get(&self.coarse(hash)).copied().unwrap_or(0);
        key.max(group).max(coarse)
    }

    /// Returns the largest number given out: as long as it stays, so does every generation.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the number of purges.
    pub(super) fn len(&self) -> usize {
        let keys = self.keys.len() + self.groups.len() + self.coarse.len();
        keys + self.prefixes.len() + usize::from(self.floor > 0)
    }

    /// Purges one object. `now` (microseconds since 1970) keeps numbers from being given out again after a
    /// failed write.
    pub(super) fn purge_key(&mut self, id: &ObjectId, now: u64) -> Vec<PurgeEdit> {
        self.purge_single(hash(id), now)
    }

    /// Purges a single key or tag by its hash.
    fn purge_single(&mut self, hash: u128, now: u64) -> Vec<PurgeEdit> {
        let number = self.next(now);
        let mut edits = vec![PurgeEdit::Set(key_row(hash), number)];
        self.keys.set(hash, number);
        if let Some((hash, number)) = self.keys.pop_beyond(self.limits.keys) {
            edits.push(PurgeEdit::Remove(key_row(hash)));
            let group = self.group(hash);
            self.groups.set(group, number);
            edits.push(PurgeEdit::Set(group_row(group), number));
        }
        if let Some((group, number)) = self.groups.pop_beyond(self.limits.groups.1) {
            edits.push(PurgeEdit::Remove(group_row(group)));
            let coarse = group >> (self.limits.groups.0 - self.limits.coarse);
            let highest = self.coarse.entry(coarse).or_default();
            *highest = number.max(*highest);
            edits.push(PurgeEdit::Set(coarse_row(coarse), *highest));
        }
        edits
    }

    /// Purges every object of an origin whose key starts with `prefix`.
    pub(super) fn purge_prefix(
        &mut self,
        origin: OriginId,
        prefix: &str,
        now: u64,
    ) -> Vec<PurgeEdit> {
        let number = self.next(now);
        let mut edits = Vec::new();
        self.prefixes.set(origin, prefix, number, &mut edits);
        if self.prefixes.len() > self.limits.prefixes {
            self.prefixes.coarsen(self.limits.prefixes / 2, &mut edits);
        }
        edits
    }

    /// Purges everything: also the last resort if purges can no longer be told apart.
    pub(super) fn purge_everything(&mut self, now: u64) -> Vec<PurgeEdit> {
        let number = self.next(now);
        *self = Self {
            last: self.last,
            floor: number,
            ..Self::with_limits(self.limits)
        };
        vec![
            PurgeEdit::Clear,
            PurgeEdit::Set(vec![EVERYTHING_ROW], number),
        ]
    }

    /// Adds a stored row. `None`: it cannot be read.
    pub(super) fn restore(&mut self, row: &[u8], number: u64) -> Option<()> {
        match row.split_first()? {
            (&EVERYTHING_ROW, []) => self.floor = self.floor.max(number),
            (&KEY_ROW, hash) => self
                .keys
                .set(u128::from_le_bytes(hash.try_into().ok()?), number),
            (&GROUP_ROW, group) => {
                let group = u32::from_le_bytes(group.try_into().ok()?);
                self.groups.set(group, number);
            }
            (&COARSE_ROW, coarse) => {
                let coarse = u32::from_le_bytes(coarse.try_into().ok()?);
                self.coarse.insert(coarse, number);
            }
            (&PREFIX_ROW, rest) => {
                let (origin, prefix) = rest.split_first_chunk()?;
                let origin = OriginId(u64::from_le_bytes(*origin));
                self.prefixes
                    .restore(origin, std::str::from_utf8(prefix).ok()?, number);
            }
            _ => return None,
        }
        self.last = self.last.max(number);
        Some(())
    }

    /// Returns all rows, to write them again.
    pub(super) fn rows(&self) -> Vec<(Vec<u8>, u64)> {
        let keys = self.keys.iter().map(|(hash, n)| (key_row(hash), n));
        let groups = self.groups.iter().map(|(group, n)| (group_row(group), n));
        let coarse = self.coarse.iter();
        let coarse = coarse.map(|(coarse, n)| (coarse_row(*coarse), *n));
        let floor = (self.floor > 0).then(|| (vec![EVERYTHING_ROW], self.floor));
        let all = keys.chain(groups).chain(coarse);
        all.chain(self.prefixes.rows()).chain(floor).collect()
    }

    fn next(&mut self, now: u64) -> u64 {
        self.last = now.max(self.last + 1);
        self.last
    }

    fn group(&self, hash: u128) -> u32 {
        first_bits(hash, self.limits.groups.0)
    }

    fn coarse(&self, hash: u128) -> u32 {
        first_bits(hash, self.limits.coarse)
    }
}

fn first_bits(hash: u128, bits: u32) -> u32 {
    u32::try_from(hash >> (128 - bits)).expect("32 bits at most")
}

fn hash(id: &ObjectId) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&id.origin.0.to_le_bytes());
    hash.update(id.key.as_str().as_bytes());
    hash.digest128()
}

fn key_row(hash: u128) -> Vec<u8> {
    [&[KEY_ROW][..], &hash.to_le_bytes()].concat()
}

fn group_row(group: u32) -> Vec<u8> {
    [&[GROUP_ROW][..], &group.to_le_bytes()].concat()
}

fn coarse_row(coarse: u32) -> Vec<u8> {
    [&[COARSE_ROW][..], &coarse.to_le_bytes()].concat()
}

fn prefix_row(origin: OriginId, prefix: &str) -> Vec<u8> {
    [
        &[PREFIX_ROW][..],
        &origin.0.to_le_bytes(),
        prefix.as_bytes(),
    ]
    .concat()
}

#[cfg(test)]
mod tests;
