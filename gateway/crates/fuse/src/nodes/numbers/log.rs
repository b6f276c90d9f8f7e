//! The table of numbers on disk: one file of rows of one length, each with a checksum of its own.
//!
//! Rows are appended; the last one of a key counts. If there are many more rows than the table may have entries, the
//! file is rewritten. Nothing is synced: the kernel keeps written rows when the process is killed, but a power cut may
//! lose those of the last seconds.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Address, MAX_GENERATION};

/// The file's name. Its number is the version of the format.
pub(super) const FILE_NAME: &str = "numbers-1";

/// The name of a new file, which will replace it.
const NEW_FILE_NAME: &str = "numbers-1.new";

/// Bytes of a row: the address, the number, and a checksum of both.
pub(super) const ROW_BYTES: usize = 16 + 8 + 8;

/// The number of rows at which the file is rewritten; the table has at most half as many.
pub(super) const MAX_ROWS: u64 = 4 * MAX_GENERATION as u64;

/// The seed of the rows' checksums.
const CHECKSUM_SEED: u64 = 0x6e75_6d62;

#[derive(Debug)]
pub(super) struct NumberLog {
    directory: PathBuf,
    file: File,
    pub(super) rows: u64,
}

impl NumberLog {
    /// Opens the file in a directory, creates it if it is missing, and reads its rows.
    pub(super) fn open(directory: &Path, mut found: impl FnMut(Address, u64)) -> io::Result<Self> {
        let path = directory.join(FILE_NAME);
        let file = options().append(true).read(true).open(&path)?;
        let rows = file.metadata()?.len() / ROW_BYTES as u64;
        // A row that a kill left incomplete would shift all later ones.
        file.set_len(rows * ROW_BYTES as u64)?;
        let mut reader = BufReader::with_capacity(ROW_BYTES << 10, &file);
        let mut row = [0; ROW_BYTES];
        for _ in 0..rows {
            reader.read_exact(&mut row)?;
            if let Some((address, number)) = decode(&row) {
                found(address, number);
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
        rows: &[(Address, u64)],
        all: impl FnOnce() -> Vec<(Address, u64)>,
    ) -> io::Result<()> {
        if self.rows + rows.len() as u64 > MAX_ROWS {
            return self.renew(&all());
        }
        self.file.write_all(&encode(rows))?;
        self.rows += rows.len() as u64;
        Ok(())
    }

    fn renew(&mut self, all: &[(Address, u64)]) -> io::Result<()> {
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

/// Returns options that keep other users from reading the file.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

fn encode(rows: &[(Address, u64)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.len() * ROW_BYTES);
    for (address, number) in rows {
        let start = bytes.len();
        bytes.extend_from_slice(&address.to_le_bytes());
        bytes.extend_from_slice(&number.to_le_bytes());
        let sum = xxh3_64_with_seed(&bytes[start..], CHECKSUM_SEED);
        bytes.extend_from_slice(&sum.to_le_bytes());
    }
    bytes
}

fn decode(row: &[u8; ROW_BYTES]) -> Option<(Address, u64)> {
    let (address, rest) = row.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let sum = u64::from_le_bytes(*rest.first_chunk()?);
    let sound = sum == xxh3_64_with_seed(&row[..ROW_BYTES - 8], CHECKSUM_SEED);
    let row = (u128::from_le_bytes(*address), u64::from_le_bytes(*number));
    sound.then_some(row)
}
