//! The journal of one draft: the contents of its data file, and the state of its upload.
//!
//! The file begins with [`MAGIC`] and the draft's identity (16 hexadecimal digits and a line feed),
//! which names the data file, too. Frames follow: a length (4 bytes, little-endian), the xxh3 hash
//! of the rest (8 bytes), and a record. Records are JSON, which an operator with a broken disk can
//! read. Records are few: one a part, and one a sync. A frame with a wrong hash, and everything
//! after it, is cut off. It was being written when the process ended, or belongs to an earlier
//! draft (`slots`), whose identity seeded its hashes.
//!
//! A frame whose length has its highest bit set ([`RAW_MARK`], which also seeds the hash) holds bytes of
//! the object. The record after it, [`Record::Bytes`], describes them. So a small object that must
//! be durable has one file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use tidegate_origin::PartSums;
use tidegate_plan::Extents;

/// The format's name and version.
const MAGIC: &[u8; 17] = b"tidegate-spool-4 ";

/// The heads of formats whose data has another extension.
const EARLY_HEADS: [&[u8]; 2] = [b"tidegate-spool-1\n", b"tidegate-spool-2\n"];

/// Digits of an identity, and the line's end.
const IDENTITY_BYTES: usize = 16 + 1;

/// The beginning of a file that has no journal yet.
pub(super) const BLANK_HEAD: [u8; MAGIC.len() + IDENTITY_BYTES] = [0; MAGIC.len() + IDENTITY_BYTES];

/// Bytes of a frame before its body.
pub(super) const FRAME_HEAD_BYTES: usize = 12;

/// Marks the length of a frame that holds bytes of the object.
const RAW_MARK: u32 = 1 << 31;

/// The maximum length of a record: an object of 5 TiB has 10,000 parts of about 60 bytes each.
pub(super) const MAX_RECORD_BYTES: usize = 64 << 20;

/// The maximum number of extents in a record.
const MAX_EXTENTS: usize = 100_000;

/// The beginning of a draft, or its new beginning after a publish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Begin {
    /// The bucket ([`tidegate_plan::OriginId`]).
    pub(crate) origin: u64,
    /// The object to be.
    pub(crate) key: String,
    /// The headers that the object will have.
    pub(crate) headers: Vec<(String, String)>,
    /// The condition on the key at its publish.
    pub(crate) guard: GuardWord,
    /// Whether a store that does not know the condition gets it without, once a look has found no object.
    #[serde(default)]
    pub(crate) may_lack_guard: bool,
    /// The version that it began as; `None`: empty.
    pub(crate) base: Option<Base>,
    /// Bytes of its first part, which determines the sizes of all others.
    pub(crate) first_part: u64,
    /// Whether parts go to a staging key: see the crate.
    pub(crate) hidden: bool,
    /// The draft of the edition before, which counts only until this one is promised.
    #[serde(default)]
    pub(crate) replaces: Option<u64>,
    /// A later draft has a higher number. Earlier journals have 0.
    #[serde(default)]
    pub(crate) order: u64,
}

/// A condition on a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum GuardWord {
    None,
    Absent,
    Same(String),
}

/// A version that a draft began as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Base {
    pub(crate) key: String,
    pub(crate) etag: String,
    pub(crate) size: u64,
}

/// An event of a draft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Record {
    /// It began.
    Begin(Box<Begin>),
    /// It begins anew: no earlier record counts. `promised`: it counts as synced. `turn`: the
    /// number of files before this one, if this is the first record of a file. The last whole file
    /// counts. A promised one is whole if it has a [`Record::Synced`].
    Anew {
        begin: Box<Begin>,
        promised: bool,
        #[serde(default)]
        turn: u64,
    },
    /// The data file has these bytes; the object has this size.
    Wrote { size: u64, extents: Vec<(u64, u64)> },
    /// The length was changed.
    Cut { size: u64 },
    /// The preceding frame, whose bytes begin at `place` in this file, holds the object's bytes
    /// from `at` on. They are not in the data file.
    Bytes { at: u64, length: u32, place: u64 },
    /// Those bytes are in the data file by now, or were truncated.
    Moved,
    /// The bytes of the preceding records, back to a [`Record::Reopened`], are durable.
    Synced,
    /// Another process has opened it. Unsynced records before this one never count again.
    Reopened,
    /// The headers were changed.
    Headers(Vec<(String, String)>),
    /// An upload was begun, with these headers and these checksums of its parts.
    Upload {
        key: String,
        id: String,
        #[serde(default)]
        headers: Vec<(String, String)>,
        #[serde(default)]
        sums: PartSums,
    },
    /// A part, counted from 0, was sent.
    Part {
        index: u32,
        length: u64,
        etag: String,
        crc64: u64,
        /// Earlier journals have none, and their uploads need none.
        #[serde(default)]
        crc32c: u32,
    },
    /// A sent part's bytes leave the data file.
    Evicted { index: u32 },
    /// The upload is gone, with all parts that were sent.
    Unsent,
    /// The parts of a completion, which may have happened from here on. `before` is the tag of the
    /// earlier object under the key, if the new object's own tag will not be known.
    Completing {
        parts: Vec<(u32, String)>,
        /// One for each part, or none.
        #[serde(default)]
        crc32c: Vec<u32>,
        #[serde(default)]
        before: Option<String>,
    },
    /// An object with this tag is, or may be, in the bucket, and is a state of this draft.
    Tried { etag: String },
    /// It was not written in order.
    Scattered,
    /// `close` returned, or is waiting: the draft is to be published.
    Closed,
}

