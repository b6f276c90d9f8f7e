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
use super::data::{self, Data, FRAME, Kept};
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
    /// What could not be appended yet.
    pending: Vec<u8>,
    /// A sync failed, and no later one makes up for it.
    is_lost: bool,
    /// The draft is in the bucket, or nowhere: nothing is told to it any more.
    is_gone: bool,
}

impl Journal {
    fn new(begin: Begin, file: Option<File>, length: u64) -> Self {
        Self {
            file,
            length,
            begin,
            named: 0,
            pending: Vec::new(),
            is_lost: false,
            is_gone: false,
        }
    }

    /// What stands before everything else, where nothing was written yet.
    fn beginning(&self) -> Vec<u8> {
        match self.length {
            0 => head(&self.begin),
            _ => Vec::new(),
        }
    }

    /// Where the next frame will begin.
    fn end(&self) -> u64 {
        self.length + (self.beginning().len() + self.pending.len()) as u64
    }
}

impl SpoolFile {
    /// A draft that has no files yet.
    pub(super) fn new(directory: &Path, id: String, begin: Begin, memory: Memory) -> Self {
        let data = Data::new(&path(directory, &id, DATA), memory);
        let journal = Journal::new(begin, None, 0);
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
        data.keep_only(replayed.draft.local(), replayed.draft.size())?;
        let journal = Journal::new(replayed.begin.clone(), Some(journal), sound);
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
    pub(in crate::engine) fn sync(&self, records: &[Record]) -> io::Result<()> {
        let mut journal = self.journal();
        if journal.is_gone {
            return Ok(());
        }
        self.note_in(&mut journal, records)?;
        let moved = self.data.sync(|range, bytes| {
            let place = journal.end() + journal::HEAD as u64;
            let length = u32::try_from(range.len()).map_err(io::Error::other)?;
            let at = range.start;
            let record = journal::framed(&Record::Bytes { at, length, place });
            let file = self.append(&mut journal, &[journal::raw(bytes), record].concat())?;
            let file = file.try_clone()?;
            Ok(Kept { range, file, place })
        })?;
        let mut last = Vec::from_iter(moved.then_some(Record::Moved));
        last.push(Record::Synced);
        self.note_in(&mut journal, &last)?;
        self.make_durable(&mut journal)
    }

    /// Appends records. Where that fails they are appended with the next: what they speak of has
    /// happened.
    fn note_in(&self, journal: &mut Journal, records: &[Record]) -> io::Result<()> {
        if journal.is_gone {
            return Ok(());
        }
        for record in records {
            journal.pending.extend(journal::framed(record));
        }
        match journal.pending.is_empty() {
            true => Ok(()),
            false => self.append(journal, &[]).map(drop),
        }
    }

    /// Appends what is pending, and bytes behind it, to the journal, which is made where there is none.
    fn append<'a>(&self, journal: &'a mut Journal, bytes: &[u8]) -> io::Result<&'a File> {
        let mut all = journal.beginning();
        all.extend_from_slice(&journal.pending);
        all.extend_from_slice(bytes);
        let file = match &mut journal.file {
            Some(file) => file,
            none => none.insert(open(&self.path(JOURNAL), OpenOptions::new().create(true))?),
        };
        if let Err(error) = file.write_all_at(&all, journal.length) {
            // Whatever was written of it, nobody must read it behind what is written next.
            journal.is_lost |= file.set_len(journal.length).is_err();
            return Err(error);
        }
        journal.length += all.len() as u64;
        journal.pending.clear();
        Ok(file)
    }

    fn make_durable(&self, journal: &mut Journal) -> io::Result<()> {
        if journal.is_lost {
            return Err(data::lost());
        }
        let Some(file) = journal.file.as_ref().filter(|_| !journal.is_gone) else {
            return Ok(());
        };
        if let Err(error) = file.sync_data() {
            journal.is_lost = true;
            return Err(error);
        }
        let names = 1 + u8::from(self.data.has_file());
        if journal.named < names {
            self.sync_names()?;
            journal.named = names;
        }
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
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
        journal.file = Some(file);
        journal.length = bytes.len() as u64;
        journal.pending.clear();
        journal.begin = begin.clone();
        self.sync_names()?;
        drop(journal);
        self.data.cut(0)
    }

    /// Takes away what files there are: the journal first, for data without one is nothing. Durably, if
    /// their names are: a journal that comes back would publish once more what is old by then.
    pub(in crate::engine) fn remove(&self) {
        let mut journal = self.journal();
        journal.is_gone = true;
        if journal.file.is_some() {
            remove(&self.path(JOURNAL));
        }
        if self.data.has_file() {
            remove(&self.path(DATA));
        }
        if journal.named > 0
            && let Err(error) = self.sync_names()
        {
            tracing::warn!(%error, "cannot make it durable that files of the spool are gone");
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

#[cfg(test)]
mod tests {
    use super::super::journal::GuardWord;
    use super::super::replay::replay;
    use super::*;
    use crate::engine::Budget;

    fn draft(directory: &Path) -> SpoolFile {
        let begin = Begin {
            origin: 1,
            key: "key".to_owned(),
            headers: vec![],
            guard: GuardWord::None,
            base: None,
            first_part: 1 << 20,
            hidden: false,
        };
        let memory = Memory::new(Budget::new(1 << 20), Budget::new(1 << 30));
        SpoolFile::new(directory, "id".to_owned(), begin, memory)
    }

    fn replayed(directory: &Path) -> Replayed {
        let bytes = fs::read(path(directory, "id", JOURNAL)).expect("a journal");
        let (records, sound) = journal::read(&bytes).expect("our format");
        assert_eq!(sound, bytes.len() as u64);
        replay(&records).expect("they fit").expect("a beginning")
    }

    /// A `fsync` that fails may be tried again, and what it promises then is there.
    #[test]
    fn what_could_not_be_told_is_told_with_the_next() {
        let directory = tempfile::tempdir().expect("a folder");
        let file = draft(directory.path());
        file.write(0, vec![7; 5000].into()).expect("written");
        let full = OpenOptions::new().write(true).open("/dev/full");
        file.journal().file = Some(full.expect("there is one"));
        let wrote = Record::Wrote {
            size: 5000,
            extents: vec![(0, 5000)],
        };
        assert!(file.sync(&[wrote]).is_err());
        // It could not be cut to what it was either.
        file.journal().is_lost = false;
        file.journal().file = None;
        file.sync(&[]).expect("there is room again");
        let found = replayed(directory.path());
        assert!(found.promised && found.draft.size() == 5000);

        let memory = Memory::new(Budget::new(1 << 20), Budget::new(1 << 30));
        let length = fs::metadata(file.path(JOURNAL)).expect("there").len();
        let again = SpoolFile::reopen(directory.path(), "id", length, &found, memory);
        let again = again.expect("sound");
        let read = again.read(ByteRange::new(0, 5000)).expect("read");
        assert_eq!(read, [7; 5000][..]);
    }

    /// Its object is in the bucket, and a journal that appears then would publish it once more.
    #[test]
    fn what_was_removed_stays_removed() {
        let directory = tempfile::tempdir().expect("a folder");
        let file = draft(directory.path());
        file.write(0, vec![7; 5000].into()).expect("written");
        file.remove();
        file.sync(&[Record::Closed]).expect("nothing to do");
        file.note(&[Record::Closed]).expect("nothing to do");
        assert!(!file.path(JOURNAL).exists());
    }
}
