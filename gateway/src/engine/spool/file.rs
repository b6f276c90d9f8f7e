//! The two files of one draft, each made when something must lie in it.
//!
//! Everything that touches them runs where blocking is allowed. Data goes by offset (`data`); the
//! journal is appended to under a lock (`log`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::stream;
use tokio::task::spawn_blocking;

use super::DATA;
use super::blocks::Memory;
use super::data::{Data, FRAME, Kept, Synced};
use super::journal::{Begin, Record};
use super::log::Log;
use super::replay::Replayed;
use super::slots::Slots;
use crate::origin::{Body, OriginError, Sums};
use crate::plan::ByteRange;

/// See the module's head.
#[derive(Debug)]
pub(in crate::engine) struct SpoolFile {
    slots: Arc<Slots>,
    id: u64,
    data: Data,
    /// Where that is, if there is a file of it.
    path: PathBuf,
    journal: Mutex<Journal>,
    grown: AtomicU64,
    /// The edition before, which a crash finds as long as this one is not promised.
    before: Mutex<Option<Arc<Self>>>,
}

/// The journal, and whether the data's name is durable, as its own is.
#[derive(Debug)]
struct Journal {
    log: Log,
    is_named: bool,
}

impl SpoolFile {
    /// A draft that has no files yet.
    pub(super) fn new(slots: Arc<Slots>, id: u64, begin: Begin, memory: Memory) -> Self {
        let path = path_of(slots.directory(), id);
        let (data, log) = (Data::new(&path, memory), Log::new(slots.clone(), id, begin));
        Self::of(slots, path, data, log)
    }

    fn of(slots: Arc<Slots>, path: PathBuf, data: Data, log: Log) -> Self {
        let is_named = false;
        Self {
            slots,
            id: log.id(),
            data,
            path,
            journal: Mutex::new(Journal { log, is_named }),
            grown: AtomicU64::new(0),
            before: Mutex::default(),
        }
    }

    /// The same as the next edition of another draft, whose files go once this one is promised, or before
    /// this one's do.
    pub(super) fn replacing(self, before: Option<Arc<Self>>) -> Self {
        let before = Mutex::new(before);
        Self { before, ..self }
    }

    /// By which name a journal knows the draft.
    pub(in crate::engine) fn id(&self) -> u64 {
        self.id
    }

