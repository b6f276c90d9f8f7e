//! A chunk as it stands on disk: a header that repeats key, length and checksum, then the bytes.
//!
//! foyer has a checksum of its own, but whatever decides that these are the bytes we put in under
//! this key must not depend on it: a block written twice, or an index that points at a neighbour,
//! has a valid checksum and the wrong bytes.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use foyer::{Code, Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::plan::VersionId;
use crate::store::ChunkKey;

/// First word of every value; changes with its layout.
const MAGIC: u32 = 0x5447_0001;

/// Bytes of the header: magic, key (16 + 4), length, checksum.
const HEADER: usize = 4 + KEY + 4 + 8;
const KEY: usize = 20;

/// No chunk is longer ([`crate::plan::Geometry`]): a longer one on disk is no chunk of ours.
const MAX_LEN: u32 = 16 << 20;

impl Code for ChunkKey {
    fn encode(&self, writer: &mut impl Write) -> Result<()> {
        writer.write_all(&key_bytes(self)).map_err(Error::io_error)
    }

    fn decode(reader: &mut impl Read) -> Result<Self> {
        let version = u128::from_le_bytes(take(reader)?);
        let index = u32::from_le_bytes(take(reader)?);
        Ok(Self {
            version: VersionId(version),
            index,
        })
    }

    fn estimated_size(&self) -> usize {
        KEY
    }
}

/// A chunk on its way to disk or back.
#[derive(Debug)]
pub(super) struct Stored {
    key: ChunkKey,
    bytes: Bytes,
    /// As read from disk; `None` for one on its way there, which is summed as it is written.
    sum: Option<u64>,
    /// Its place in the write queue, given back when foyer lets go of it.
    _ticket: Option<Ticket>,
}

impl Stored {
    /// A chunk to be written.
    pub(super) fn new(key: ChunkKey, bytes: Bytes, ticket: Ticket) -> Self {
        Self {
            key,
            bytes,
            sum: None,
            _ticket: Some(ticket),
        }
    }

    /// The bytes, if they are those of `key`, `len` of them, and undamaged.
    pub(super) fn verified(&self, key: &ChunkKey, len: usize) -> Option<Bytes> {
        let sound = self.key == *key
            && self.bytes.len() == len
            && self
                .sum
                .is_none_or(|sum| sum == checksum(&self.key, &self.bytes));
        sound.then(|| self.bytes.clone())
    }
}

impl Code for Stored {
    fn encode(&self, writer: &mut impl Write) -> Result<()> {
        let mut header = [0; HEADER];
        let len = u32::try_from(self.bytes.len())
            .map_err(|_| Error::new(ErrorKind::OutOfRange, "a chunk of more than 4 GiB"))?;
        header[..4].copy_from_slice(&MAGIC.to_le_bytes());
        header[4..24].copy_from_slice(&key_bytes(&self.key));
        header[24..28].copy_from_slice(&len.to_le_bytes());
        header[28..].copy_from_slice(&checksum(&self.key, &self.bytes).to_le_bytes());
        writer.write_all(&header).map_err(Error::io_error)?;
        writer.write_all(&self.bytes).map_err(Error::io_error)
    }

    fn decode(reader: &mut impl Read) -> Result<Self> {
        if u32::from_le_bytes(take(reader)?) != MAGIC {
            return Err(Error::new(ErrorKind::MagicMismatch, "no chunk of ours"));
        }
        let key = ChunkKey::decode(reader)?;
        let len = u32::from_le_bytes(take(reader)?);
        if len > MAX_LEN {
            return Err(Error::new(ErrorKind::OutOfRange, "longer than any chunk"));
        }
        let sum = u64::from_le_bytes(take(reader)?);
        let mut bytes = Vec::with_capacity(len as usize);
        reader
            .take(u64::from(len))
            .read_to_end(&mut bytes)
            .map_err(Error::io_error)?;
        if bytes.len() != len as usize {
            return Err(Error::new(ErrorKind::OutOfRange, "shorter than it says"));
        }
        Ok(Self {
            key,
            bytes: bytes.into(),
            sum: Some(sum),
            _ticket: None,
        })
    }

    fn estimated_size(&self) -> usize {
        HEADER + self.bytes.len()
    }
}

fn key_bytes(key: &ChunkKey) -> [u8; KEY] {
    let mut bytes = [0; KEY];
    bytes[..16].copy_from_slice(&key.version.0.to_le_bytes());
    bytes[16..].copy_from_slice(&key.index.to_le_bytes());
    bytes
}

/// Over key and bytes, so that sound bytes under a damaged key do not pass either.
fn checksum(key: &ChunkKey, bytes: &[u8]) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "a seed takes any bits")]
    let seed = (key.version.0 as u64) ^ ((key.version.0 >> 64) as u64) ^ u64::from(key.index);
    xxh3_64_with_seed(bytes, seed)
}

fn take<const N: usize>(reader: &mut impl Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes).map_err(Error::io_error)?;
    Ok(bytes)
}

/// A place in the bounded write queue.
#[derive(Debug)]
pub(super) struct Ticket {
    queued: Arc<AtomicU64>,
    size: u64,
}

impl Ticket {
    /// A place for a chunk of `len` bytes, if the queue stays within `limit` with it.
    pub(super) fn take(queued: &Arc<AtomicU64>, len: usize, limit: u64) -> Option<Self> {
        let size = on_disk(len);
        let before = queued.fetch_add(size, Ordering::Relaxed);
        let ticket = Self {
            queued: Arc::clone(queued),
            size,
        };
        (before + size <= limit).then_some(ticket)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.queued.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// What a chunk of `len` bytes takes on disk and in foyer's buffers: foyer's entry header, ours,
/// and whole pages.
pub(super) fn on_disk(len: usize) -> u64 {
    const FOYER_HEADER: usize = 36;
    let size = FOYER_HEADER + KEY + HEADER + len;
    u64::try_from(size)
        .unwrap_or(u64::MAX / 2)
        .next_multiple_of(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> (ChunkKey, Vec<u8>) {
        let key = ChunkKey {
            version: VersionId(77),
            index: 3,
        };
        let ticket = Ticket::take(&Arc::default(), 5, u64::MAX).expect("room");
        let mut encoded = Vec::new();
        Stored::new(key, Bytes::from_static(b"hello"), ticket)
            .encode(&mut encoded)
            .expect("room");
        (key, encoded)
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let (key, encoded) = stored();
        let read = |bytes: &[u8]| {
            Stored::decode(&mut &*bytes)
                .ok()
                .and_then(|value| value.verified(&key, 5))
        };
        assert_eq!(read(&encoded), Some(Bytes::from_static(b"hello")));
        for bit in 0..encoded.len() * 8 {
            let mut flipped = encoded.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&flipped), None, "bit {bit}");
        }
        for cut in 0..encoded.len() {
            assert_eq!(read(&encoded[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn sound_bytes_under_another_key_or_length_do_not_pass() {
        let (key, encoded) = stored();
        let value = Stored::decode(&mut &*encoded).expect("sound");
        assert_eq!(value.verified(&key, 4), None);
        assert_eq!(value.verified(&ChunkKey { index: 4, ..key }, 5), None);
    }

    #[test]
    fn the_queue_is_bounded_and_places_come_back() {
        let queued = Arc::default();
        let first = Ticket::take(&queued, 5000, 12 << 10).expect("8 of 12 KiB");
        assert!(Ticket::take(&queued, 5000, 12 << 10).is_none());
        assert!(Ticket::take(&queued, 10, 12 << 10).is_some());
        drop(first);
        assert_eq!(queued.load(Ordering::Relaxed), 0);
    }
}
