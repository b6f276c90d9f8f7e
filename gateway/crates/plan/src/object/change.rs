//! A change of one key, as the bucket's events report it.

use super::folder::{common_folder, folder_of};
use super::{ETag, ObjectKey};
use crate::Timestamp;

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// An object was created or replaced, or its metadata changed.
    Created,
    /// The object was removed, or a delete marker stands in its place.
    Removed,
}

/// A change of one key of a bucket. An event may come late, twice, or in the wrong order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// The name of the bucket.
    pub bucket: String,
    /// The key, decoded.
    pub key: ObjectKey,
    /// The kind of the change.
    pub kind: ChangeKind,
    /// The ETag of the new object, if the event has one.
    pub etag: Option<ETag>,
    /// The bytes of the new object, if the event says so.
    pub size: Option<u64>,
    /// The time of the change by the store's clock, if the event has one.
    pub time: Option<Timestamp>,
    /// The place of the change among those of its key, if the event has one.
    pub sequencer: Option<Sequencer>,
    /// Whether a change of the key with a later sequencer was applied before. Sequencers are clocks of a store's nodes, which
    /// differ: this one may be the older or the newer change, so that it only says that something has changed.
    pub is_overtaken: bool,
}

impl KeyChange {
    /// Returns a change of which nothing but its kind is known.
    #[must_use]
    pub fn of(bucket: &str, key: &ObjectKey, kind: ChangeKind) -> Self {
        Self {
            bucket: bucket.to_owned(),
            key: key.clone(),
            kind,
            etag: None,
            size: None,
            time: None,
            sequencer: None,
            is_overtaken: false,
        }
    }
}

/// Several changes of a bucket, of which no more is known than their folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderChange {
    /// The name of the bucket.
    pub bucket: String,
    /// The folder that holds all changed keys, with its slash; it may be empty.
    pub folder: String,
    /// The kinds of the changes, each once.
    pub kinds: Vec<ChangeKind>,
    /// The number of the changes.
    pub count: u64,
}

impl FolderChange {
    /// Returns a single change.
    #[must_use]
    pub fn of(change: &KeyChange) -> Self {
        Self {
            bucket: change.bucket.clone(),
            folder: folder_of(change.key.as_str()).to_owned(),
            kinds: vec![change.kind],
            count: 1,
        }
    }

    /// Adds a change of the same bucket.
    pub fn add(&mut self, change: &KeyChange) {
        let length = common_folder(&self.folder, change.key.as_str()).len();
        self.folder.truncate(length);
        if !self.kinds.contains(&change.kind) {
            self.kinds.push(change.kind);
        }
        self.count += 1;
    }
}

/// The place of a change among those of one key: text that orders after the shorter one is padded with zeros on the
/// right (S3 user guide, "Event message structure"). Sequencers of different keys say nothing about each other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sequencer(Box<str>);

impl Sequencer {
    /// The most bytes of one. The stores send 16 to 32.
    pub const MAX_BYTES: usize = 128;

    /// Reads a sequencer; `None` unless it is 1 to [`Sequencer::MAX_BYTES`] hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_long = text.is_empty() || text.len() > Self::MAX_BYTES;
        let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        (!is_long && is_hex).then(|| Self(text.to_ascii_uppercase().into()))
    }

    /// Returns the digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether this change came after `other` one of the same key.
    #[must_use]
    pub fn is_after(&self, other: &Self) -> bool {
        let length = self.0.len().max(other.0.len());
        let digits = |one: &Self| format!("{:0<length$}", one.0);
        digits(self) > digits(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_sequencer_is_padded_on_the_right() {
        let read = |text| Sequencer::parse(text).expect("hexadecimal");
        for (later, earlier) in [
            ("0055AED6DCD90281E6", "0055AED6DCD90281E5"),
            ("17E5C2A1B0F3D4E8", "17e5c2a1b0f3d4e7"),
            ("1A", "19FF"),
            ("1901", "19"),
        ] {
            assert!(read(later).is_after(&read(earlier)), "{later}");
            assert!(!read(earlier).is_after(&read(later)), "{earlier}");
        }
        assert!(!read("19").is_after(&read("1900")), "equal when padded");
    }

    #[test]
    fn only_digits_within_the_bound_are_a_sequencer() {
        let long = "0".repeat(Sequencer::MAX_BYTES + 1);
        for text in ["", "0x1", "12 ", long.as_str()] {
            assert_eq!(Sequencer::parse(text), None, "{text}");
        }
    }
}
