//! Rebuilding a draft from the records of its journal.

use std::collections::BTreeMap;

use super::journal::{Base, Begin, Record};
use tidegate_origin::{CompletedPart, PartSums, Sums};
use tidegate_plan::upload::Draft;
use tidegate_plan::{ByteRange, ETag, PartSizes};

/// A draft as its journal describes it.
#[derive(Debug)]
pub(crate) struct ReplayedDraft {
    /// Its beginning, with the current headers.
    pub(crate) begin: Begin,
    /// The ranges of its bytes and their places.
    pub(crate) draft: Draft,
    /// The checksums of sent parts. The data file may have other bytes, written later and not made
    /// durable.
    pub(crate) sums: BTreeMap<u32, Sums>,
    /// The upload under way.
    pub(crate) upload: Option<BegunUpload>,
    /// Bytes that are in the journal and not in the data file: their range, and their offset in the
    /// journal.
    pub(crate) kept: Option<(ByteRange, u64)>,
    /// The parts of a completion under way.
    pub(crate) completing: Option<Vec<CompletedPart>>,
    /// The tag of the earlier object under the key, if its own will not be known.
    pub(crate) before: Option<ETag>,
    /// The tags of its states that may be in the bucket.
    pub(crate) tried: Vec<ETag>,
    /// Whether anything was promised: a `fsync` or `close` returned.
    pub(crate) promised: bool,
    /// Whether it was closed.
    pub(crate) closed: bool,
}

/// An upload as a journal describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BegunUpload {
    pub(crate) key: String,
    pub(crate) id: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) sums: PartSums,
}

/// A journal whose records do not fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the journal contradicts itself")]
pub(super) struct Contradiction;

/// Applies the records of a journal.
pub(super) fn replay(records: &[Record]) -> Result<ReplayedDraft, Contradiction> {
    let anew = |record: &Record| matches!(record, Record::Anew { .. });
    let records = &records[records.iter().rposition(anew).unwrap_or(0)..];
    let (begin, promised) = match records.first() {
        Some(Record::Begin(begin)) => (begin, false),
        Some(Record::Anew {
            begin, promised, ..
        }) => (begin, *promised),
        _ => return Err(Contradiction),
    };
    let base = begin.base.as_ref().map_or(0, |base: &Base| base.size);
    let mut replayed = ReplayedDraft {
        begin: (**begin).clone(),
        draft: Draft::new(PartSizes::new(begin.first_part), base),
        sums: BTreeMap::new(),
        upload: None,
        kept: None,
        completing: None,
        before: None,
        tried: Vec::new(),
        promised: promised || records.contains(&Record::Synced),
        closed: false,
    };
    let mut unsynced = UnsyncedLength::since(base);
    for (record, durable) in records.iter().zip(durable(records)).skip(1) {
        let played = match record {
            Record::Cut { size } if !durable => {
                let size = unsynced.cut(replayed.draft.size(), *size);
                replayed.cut(size)
            }
            record => replayed.play(record, durable),
        };
        played.ok_or(Contradiction)?;
        match record {
            Record::Wrote { extents, .. } if !durable => unsynced.note_written(extents),
            Record::Reopened => unsynced = UnsyncedLength::since(replayed.draft.size()),
            _ if durable => unsynced = UnsyncedLength::since(replayed.draft.size()),
            _ => {}
        }
    }
    replayed.draft.end_recall();
    Ok(replayed)
}

/// The changes of the length since the last sync of a process that ended.
struct UnsyncedLength {
    /// The length that is durable.
    synced: u64,
    /// The end of the bytes that were written since. They are not in the draft.
    written: u64,
}

impl UnsyncedLength {
    fn since(synced: u64) -> Self {
        Self { synced, written: 0 }
    }

    fn note_written(&mut self, extents: &[(u64, u64)]) {
        let ends = extents.iter().map(|(_, end)| *end);
        self.written = ends.fold(self.written, u64::max);
    }

