//! The books of the library, in the bucket and in a local folder.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use bytes::BytesMut;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::context::{Context, progress};
use crate::pattern::Pattern;

/// The books of an author.
const OF_ONE_AUTHOR: u64 = 10;
/// The lengths of a book's files: two of sound and a picture, 20 MB in all.
const WHOLE: u64 = 14_300_123;
const TRACK: u64 = 5_500_077;
const COVER: u64 = 200_000;
/// The bytes at both ends of a file that are not zero.
const END: u64 = 300 << 10;
/// The bytes of the index at the end of a book in one file.
const INDEX: u64 = 22_500;
/// The bytes that ffprobe reads at once.
const PROBE: usize = 32 << 10;
/// The uploads at once, and the files after which the drive's files are made sparse.
const UPLOADS: usize = 8;
const SPARSE_AFTER: usize = 150;

/// One file of a book.
#[derive(Debug, Clone)]
pub(super) struct BookFile {
    pub(super) key: String,
    pub(super) pattern: Pattern,
}

/// Returns the files of `count` books, three each.
pub(super) fn all(count: u64) -> Vec<BookFile> {
    let file = |book: u64, n: u64, name: &str, len: u64| BookFile {
        key: format!(
            "books/Author {:03}/Book {book:04}/{name}",
            book / OF_ONE_AUTHOR
        ),
        pattern: Pattern {
            seed: book * 10 + n,
            len,
        },
    };
    let files = |book| {
        [
            file(book, 0, "book.m4b", WHOLE + book),
            file(book, 1, "extra.mp3", TRACK + book),
            file(book, 2, "cover.jpg", COVER),
        ]
    };
    (0..count).flat_map(files).collect()
}

/// Returns the number of folders that hold `count` books, with their root.
pub(super) fn folders(count: u64) -> u64 {
    1 + count.div_ceil(OF_ONE_AUTHOR) + count
}

impl BookFile {
    /// Returns `len` bytes from `start` on.
    fn bytes(&self, start: u64, len: usize) -> Vec<u8> {
        let mut bytes = self.pattern.bytes(start, len).to_vec();
        let (quiet, end) = (END, self.pattern.len.saturating_sub(END));
        for (at, byte) in bytes.iter_mut().enumerate() {
            let at = start + at as u64;
            if at >= quiet && at < end {
                *byte = 0;
            }
        }
        bytes
    }

    /// Returns all bytes.
    fn whole(&self) -> bytes::Bytes {
        let len = self.pattern.len;
        let head = END.min(len);
        let tail = END.min(len - head);
        let mut bytes = BytesMut::zeroed(usize::try_from(len).expect("a small file"));
        let (at, from) = (bytes.len() - tail as usize, len - tail);
        bytes[..head as usize].copy_from_slice(&self.pattern.bytes(0, head as usize));
        bytes[at..].copy_from_slice(&self.pattern.bytes(from, tail as usize));
        bytes.freeze()
    }

    /// Reads what ffprobe reads of a book, or all of a picture, and checks it.
    pub(super) fn probe(&self, root: &Path) -> Result<()> {
        let mut file = File::open(root.join(&self.key)).with_context(|| self.key.clone())?;
        let len = self.pattern.len;
        let pieces: Vec<(u64, usize)> = match self.key.rsplit('.').next() {
            Some("m4b") => vec![(0, PROBE), (len - INDEX, INDEX as usize), (44, PROBE)],
            Some("mp3") => vec![(0, PROBE), (PROBE as u64, PROBE)],
            _ => vec![(0, usize::try_from(len)?)],
        };
        for (start, len) in pieces {
            let mut read = vec![0; len];
            file.seek(SeekFrom::Start(start))?;
            file.read_exact(&mut read)
                .with_context(|| self.key.clone())?;
            ensure!(
                read == self.bytes(start, len),
                "wrong bytes in {}",
                self.key
            );
        }
        Ok(())
    }

    /// Writes the file into a local folder, with a hole where it is silent.
    pub(super) fn write(&self, root: &Path) -> Result<()> {
        let path = root.join(&self.key);
        std::fs::create_dir_all(path.parent().context("a folder")?)?;
        let mut file = File::create(path)?;
        let (len, head) = (self.pattern.len, END.min(self.pattern.len));
        file.write_all(&self.bytes(0, head as usize))?;
        let tail = END.min(len - head);
        file.seek(SeekFrom::Start(len - tail))?;
        Ok(file.write_all(&self.bytes(len - tail, tail as usize))?)
    }
}

/// Puts all files into the bucket. The drive's files are made sparse as they come: MinIO reads a hole as the zeros that
/// it wrote.
pub(super) async fn put(context: &Context, files: &[BookFile]) -> Result<()> {
    let bytes: u64 = files.iter().map(|file| file.pattern.len).sum();
    progress(format!("{} files, {} MB", files.len(), bytes / 1_000_000));
    for some in files.chunks(SPARSE_AFTER) {
        stream::iter(some.to_vec())
            .map(|file| async move {
                let put = context.bucket.put(&file.key, file.whole());
                put.await.map(drop)
            })
            .buffer_unordered(UPLOADS)
            .try_for_each(async |()| Ok(()))
            .await?;
        let folders = some.iter().filter_map(|file| file.key.rsplit_once('/'));
        let folders: std::collections::BTreeSet<_> = folders.map(|(folder, _)| folder).collect();
        for folder in folders {
            make_sparse(&context.drive().join(context.bucket.name()).join(folder))?;
        }
    }
    Ok(())
}

/// Punches holes into all files below a folder of the drive where they are zero.
fn make_sparse(folder: &Path) -> Result<()> {
    let script = "find . -name 'part.*' -exec fallocate --dig-holes {} \\;";
    let mut command = Command::new("sh");
    let ran = command.args(["-ec", script]).current_dir(folder).status();
    ensure!(ran?.success(), "fallocate failed");
    Ok(())
}
