//! The journal of one draft: what its data file holds, and how far its upload has come.
//!
//! A file that begins with [`MAGIC`], then frames: a length (4 bytes, little-endian), the xxh3 of
//! what follows (8), and a record as JSON, which a person with a broken disk can read. Records are
//! few: one a part, and one a sync. What does not match its hash, and all behind it, was being
//! written when the process ended, and is cut off.
//!
//! A frame whose length has its highest bit set ([`RAW`], which seeds the hash, too) holds bytes of
//! the object instead. The record after it, [`Record::Bytes`], says which: so a small object that must
//! be durable has one file.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The format's name and version.
pub(super) const MAGIC: &[u8; 17] = b"tidegate-spool-2\n";

/// The one before it, which had no [`RAW`] frames.
const BEFORE: &[u8; 17] = b"tidegate-spool-1\n";

pub(super) const HEAD: usize = 12;

/// Marks the length of a frame that holds bytes of the object.
const RAW: u32 = 1 << 31;

/// No record is longer: an object of 5 TiB has 10,000 parts of about 60 bytes each.
const LONGEST: usize = 64 << 20;

/// How a draft began, or begins anew once it was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct Begin {
    /// The bucket ([`crate::plan::OriginId`]).
    pub(in crate::engine) origin: u64,
    /// The object to be.
    pub(in crate::engine) key: String,
    /// The headers it will have.
    pub(in crate::engine) headers: Vec<(String, String)>,
    /// What must hold of the key when it is published.
    pub(in crate::engine) guard: GuardWord,
    /// The version it began as; `None`: nothing.
    pub(in crate::engine) base: Option<Base>,
    /// Bytes of its first part, from which those of all others follow.
    pub(in crate::engine) first_part: u64,
    /// Parts go up under another key: see `engine/upload`.
    pub(in crate::engine) hidden: bool,
}

/// What must hold of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) enum GuardWord {
    None,
    Absent,
    Same(String),
}

/// A version that a draft began as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) struct Base {
    pub(in crate::engine) key: String,
    pub(in crate::engine) etag: String,
    pub(in crate::engine) size: u64,
}

/// One thing that happened to a draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) enum Record {
    /// It began.
    Begin(Box<Begin>),
    /// These bytes are in the data file, and it is so long now.
    Wrote { size: u64, extents: Vec<(u64, u64)> },
    /// It was given another length.
    Cut { size: u64 },
    /// The bytes of the frame before, which begin at `place` in this file, are the object's from `at`
    /// on, and not in the data file.
    Bytes { at: u64, length: u32, place: u64 },
    /// They are in the data file by now, or were cut off.
    Moved,
    /// The bytes that the records before speak of are durable.
    Synced,
    /// It has other headers.
    Headers(Vec<(String, String)>),
    /// An upload was begun.
    Upload { key: String, id: String },
    /// A part, counted from 0, was sent as it is.
    Part {
        index: u32,
        length: u64,
        etag: String,
        crc64: u64,
    },
    /// A sent part's bytes leave the data file.
    Evicted { index: u32 },
    /// The upload is gone, and what was sent of it.
    Unsent,
    /// The parts that the object is completed of: from here on it may be.
    Completing { parts: Vec<(u32, String)> },
    /// `close` returned, or is waited for: it is to be published.
    Closed,
}

/// A record as it stands in the file.
pub(super) fn framed(record: &Record) -> Vec<u8> {
    frame(
        &serde_json::to_vec(record).expect("records are plain data"),
        0,
    )
}

/// Bytes of the object as they stand in the file, where they begin [`HEAD`] later.
pub(super) fn raw(bytes: &[u8]) -> Vec<u8> {
    frame(bytes, RAW)
}

fn frame(body: &[u8], mark: u32) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("frames are short");
    let mut frame = Vec::with_capacity(HEAD + body.len());
    frame.extend_from_slice(&(length | mark).to_le_bytes());
    frame.extend_from_slice(&hash(body, mark).to_le_bytes());
    frame.extend_from_slice(body);
    frame
}

