//! The journal records of a draft. A whole draft takes few records, so that a journal that is
//! synced again and again does not grow without bound.

use super::writing::{Pinned, State};
use crate::spool::journal::{Base, Begin, Record};
use tidegate_origin::write::Headers;
use tidegate_origin::{CompletedPart, Sums, Upload};
use tidegate_plan::ETag;

/// Converts headers to their form in a journal.
pub(super) fn noted(headers: &Headers) -> Vec<(String, String)> {
    let noted = headers.iter().filter_map(|(name, value)| {
        let value = value.to_str().ok()?;
        Some((name.as_str().to_owned(), value.to_owned()))
    });
    noted.collect()
}

impl Pinned {
    /// Converts it to its form in a journal.
    pub(super) fn noted(&self) -> Base {
        Base {
            key: self.key.as_str().to_owned(),
            etag: self.version.etag.as_str().to_owned(),
            size: self.version.size,
        }
    }
}

impl Record {
    /// Records that an upload was begun with these headers.
    pub(super) fn upload(upload: &Upload, headers: &Headers) -> Self {
        Self::Upload {
            key: upload.key.as_str().to_owned(),
            id: upload.id.clone(),
            headers: noted(headers),
            sums: upload.sums,
        }
    }

    /// Records that a part, counted from 0, was sent.
    pub(super) fn part(index: u32, length: u64, etag: &ETag, sums: Sums) -> Self {
        Self::Part {
            index,
            length,
            etag: etag.as_str().to_owned(),
            crc64: sums.crc64,
            crc32c: sums.crc32c,
        }
    }

    /// Records the parts, counted from 1, that the object is completed from.
    pub(super) fn completing(parts: &[CompletedPart], before: Option<&ETag>) -> Self {
        let noted = |part: &CompletedPart| (part.number, part.etag.as_str().to_owned());
        Self::Completing {
            parts: parts.iter().map(noted).collect(),
            crc32c: all_sums(parts).unwrap_or_default(),
            before: before.map(|etag| etag.as_str().to_owned()),
        }
    }

    /// Records that an object with this tag is, or may be, in the bucket, and is ours.
    pub(super) fn tried(etag: &ETag) -> Self {
        Self::Tried {
            etag: etag.as_str().to_owned(),
        }
    }
}

/// Returns the checksums of the parts, if each has one.
fn all_sums(parts: &[CompletedPart]) -> Option<Vec<u32>> {
    parts.iter().map(|part| part.crc32c).collect()
}

impl State {
    /// Returns the beginning and the records of a new journal, valid once the bytes are durable.
    pub(super) fn noted(&self) -> (Box<Begin>, Vec<Record>) {
        let size = self.draft.base();
        let mut records = vec![Record::Cut { size }];
        records.extend(self.wrote());
        let upload = self.upload.as_ref();
        records.extend(upload.map(|upload| Record::upload(upload, &self.begun_with)));
        records.extend(self.sent());
        let gone = self.draft.gone_parts();
        records.extend(gone.map(|(index, _)| Record::Evicted { index }));
        records.extend((!self.draft.is_in_order()).then_some(Record::Scattered));
        records.extend(self.tried.noted());
        let completing = self.completing.as_deref();
        let before = self.before.as_ref();
        records.extend(completing.map(|parts| Record::completing(parts, before)));
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
            let sums = *self.sums.get(&index)?;
            Some(Record::part(index, sent.length, &sent.etag, sums))
        })
    }
}