    /// Opens what there is of a draft again: `sound` bytes of the journal at a path, and its data.
    pub(super) fn reopen(
        slots: Arc<Slots>,
        journal: &Path,
        (id, sound, turn): (u64, u64, u64),
        replayed: &mut Replayed,
        memory: Memory,
    ) -> io::Result<Self> {
        let log = Log::new(slots.clone(), id, replayed.begin.clone());
        let log = log.found(slots.found(journal)?, sound, turn)?;
        let kept = match (replayed.kept, log.file()) {
            (Some((range, place)), Some(file)) => Some(Kept {
                range,
                file: file.try_clone()?,
                place,
                id,
            }),
            _ => None,
        };
        let in_journal = kept
            .as_ref()
            .map_or(ByteRange::new(0, 0), |kept| kept.range);
        let elsewhere = |it: ByteRange| it.intersect(in_journal) != Some(it);
        let path = path_of(slots.directory(), id);
        let data = Data::reopen(&path, kept, memory)?;
        if !data.has_file() && replayed.draft.local().iter().any(elsewhere) {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "its data is missing",
            ));
        }
        // Only a cut shortens it, and it may be that nobody could be told of that.
        let local = Vec::from_iter(replayed.draft.local().iter().filter(|it| elsewhere(*it)));
        let length = data.length()?;
        if local.last().is_some_and(|last| last.end > length) {
            tracing::warn!(path = %path.display(), length, "what was cut off stays so");
            replayed.draft.truncate(length).map_err(io::Error::other)?;
        }
        data.keep_only(replayed.draft.local(), replayed.draft.size())?;
        Ok(Self::of(slots, path, data, log))
    }

    /// Does what blocks where that is allowed.
    pub(in crate::engine) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let file = self.clone();
        let done = spawn_blocking(move || work(&file)).await;
        done.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Writes data at its place. An error may be of what was written before, which is there all the same
    /// and is tried again; see `data`.
    pub(in crate::engine) fn write(self: &Arc<Self>, offset: u64, bytes: Bytes) -> io::Result<()> {
        let written = self.data.write(offset, bytes);
        self.tend();
        written
    }

    /// The same, if nobody has to wait for a disk. Does not block.
    pub(in crate::engine) fn take_in(self: &Arc<Self>, offset: u64, bytes: &Bytes) -> bool {
        let taken = self.data.take_in(offset, bytes);
        self.tend();
        taken
    }

    /// Whether bytes go on where the last ended, and are better copied there than made a block of their own.
    pub(in crate::engine) fn goes_on(&self, offset: u64, bytes: &[u8]) -> bool {
        self.data.goes_on(offset, bytes)
    }

    /// The same of bytes that are somebody else's, and go on.
    pub(in crate::engine) fn copy_in(self: &Arc<Self>, offset: u64, bytes: &[u8]) -> bool {
        let taken = self.data.copy_in(offset, bytes);
        self.tend();
        taken
    }

    /// Sees to it that what waits to be written is.
    fn tend(self: &Arc<Self>) {
        if self.data.wants_tending() {
            let file = self.clone();
            spawn_blocking(move || file.data.tend());
        }
    }

    /// Reads data; what was never written is zero.
    pub(in crate::engine) fn read(&self, range: ByteRange) -> io::Result<Bytes> {
        self.data.read(range)
    }

    /// Lets go of the memory that data takes.
    pub(in crate::engine) fn let_go(&self, range: ByteRange) {
        self.data.let_go(range);
    }

    /// Returns once data reads as what was written there, for good.
    pub(in crate::engine) fn look(&self, range: ByteRange) -> io::Result<()> {
        self.data.look(range)
    }

    /// Whether that takes a disk. Does not block.
    pub(in crate::engine) fn may_differ(&self) -> bool {
        self.data.has_file()
    }

    /// The checksums of data, which is what was written: else a disk that could not write it would have
    /// something else published under a checksum that is right for that.
    pub(in crate::engine) fn sums(&self, range: ByteRange) -> io::Result<Sums> {
        self.look(range)?;
        let (mut sums, mut at) = (Sums::default(), range.start);
        while at < range.end {
            let (next, length) = self.data.sums(ByteRange::new(at, range.end))?;
            sums = sums.joined(next, length);
            at += length;
        }
        Ok(sums)
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
        self.journal().log.note(records)
    }

    /// Appends records, and makes the journal durable.
    pub(in crate::engine) fn note_durably(&self, records: &[Record]) -> io::Result<()> {
        let mut journal = self.journal();
        self.make_name_durable(&mut journal)?;
        journal.log.note(records)?;
        journal.log.sync()
    }

    /// Makes the data durable, and then the journal with `records` and the word that it is.
    pub(in crate::engine) fn sync(&self, records: &[Record]) -> io::Result<()> {
        let mut journal = self.journal();
        let log = &mut journal.log;
        if log.is_gone() {
            return Ok(());
        }
        log.note(records)?;
        let synced = self.data.sync(|range, bytes| {
            let place = log.keep(range.start, bytes)?;
            log.note(&[Record::Synced])?;
            log.sync()?;
            let file = log.file().ok_or(io::ErrorKind::NotFound)?.try_clone()?;
            let id = log.id();
            Ok(Kept {
                range,
                file,
                place,
                id,
            })
        })?;
        if synced != Synced::InJournal {
            self.make_name_durable(&mut journal)?;
            let moved = (synced == Synced::Moved).then_some(Record::Moved);
            let last = Vec::from_iter(moved.into_iter().chain([Record::Synced]));
            journal.log.note(&last)?;
            journal.log.sync()?;
        }
        self.grown.store(journal.log.grown(), Ordering::Relaxed);
        drop(journal);
        if let Err(error) = self.remove_before() {
            // It counts no more, and goes with this one.
            tracing::warn!(%error, "cannot take the files of a replaced object away");
        }
        Ok(())
    }

    /// Makes the name of the data durable, before the journal says that bytes are there.
    fn make_name_durable(&self, journal: &mut Journal) -> io::Result<()> {
        if self.data.has_file() && !journal.is_named && !journal.log.is_gone() {
            self.slots.sync_names()?;
            journal.is_named = true;
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
        let before = self.journal().log.begin_anew(begin, promised)?;
        // Nothing is read in an earlier journal from here on.
        let cut = self.data.cut(0);
        drop(before);
        cut
    }

    /// By how many bytes the journal has grown, as of its last sync. Does not block.
    pub(in crate::engine) fn grown(&self) -> u64 {
        self.grown.load(Ordering::Relaxed)
    }

    /// Writes the journal anew, durably: how it begins, and what it says. It goes on as it was where that
    /// fails.
    pub(in crate::engine) fn renew(&self, begin: Box<Begin>, records: Vec<Record>) {
        let mut journal = self.journal();
        if journal.log.is_gone() || self.data.is_in_journal() {
            return;
        }
        let renewed = journal.log.renew(begin, records);
        self.grown.store(journal.log.grown(), Ordering::Relaxed);
        if let Err(error) = renewed {
            tracing::warn!(%error, "cannot write a journal anew that has become long");
        }
    }

    /// Takes away what there is: the journal first, durably, for data without one is nothing.
    pub(in crate::engine) fn remove(&self) {
        if let Err(error) = self.try_to_remove() {
            tracing::warn!(%error, "cannot take the journal of an object away that is in the bucket");
        }
    }

    /// The same; an error is of a journal that may be found again. Where that is the edition before, this one
    /// stays as well: without it the other would count.
    pub(super) fn try_to_remove(&self) -> io::Result<()> {
        self.data.abandon();
        self.remove_before()?;
        let removed = self.journal().log.remove();
        if self.data.has_file() {
            remove(&self.path);
        }
        removed
    }

    /// Takes the edition before away, durably.
    fn remove_before(&self) -> io::Result<()> {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*before {
            file.try_to_remove()?;
        }
        *before = None;
        Ok(())
    }

    /// The same, where blocking is allowed.
    pub(in crate::engine) async fn removed(self: Arc<Self>) -> io::Result<()> {
        let remove = |file: &Arc<Self>| {
            file.remove();
            Ok(())
        };
        self.blocking(remove).await
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the data of a draft is.
pub(super) fn path_of(directory: &Path, id: u64) -> PathBuf {
    directory.join(format!("{id:016x}.{DATA}"))
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

#[cfg(test)]
mod tests {
    use super::super::journal::{self, Found};
    use super::super::replay::replay;
    use super::super::slots::Slot;
    use super::*;
    use crate::engine::Budget;

    fn memory() -> Memory {
        Memory::new(Budget::new(1 << 20), Budget::new(1 << 30))
    }

    fn folder() -> (tempfile::TempDir, Arc<Slots>) {
        let directory = tempfile::tempdir().expect("a folder");
        let slots = Slots::new(directory.path(), None);
        (directory, slots)
    }

    fn draft(slots: &Arc<Slots>, id: u64) -> Arc<SpoolFile> {
        Arc::new(SpoolFile::new(
            slots.clone(),
            id,
            Begin::of("key"),
            memory(),
        ))
    }

    /// A file on a disk that has no room. By a name of its own, for it may be removed.
    fn full_disk(slots: &Arc<Slots>) -> Slot {
        let path = slots.directory().join("full");
        std::os::unix::fs::symlink("/dev/full", &path).expect("a name");
        slots.found(&path).expect("there is one")
    }

    fn wrote(size: u64) -> Record {
        let extents = vec![(0, size)];
        Record::Wrote { size, extents }
    }

    /// The journals in a directory, by their drafts: where each is, what it says, what of it is sound.
    fn journals(directory: &Path) -> Vec<(u64, PathBuf, Replayed, u64)> {
        let entries = fs::read_dir(directory).expect("a folder");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let paths = paths.filter(|path| super::super::is(path, super::super::JOURNAL));
        let read = paths.filter_map(
            |path| match journal::read(&fs::read(&path).expect("read")) {
                Found::Journal { id, records, sound } => {
                    let replayed = replay(&records).expect("they fit");
                    Some((id, path, replayed, sound))
                }
                _ => None,
            },
        );
        read.collect()
    }

    /// A `fsync` that fails may be tried again, and what it promises then is there.
    #[test]
    fn what_could_not_be_told_is_told_with_the_next() {
        let (directory, slots) = folder();
        let file = draft(&slots, 3);
        file.write(0, vec![7; 5000].into()).expect("written");
        let full = full_disk(&slots);
        file.journal().log.write_to(full);
        assert!(file.sync(&[wrote(5000)]).is_err());
        // It could not be cut to what it was either.
        file.journal()
            .log
            .write_to(slots.take().expect("there is room again"));
        file.sync(&[]).expect("there is room again");
        let [(id, path, found, sound)] = &mut journals(directory.path())[..] else {
            panic!("one journal");
        };
        assert!(found.promised && found.draft.size() == 5000);

        let again = SpoolFile::reopen(slots.clone(), path, (*id, *sound, 0), found, memory());
        let again = again.expect("sound");
        let read = again.read(ByteRange::new(0, 5000)).expect("read");
        assert_eq!(read, [7; 5000][..]);
    }

    /// A disk that failed once must not keep an object from being published under a hidden key.
    #[test]
    fn begins_anew_in_another_file_where_its_own_is_lost() {
        let (directory, slots) = folder();
        let file = draft(&slots, 3);
        file.write(0, vec![7; 5000].into()).expect("written");
        file.sync(&[wrote(5000)]).expect("synced");
        let full = full_disk(&slots);
        file.journal().log.write_on_to(full);
        assert!(file.note_durably(&[Record::Closed]).is_err());
        file.restart(&Begin::of("another"), true)
            .expect("elsewhere");
        file.write(0, vec![8; 100].into()).expect("written");
        file.sync(&[wrote(100)]).expect("it can promise again");
        let mut found = journals(directory.path());
        let anew = found
            .iter_mut()
            .find(|(.., found, _)| found.begin.key == "another");
        let (id, path, replayed, sound) = anew.expect("a journal");
        assert!(replayed.promised && replayed.draft.size() == 100);
        let again = SpoolFile::reopen(slots.clone(), path, (*id, *sound, 0), replayed, memory());
        let read = again.expect("sound").read(ByteRange::new(0, 100));
        assert_eq!(read.expect("read"), [8; 100][..]);
    }

    /// Its object is in the bucket, and a journal that appears then would publish it once more.
    #[test]
    fn what_was_removed_stays_removed() {
        let (directory, slots) = folder();
        let file = draft(&slots, 3);
        file.write(0, vec![7; 5000].into()).expect("written");
        file.sync(&[wrote(5000)]).expect("synced");
        assert_eq!(journals(directory.path()).len(), 1);
        file.remove();
        file.sync(&[Record::Closed]).expect("nothing to do");
        file.note(&[Record::Closed]).expect("nothing to do");
        assert_eq!(journals(directory.path()).len(), 0);
    }

    /// Whoever still reads a draft that has gone reads its bytes, and not those of the next; and what an
    /// earlier one left in a file is nobody's.
    #[test]
    fn files_are_used_again_and_bytes_are_not() {
        let (directory, slots) = folder();
        for id in 1..40 {
            let length = [900, 5000, 300_000][id as usize % 3];
            let byte = u8::try_from(id).expect("a few");
            let file = draft(&slots, id);
            file.write(0, vec![byte; length].into()).expect("written");
            file.sync(&[wrote(length as u64)]).expect("synced");
            let reader = file;
            let writer = reader.clone();
            writer.remove();
            drop(writer);
            let next = draft(&slots, id + 100);
            next.write(0, vec![0xee; 700].into()).expect("written");
            next.sync(&[wrote(700)]).expect("synced");
            let read = reader.read(ByteRange::new(0, length as u64));
            assert_eq!(read.expect("read"), vec![byte; length]);
            let [(found, _, replayed, _)] = &journals(directory.path())[..] else {
                panic!("one journal");
            };
            assert_eq!((*found, replayed.draft.size()), (id + 100, 700));
            next.remove();
        }
        let names = fs::read_dir(directory.path()).expect("a folder").count();
        assert!(names < 20, "{names}");
    }
}
