//! The two files of one draft.
//!
//! Everything that touches them runs where blocking is allowed. Data goes by offset (`data`); the
//! journal is appended to under a lock.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::stream;
use tokio::task::spawn_blocking;

use super::data::{self, FRAME};
use super::journal::{self, Begin, Record};
use super::recent::Memory;
use super::{DATA, JOURNAL};
use crate::origin::{Body, Crc64, OriginError};
use crate::plan::ByteRange;

/// A journal that is begun anew, before it takes the place of the old one.
pub(super) const UNFINISHED: &str = "new";

/// See the module's head.
#[derive(Debug)]
pub(in crate::engine) struct SpoolFile {
    directory: PathBuf,
    id: String,
    data: data::Data,
    journal: Mutex<File>,
}

impl SpoolFile {
    /// Makes both files.
    pub(super) fn create(
        directory: &Path,
        id: &str,
        begin: &Begin,
        memory: Memory,
    ) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let at = path(directory, id, DATA);
        let data = options.open(&at)?;
        let journal = options.open(path(directory, id, JOURNAL))?;
        let file = Self {
            directory: directory.to_owned(),
            id: id.to_owned(),
            data: data::Data::new(data, &at, memory),
            journal: Mutex::new(journal),
        };
        let mut head = journal::MAGIC.to_vec();
        head.extend(journal::framed(&Record::Begin(Box::new(begin.clone()))));
        file.journal().write_all(&head)?;
        Ok(file)
    }

    /// Opens both files again, and cuts off what of the journal is not sound.
    pub(super) fn reopen(
        directory: &Path,
        id: &str,
        sound: u64,
        memory: Memory,
    ) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let mut journal = options.clone();
        let journal = journal.append(true).open(path(directory, id, JOURNAL))?;
        options.create(true).truncate(false);
        let at = path(directory, id, DATA);
        let data = options.open(&at)?;
        journal.set_len(sound)?;
        Ok(Self {
            directory: directory.to_owned(),
            id: id.to_owned(),
            data: data::Data::new(data, &at, memory),
            journal: Mutex::new(journal),
        })
    }

    /// Does what blocks where that is allowed.
    pub(in crate::engine) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let file = self.clone();
        let done = spawn_blocking(move || work(&file)).await;
        done.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Writes data at its place.
    pub(in crate::engine) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.data.write(offset, bytes)
    }

    /// The same, if that needs no disk. Does not block.
    pub(in crate::engine) fn take_in(&self, offset: u64, bytes: &[u8]) -> bool {
        self.data.take_in(offset, bytes)
    }

    /// Reads data; what was never written is zero.
    pub(in crate::engine) fn read(&self, range: ByteRange) -> io::Result<Bytes> {
        self.data.read(range)
    }

    /// Lets go of the memory that data takes.
    pub(in crate::engine) fn let_go(&self, range: ByteRange) {
        self.data.let_go(range);
    }

    /// The checksum of data.
    pub(in crate::engine) fn crc64(&self, range: ByteRange) -> io::Result<u64> {
        let (mut crc, mut at) = (Crc64::default(), range.start);
        while at < range.end {
            let bytes = self.data.first(frame(at, range.end))?;
            crc.update(&bytes);
            at += bytes.len() as u64;
        }
        Ok(crc.finish())
    }

    /// Data in pieces, each read when it is asked for, and let go of: its memory is for what is written
    /// next.
    pub(in crate::engine) fn frames(self: &Arc<Self>, range: ByteRange) -> Body {
        let file = self.clone();
        Box::pin(stream::unfold(range.start, move |at| {
            let file = file.clone();
            async move {
                if at >= range.end {
                    return None;
                }
                let piece = frame(at, range.end);
                let read = match file.data.at_hand(piece) {
                    Some(bytes) => Ok(bytes),
                    None => file.blocking(move |file| file.data.first(piece)).await,
                };
                let next = read.as_ref().map_or(range.end, |it| at + it.len() as u64);
                file.let_go(ByteRange::new(at, next));
                // A disk that fails is no fault of the origin's, and trying again mends nothing.
                let read = read.map_err(|_| OriginError::BadAnswer("the spool cannot be read"));
                Some((read, next))
            }
        }))
    }

    /// Appends records.
    pub(in crate::engine) fn note(&self, records: &[Record]) -> io::Result<()> {
        let bytes: Vec<u8> = records.iter().flat_map(journal::framed).collect();
        self.journal().write_all(&bytes)
    }

    /// Appends records, and makes the journal durable.
    pub(in crate::engine) fn note_durably(&self, records: &[Record]) -> io::Result<()> {
        self.note(records)?;
        self.journal().sync_data()
    }

    /// Makes the data durable, and then the journal with `records` and the word that it is.
    pub(in crate::engine) fn sync(&self, mut records: Vec<Record>) -> io::Result<()> {
        self.data.sync()?;
        records.push(Record::Synced);
        self.note_durably(&records)?;
        // The names of both files, which were perhaps made just now.
        File::open(&self.directory)?.sync_all()
    }

    /// Lets go of data; it reads as zero from now on.
    pub(in crate::engine) fn punch(&self, range: ByteRange) -> io::Result<()> {
        self.data.punch(range)
    }

    /// Forgets data from `size` on.
    pub(in crate::engine) fn cut(&self, size: u64) -> io::Result<()> {
        self.data.cut(size)
    }

    /// Begins anew: durably from `begin` on, and with no data. `promised`: as something that was
    /// synced.
    pub(in crate::engine) fn restart(&self, begin: &Begin, promised: bool) -> io::Result<()> {
        let new = path(&self.directory, &self.id, UNFINISHED);
        let mut bytes = journal::MAGIC.to_vec();
        bytes.extend(journal::framed(&Record::Begin(Box::new(begin.clone()))));
        if promised {
            bytes.extend(journal::framed(&Record::Synced));
        }
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true).mode(0o600);
        let mut file = options.open(&new)?;
        file.write_all(&bytes)?;
        file.sync_data()?;
        let mut journal = self.journal();
        fs::rename(&new, path(&self.directory, &self.id, JOURNAL))?;
        File::open(&self.directory)?.sync_all()?;
        *journal = file;
        drop(journal);
        self.data.cut(0)
    }

    /// Takes both files away.
    pub(in crate::engine) fn remove(&self) {
        Self::remove_files(&self.directory, &self.id);
    }

    /// The journal first: data without one is nothing.
    pub(super) fn remove_files(directory: &Path, id: &str) {
        for kind in [JOURNAL, DATA] {
            remove(&path(directory, id, kind));
        }
    }

    fn journal(&self) -> MutexGuard<'_, File> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is read at a time, from an offset on.
fn frame(at: u64, end: u64) -> ByteRange {
    ByteRange::new(at, end.min(at + FRAME))
}

/// Takes a file away, if it is there.
pub(super) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "cannot remove a file of the spool");
    }
}

fn path(directory: &Path, id: &str, kind: &str) -> PathBuf {
    directory.join(format!("{id}.{kind}"))
}
