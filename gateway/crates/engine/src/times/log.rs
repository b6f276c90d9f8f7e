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

use super::{Address, KnownAttributes, MAX_GENERATION, TimeEntry, Times};
use tidegate_plan::Timestamp;
use tidegate_plan::attributes::{Attributes, UnixTime};

/// The file's name. Its number is the version of the format.
pub(super) const FILE_NAME: &str = "times-2";

/// The name of a new file, which will replace it.
const NEW_FILE_NAME: &str = "times-2.new";

/// The file of the format before, without attributes. It is read once, and then removed.
pub(super) const OLD_FILE_NAME: &str = "times-1";

/// Bytes of an address, the hash of an ETag, and two times.
const TIMES_BYTES: usize = 16 + 8 + 8 + 8;

/// Bytes of attributes: flags, mode, owner, group, and two set times.
const ATTRIBUTES_BYTES: usize = 4 * 4 + 2 * (8 + 4);

/// Bytes of a row: times, attributes, and a checksum of all that.
const ROW_BYTES: usize = TIMES_BYTES + ATTRIBUTES_BYTES + 8;

/// Bytes of a row in the format before.
const OLD_ROW_BYTES: usize = TIMES_BYTES + 8;

/// The flags of a row's attributes: which of them it has.
const HAS_MODE: u32 = 1;
const HAS_UID: u32 = 1 << 1;
const HAS_GID: u32 = 1 << 2;
const HAS_MODIFIED: u32 = 1 << 3;
const HAS_ACCESSED: u32 = 1 << 4;
/// They are known.
const IS_KNOWN: u32 = 1 << 5;
/// They are not stored with the object yet.
const IS_PENDING: u32 = 1 << 6;
/// The times are of this process.
const IS_OWN: u32 = 1 << 7;

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
        encode_attributes(kept, &mut bytes);
        let sum = xxh3_64_with_seed(&bytes[start..], CHECKSUM_SEED);
        bytes.extend_from_slice(&sum.to_le_bytes());
    }
    bytes
}

fn encode_attributes(kept: &TimeEntry, bytes: &mut Vec<u8>) {
    let known = kept.attributes.get().unwrap_or_default();
    let mut flags = match kept.attributes {
        KnownAttributes::Unknown => 0,
        KnownAttributes::Stored(_) => IS_KNOWN,
        KnownAttributes::Pending(_) => IS_KNOWN | IS_PENDING,
    };
    for (has, flag) in [
        (kept.is_own, IS_OWN),
        (known.mode.is_some(), HAS_MODE),
        (known.uid.is_some(), HAS_UID),
        (known.gid.is_some(), HAS_GID),
        (known.modified.is_some(), HAS_MODIFIED),
        (known.accessed.is_some(), HAS_ACCESSED),
    ] {
        flags |= if has { flag } else { 0 };
    }
    let numbers = [known.mode, known.uid, known.gid].map(Option::unwrap_or_default);
    bytes.extend_from_slice(&flags.to_le_bytes());
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    for time in [known.modified, known.accessed] {
        let time = time.unwrap_or(UnixTime::new(0, 0));
        bytes.extend_from_slice(&time.secs().to_le_bytes());
        bytes.extend_from_slice(&time.nanos().to_le_bytes());
    }
}

/// Takes a number of bytes off the beginning of a row.
fn take<const N: usize>(row: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = row.split_first_chunk()?;
    *row = rest;
    Some(*first)
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
    let flags = u32::from_le_bytes(take(&mut rest)?);
    let mut number = |flag: u32| {
        let number = u32::from_le_bytes(take(&mut rest)?);
        Some((flags & flag != 0).then_some(number))
    };
    let (mode, uid, gid) = (number(HAS_MODE)?, number(HAS_UID)?, number(HAS_GID)?);
    let mut time = |flag: u32| {
        let secs = i64::from_le_bytes(take(&mut rest)?);
        let nanos = u32::from_le_bytes(take(&mut rest)?);
        Some((flags & flag != 0).then_some(UnixTime::new(secs, nanos)))
    };
    let known = Attributes {
        mode,
        uid,
        gid,
        modified: time(HAS_MODIFIED)?,
        accessed: time(HAS_ACCESSED)?,
    };
    let attributes = match (flags & IS_KNOWN != 0, flags & IS_PENDING != 0) {
        (false, _) => KnownAttributes::Unknown,
        (true, false) => KnownAttributes::Stored(known),
        (true, true) => KnownAttributes::Pending(known),
    };
    let kept = TimeEntry {
        is_own: flags & IS_OWN != 0,
        attributes,
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
    use super::*;

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
                    attributes,
                    ..TimeEntry::none(Times::at(Timestamp(9)))
                };
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
