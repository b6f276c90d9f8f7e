//! The journal of one draft during writes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::journal::{self, Begin, Record, sync_failed};
#[cfg(test)]
use super::slots::faults;
use super::slots::{Slot, Slots};

/// See the module documentation.
#[derive(Debug)]
pub(super) struct Log {
    slots: Arc<Slots>,
    id: u64,
    begin: Begin,
    /// The file, taken at the first append.
    slot: Option<Slot>,
    length: u64,
    /// The number of files before this one, and the length with which this one began.
    turn: u64,
    first: u64,
    /// Encoded records that could not be appended yet.
    pending: Vec<u8>,
    /// Whether a sync failed, for which no later one makes up.
    is_lost: bool,
    /// Whether the draft is published or discarded: no more records are appended.
    is_gone: bool,
}

impl Log {
    /// Creates an empty journal.
    pub(super) fn new(slots: Arc<Slots>, id: u64, begin: Begin) -> Self {
        Self {
            slots,
            id,
            begin,
            slot: None,
            length: 0,
            turn: 0,
            first: 0,
            pending: Vec::new(),
            is_lost: false,
            is_gone: false,
        }
    }

    /// Opens a recovered journal with `sound` valid bytes, and cuts off the rest.
    pub(super) fn found(mut self, slot: Slot, sound: u64, turn: u64) -> io::Result<Self> {
        slot.file().set_len(sound)?;
        self.slot = Some(slot);
        (self.length, self.turn) = (sound, turn);
        // Before any other record.
        self.pending = journal::framed(self.id, &Record::Reopened);
        Ok(self)
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Returns its file, if it has one.
    pub(super) fn file(&self) -> Option<&File> {
        self.slot.as_ref().map(Slot::file)
    }

    /// Returns the bytes before all others, if nothing was written yet.
    fn beginning(&self) -> Vec<u8> {
        if self.length > 0 {
            return Vec::new();
        }
        let begin = Record::Begin(Box::new(self.begin.clone()));
        journal::begun(self.id, &begin)
    }

    /// Appends records. After a failure they are appended with the next ones, because they describe
    /// past events.
    pub(super) fn note(&mut self, records: &[Record]) -> io::Result<()> {
        if self.is_gone {
            return Ok(());
        }
        for record in records {
            self.pending.extend(journal::framed(self.id, record));
        }
        match self.pending.is_empty() {
            true => Ok(()),
            false => self.append(&[]),
        }
    }

    /// Appends bytes of the object from offset `at` on; returns their offset in the file.
    pub(super) fn keep(&mut self, at: u64, bytes: &[u8]) -> io::Result<u64> {
        let before = self.length + (self.beginning().len() + self.pending.len()) as u64;
        let place = before + journal::FRAME_HEAD_BYTES as u64;
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let record = journal::framed(self.id, &Record::Bytes { at, length, place });
        self.append(&[journal::raw(self.id, bytes), record].concat())?;
        Ok(place)
    }

    /// Appends the pending records, and then `bytes`.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut all = self.beginning();
        all.extend_from_slice(&self.pending);
        all.extend_from_slice(bytes);
        let slot = match &mut self.slot {
            Some(slot) => slot,
            none => none.insert(self.slots.take()?),
        };
        slot.used();
        let written = slot.file().write_all_at(&all, self.length);
        #[cfg(test)]
        let written = written.and(faults::fault(self.slots.directory()));
        if let Err(error) = written {
            // A partial write must not be read after the next one.
            self.cut(self.length);
            return Err(error);
        }
        self.length += all.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Makes the appended records durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.is_lost {
            return Err(sync_failed());
        }
        let Some(slot) = self.present_slot() else {
            return Ok(());
        };
        let synced = slot.file().sync_data();
        #[cfg(test)]
        let synced = synced.and(faults::fault(self.slots.directory()));
        self.is_lost |= synced.is_err();
        synced
    }

    /// Does the same for a promise, which counts only if the next process finds the journal: by its name.
    pub(super) fn sync_named(&mut self) -> io::Result<()> {
        self.sync()?;
        self.present_slot().map_or(Ok(()), Slot::check_name)
    }

    fn present_slot(&self) -> Option<&Slot> {
        self.slot.as_ref().filter(|_| !self.is_gone)
    }

