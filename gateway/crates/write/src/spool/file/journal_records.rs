//! The journal of a draft as a test sees it.

use super::super::journal::Record;
use super::super::journal::ends::records_with_ends;
use super::super::replay::{ReplayedDraft, replay};
use super::SpoolFile;

/// The records of a journal.
#[derive(Debug, Clone)]
pub(crate) struct JournalRecords {
    /// The file has them.
    pub(crate) written: Vec<Record>,
    /// They go into the file with the next ones.
    pub(crate) waiting: Vec<Record>,
}

impl SpoolFile {
    /// Returns the journal; `None`: it was removed.
    pub(crate) fn journaled(&self) -> Option<JournalRecords> {
        let (written, waiting) = self.journal().log.bytes()?;
        let of = |bytes: &[u8]| {
            let records = records_with_ends(bytes).unwrap_or_default();
            records.into_iter().map(|(record, _)| record).collect()
        };
        Some(JournalRecords {
            written: of(&written),
            waiting: of(&waiting),
        })
    }
}

/// Returns the draft that records describe; `None`: they do not fit together.
pub(crate) fn replayed(records: &[Record]) -> Option<ReplayedDraft> {
    replay(records).ok()
}
