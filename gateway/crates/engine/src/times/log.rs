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

use super::{Address, MAX_GENERATION, TimeEntry, Times};
use tidegate_plan::Timestamp;

/// The file's name. Its number is the version of the format.
pub(super) const FILE_NAME: &str = "times-1";

/// The name of a new file, which will replace it.
const NEW_FILE_NAME: &str = "times-1.new";

/// Bytes of a row: the address, the hash of the ETag, two times, and a checksum of all that.
const ROW_BYTES: usize = 16 + 8 + 8 + 8 + 8;

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
        let mut reader = BufReader::with_capacity(ROW_BYTES << 10, &file);
        let mut row = [0; ROW_BYTES];
        for _ in 0..rows {
            reader.read_exact(&mut row)?;
            if let Some((address, kept)) = decode(&row) {
                found(address, kept);
            }
        }
        Ok(Self {
            directory: directory.to_owned(),
            file,
            rows,
        })
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

fn encode(rows: &[(Address, TimeEntry)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.len() * ROW_BYTES);
    for (address, kept) in rows {
        let start = bytes.len();
        bytes.extend_from_slice(&address.to_le_bytes());
        bytes.extend_from_slice(&kept.etag.to_le_bytes());
        bytes.extend_from_slice(&kept.times.modified.0.to_le_bytes());
        bytes.extend_from_slice(&kept.times.changed.0.to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[start..], CHECKSUM_SEED);
        bytes.extend_from_slice(&sum.to_le_bytes());
    }
    bytes
}

fn decode(row: &[u8; ROW_BYTES]) -> Option<(Address, TimeEntry)> {
    let (address, rest) = row.split_first_chunk()?;
    let (etag, rest) = rest.split_first_chunk()?;
    let (modified, rest) = rest.split_first_chunk()?;
    let (changed, rest) = rest.split_first_chunk()?;
    let sum = u64::from_le_bytes(*rest.first_chunk()?);
    let kept = TimeEntry {
        etag: u64::from_le_bytes(*etag),
        times: Times {
            modified: Timestamp(u64::from_le_bytes(*modified)),
            changed: Timestamp(u64::from_le_bytes(*changed)),
        },
    };
    let sound = sum == xxh3_64_with_seed(&row[..ROW_BYTES - 8], CHECKSUM_SEED);
    sound.then_some((u128::from_le_bytes(*address), kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_anew_before_it_grows_without_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = |n| TimeEntry {
            etag: n,
            times: Times::at(Timestamp(n)),
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
}