/// Of a frame with another mark it is another one.
fn hash(body: &[u8], mark: u32) -> u64 {
    xxh3_64_with_seed(body, u64::from(mark))
}

/// The records of a journal, and how many of its bytes are sound. `None`: it is of another format.
pub(super) fn read(bytes: &[u8]) -> Option<(Vec<Record>, u64)> {
    let stripped = bytes.strip_prefix(MAGIC);
    let mut rest = match stripped.or_else(|| bytes.strip_prefix(BEFORE)) {
        Some(rest) => rest,
        // Torn in its first write: there is nothing in it.
        None if MAGIC.starts_with(bytes) => return Some((Vec::new(), 0)),
        None => return None,
    };
    let mut records = Vec::new();
    while let Some((record, length)) = next(rest) {
        records.extend(record);
        rest = &rest[length..];
    }
    Some((records, (bytes.len() - rest.len()) as u64))
}

/// The first frame: its record, if it is not one of bytes, and its length.
fn next(bytes: &[u8]) -> Option<(Option<Record>, usize)> {
    let (head, body) = bytes.split_at_checked(HEAD)?;
    let length_and_mark = u32::from_le_bytes(head[..4].try_into().ok()?);
    let is_raw = length_and_mark & RAW != 0;
    let length = usize::try_from(length_and_mark & !RAW).ok();
    let length = length.filter(|it| *it <= LONGEST)?;
    let body = body.get(..length)?;
    let hash = u64::from_le_bytes(head[4..].try_into().ok()?);
    (self::hash(body, length_and_mark & RAW) == hash).then_some(())?;
    let record = match is_raw {
        true => None,
        false => Some(serde_json::from_slice(body).ok()?),
    };
    Some((record, HEAD + length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn records() -> Vec<Record> {
        vec![
            Record::Wrote {
                size: 10,
                extents: vec![(0, 4), (6, 10)],
            },
            Record::Bytes {
                at: 0,
                length: 5,
                place: 29,
            },
            Record::Synced,
            Record::Part {
                index: 0,
                length: 10,
                etag: "\"e\"".to_owned(),
                crc64: u64::MAX,
            },
            Record::Closed,
        ]
    }

    proptest! {
        /// Whatever the last write left: what is read are the records before it, each as it was.
        #[test]
        fn a_torn_end_costs_nothing_before_it(cut in 0..400_usize, flip in prop::option::of((0..400_usize, 0..8_u8))) {
            let mut bytes = MAGIC.to_vec();
            let mut ends = vec![bytes.len()];
            for record in records() {
                if matches!(record, Record::Bytes { .. }) {
                    bytes.extend(raw(b"bytes"));
                }
                bytes.extend(framed(&record));
                ends.push(bytes.len());
            }
            let cut = cut.min(bytes.len());
            bytes.truncate(cut);
            let mut sound = cut;
            if let Some((at, bit)) = flip.filter(|(at, _)| (MAGIC.len()..cut).contains(at)) {
                bytes[at] ^= 1 << bit;
                sound = at;
            }
            let (read, length) = read(&bytes).expect("our format");
            let whole = ends.iter().filter(|end| **end <= sound).count().saturating_sub(1);
            prop_assert_eq!(&read[..], &records()[..whole]);
            if cut >= MAGIC.len() {
                // Behind the last record there may be the bytes of one that is cut off.
                prop_assert!((ends[whole] as u64..=sound as u64).contains(&length));
            }
        }
    }

    #[test]
    fn another_format_is_not_read() {
        assert_eq!(read(b"tidegate-spool-3\n"), None);
        assert_eq!(read(b""), Some((vec![], 0)));
        let before = [&BEFORE[..], &framed(&Record::Synced)].concat();
        let length = before.len() as u64;
        assert_eq!(read(&before), Some((vec![Record::Synced], length)));
    }
}
