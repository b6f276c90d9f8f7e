//! The table of times on disk: one file of rows of one length, each with a checksum of its own.
//!
//! Rows are appended; the last one of an address counts. If there are many more rows than table
//! entries, the file is rewritten. Nothing is synced: the kernel keeps written rows when the
//! process is killed, but a power cut may lose those of the last seconds.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::packed::{PACKED_BYTES, PackedAttributes, take};
use super::{Address, MAX_GENERATION, TimeEntry, Times};
use tidegate_plan::Timestamp;

/// The file's name. Its number is the version of the format.
pub(super) const FILE_NAME: &str = "times-2";

/// The name of a new file, which will replace it.
const NEW_FILE_NAME: &str = "times-2.new";

/// The file of the format before, without attributes. It is read once, and then removed.
pub(super) const OLD_FILE_NAME: &str = "times-1";

/// Bytes of an address, the hash of an ETag, and two times.
const TIMES_BYTES: usize = 16 + 8 + 8 + 8;

/// Bytes of a row: times, whether they are of this process, attributes, and a checksum of all that.
const ROW_BYTES: usize = TIMES_BYTES + 1 + PACKED_BYTES + 8;

/// Bytes of a row in the format before.
const OLD_ROW_BYTES: usize = TIMES_BYTES + 8;

/// The number of rows at which the file is rewritten; the table has at most half as many.
const MAX_ROWS: u64 = 4 * MAX_GENERATION as u64;

/// The seed of the rows' checksums.
const CHECKSUM_SEED: u64 = 0x7469_6d65;

#[derive(Debug)]
pub(super) struct Log {
    directory: PathBuf,
    file: File,
    rows: u64,
}

impl Log {
    /// Opens the file in a directory, creates it if it is missing, and reads its rows.
    pub(super) fn open(
        directory: &Path,
        mut found: impl FnMut(Address, TimeEntry),
    ) -> io::Result<Self> {
        let path = directory.join(FILE_NAME);
        let file = options().append(true).read(true).open(&path)?;
        let rows = file.metadata()?.len() / ROW_BYTES as u64;
        // A row that a kill left incomplete would shift all later ones.
        file.set_len(rows * ROW_BYTES as u64)?;
        let mut log = Self {
            directory: directory.to_owned(),
            file,
            rows,
        };
        if rows == 0 {
            log.take_over(&mut found)?;
        } else {
            read_rows(&log.file, rows, decode, &mut found)?;
        }
        Ok(log)
    }

    /// Reads the rows of a file in the format before, and writes them in this one.
    fn take_over(&mut self, mut found: impl FnMut(Address, TimeEntry)) -> io::Result<()> {
        let path = self.directory.join(OLD_FILE_NAME);
        let old = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            old => old?,
        };
        let rows = old.metadata()?.len() / OLD_ROW_BYTES as u64;
        let mut all = Vec::new();
        read_rows(&old, rows, decode_old, |address, kept| {
            found(address, kept);
            all.push((address, kept));
        })?;
        self.renew(&all)?;
        fs::remove_file(&path)
    }

    /// Appends rows. `all` returns those of the table, for a rewrite of the file.
    pub(super) fn append(
        &mut self,
        rows: &[(Address, TimeEntry)],
        all: impl FnOnce() -> Vec<(Address, TimeEntry)>,
    ) -> io::Result<()> {
        if self.rows + rows.len() as u64 > MAX_ROWS {
            return self.renew(&all());
        }
        self.file.write_all(&encode(rows))?;
        self.rows += rows.len() as u64;
        Ok(())
    }

    fn renew(&mut self, all: &[(Address, TimeEntry)]) -> io::Result<()> {
        let new = self.directory.join(NEW_FILE_NAME);
        let _ = fs::remove_file(&new);
        let mut file = options().append(true).open(&new)?;
        file.write_all(&encode(all))?;
        // A name that is durable before the bytes would leave an empty file.
        file.sync_data()?;
        fs::rename(&new, self.directory.join(FILE_NAME))?;
        (self.file, self.rows) = (file, all.len() as u64);
        Ok(())
    }
}

/// Returns options that keep other users from reading the file, because it shows which keys were
/// written.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