    /// Returns the length of the draft, `now` bytes long, after a change to `size` bytes that was not synced. Bytes that
    /// were cut off are gone. Zeros come in place of them, up to the durable length, but never in place of bytes that were
    /// written and are not in the draft.
    fn cut(&mut self, now: u64, size: u64) -> u64 {
        let is_zero = self.written <= now;
        self.written = self.written.min(size);
        match size <= now || (is_zero && size <= self.synced) {
            true => size,
            false => now,
        }
    }
}

/// Returns which records describe bytes that the writing process synced.
fn durable(records: &[Record]) -> Vec<bool> {
    let mut synced = false;
    let backwards = records.iter().rev().map(|record| {
        synced = match record {
            Record::Synced => true,
            Record::Reopened => false,
            _ => synced,
        };
        synced
    });
    let mut durable = Vec::from_iter(backwards);
    durable.reverse();
    durable
}

impl ReplayedDraft {
    /// Applies one record. Writes and evictions count once they were synced, because only synced
    /// bytes of a draft were promised. Sent parts and aborts always count, because they have happened elsewhere. Of a
    /// truncation that was not synced counts what it cut off ([`UnsyncedLength`]).
    fn play(&mut self, record: &Record, durable: bool) -> Option<()> {
        match record {
            Record::Begin(_) | Record::Anew { .. } => return None,
            Record::Wrote { size, extents } if durable => self.write(*size, extents)?,
            Record::Bytes { at, length, place } if durable => {
                let range = ByteRange::new(*at, at.checked_add(u64::from(*length))?);
                self.kept = Some((range, *place));
            }
            Record::Moved if durable => self.kept = None,
            Record::Evicted { index } if durable => self.draft.recall_evicted(*index),
            Record::Wrote { .. } => self.completing = None,
            Record::Bytes { .. } | Record::Moved | Record::Evicted { .. } => {}
            Record::Synced | Record::Reopened => {}
            Record::Cut { size } => self.cut(*size)?,
            Record::Headers(headers) => self.begin.headers.clone_from(headers),
            Record::Upload {
                key,
                id,
                headers,
                sums,
            } => {
                self.upload = Some(BegunUpload {
                    key: key.clone(),
                    id: id.clone(),
                    headers: headers.clone(),
                    sums: *sums,
                });
            }
            Record::Part {
                index,
                length,
                etag,
                crc64,
                crc32c,
            } => {
                let (crc64, crc32c) = (*crc64, *crc32c);
                self.sums.insert(*index, Sums { crc64, crc32c });
                self.draft.recall_sent(*index, *length, ETag::parse(etag)?);
            }
            Record::Unsent => {
                self.draft.forget_sent();
                self.upload = None;
                self.completing = None;
            }
            Record::Completing {
                parts,
                crc32c,
                before,
            } => {
                self.before = before.as_deref().and_then(ETag::parse);
                self.completing = listed(parts, crc32c);
            }
            Record::Tried { etag } => self.tried.push(ETag::parse(etag)?),
            Record::Scattered => self.draft.recall_scattered(),
            Record::Closed => self.closed = true,
        }
        Some(())
    }

    fn write(&mut self, size: u64, extents: &[(u64, u64)]) -> Option<()> {
        for (start, end) in extents {
            let range = ByteRange::new(*start, *end);
            self.draft.begin_write(range).ok()?;
            self.draft.end_write(range);
        }
        if size > self.draft.size() {
            self.draft.truncate(size).ok()?;
        }
        self.completing = None;
        Some(())
    }

    fn cut(&mut self, size: u64) -> Option<()> {
        self.draft.truncate(size).ok()?;
        let rest = self.kept.take();
        self.kept = rest
            .and_then(|(range, place)| Some((range.intersect(ByteRange::new(0, size))?, place)));
        self.completing = None;
        Some(())
    }
}

/// Returns the parts as a completion lists them.
fn listed(parts: &[(u32, String)], crc32c: &[u32]) -> Option<Vec<CompletedPart>> {
    let sums = crc32c.iter().copied().map(Some);
    let sums = sums.chain(std::iter::repeat(None));
    let part = |((number, etag), crc32c): (&(u32, String), Option<u32>)| {
        Some(CompletedPart {
            number: *number,
            etag: ETag::parse(etag)?,
            crc32c,
        })
    };
    parts.iter().zip(sums).map(part).collect()
}

#[cfg(test)]
mod tests;
