//! The files of a draft in the spool, and what their journal lacks.

use std::sync::Arc;

use crate::spool::file::SpoolFile;
use crate::spool::journal::Record;
use tidegate_plan::{ByteRange, Extents};

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct JournalQueue {
    file: Option<Arc<SpoolFile>>,
    /// Records to append to the journal.
    records: Vec<Record>,
    /// Bytes written since the last record of them.
    unnoted: Extents,
}

impl JournalQueue {
    pub(super) fn file(&self) -> Option<&Arc<SpoolFile>> {
        self.file.as_ref()
    }

    pub(super) fn push(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Notes that a range was written.
    pub(super) fn add_written(&mut self, range: ByteRange) {
        self.unnoted.insert(range);
    }

    /// Queues records of the bytes written since the last ones. The draft has `size` bytes.
    pub(super) fn note_written(&mut self, size: u64) {
        if self.unnoted.iter().next().is_some() {
            let unnoted = std::mem::take(&mut self.unnoted);
            self.records.extend(Record::wrote(size, &unnoted));
        }
    }

    /// Takes the queued records.
    pub(super) fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    /// Replaces the queued records, because the journal begins anew.
    pub(super) fn restart(&mut self, records: Vec<Record>) {
        self.records = records;
    }

    /// Drops what was not appended.
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.forget_written();
    }

    /// Forgets the bytes written since the last record of them.
    pub(super) fn forget_written(&mut self) {
        self.unnoted = Extents::default();
    }

    /// Takes over the files, which have the records from here on.
    pub(super) fn open(&mut self, file: Arc<SpoolFile>) {
        self.file = Some(file);
    }

    /// Takes the files, and drops what was not appended.
    pub(super) fn close(&mut self) -> Option<Arc<SpoolFile>> {
        self.clear();
        self.file.take()
    }

    /// Returns the queued records.
    #[cfg(test)]
    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns all records that the journal lacks.
    #[cfg(test)]
    pub(crate) fn lacking(&self, size: u64) -> Vec<Record> {
        let mut all = Self {
            file: None,
            records: self.records.clone(),
            unnoted: self.unnoted.clone(),
        };
        all.note_written(size);
        all.records
    }
}
