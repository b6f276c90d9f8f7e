//! The two files of one draft, each created when bytes must be written to it.
//!
//! All functions that touch them run where blocking is allowed. Data is written by offset (`data`);
//! the journal is appended to under a lock (`log`).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures_util::stream;
use tokio::task::spawn_blocking;

use super::DATA_EXTENSION;
use super::blocks::Memory;
use super::data::{Data, FRAME_BYTES, JournaledBytes, SyncLocation};
use super::journal::{Begin, Record};
use super::log::Log;
use super::replay::ReplayedDraft;
use super::slots::{Slots, remove_file};
use tidegate_origin::{Body, OriginError, Sums};
use tidegate_plan::{ByteRange, ObjectId, ObjectKey, OriginId};
use tidegate_telemetry::locks::Recover as _;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct SpoolFile {
    slots: Arc<Slots>,
    id: u64,
    /// The object that the journal names.
    object: Option<ObjectId>,
    data: Data,
    /// The path of the data file, if there is one.
    path: PathBuf,
    journal: Mutex<JournalFile>,
    grown: AtomicU64,
    /// The edition before. A crash finds it as long as this one is not promised.
    before: Mutex<Option<Arc<Self>>>,
}

/// The journal, and whether the data file's name is durable, as the journal's own is.
#[derive(Debug)]
struct JournalFile {
    log: Log,
    is_named: bool,
    /// Whether a sync that failed may have left bytes of the object in the journal. They count until it says otherwise.
    has_stale_bytes: bool,
}

impl SpoolFile {
    /// Creates a draft that has no files yet.
    pub(super) fn new(slots: Arc<Slots>, id: u64, begin: Begin, memory: Memory) -> Self {
        let path = path_of(slots.directory(), id);
        let object = object_of(&begin);
        let (data, log) = (Data::new(&path, memory), Log::new(slots.clone(), id, begin));
        Self::of(slots, (path, object), data, log)
    }

    fn of(
        slots: Arc<Slots>,
        (path, object): (PathBuf, Option<ObjectId>),
        data: Data,
        log: Log,
    ) -> Self {
        let id = log.id();
        let journal = JournalFile {
            log,
            is_named: false,
            has_stale_bytes: false,
        };
        Self {
            slots,
            id,
            object,
            data,
            path,
            journal: Mutex::new(journal),
            grown: AtomicU64::new(0),
            before: Mutex::default(),
        }
    }

    /// Makes this the next edition of another draft. The files of that one are removed once this
    /// one is promised, or before this one's are.
    pub(super) fn replacing(self, before: Option<Arc<Self>>) -> Self {
        let before = Mutex::new(before);
        Self { before, ..self }
    }

    /// Returns the number by which a journal knows the draft.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns the object that the journal names.
    pub(crate) fn object(&self) -> Option<ObjectId> {
        self.object.clone()
    }

