//! The two files of one draft.
//!
//! Everything that touches them runs where blocking is allowed. Reads and writes of data go by
//! offset, and need no lock; the journal is appended to under one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::stream;
use rustix::fs::{FallocateFlags, fallocate};
use tokio::task::spawn_blocking;

use super::journal::{self, Begin, Record};
use super::{DATA, JOURNAL};
use crate::origin::{Body, Crc64, OriginError};
use crate::plan::ByteRange;

/// What is read at a time: with several parts on their way, memory holds so much of each twice.
pub(in crate::engine) const FRAME: u64 = 1 << 20;

/// A journal that is begun anew, before it takes the place of the old one.
pub(super) const UNFINISHED: &str = "new";

/// See the module's head.
#[derive(Debug)]
pub(in crate::engine) struct SpoolFile {
    directory: PathBuf,
    id: String,
    data: File,
    journal: Mutex<File>,
}

impl SpoolFile {
    /// Makes both files.
    pub(super) fn create(directory: &Path, id: &str, begin: &Begin) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let data = options.open(path(directory, id, DATA))?;
        let journal = options.open(path(directory, id, JOURNAL))?;
        let file = Self {
            directory: directory.to_owned(),
            id: id.to_owned(),
            data,
            journal: Mutex::new(journal),
        };
        let mut head = journal::MAGIC.to_vec();
        head.extend(journal::framed(&Record::Begin(Box::new(begin.clone()))));
        file.journal().write_all(&head)?;
        Ok(file)
    }

    /// Opens both files again, and cuts off what of the journal is not sound.
    pub(super) fn reopen(directory: &Path, id: &str, sound: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let mut journal = options.clone();
        let journal = journal.append(true).open(path(directory, id, JOURNAL))?;
        options.create(true).truncate(false);
        let data = options.open(path(directory, id, DATA))?;
        journal.set_len(sound)?;
        Ok(Self {
            directory: directory.to_owned(),
            id: id.to_owned(),
            data,
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
        self.data.write_all_at(bytes, offset)
    }

    /// Reads data; what was never written is zero.
    pub(in crate::engine) fn read(&self, range: ByteRange) -> io::Result<Bytes> {
        let length = usize::try_from(range.len()).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        let mut done = 0;
        while done < length {
            match self
                .data
                .read_at(&mut bytes[done..], range.start + done as u64)
            {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes.into())
    }

    /// The checksum of data.
    pub(in crate::engine) fn crc64(&self, range: ByteRange) -> io::Result<u64> {
        let (mut crc, mut at) = (Crc64::default(), range.start);
        while at < range.end {
            let end = range.end.min(at + FRAME);
            crc.update(&self.read(ByteRange::new(at, end))?);
            at = end;
        }
        Ok(crc.finish())
    }

    /// Data in pieces, each read when it is asked for.
    pub(in crate::engine) fn frames(self: &Arc<Self>, range: ByteRange) -> Body {
        let file = self.clone();
        Box::pin(stream::unfold(range.start, move |at| {
            let file = file.clone();
            async move {
                if at >= range.end {
                    return None;
                }
                let piece = ByteRange::new(at, range.end.min(at + FRAME));
                let read = file.blocking(move |file| file.read(piece)).await;
                // A disk that fails is no fault of the origin's, and trying again mends nothing.
                let read = read.map_err(|_| OriginError::BadAnswer("the spool cannot be read"));
                Some((read, piece.end))
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
        self.data.sync_data()?;
        records.push(Record::Synced);
        self.note_durably(&records)?;
        // The names of both files, which were perhaps made just now.
        File::open(&self.directory)?.sync_all()
    }

    /// Lets go of data; it reads as zero from now on.
    pub(in crate::engine) fn punch(&self, range: ByteRange) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let end = range.end.min(self.data.metadata()?.len()).max(range.start);
        match fallocate(&self.data, flags, range.start, end - range.start) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Forgets data from `size` on.
    pub(in crate::engine) fn cut(&self, size: u64) -> io::Result<()> {
        if self.data.metadata()?.len() > size {
            self.data.set_len(size)?;
        }
        Ok(())
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
        self.data.set_len(0)
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
