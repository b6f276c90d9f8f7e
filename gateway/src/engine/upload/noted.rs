//! A draft as a journal of few records tells it: one that is synced again and again must not grow for ever.

use super::writing::{State, noted};
use crate::engine::spool::journal::{Begin, Record};

impl State {
    /// How its journal begins and what it says, once it was told everything and the bytes are durable.
    pub(super) fn noted(&self) -> (Box<Begin>, Vec<Record>) {
        let size = self.draft.base();
        let mut records = vec![Record::Cut { size }];
        records.extend(self.wrote());
        records.extend(self.upload.as_ref().map(|upload| Record::Upload {
            key: upload.key.as_str().to_owned(),
            id: upload.id.clone(),
            headers: noted(&self.begun_with),
        }));
        records.extend(self.sent());
        let gone = self.draft.gone();
        records.extend(gone.map(|(index, _)| Record::Evicted { index }));
        records.extend((!self.draft.is_in_order()).then_some(Record::Scattered));
        records.extend(self.tried.noted());
        records.extend(self.completing.as_ref().map(|parts| {
            let parts = parts.iter();
            let parts = parts.map(|(number, etag)| (*number, etag.as_str().to_owned()));
            Record::Completing {
                parts: parts.collect(),
            }
        }));
        records.push(Record::Synced);
        (Box::new(self.beginning()), records)
    }

    /// What is in the spool, and what was there before it left.
    fn wrote(&self) -> Vec<Record> {
        let mut extents = self.draft.local().clone();
        for (_, range) in self.draft.gone() {
            extents.insert(range);
        }
        Record::wrote(self.draft.size(), &extents)
    }

    fn sent(&self) -> impl Iterator<Item = Record> {
        let sent = self.draft.sent();
        sent.filter_map(|(index, sent)| {
            Some(Record::Part {
                index,
                length: sent.length,
                etag: sent.etag.as_str().to_owned(),
                crc64: *self.sums.get(&index)?,
            })
        })
    }
}