    /// Reopens a recovered draft: `sound` bytes of the journal at a path, and its data.
    pub(super) fn reopen(
        slots: Arc<Slots>,
        journal: &Path,
        (id, sound, turn): (u64, u64, u64),
        replayed: &mut ReplayedDraft,
        memory: Memory,
    ) -> io::Result<Self> {
        let log = Log::new(slots.clone(), id, replayed.begin.clone());
        let log = log.found(slots.found(journal)?, sound, turn)?;
        let kept = match (replayed.kept, log.file()) {
            (Some((range, place)), Some(file)) => Some(JournaledBytes {
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
        // Only a truncation shortens it, and its record may have failed.
        let local = Vec::from_iter(replayed.draft.local().iter().filter(|it| elsewhere(*it)));
        let length = data.length()?;
        if local.last().is_some_and(|last| last.end > length) {
            tracing::warn!(path = %path.display(), length, "a file was cut when the process ended, and stays cut");
            replayed.draft.truncate(length).map_err(io::Error::other)?;
        }
        data.keep_only(replayed.draft.local(), replayed.draft.size())?;
        let object = object_of(&replayed.begin);
        Ok(Self::of(slots, (path, object), data, log))
    }

    /// Runs `work` in a blocking thread.
    pub(crate) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let file = self.clone();
        let done = spawn_blocking(move || work(&file)).await;
        done.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// Writes data at its offset. An error may come from an earlier block, which stays in memory
    /// and is tried again; see `data`.
    pub(crate) fn write(self: &Arc<Self>, offset: u64, bytes: Bytes) -> io::Result<()> {
        let written = self.data.write(offset, bytes);
        self.tend();
        written
    }

    /// Takes data, if that needs no wait for a disk. Does not block.
    pub(crate) fn take_in(self: &Arc<Self>, offset: u64, bytes: &Bytes) -> bool {
        let taken = self.data.take_in(offset, bytes);
        self.tend();
        taken
    }

    /// Returns whether bytes continue the last write, and are better copied there than made a block
    /// of their own.
    pub(crate) fn goes_on(&self, offset: u64, bytes: &[u8]) -> bool {
        self.data.goes_on(offset, bytes)
    }

    /// Takes borrowed bytes that continue the last write.
    pub(crate) fn copy_in(self: &Arc<Self>, offset: u64, bytes: &[u8]) -> bool {
        let taken = self.data.copy_in(offset, bytes);
        self.tend();
        taken
    }

    /// Starts a thread that writes the waiting blocks, if needed.
    fn tend(self: &Arc<Self>) {
        if self.data.wants_tending() {
            let file = self.clone();
            spawn_blocking(move || file.data.tend());
        }
    }

    /// Reads data. Bytes that were never written are zero.
    pub(crate) fn read(&self, range: ByteRange) -> io::Result<Bytes> {
        self.data.read(range)
    }

    /// Releases the memory of a range.
    pub(crate) fn let_go(&self, range: ByteRange) {
        self.data.let_go(range);
    }

    /// Returns once data permanently reads as it was written.
    pub(crate) fn look(&self, range: ByteRange) -> io::Result<()> {
        self.data.look(range)
    }

    /// Returns whether [`Self::look`] needs a disk. Does not block.
    pub(crate) fn may_differ(&self) -> bool {
        self.data.has_file()
    }

    /// Returns the checksums of data, after a check that it reads as it was written. Otherwise
    /// wrong bytes of a failed disk would be published under a matching checksum.
    pub(crate) fn sums(&self, range: ByteRange) -> io::Result<Sums> {
        self.look(range)?;
        let (mut sums, mut at) = (Sums::default(), range.start);
        while at < range.end {
            let (next, length) = self.data.sums(ByteRange::new(at, range.end))?;
            sums = sums.joined(next, length);
            at += length;
        }
        Ok(sums)
    }

    /// Returns data in pieces. Each is read on demand, and its memory is released for the next
    /// writes.
    pub(crate) fn frames(self: &Arc<Self>, range: ByteRange) -> Body {
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
                // A failing disk is not the origin's fault, and a retry does not help.
                let read = read.map_err(|_| OriginError::BadAnswer("the spool cannot be read"));
                Some((read, next))
            }
        }))
    }

    /// Appends records.
    pub(crate) fn note(&self, records: &[Record]) -> io::Result<()> {
        self.journal().log.note(records)
    }

    /// Appends records, and makes the journal durable. After an error a later sync makes them durable.
    pub(crate) fn note_durably(&self, records: &[Record]) -> io::Result<()> {
        let mut journal = self.journal();
        let is_named = self.make_name_durable(&mut journal);
        journal.log.note(records)?;
        is_named?;
        journal.log.sync()
    }

    /// Makes the data durable, and then the journal with `records` and a synced record.
    pub(crate) fn sync(&self, records: &[Record]) -> io::Result<()> {
        let mut journal = self.journal();
        let JournalFile {
            log,
            has_stale_bytes,
            ..
        } = &mut *journal;
        if log.is_gone() {
            return Ok(());
        }
        log.note(records)?;
        let synced = self.data.sync(|range, bytes| {
            *has_stale_bytes = true;
            let place = log.keep(range.start, bytes)?;
            log.note(&[Record::Synced])?;
            log.sync_named()?;
            let file = log.file().ok_or(io::ErrorKind::NotFound)?.try_clone()?;
            let id = log.id();
            Ok(JournaledBytes {
                range,
                file,
                place,
                id,
            })
        })?;
        if synced != SyncLocation::InJournal {
            self.data.check_name()?;
            self.make_name_durable(&mut journal)?;
            let has_moved = synced == SyncLocation::Moved || journal.has_stale_bytes;
            let moved = has_moved.then_some(Record::Moved);
            let last = Vec::from_iter(moved.into_iter().chain([Record::Synced]));
            journal.log.note(&last)?;
            journal.log.sync_named()?;
        }
        journal.has_stale_bytes = false;
        self.grown.store(journal.log.grown(), Ordering::Relaxed);
        drop(journal);
        if let Err(error) = self.remove_before() {
            // It counts no more, and is removed with this one.
            tracing::warn!(%error, "cannot remove the files of a replaced object");
        }
        Ok(())
    }

    /// Makes the name of the data file durable, before the journal refers to its bytes.
    fn make_name_durable(&self, journal: &mut JournalFile) -> io::Result<()> {
        if self.data.has_file() && !journal.is_named && !journal.log.is_gone() {
            self.slots.sync_names()?;
            journal.is_named = true;
        }
        Ok(())
    }

    /// Removes a range, which reads as zero from now on.
    pub(crate) fn punch(&self, range: ByteRange) -> io::Result<()> {
        self.data.punch(range)
    }

    /// Removes data from `size` on.
    pub(crate) fn cut(&self, size: u64) -> io::Result<()> {
        self.data.cut(size)
    }

    /// Begins anew, durably, with `begin` and without data. With `promised`, it counts as synced.
    pub(crate) fn restart(&self, begin: &Begin, promised: bool) -> io::Result<()> {
        let before = self.journal().log.begin_anew(begin, promised)?;
        // No earlier journal is read from here on.
        let cut = self.data.cut(0);
        drop(before);
        cut
    }

    /// Returns how much the journal has grown, in bytes, as of its last sync. Does not block.
    pub(crate) fn grown(&self) -> u64 {
        self.grown.load(Ordering::Relaxed)
    }

    /// Rewrites the journal, durably, with `begin` and `records`. After a failure the old one
    /// continues.
    pub(crate) fn renew(&self, begin: Begin, records: Vec<Record>) {
        let mut journal = self.journal();
        if journal.log.is_gone() || self.data.is_in_journal() {
            return;
        }
        let renewed = journal.log.renew(begin, records);
        self.grown.store(journal.log.grown(), Ordering::Relaxed);
        if let Err(error) = renewed {
            tracing::warn!(%error, "cannot rewrite a long journal");
        }
    }

    /// Removes the files: first the journal, durably, because data without one does not count.
    pub(crate) fn remove(&self) {
        if let Err(error) = self.try_to_remove() {
            tracing::warn!(%error, "cannot remove the journal of a published object");
        }
    }

    /// Removes the files. An error means that a journal may be found again. If it is that of the
    /// edition before, this one stays as well; otherwise that edition would count.
    pub(crate) fn try_to_remove(&self) -> io::Result<()> {
        self.data.abandon();
        self.remove_before()?;
        let removed = self.journal().log.remove();
        if self.data.has_file() {
            remove_file(&self.path);
        }
        removed
    }

    /// Checks that the disk would let go of the journal, and of that of the edition before.
    pub(crate) fn check_journal(&self) -> io::Result<()> {
        if let Some(before) = &*self.before.lock().recover() {
            before.check_journal()?;
        }
        self.journal().log.check()
    }

    /// Removes the edition before, durably.
    fn remove_before(&self) -> io::Result<()> {
        let mut before = self.before.lock().recover();
        if let Some(file) = &*before {
            file.try_to_remove()?;
        }
        *before = None;
        Ok(())
    }

    /// Removes the journal, durably, and keeps the data for its readers: a crash finds nothing of it.
    pub(crate) fn forget(&self) -> io::Result<()> {
        self.remove_before()?;
        self.journal().log.remove()
    }

    fn journal(&self) -> MutexGuard<'_, JournalFile> {
        self.journal.lock().recover()
    }
}

/// Returns the object that the first record of a journal names.
fn object_of(begin: &Begin) -> Option<ObjectId> {
    Some(ObjectId {
        origin: OriginId(begin.origin),
        key: ObjectKey::new(&begin.key).ok()?,
    })
}

/// Returns the path of a draft's data file.
pub(super) fn path_of(directory: &Path, id: u64) -> PathBuf {
    directory.join(format!("{id:016x}.{DATA_EXTENSION}"))
}

/// Returns the next piece to read.
fn frame(at: u64, end: u64) -> ByteRange {
    ByteRange::new(at, end.min(at + FRAME_BYTES))
}

#[cfg(test)]
pub(crate) mod journal_records;
#[cfg(test)]
mod tests;
