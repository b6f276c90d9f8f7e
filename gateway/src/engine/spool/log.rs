//! The journal of one draft as it is appended to.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::journal::{self, Begin, Record};
use super::slots::{Slot, Slots};

/// See the module's head.
#[derive(Debug)]
pub(super) struct Log {
    slots: Arc<Slots>,
    id: u64,
    begin: Begin,
    /// Where it is written to; taken with the first thing that is told to it.
    slot: Option<Slot>,
    length: u64,
    /// The how manieth file it is written into, and the bytes that this began with.
    turn: u64,
    first: u64,
    /// What could not be appended yet.
    pending: Vec<u8>,
    /// A sync failed, and no later one makes up for it.
    is_lost: bool,
    /// The draft is in the bucket, or nowhere: nothing is told to it any more.
    is_gone: bool,
}

impl Log {
    /// One that has nothing in it yet.
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

    /// One that was found, of which so many bytes are sound. The others are cut off.
    pub(super) fn found(mut self, slot: Slot, sound: u64, turn: u64) -> io::Result<Self> {
        slot.file().set_len(sound)?;
        self.slot = Some(slot);
        (self.length, self.turn) = (sound, turn);
        // Before anything else that is told to it.
        self.pending = journal::framed(self.id, &Record::Reopened);
        Ok(self)
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Its file, if it has one.
    pub(super) fn file(&self) -> Option<&File> {
        self.slot.as_ref().map(Slot::file)
    }

    /// What stands before everything else, where nothing was written yet.
    fn beginning(&self) -> Vec<u8> {
        if self.length > 0 {
            return Vec::new();
        }
        let begin = Record::Begin(Box::new(self.begin.clone()));
        journal::begun(self.id, &begin)
    }

    /// Appends records. Where that fails they are appended with the next: what they speak of has
    /// happened.
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

    /// Appends bytes of the object, from an offset on; says where in the file they begin.
    pub(super) fn keep(&mut self, at: u64, bytes: &[u8]) -> io::Result<u64> {
        let before = self.length + (self.beginning().len() + self.pending.len()) as u64;
        let place = before + journal::HEAD as u64;
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let record = journal::framed(self.id, &Record::Bytes { at, length, place });
        self.append(&[journal::raw(self.id, bytes), record].concat())?;
        Ok(place)
    }

    /// Appends what is pending, and bytes behind it.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut all = self.beginning();
        all.extend_from_slice(&self.pending);
        all.extend_from_slice(bytes);
        let slot = match &mut self.slot {
            Some(slot) => slot,
            none => none.insert(self.slots.take()?),
        };
        slot.used();
        if let Err(error) = slot.file().write_all_at(&all, self.length) {
            // Whatever was written of it, nobody must read it behind what is written next.
            self.cut(self.length);
            return Err(error);
        }
        self.length += all.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Makes what was appended durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.is_lost {
            return Err(lost());
        }
        let Some(file) = self.file().filter(|_| !self.is_gone) else {
            return Ok(());
        };
        let synced = file.sync_data();
        self.is_lost |= synced.is_err();
        synced
    }

    /// Begins anew, durably, in one piece; after an error it goes on as before. `promised`: as something
    /// that was synced. Where its file can be told nothing any more it begins in another one. What it gives
    /// then is the first, to be held as long as anybody reads in it.
    pub(super) fn begin_anew(&mut self, begin: &Begin, promised: bool) -> io::Result<Option<Slot>> {
        let anew = |turn| Record::Anew {
            begin: Box::new(begin.clone()),
            promised,
            turn,
        };
        let (length, pending) = (self.length, self.pending.clone());
        if self.note(&[anew(0)]).is_ok() && self.sync().is_ok() {
            return Ok(None);
        }
        self.pending = pending;
        self.cut(length);
        let mut records = vec![anew(self.turn + 1)];
        records.extend(promised.then_some(Record::Synced));
        self.begin_elsewhere(&records)
    }

    /// Writes it anew into another file, durably: what stands in it now is how it begins, and what these
    /// records say. After an error it is as it was. What it gives is the file that it had: see
    /// [`Log::begin_anew`].
    pub(super) fn renew(
        &mut self,
        begin: Box<Begin>,
        mut records: Vec<Record>,
    ) -> io::Result<Option<Slot>> {
        let anew = Record::Anew {
            begin,
            promised: true,
            turn: self.turn + 1,
        };
        records.insert(0, anew);
        self.begin_elsewhere(&records)
    }

    /// Bytes beyond several times what it began with.
    pub(super) fn grown(&self) -> u64 {
        self.length.saturating_sub(2 * self.first)
    }

    fn begin_elsewhere(&mut self, records: &[Record]) -> io::Result<Option<Slot>> {
        let mut frames = Vec::new();
        for record in records {
            let frame = journal::framed(self.id, record);
            if frame.len() > journal::LONGEST {
                return Err(io::Error::other("a record is too long"));
            }
            frames.extend(frame);
        }
        let mut slot = self.slots.take()?;
        slot.used();
        if let Err(error) = journal::write_whole(slot.file(), self.id, &frames) {
            // It would be found, and count.
            self.is_lost |= slot.retire().is_err();
            return Err(error);
        }
        let before = self.slot.replace(slot);
        self.turn += 1;
        self.length = (journal::BLANK.len() + frames.len()) as u64;
        self.first = self.length;
        self.pending.clear();
        self.is_lost = false;
        Ok(before.map(|mut before| {
            // If it stays, the one of the later turn counts: see `Spool::recover`.
            if let Err(error) = before.retire() {
                tracing::warn!(%error, "cannot take a journal away that counts no more");
            }
            before
        }))
    }

    /// Takes back what stands from `length` on.
    fn cut(&mut self, length: u64) {
        self.length = length;
        let cut = self.file().map_or(Ok(()), |file| file.set_len(length));
        self.is_lost |= cut.is_err();
    }

    /// Takes it away, durably.
    pub(super) fn remove(&mut self) -> io::Result<()> {
        self.is_gone = true;
        self.slot.as_mut().map_or(Ok(()), Slot::blank)
    }
}

/// Why nothing more can be promised.
pub(super) fn lost() -> io::Error {
    io::Error::other("an earlier sync failed")
}

#[cfg(test)]
impl Log {
    /// Has it written elsewhere, from its beginning on.
    pub(super) fn write_to(&mut self, slot: Slot) {
        (self.slot, self.length, self.is_lost) = (Some(slot), 0, false);
    }

    /// Has what follows written elsewhere.
    pub(super) fn write_on_to(&mut self, slot: Slot) {
        self.slot = Some(slot);
    }
}
