//! An entry of an index file, and the checksum that proves its chunk.
//!
//! | bytes | content |
//! | --- | --- |
//! | 16 | version of the chunk |
//! | 4 | number of the chunk |
//! | 4 | length; 0 is a tombstone: the chunk written at this offset is gone |
//! | 6 | offset in the data file, a multiple of 4 KiB |
//! | 2 | number of the pin that keeps the chunk from eviction; 0: none |
//! | 8 | checksum of the chunk |
//! | 8 | checksum of this entry, seeded with the number of the segment |
//!
//! All numbers are little-endian. Of several entries with one offset the last counts.

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::files::PAGE_SIZE;
use crate::ChunkKey;
use crate::pins::PinId;
use tidegate_plan::VersionId;

/// Bytes of an entry.
pub(super) const ENTRY_SIZE: usize = 48;

/// Bytes of it that its own checksum covers.
const CHECKED_SIZE: usize = ENTRY_SIZE - 8;

/// Bits of an offset; the pin is above them.
const OFFSET_BITS: u32 = 48;

/// The position of a chunk, and the checksum that proves it.
#[derive(Debug, Clone, Copy)]
pub(super) struct DiskLocation {
    /// Number of the segment.
    pub(super) segment: u32,
    /// First byte in its data file.
    pub(super) offset: u64,
    /// Bytes of the chunk; 0 in a tombstone.
    pub(super) len: u32,
    /// [`checksum`] of the chunk.
    pub(super) sum: u64,
    /// The pin that keeps it from eviction.
    pub(super) pin: PinId,
}

/// Equality means the same chunk at the same location; its pin may have changed meanwhile.
impl PartialEq for DiskLocation {
    fn eq(&self, other: &Self) -> bool {
        let what = |location: &Self| {
            (
                location.segment,
                location.offset,
                location.len,
                location.sum,
            )
        };
        what(self) == what(other)
    }
}

impl Eq for DiskLocation {}

impl DiskLocation {
    /// Bytes that the chunk takes up there: whole pages.
    pub(super) fn taken(&self) -> u64 {
        pages(self.len as usize)
    }
}

/// Returns the bytes that `len` bytes take up in a data file.
pub(super) fn pages(len: usize) -> u64 {
    u64::try_from(len)
        .unwrap_or(u64::MAX / 2)
        .next_multiple_of(PAGE_SIZE)
}

/// Returns a checksum over key, length and bytes, so that sound bytes under another key or length
/// do not pass.
pub(super) fn checksum(key: &ChunkKey, bytes: &[u8]) -> u64 {
    let mut identity = [0; 28];
    identity[..16].copy_from_slice(&key.version.0.to_le_bytes());
    identity[16..20].copy_from_slice(&key.index.to_le_bytes());
    let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    identity[20..].copy_from_slice(&len.to_le_bytes());
    xxh3_64_with_seed(bytes, xxh3_64_with_seed(&identity, 0))
}

/// Encodes the entry of a chunk.
pub(super) fn encode(key: &ChunkKey, location: &DiskLocation) -> [u8; ENTRY_SIZE] {
    let mut entry = [0; ENTRY_SIZE];
    entry[..16].copy_from_slice(&key.version.0.to_le_bytes());
    entry[16..20].copy_from_slice(&key.index.to_le_bytes());
    entry[20..24].copy_from_slice(&location.len.to_le_bytes());
    let offset = location.offset | u64::from(location.pin.number()) << OFFSET_BITS;
    entry[24..32].copy_from_slice(&offset.to_le_bytes());
    entry[32..40].copy_from_slice(&location.sum.to_le_bytes());
    let check = xxh3_64_with_seed(&entry[..CHECKED_SIZE], u64::from(location.segment));
    entry[CHECKED_SIZE..].copy_from_slice(&check.to_le_bytes());
    entry
}

/// Decodes the entry in `bytes`, if it is undamaged and of this segment.
pub(super) fn decode(bytes: &[u8], segment: u32) -> Option<(ChunkKey, DiskLocation)> {
    let check = u64::from_le_bytes(take(bytes, CHECKED_SIZE)?);
    if check != xxh3_64_with_seed(&bytes[..CHECKED_SIZE], u64::from(segment)) {
        return None;
    }
    let key = ChunkKey {
        version: VersionId(u128::from_le_bytes(take(bytes, 0)?)),
        index: u32::from_le_bytes(take(bytes, 16)?),
    };
    let offset = u64::from_le_bytes(take(bytes, 24)?);
    let location = DiskLocation {
        segment,
        offset: offset & ((1 << OFFSET_BITS) - 1),
        len: u32::from_le_bytes(take(bytes, 20)?),
        sum: u64::from_le_bytes(take(bytes, 32)?),
        pin: PinId::from_number(u16::try_from(offset >> OFFSET_BITS).unwrap_or(0)),
    };
    location
        .offset
        .is_multiple_of(PAGE_SIZE)
        .then_some((key, location))
}

/// Decodes the entries of an index file up to the first damaged one.
pub(super) fn decode_all(bytes: &[u8], segment: u32) -> Vec<(ChunkKey, DiskLocation)> {
    bytes
        .chunks_exact(ENTRY_SIZE)
        .map_while(|entry| decode(entry, segment))
        .collect()
}

/// Returns the last entry of each offset, without the tombstones.
pub(super) fn live_entries(
    entries: Vec<(ChunkKey, DiskLocation)>,
) -> Vec<(ChunkKey, DiskLocation)> {
    let mut seen = HashSet::with_capacity(entries.len());
    let newest_first = entries.into_iter().rev();
    let live_entries =
        newest_first.filter(|(_, location)| seen.insert(location.offset) && location.len > 0);
    let mut live_entries: Vec<_> = live_entries.collect();
    live_entries.reverse();
    live_entries
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests;
