//! The two files of one draft, each made when something must lie in it.
//!
//! Everything that touches them runs where blocking is allowed. Data goes by offset (`data`); the
//! journal is appended to under a lock.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::stream;
use tokio::task::spawn_blocking;

use super::blocks::Memory;
use super::data::{Data, FRAME, Kept};
use super::journal::{self, Begin, Record};
use super::replay::Replayed;
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
    data: Data,
    journal: Mutex<Journal>,
}

/// The journal's file, made with the first thing that is told to it.
#[derive(Debug)]
struct Journal {
    file: Option<File>,
    length: u64,
    begin: Begin,
    /// How many files, of itself and the data, have a durable name.
    named: u8,
}

impl SpoolFile {
    /// A draft that has no files yet.
    pub(super) fn new(directory: &Path, id: String, begin: Begin, memory: Memory) -> Self {
        let data = Data::new(&path(directory, &id, DATA), memory);
        let journal = Journal {
            file: None,
            length: 0,
            begin,
            named: 0,
        };
        Self {
            directory: directory.to_owned(),
            id,
            data,
            journal: Mutex::new(journal),
        }
    }

    /// Opens what there is of a draft again, and cuts off what of its journal is not sound.
    pub(super) fn reopen(
        directory: &Path,
        id: &str,
        sound: u64,
        replayed: &Replayed,
        memory: Memory,
    ) -> io::Result<Self> {
        let journal = open(&path(directory, id, JOURNAL), &mut OpenOptions::new())?;
        journal.set_len(sound)?;
        let kept = match replayed.kept {
            Some((range, place)) => Some(Kept {
                range,
                file: journal.try_clone()?,
                place,
            }),
            None => None,
        };
        let in_journal = kept
            .as_ref()
            .map_or(ByteRange::new(0, 0), |kept| kept.range);
        let elsewhere = |it: ByteRange| it.intersect(in_journal) != Some(it);
        let data = Data::reopen(&path(directory, id, DATA), kept, memory)?;
        if !data.has_file() && replayed.draft.local().iter().any(elsewhere) {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "its data is missing",
            ));
        }
        let journal = Journal {
            file: Some(journal),
            length: sound,
            begin: replayed.begin.clone(),
            named: 0,
        };
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
    pub(in crate::engine) fn write(&self, offset: u64, bytes: Bytes) -> io::Result<()> {
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
        let (mut crc64, mut at) = (Crc64::of(&[]), range.start);
        while at < range.end {
            let (next, length) = self.data.crc64(ByteRange::new(at, range.end))?;
            crc64 = Crc64::joined(crc64, next, length);
            at += length;
        }
        Ok(crc64)
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
        self.note_in(&mut self.journal(), records)
    }

    /// Appends records, and makes the journal durable.
    pub(in crate::engine) fn note_durably(&self, records: &[Record]) -> io::Result<()> {
        let mut journal = self.journal();
        self.note_in(&mut journal, records)?;
        self.make_durable(&mut journal)
    }

    /// Makes the data durable, and then the journal with `records` and the word that it is.
    pub(in crate::engine) fn sync(&self, mut records: Vec<Record>) -> io::Result<()> {
        let mut journal = self.journal();
        let moved = self.data.sync(|range, bytes| {
            let (file, place) = self.append(&mut journal, &journal::raw(bytes))?;
            let (file, place) = (file.try_clone()?, place + journal::HEAD as u64);
            let length = u32::try_from(range.len()).map_err(io::Error::other)?;
            let at = range.start;
            self.note_in(&mut journal, &[Record::Bytes { at, length, place }])?;
            Ok(Kept { range, file, place })
        })?;
        records.extend(moved.then_some(Record::Moved));
        records.push(Record::Synced);
        self.note_in(&mut journal, &records)?;
        self.make_durable(&mut journal)
    }

    fn note_in(&self, journal: &mut Journal, records: &[Record]) -> io::Result<()> {
        let bytes: Vec<u8> = records.iter().flat_map(journal::framed).collect();
        self.append(journal, &bytes).map(drop)
    }

    /// Appends to the journal, which is made where there is none. Says where that was.
    fn append<'a>(&self, journal: &'a mut Journal, bytes: &[u8]) -> io::Result<(&'a File, u64)> {
        let head = match journal.length {
            0 => head(&journal.begin),
            _ => Vec::new(),
        };
        let file = match &mut journal.file {
            Some(file) => file,
            none => none.insert(open(&self.path(JOURNAL), OpenOptions::new().create(true))?),
        };
        let place = journal.length + head.len() as u64;
        if let Err(error) = file.write_all_at(&[&head, bytes].concat(), journal.length) {
            // Whatever was written of it, nobody must read it behind what is written next.
            file.set_len(journal.length)?;
            return Err(error);
        }
        journal.length = place + bytes.len() as u64;
        Ok((file, place))
    }

    fn make_durable(&self, journal: &mut Journal) -> io::Result<()> {
        if let Some(file) = &journal.file {
            file.sync_data()?;
        }
        let names = 1 + u8::from(self.data.has_file());
        if journal.named < names {
            File::open(&self.directory)?.sync_all()?;
            journal.named = names;
        }
        Ok(())
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
        let new = self.path(UNFINISHED);
        let mut bytes = head(begin);
        if promised {
            bytes.extend(journal::framed(&Record::Synced));
        }
        let file = open(&new, OpenOptions::new().create(true).truncate(true))?;
        file.write_all_at(&bytes, 0)?;
        file.sync_data()?;
        let mut journal = self.journal();
        fs::rename(&new, self.path(JOURNAL))?;
        File::open(&self.directory)?.sync_all()?;
        journal.file = Some(file);
        journal.length = bytes.len() as u64;
        drop(journal);
        self.data.cut(0)
    }

    /// Takes away what files there are: the journal first, for data without one is nothing.
    pub(in crate::engine) fn remove(&self) {
        if self.journal().file.is_some() {
            remove(&self.path(JOURNAL));
        }
        if self.data.has_file() {
            remove(&self.path(DATA));
        }
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, kind: &str) -> PathBuf {
        path(&self.directory, &self.id, kind)
    }
}

/// How a journal begins.
fn head(begin: &Begin) -> Vec<u8> {
    let mut head = journal::MAGIC.to_vec();
    head.extend(journal::framed(&Record::Begin(Box::new(begin.clone()))));
    head
}

/// What people write is nobody else's to read.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.read(true).write(true).mode(0o600).open(path)
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