impl Record {
    /// Returns records of bytes that are in the data file, with the size of the object.
    pub(crate) fn wrote(size: u64, extents: &Extents) -> Vec<Self> {
        let pairs: Vec<_> = extents.iter().map(|it| (it.start, it.end)).collect();
        let all = pairs.chunks(MAX_EXTENTS).map(<[_]>::to_vec);
        let mut all: Vec<_> = all.map(|extents| Self::Wrote { size, extents }).collect();
        if all.is_empty() {
            let extents = Vec::new();
            all.push(Self::Wrote { size, extents });
        }
        all
    }
}

/// Returns the head of a journal.
pub(super) fn head(id: u64) -> Vec<u8> {
    [MAGIC, &format!("{id:016x}\n").into_bytes()[..]].concat()
}

/// Returns the head of a journal and its first record.
pub(super) fn begun(id: u64, record: &Record) -> Vec<u8> {
    [head(id), framed(id, record)].concat()
}

/// Writes a whole journal into a blank file, durably: first the frames, then the head that makes
/// them count.
pub(super) fn write_whole(file: &File, id: u64, frames: &[u8]) -> io::Result<()> {
    let head = head(id);
    file.write_all_at(frames, head.len() as u64)?;
    file.sync_data()?;
    file.write_all_at(&head, 0)?;
    file.sync_data()
}

/// Encodes a record as a frame of a draft's journal.
pub(super) fn framed(id: u64, record: &Record) -> Vec<u8> {
    let body = serde_json::to_vec(record).expect("records are plain data");
    frame(id, &body, 0)
}

/// Encodes bytes of the object as a frame, in which they begin after [`FRAME_HEAD_BYTES`] bytes.
pub(super) fn raw(id: u64, bytes: &[u8]) -> Vec<u8> {
    frame(id, bytes, RAW_MARK)
}

/// Reads such bytes back, which begin at `place` in the file. A failed disk may return others; then
/// the hash does not match.
pub(super) fn read_raw(file: &File, id: u64, place: u64) -> io::Result<Vec<u8>> {
    let mut head = [0; FRAME_HEAD_BYTES];
    file.read_exact_at(&mut head, place.saturating_sub(FRAME_HEAD_BYTES as u64))?;
    let (length, sum) = parted(head);
    let length = usize::try_from(length & !RAW_MARK).ok();
    let length = length
        .filter(|it| *it <= MAX_RECORD_BYTES)
        .ok_or(io::ErrorKind::InvalidData)?;
    let mut body = vec![0; length];
    file.read_exact_at(&mut body, place)?;
    match hash(id, &body, RAW_MARK) == sum {
        true => Ok(body),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Splits a frame's head into the length with its mark, and the hash.
fn parted(head: [u8; FRAME_HEAD_BYTES]) -> (u32, u64) {
    let [a, b, c, d, hash @ ..] = head;
    (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(hash))
}

pub(super) fn frame(id: u64, body: &[u8], mark: u32) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("frames are short");
    let mut frame = Vec::with_capacity(FRAME_HEAD_BYTES + body.len());
    frame.extend_from_slice(&(length | mark).to_le_bytes());
    frame.extend_from_slice(&hash(id, body, mark).to_le_bytes());
    frame.extend_from_slice(body);
    frame
}

/// Returns a hash that depends on the mark and the draft.
fn hash(id: u64, body: &[u8], mark: u32) -> u64 {
    xxh3_64_with_seed(body, id ^ u64::from(mark))
}

/// Returns the error after a failed sync.
pub(super) fn sync_failed() -> io::Error {
    io::Error::other("an earlier sync failed")
}

/// The data of a journal that this process does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherData {
    /// Its name has another extension.
    Elsewhere,
    /// It is that of this draft.
    Of(u64),
    /// It may be any.
    Unknown,
}

