//! A file of rows of one length, each with a checksum of its own.
//!
//! Rows are appended; the last one of a key counts. If there are many more rows than the table may have entries, the
//! file is rewritten. Nothing is synced: the kernel keeps written rows when the process is killed, but a power cut may
//! lose those of the last seconds.

use std::fs::File;
use std::io::{self, BufReader, Read as _, Write as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::TableFile;

/// Bytes of a row's checksum.
const SUM_BYTES: usize = 8;

/// A row of a table's file.
pub trait Row: Send + Sized + 'static {
    /// The file's name. It ends with the version of the format.
    const FILE_NAME: &'static str;
    /// Bytes of a row without its checksum.
    const BYTES: usize;
    /// The number of rows at which the file is rewritten; the table has at most half as many.
    const MAX_ROWS: u64;
    /// The seed of the rows' checksums.
    const SEED: u64;

    /// Appends its bytes, [`Row::BYTES`] of them.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// Returns the row of these bytes; `None`: there is no such row.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// See the module documentation.
#[derive(Debug)]
pub struct RowFile<R> {
    directory: PathBuf,
    file: File,
    rows: u64,
    _row: PhantomData<fn() -> R>,
}

impl<R: Row> RowFile<R> {
    /// Opens the file in a directory, creates it if it is missing, and reads its rows. Blocks.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(directory: &Path, mut found: impl FnMut(R)) -> io::Result<Self> {
        let file = super::open(directory, R::FILE_NAME)?;
        let length = R::BYTES + SUM_BYTES;
        let rows = file.metadata()?.len() / length as u64;
        // A row that a kill left incomplete would shift all later ones.
        file.set_len(rows * length as u64)?;
        read(&file, (R::BYTES, R::SEED), |bytes| {
            if let Some(row) = R::decode(bytes) {
                found(row);
            }
        })?;
        Ok(Self {
            directory: directory.to_owned(),
            file,
            rows,
            _row: PhantomData,
        })
    }

    /// Returns whether it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }
}

impl<R: Row> TableFile for RowFile<R> {
    type Row = R;

    fn append(&mut self, rows: &[R], all: &dyn Fn() -> Vec<R>) -> io::Result<()> {
        if self.rows + rows.len() as u64 > R::MAX_ROWS {
            return self.renew(&all());
        }
        self.file.write_all(&encode(rows))?;
        self.rows += rows.len() as u64;
        Ok(())
    }

    fn renew(&mut self, all: &[R]) -> io::Result<()> {
        self.file = super::replace(&self.directory, R::FILE_NAME, &encode(all))?;
        self.rows = all.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Reads rows of `length` bytes and a checksum of this seed each; skips those that are not sound, and a torn end. Blocks.
///
/// # Errors
/// Those of the system.
pub fn read(
    file: &File,
    (length, seed): (usize, u64),
    mut found: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut row = vec![0; length + SUM_BYTES];
    let rows = file.metadata()?.len() / row.len() as u64;
    let mut reader = BufReader::with_capacity(row.len() << 10, file);
    for _ in 0..rows {
        reader.read_exact(&mut row)?;
        let (bytes, sum) = row.split_at(length);
        if sum == xxh3_64_with_seed(bytes, seed).to_le_bytes() {
            found(bytes);
        }
    }
    Ok(())
}

/// Returns the bytes of rows in the file.
fn encode<R: Row>(rows: &[R]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.len() * (R::BYTES + SUM_BYTES));
    for row in rows {
        let start = bytes.len();
        row.encode(&mut bytes);
        let sum = xxh3_64_with_seed(&bytes[start..], R::SEED);
        bytes.extend_from_slice(&sum.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Number(u64);

    impl Row for Number {
        const FILE_NAME: &'static str = "plain-1";
        const BYTES: usize = 8;
        const MAX_ROWS: u64 = 100;
        const SEED: u64 = 7;

        fn encode(&self, bytes: &mut Vec<u8>) {
            bytes.extend_from_slice(&self.0.to_le_bytes());
        }

        fn decode(bytes: &[u8]) -> Option<Self> {
            Some(Self(u64::from_le_bytes(bytes.try_into().ok()?)))
        }
    }

    #[test]
    fn it_is_written_anew_before_it_grows_without_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut log = RowFile::open(folder.path(), |_: Number| ()).expect("opened");
        log.rows = Number::MAX_ROWS;
        log.append(&[Number(1)], &|| vec![Number(1), Number(2)])
            .expect("written");
        log.append(&[Number(3)], &|| panic!("there is room"))
            .expect("written");
        let mut found = Vec::new();
        let log = RowFile::open(folder.path(), |row: Number| found.push(row));
        assert_eq!(log.expect("opened").rows, 3);
        assert_eq!(found, [Number(1), Number(2), Number(3)]);
        let names = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(names, 1);
    }

    #[test]
    fn every_flipped_bit_of_a_row_is_seen() {
        let sound = encode(&[Number(1), Number(2)]);
        let folder = tempfile::tempdir().expect("a folder");
        for bit in 0..128 {
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(folder.path().join(Number::FILE_NAME), &bytes).expect("written");
            let mut found = Vec::new();
            let log = RowFile::open(folder.path(), |row: Number| found.push(row));
            assert_eq!(log.expect("opened").rows, 2);
            assert_eq!(found, [Number(2)], "bit {bit}");
        }
    }
}
