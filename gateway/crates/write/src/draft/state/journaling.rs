//! The journal of a draft: its beginning, its records, and its files.

use std::sync::Arc;

use super::DraftState;
use super::upload::Completion;
use crate::draft::base_version::BaseVersion;
use crate::draft::phase::Step;
use crate::draft::records::header_pairs;
use crate::spool::file::SpoolFile;
use crate::spool::journal::{Base, Begin, Record};
use tidegate_origin::write::Headers;
use tidegate_plan::{ByteRange, ETag};

impl DraftState {
    /// Returns its files in the spool.
    pub(crate) fn file(&self) -> Option<&Arc<SpoolFile>> {
        self.journal.file()
    }

    /// Takes over files that were made for it.
    pub(crate) fn open_file(&mut self, file: Arc<SpoolFile>) {
        self.journal.open(file);
    }

    /// Forgets its files: nothing of it is promised any more. Returns them, which the caller removes, and the room that
    /// its bytes had in the spool.
    pub(crate) fn drop_file(&mut self) -> (Option<Arc<SpoolFile>>, u64) {
        let file = self.journal.close();
        self.step(Step::DropPromise);
        (file, self.take_room())
    }

    /// Drops the records that were not appended. Returns its files, whose journal the caller removes: a discarded draft
    /// keeps its data for the open handles.
    pub(crate) fn drop_journal(&mut self) -> Option<Arc<SpoolFile>> {
        self.journal.clear();
        self.file().cloned()
    }

    /// Releases the memory of the written bytes, which are read from the disk from now on. A
    /// failing origin may fail for long, and other writers want the memory.
    pub(crate) fn hold_no_memory(&self) {
        if let Some(file) = self.file() {
            file.let_go(ByteRange::new(0, u64::MAX));
        }
    }

    /// Takes the queued records and the journal's file. Without a file, the records stay queued.
    pub(crate) fn take_records(&mut self) -> Option<(Arc<SpoolFile>, Vec<Record>)> {
        let file = self.file().cloned()?;
        Some((file, self.journal.take_records()))
    }

    /// Queues records of the bytes written since the last ones.
    pub(super) fn note_written(&mut self) {
        self.journal.note_written(self.draft.size());
    }

    /// Begins a sync, after which a crash finds all of it. Returns the records to append.
    pub(crate) fn begin_sync(&mut self) -> Vec<Record> {
        self.note_written();
        self.step(Step::BeginSync);
        self.journal.take_records()
    }

    /// Begins the journal anew, on another base and without bytes in the spool. Returns its beginning.
    pub(crate) fn restart_journal(&mut self, base: &BaseVersion) -> Begin {
        self.journal.restart(self.uncertain.records());
        Begin {
            base: Some(base.journal_base()),
            ..self.beginning()
        }
    }

    /// Notes that the object with this tag is, or may be, in the bucket, and is ours. It has these headers, if they are
    /// known.
    pub(crate) fn add_uncertain(&mut self, etag: ETag, headers: Option<Headers>) {
        if let Some(record) = self.uncertain.add(etag, headers) {
            self.journal.push(record);
        }
    }

    /// Returns the first record of this draft's journal.
    pub(crate) fn beginning(&self) -> Begin {
        Begin {
            origin: self.id().origin.0,
            key: self.id().key.as_str().to_owned(),
            headers: header_pairs(self.headers()),
            guard: self.target.guard_word(),
            may_lack_guard: self.target.may_lack_guard(),
            base: self.journaled_base(),
            first_part: self.draft.sizes().first(),
            hidden: self.upload.is_staged(),
            replaces: self.replaced_edition.as_ref().map(|replaced| replaced.id),
            // The spool numbers it.
            order: 0,
        }
    }

    /// Returns the base for the journal, which names no other object.
    fn journaled_base(&self) -> Option<Base> {
        let base = self.base.as_ref();
        let base = base.filter(|_| self.copied_base().is_none());
        base.map(BaseVersion::journal_base)
    }

    /// Returns the beginning and the records of a new journal, valid once the bytes are durable.
    pub(crate) fn journal_snapshot(&self) -> (Box<Begin>, Vec<Record>) {
        let size = self.draft.base();
        let mut records = vec![Record::Cut { size }];
        records.extend(self.wrote());
        records.extend(self.upload.record());
        records.extend(self.sent());
        let gone = self.draft.gone_parts();
        records.extend(gone.map(|(index, _)| Record::Evicted { index }));
        records.extend((!self.draft.is_in_order()).then_some(Record::Scattered));
        records.extend(self.uncertain.records());
        records.extend(self.upload.completion().map(Completion::record));
        records.push(Record::Synced);
        (Box::new(self.beginning()), records)
    }

    /// Returns the ranges that are in the spool, and those that were before they left.
    fn wrote(&self) -> Vec<Record> {
        let mut extents = self.draft.local().clone();
        for (_, range) in self.draft.gone_parts() {
            extents.insert(range);
        }
        Record::wrote(self.draft.size(), &extents)
    }

    fn sent(&self) -> impl Iterator<Item = Record> {
        let sent = self.draft.sent_parts();
        sent.filter_map(|(index, sent)| {
            let sums = *self.upload.sums_of(index)?;
            Some(Record::part(index, sent.length, &sent.etag, sums))
        })
    }

    /// Returns what the journal lacks.
    #[cfg(test)]
    pub(crate) fn journal(&self) -> &super::journal_queue::JournalQueue {
        &self.journal
    }
}