/// The contents of a journal file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JournalContents {
    /// Nothing.
    Blank,
    /// A format, or a record, that this process does not know.
    OtherFormat(OtherData),
    /// The journal of the draft `id`, with `sound` valid bytes.
    Journal {
        id: u64,
        records: Vec<Record>,
        sound: u64,
    },
}

/// Decodes the contents of a journal file.
pub(super) fn read(bytes: &[u8]) -> JournalContents {
    let head = &bytes[..bytes.len().min(MAGIC.len())];
    if !head
        .iter()
        .zip(MAGIC)
        .all(|(byte, ours)| [0, *ours].contains(byte))
    {
        return JournalContents::OtherFormat(other_data(bytes));
    }
    // An incomplete head was being written or blanked.
    let Some((id, mut rest)) = identity(bytes) else {
        return JournalContents::Blank;
    };
    let mut records = Vec::new();
    while let Some((frame, length)) = next(id, rest) {
        match frame {
            Frame::Raw => {}
            Frame::Record(record) => records.push(record),
            Frame::Unknown => return JournalContents::OtherFormat(OtherData::Of(id)),
        }
        rest = &rest[length..];
    }
    JournalContents::Journal {
        id,
        records,
        sound: (bytes.len() - rest.len()) as u64,
    }
}

/// Returns the data of a journal in another format.
fn other_data(bytes: &[u8]) -> OtherData {
    if EARLY_HEADS.iter().any(|head| bytes.starts_with(head)) {
        return OtherData::Elsewhere;
    }
    let named = bytes.split_at_checked(MAGIC.len());
    let named = named.and_then(|(head, rest)| {
        let is_alike = head.starts_with(&MAGIC[..MAGIC.len() - 2]) && head.ends_with(b" ");
        identity_of(rest).filter(|_| is_alike)
    });
    named.map_or(OtherData::Unknown, |(id, _)| OtherData::Of(id))
}

/// Returns the draft's identity and the frames.
fn identity(bytes: &[u8]) -> Option<(u64, &[u8])> {
    identity_of(bytes.strip_prefix(MAGIC)?)
}

/// Returns the same of a journal without its format's name.
fn identity_of(rest: &[u8]) -> Option<(u64, &[u8])> {
    let (id, frames) = rest.split_at_checked(IDENTITY_BYTES)?;
    let digits = std::str::from_utf8(id.strip_suffix(b"\n")?).ok()?;
    Some((u64::from_str_radix(digits, 16).ok()?, frames))
}

/// A frame with the right hash.
enum Frame {
    /// It holds bytes of the object.
    Raw,
    Record(Record),
    /// A record that another version of this program has written.
    Unknown,
}

/// Decodes the first frame, and returns its length.
fn next(id: u64, bytes: &[u8]) -> Option<(Frame, usize)> {
    let (head, body) = bytes.split_first_chunk::<FRAME_HEAD_BYTES>()?;
    let (length_and_mark, hash) = parted(*head);
    let is_raw = length_and_mark & RAW_MARK != 0;
    let length = usize::try_from(length_and_mark & !RAW_MARK).ok();
    let length = length.filter(|it| *it <= MAX_RECORD_BYTES)?;
    let body = body.get(..length)?;
    (self::hash(id, body, length_and_mark & RAW_MARK) == hash).then_some(())?;
    let frame = match is_raw {
        true => Frame::Raw,
        false => serde_json::from_slice(body).map_or(Frame::Unknown, Frame::Record),
    };
    Some((frame, FRAME_HEAD_BYTES + length))
}

#[cfg(test)]
impl Begin {
    /// Returns the beginning of a new object.
    pub(super) fn of(key: &str) -> Self {
        Self {
            origin: 1,
            key: key.to_owned(),
            headers: vec![],
            guard: GuardWord::None,
            may_lack_guard: false,
            base: None,
            first_part: 1 << 20,
            hidden: false,
            replaces: None,
            order: 0,
        }
    }
}

#[cfg(test)]
pub(crate) mod ends;
#[cfg(test)]
mod tests;