/// Reads rows of one length, and skips those that are not sound.
fn read_rows<const N: usize>(
    file: &File,
    rows: u64,
    decode: fn(&[u8; N]) -> Option<(Address, TimeEntry)>,
    mut found: impl FnMut(Address, TimeEntry),
) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(N << 10, file);
    let mut row = [0; N];
    for _ in 0..rows {
        reader.read_exact(&mut row)?;
        if let Some((address, kept)) = decode(&row) {
            found(address, kept);
        }
    }
    Ok(())
}

fn encode(rows: &[(Address, TimeEntry)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.len() * ROW_BYTES);
    for (address, kept) in rows {
        let start = bytes.len();
        bytes.extend_from_slice(&address.to_le_bytes());
        bytes.extend_from_slice(&kept.etag.to_le_bytes());
        bytes.extend_from_slice(&kept.times.modified.0.to_le_bytes());
        bytes.extend_from_slice(&kept.times.changed.0.to_le_bytes());
        bytes.push(kept.is_own.into());
        kept.attributes.encode(&mut bytes);
        let sum = xxh3_64_with_seed(&bytes[start..], CHECKSUM_SEED);
        bytes.extend_from_slice(&sum.to_le_bytes());
    }
    bytes
}

/// Returns the content of a row whose checksum is right.
fn check(row: &[u8]) -> Option<&[u8]> {
    let (content, sum) = row.split_last_chunk::<8>()?;
    let sound = u64::from_le_bytes(*sum) == xxh3_64_with_seed(content, CHECKSUM_SEED);
    sound.then_some(content)
}

fn decode(row: &[u8; ROW_BYTES]) -> Option<(Address, TimeEntry)> {
    let mut rest = check(row)?;
    let (address, times) = decode_times(&mut rest)?;
    let [is_own] = take(&mut rest)?;
    let kept = TimeEntry {
        is_own: is_own != 0,
        attributes: PackedAttributes::decode(&mut rest)?,
        ..times
    };
    Some((address, kept))
}

fn decode_old(row: &[u8; OLD_ROW_BYTES]) -> Option<(Address, TimeEntry)> {
    decode_times(&mut check(row)?)
}

/// Takes the address and the times off the beginning of a row.
fn decode_times(rest: &mut &[u8]) -> Option<(Address, TimeEntry)> {
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

    #[test]
    fn it_is_written_anew_before_it_grows_without_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = |n| TimeEntry {
            etag: n,
            ..TimeEntry::none(Times::at(Timestamp(n)))
        };
        let mut log = Log::open(folder.path(), |_, _| ()).expect("opened");
        log.rows = MAX_ROWS;
        log.append(&[(1, kept(1))], || vec![(1, kept(1)), (2, kept(2))])
            .expect("written");
        log.append(&[(3, kept(3))], || panic!("there is room"))
            .expect("written");
        let mut found = Vec::new();
        let log = Log::open(folder.path(), |address, kept| found.push((address, kept)));
        assert_eq!(log.expect("opened").rows, 3);
        assert_eq!(found, [(1, kept(1)), (2, kept(2)), (3, kept(3))]);
        let names = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(names, 1);
    }
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
                let row = encode(&[(3, kept)]);
                let mut row: [u8; ROW_BYTES] = row.try_into().expect("one row");
                assert_eq!(decode(&row), Some((3, kept)));
                row[50] ^= 1;
                assert_eq!(decode(&row), None);
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
            let row = encode(&[(n.into(), kept(n))]);
            let sum = xxh3_64_with_seed(&row[..TIMES_BYTES], CHECKSUM_SEED);
            old.extend_from_slice(&row[..TIMES_BYTES]);
            old.extend_from_slice(&sum.to_le_bytes());
        }
        fs::write(folder.path().join(OLD_FILE_NAME), &old).expect("written");
        for _ in 0..2 {
            let mut found = Vec::new();
            let log = Log::open(folder.path(), |address, kept| found.push((address, kept)));
            assert_eq!(log.expect("opened").rows, 3);
            assert_eq!(found, [(1, kept(1)), (2, kept(2)), (3, kept(3))]);
            assert!(!folder.path().join(OLD_FILE_NAME).exists());
        }
    }
}
