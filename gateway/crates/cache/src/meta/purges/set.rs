//! All purges of a store: of keys and prefixes, and of tags; each hard or soft.
//!
//! A hard purge has a number, which is part of the address of every version that it covers. A soft purge has a time: a
//! version that was confirmed by then is stale. Its number is that time in microseconds, or a little more, so that no
//! two are the same.
//!
//! A tag is a hash like a key, so its purges are bounded as those of keys are: beyond a number of them, the oldest
//! cover all tags whose hash begins with the same bits.

use std::iter::once;

use http::HeaderName;
use xxhash_rust::xxh3::Xxh3;

use super::{OTHER_LIMITS, PurgeEdit, Purges};
use tidegate_plan::tags::{DEFAULT_TAGS_HEADER, MAX_TAGS, Tag, tags_of};
use tidegate_plan::{ObjectId, OriginId, Timestamp, Version};

/// Rows of purges that stand in [`PurgeSet`] beside the hard ones of keys begin with one of these.
const SOFT_ROWS: u8 = 5;
const TAG_ROWS: u8 = 6;
const SOFT_TAG_ROWS: u8 = 7;

const MICROS_IN_A_MILLISECOND: u64 = 1000;

/// See the module documentation.
#[derive(Debug)]
pub(in crate::meta) struct PurgeSet {
    keys: Purges,
    tags: Purges,
    soft_keys: Purges,
    soft_tags: Purges,
    /// The header that names an object's tags.
    tags_header: HeaderName,
}

impl Default for PurgeSet {
    fn default() -> Self {
        Self {
            keys: Purges::default(),
            tags: Purges::with_limits(OTHER_LIMITS),
            soft_keys: Purges::with_limits(OTHER_LIMITS),
            soft_tags: Purges::with_limits(OTHER_LIMITS),
            tags_header: HeaderName::from_static(DEFAULT_TAGS_HEADER),
        }
    }
}

impl PurgeSet {
    /// Reads the tags of objects from this header.
    pub(in crate::meta) fn with_tags_header(self, tags_header: HeaderName) -> Self {
        Self {
            tags_header,
            ..self
        }
    }

    /// Returns the number of the last purge that covers the key; 0 if none does.
    pub(in crate::meta) fn generation(&self, id: &ObjectId) -> u64 {
        self.keys.generation(id)
    }

    /// Returns the number of the last purge of a tag of the version; 0 if there is none.
    pub(in crate::meta) fn tag_generation(&self, origin: OriginId, version: &Version) -> u64 {
        self.newest_of_tags(&self.tags, origin, version)
    }

    /// Returns the largest number of a purge of tags so far; 0 if there is none.
    pub(in crate::meta) fn last_tag_purge(&self) -> u64 {
        self.tags.last()
    }

    /// Returns the number of the last purge that covers this version of the key; 0 if none does.
    pub(in crate::meta) fn version_generation(&self, id: &ObjectId, version: &Version) -> u64 {
        self.generation(id)
            .max(self.tag_generation(id.origin, version))
    }

    /// Returns the time of the last soft purge that covers the key or a tag of its version.
    pub(in crate::meta) fn softened(&self, id: &ObjectId, version: Option<&Version>) -> Timestamp {
        let key = self.soft_keys.generation(id);
        let tag = version.map_or(0, |version| {
            self.newest_of_tags(&self.soft_tags, id.origin, version)
        });
        Timestamp(key.max(tag) / MICROS_IN_A_MILLISECOND)
    }

    /// Returns whether there is any soft purge.
    pub(in crate::meta) fn has_soft(&self) -> bool {
        self.soft_keys.len() + self.soft_tags.len() > 0
    }

    fn newest_of_tags(&self, purges: &Purges, origin: OriginId, version: &Version) -> u64 {
        if !purges.has_single() {
            return 0;
        }
        let mut newest = 0;
        for (number, tag) in tags_of(version, &self.tags_header).enumerate() {
            if number == MAX_TAGS {
                // The others are not looked at: any purge of a tag may cover the version.
                return purges.last();
            }
            newest = newest.max(purges.single(hash(origin, tag)));
        }
        newest
    }

    /// Returns the number of purges.
    pub(in crate::meta) fn len(&self) -> usize {
        let all = [&self.keys, &self.tags, &self.soft_keys, &self.soft_tags];
        all.into_iter().map(Purges::len).sum()
    }

    /// Purges one object. `now` is in microseconds since 1970.
    pub(in crate::meta) fn purge_key(&mut self, id: &ObjectId, now: u64) -> Vec<PurgeEdit> {
        self.keys.purge_key(id, now.max(self.tags.last() + 1))
    }

