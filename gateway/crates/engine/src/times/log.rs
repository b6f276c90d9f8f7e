//! The rows of the table on disk, in the present format and in the one before.

use std::fs;
use std::io;
use std::path::Path;

use super::packed::{PACKED_BYTES, PackedAttributes, take};
use super::{Address, MAX_GENERATION, TimeEntry, Times};
use crate::table_log::TableFile as _;
use crate::table_log::rows::{self, Row, RowFile};
use tidegate_cache::private_files;
use tidegate_plan::Timestamp;

/// The file of the format before, without attributes. It is read once, and then removed.
const OLD_FILE_NAME: &str = "times-1";

/// Bytes of an address, the hash of an ETag, and two times: a row in the format before.
const TIMES_BYTES: usize = 16 + 8 + 8 + 8;

/// An address with its entry.
pub(super) type TimeRow = (Address, TimeEntry);

impl Row for TimeRow {
    const FILE_NAME: &'static str = "times-2";
    /// Times, whether they are of this process, and attributes.
    const BYTES: usize = TIMES_BYTES + 1 + PACKED_BYTES;
    const MAX_ROWS: u64 = 4 * MAX_GENERATION as u64;
    const SEED: u64 = 0x7469_6d65;

    fn encode(&self, bytes: &mut Vec<u8>) {
        let (address, kept) = self;
        bytes.extend_from_slice(&address.to_le_bytes());
        bytes.extend_from_slice(&kept.etag.to_le_bytes());
        bytes.extend_from_slice(&kept.times.modified.0.to_le_bytes());
        bytes.extend_from_slice(&kept.times.changed.0.to_le_bytes());
        bytes.push(kept.is_own.into());
        kept.attributes.encode(bytes);
    }

    fn decode(mut rest: &[u8]) -> Option<Self> {
        let (address, times) = decode_times(&mut rest)?;
        let [is_own] = take(&mut rest)?;
        let kept = TimeEntry {
            is_own: is_own != 0,
            attributes: PackedAttributes::decode(&mut rest)?,
            ..times
        };
        Some((address, kept))
    }
}

/// Opens the file in a directory, and reads its rows; if there are none, those of the format before.
pub(super) fn open(
    directory: &Path,
    mut found: impl FnMut(TimeRow),
) -> io::Result<RowFile<TimeRow>> {
    let mut file = RowFile::open(directory, &mut found)?;
    if file.is_empty() {
        take_over(&mut file, &directory.join(OLD_FILE_NAME), found)?;
    }
    Ok(file)
}

/// Reads the rows of a file in the format before, and writes them in this one.
fn take_over(
    file: &mut RowFile<TimeRow>,
    path: &Path,
    mut found: impl FnMut(TimeRow),
) -> io::Result<()> {
    let old = match private_files::open_to_read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        old => old?,
    };
    let mut all = Vec::new();
    rows::read(&old, (TIMES_BYTES, TimeRow::SEED), |mut row| {
        if let Some(row) = decode_times(&mut row) {
            found(row);
            all.push(row);
        }
    })?;
    file.renew(&all)?;
    fs::remove_file(path)
}

/// Takes the address and the times off the beginning of a row.
fn decode_times(rest: &mut &[u8]) -> Option<TimeRow> {
    let address = u128::from_le_bytes(take(rest)?);
    let etag = u64::from_le_bytes(take(rest)?);
    let modified = Timestamp(u64::from_le_bytes(take(rest)?));
    let changed = Timestamp(u64::from_le_bytes(take(rest)?));
    let kept = TimeEntry {
        etag,
        ..TimeEntry::none(Times { modified, changed })
    };
    Some((address, kept))
}

#[cfg(test)]
mod tests {
    use super::super::KnownAttributes;
    use super::*;
    use tidegate_plan::attributes::{Attributes, UnixTime};
    use xxhash_rust::xxh3::xxh3_64_with_seed;

    #[test]
    fn a_row_keeps_all_attributes() {
        let known = Attributes {
            mode: Some(0o100_755),
            uid: Some(u32::MAX - 1),
            gid: None,
            modified: Some(UnixTime::new(-5, 999_999_999)),
            accessed: Some(UnixTime::new(i64::MAX, 0)),
        };
        for attributes in [
            KnownAttributes::Unknown,
            KnownAttributes::Stored(Attributes::default()),
            KnownAttributes::Stored(known),
            KnownAttributes::Pending(known),
        ] {
            for is_own in [true, false] {
                let kept = TimeEntry {
                    etag: 7,
                    is_own,
                    attributes: attributes.into(),
                    ..TimeEntry::none(Times::at(Timestamp(9)))
                };
                assert_eq!(KnownAttributes::from(kept.attributes), attributes);
                let mut row = Vec::new();
                (3, kept).encode(&mut row);
                assert_eq!(row.len(), TimeRow::BYTES);
                assert_eq!(TimeRow::decode(&row), Some((3, kept)));
            }
        }
    }

    #[test]
    fn the_format_before_is_taken_over_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut old, kept) = (Vec::new(), |n| TimeEntry {
            etag: n,
            ..TimeEntry::none(Times::at(Timestamp(n)))
        });
        for n in 1..=3_u64 {
            let mut row = Vec::new();
            (Address::from(n), kept(n)).encode(&mut row);
            let sum = xxh3_64_with_seed(&row[..TIMES_BYTES], TimeRow::SEED);
            old.extend_from_slice(&row[..TIMES_BYTES]);
            old.extend_from_slice(&sum.to_le_bytes());
        }
        fs::write(folder.path().join(OLD_FILE_NAME), &old).expect("written");
        for _ in 0..2 {
            let mut found = Vec::new();
            open(folder.path(), |row| found.push(row)).expect("opened");
            assert_eq!(found, [(1, kept(1)), (2, kept(2)), (3, kept(3))]);
            assert!(!folder.path().join(OLD_FILE_NAME).exists());
        }
    }
}