    /// Begins anew, durably and atomically; after an error it continues as before. With `promised`,
    /// it counts as synced. If its file can no longer be appended to, it begins in another. It then
    /// returns the first one, to be held as long as it is read.
    pub(super) fn begin_anew(&mut self, begin: &Begin, promised: bool) -> io::Result<Option<Slot>> {
        let anew = |turn| Record::Anew {
            begin: Box::new(self.numbered(begin.clone())),
            promised,
            turn,
        };
        let (first, elsewhere) = (anew(0), anew(self.turn + 1));
        let (length, pending) = (self.length, self.pending.clone());
        if self.note(&[first]).is_ok() && self.sync_named().is_ok() {
            return Ok(None);
        }
        self.pending = pending;
        self.cut(length);
        let mut records = vec![elsewhere];
        records.extend(promised.then_some(Record::Synced));
        self.begin_elsewhere(&records)
    }

    /// Rewrites it into another file, durably, with `begin` and `records`. After an error it is
    /// unchanged. Returns the earlier file: see [`Log::begin_anew`].
    pub(super) fn renew(
        &mut self,
        begin: Begin,
        mut records: Vec<Record>,
    ) -> io::Result<Option<Slot>> {
        let anew = Record::Anew {
            begin: Box::new(self.numbered(begin)),
            promised: true,
            turn: self.turn + 1,
        };
        records.insert(0, anew);
        self.begin_elsewhere(&records)
    }

    /// Returns another beginning of the same draft.
    fn numbered(&self, begin: Begin) -> Begin {
        let order = self.begin.order;
        Begin { order, ..begin }
    }

    /// Returns the bytes beyond twice the length that it began with.
    pub(super) fn grown(&self) -> u64 {
        self.length.saturating_sub(2 * self.first)
    }

    fn begin_elsewhere(&mut self, records: &[Record]) -> io::Result<Option<Slot>> {
        let mut frames = Vec::new();
        for record in records {
            let frame = journal::framed(self.id, record);
            if frame.len() > journal::MAX_RECORD_BYTES {
                return Err(io::Error::other("a record is too long"));
            }
            frames.extend(frame);
        }
        let mut slot = self.slots.take()?;
        slot.used();
        if let Err(error) = journal::write_whole(slot.file(), self.id, &frames) {
            // It would be found after a restart, and count.
            self.is_lost |= slot.retire().is_err();
            return Err(error);
        }
        let before = self.slot.replace(slot);
        self.turn += 1;
        self.length = (journal::BLANK_HEAD.len() + frames.len()) as u64;
        self.first = self.length;
        self.pending.clear();
        self.is_lost = false;
        Ok(before.map(|mut before| {
            // If it stays, the file of the later turn counts: see `Spool::recover`.
            if let Err(error) = before.retire() {
                tracing::warn!(%error, "cannot remove an outdated journal");
            }
            before
        }))
    }

    /// Truncates it to `length`.
    fn cut(&mut self, length: u64) {
        self.length = length;
        let cut = self.file().map_or(Ok(()), |file| file.set_len(length));
        self.is_lost |= cut.is_err();
    }

    /// Checks that the disk would let it be removed.
    pub(super) fn check(&self) -> io::Result<()> {
        self.slot.as_ref().map_or(Ok(()), Slot::check)
    }

    /// Removes it, durably.
    pub(super) fn remove(&mut self) -> io::Result<()> {
        self.is_gone = true;
        self.slot.as_mut().map_or(Ok(()), Slot::blank)
    }
}

#[cfg(test)]
impl Log {
    /// Redirects all records to another file, from the beginning on.
    pub(super) fn write_to(&mut self, slot: Slot) {
        (self.slot, self.length, self.is_lost) = (Some(slot), 0, false);
    }

    /// Returns the bytes in the file, and those that go into it with the next ones, each as a journal of its own;
    /// `None`: it is gone.
    pub(super) fn bytes(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        if self.is_gone {
            return None;
        }
        let mut written = vec![0; usize::try_from(self.length).expect("short")];
        if let Some(file) = self.file() {
            file.read_exact_at(&mut written, 0).expect("readable");
        }
        let waiting = match self.length {
            0 => self.beginning(),
            _ => journal::head(self.id),
        };
        Some((written, [waiting, self.pending.clone()].concat()))
    }

    /// Redirects later records to another file.
    pub(super) fn write_on_to(&mut self, slot: Slot) {
        self.slot = Some(slot);
    }
}