    /// Purges every object of an origin whose key starts with `prefix`.
    pub(in crate::meta) fn purge_prefix(
        &mut self,
        origin: OriginId,
        prefix: &str,
        now: u64,
    ) -> Vec<PurgeEdit> {
        let now = now.max(self.tags.last() + 1);
        self.keys.purge_prefix(origin, prefix, now)
    }

    /// Purges every object of an origin that has the tag. A key's numbers and those of its tags are compared, so each
    /// purge has a larger number than all before it.
    pub(in crate::meta) fn purge_tag(
        &mut self,
        origin: OriginId,
        tag: &Tag,
        now: u64,
    ) -> Vec<PurgeEdit> {
        let now = now.max(self.keys.last() + 1);
        let edits = self.tags.purge_single(hash(origin, tag.as_str()), now);
        among(TAG_ROWS, edits)
    }

    /// Makes one object stale.
    pub(in crate::meta) fn soften_key(&mut self, id: &ObjectId, at: Timestamp) -> Vec<PurgeEdit> {
        among(SOFT_ROWS, self.soft_keys.purge_key(id, micros(at)))
    }

    /// Makes every object of an origin stale whose key starts with `prefix`.
    pub(in crate::meta) fn soften_prefix(
        &mut self,
        origin: OriginId,
        prefix: &str,
        at: Timestamp,
    ) -> Vec<PurgeEdit> {
        let edits = self.soft_keys.purge_prefix(origin, prefix, micros(at));
        among(SOFT_ROWS, edits)
    }

    /// Makes every object of an origin stale that has the tag.
    pub(in crate::meta) fn soften_tag(
        &mut self,
        origin: OriginId,
        tag: &Tag,
        at: Timestamp,
    ) -> Vec<PurgeEdit> {
        let hash = hash(origin, tag.as_str());
        among(SOFT_TAG_ROWS, self.soft_tags.purge_single(hash, micros(at)))
    }

    /// Purges everything, which makes all other purges superfluous.
    pub(in crate::meta) fn purge_everything(&mut self, now: u64) -> Vec<PurgeEdit> {
        let edits = self.keys.purge_everything(now.max(self.tags.last() + 1));
        let keys = std::mem::take(&mut self.keys);
        let tags_header = self.tags_header.clone();
        *self = Self {
            keys,
            tags_header,
            ..Self::default()
        };
        edits
    }

    /// Adds a stored row. `None`: it cannot be read.
    pub(in crate::meta) fn restore(&mut self, row: &[u8], number: u64) -> Option<()> {
        match row.split_first()? {
            (&SOFT_ROWS, row) => self.soft_keys.restore(row, number),
            (&TAG_ROWS, row) => self.tags.restore(row, number),
            (&SOFT_TAG_ROWS, row) => self.soft_tags.restore(row, number),
            _ => self.keys.restore(row, number),
        }
    }

    /// Returns all rows, to write them again.
    pub(in crate::meta) fn rows(&self) -> Vec<(Vec<u8>, u64)> {
        let others = [
            (TAG_ROWS, &self.tags),
            (SOFT_ROWS, &self.soft_keys),
            (SOFT_TAG_ROWS, &self.soft_tags),
        ];
        let others = others.into_iter().flat_map(|(kind, purges)| {
            let rows = purges.rows().into_iter();
            rows.map(move |(row, number)| (row_among(kind, &row), number))
        });
        self.keys.rows().into_iter().chain(others).collect()
    }
}

/// Returns edits as those of rows of one kind.
fn among(kind: u8, edits: Vec<PurgeEdit>) -> Vec<PurgeEdit> {
    let edits = edits.into_iter().map(|edit| match edit {
        PurgeEdit::Clear => PurgeEdit::Clear,
        PurgeEdit::Set(row, number) => PurgeEdit::Set(row_among(kind, &row), number),
        PurgeEdit::Remove(row) => PurgeEdit::Remove(row_among(kind, &row)),
    });
    edits.collect()
}

fn row_among(kind: u8, row: &[u8]) -> Vec<u8> {
    once(kind).chain(row.iter().copied()).collect()
}

fn micros(at: Timestamp) -> u64 {
    at.0.saturating_mul(MICROS_IN_A_MILLISECOND)
}

fn hash(origin: OriginId, tag: &str) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&origin.0.to_le_bytes());
    hash.update(tag.as_bytes());
    hash.digest128()
}

#[cfg(test)]
mod tests;
