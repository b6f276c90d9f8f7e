//! Rebuilding a draft from the records of its journal.

use std::collections::BTreeMap;

use super::journal::{Base, Begin, Record};
use tidegate_origin::{CompletedPart, PartSums, Sums};
use tidegate_plan::upload::Draft;
use tidegate_plan::{ByteRange, ETag, PartSizes};

/// A draft as its journal describes it.
#[derive(Debug)]
pub(crate) struct Replayed {
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
pub(super) fn replay(records: &[Record]) -> Result<Replayed, Contradiction> {
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
    let mut replayed = Replayed {
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
    for (record, durable) in records.iter().zip(durable(records)).skip(1) {
        replayed.play(record, durable).ok_or(Contradiction)?;
    }
    replayed.draft.end_recall();
    Ok(replayed)
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

impl Replayed {
    /// Applies one record. Writes and evictions count once they were synced, because only synced
    /// bytes of a draft were promised. Sent parts, truncations and aborts always count, because
    /// they have happened elsewhere.
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
mod tests {
    use super::*;
    use tidegate_plan::upload::SendOccasion;

    fn beginning() -> Box<Begin> {
        let first_part = 10;
        Box::new(Begin {
            first_part,
            ..Begin::of("k")
        })
    }

    fn begin() -> Record {
        Record::Begin(beginning())
    }

    fn wrote(start: u64, end: u64) -> Record {
        Record::Wrote {
            size: end,
            extents: vec![(start, end)],
        }
    }

    fn part(index: u32) -> Record {
        Record::Part {
            index,
            length: 10,
            etag: "\"e\"".to_owned(),
            crc64: 0,
            crc32c: 0,
        }
    }

    /// A store compares the listed checksums with its own; earlier journals have none.
    #[test]
    fn what_it_is_completed_of_keeps_its_checksums() {
        let tags = ["\"a\"", "\"b\""].map(str::to_owned);
        let listed = |crc32c: &[u32]| {
            let completing = Record::Completing {
                parts: (1..).zip(tags.clone()).collect(),
                crc32c: crc32c.to_vec(),
                before: None,
            };
            let found = played(&[begin(), completing]).completing.expect("parts");
            Vec::from_iter(found.into_iter().map(|part| (part.number, part.crc32c)))
        };
        assert_eq!(listed(&[7, 9]), [(1, Some(7)), (2, Some(9))]);
        assert_eq!(listed(&[]), [(1, None), (2, None)]);
    }

    fn played(records: &[Record]) -> Replayed {
        replay(records).expect("they fit together")
    }

    #[test]
    fn counts_what_was_synced_and_what_was_sent() {
        let records = [
            begin(),
            wrote(0, 25),
            part(0),
            Record::Synced,
            part(1),
            wrote(25, 40),
        ];
        let replayed = played(&records);
        assert!(replayed.promised && !replayed.closed);
        assert_eq!(replayed.draft.size(), 25);
        let sent: Vec<_> = replayed
            .draft
            .sent_parts()
            .map(|(index, _)| index)
            .collect();
        assert_eq!(sent, [0, 1]);
        let rest = replayed
            .draft
            .next_job(SendOccasion::Closing)
            .map(|job| job.index);
        assert_eq!(rest, Some(2));
    }

    /// If a process ends in the sync before an eviction, the bytes are still there. Promised bytes
    /// among them are not lost with the others.
    #[test]
    fn what_leaves_the_spool_does_so_with_a_sync() {
        let mut records = vec![begin(), wrote(0, 25), Record::Synced, wrote(25, 100)];
        records.extend((0..3).map(part));
        records.push(Record::Evicted { index: 2 });
        let replayed = played(&records);
        assert_eq!(replayed.draft.local().bytes(), 25);
        assert!(!replayed.draft.has_gone_bytes());
        let rest = replayed
            .draft
            .next_job(SendOccasion::Closing)
            .map(|job| job.index);
        assert_eq!(rest, Some(2), "it was sent with more than was promised");
        records.push(Record::Synced);
        let replayed = played(&records);
        assert_eq!(replayed.draft.local().bytes(), 90);
        assert_eq!(replayed.draft.gone_parts().count(), 1);
    }

    #[test]
    fn bytes_are_in_the_journal_until_they_were_moved_durably() {
        let bytes = Record::Bytes {
            at: 4,
            length: 6,
            place: 90,
        };
        let kept = Some((ByteRange::new(4, 10), 90));
        let mut records = vec![begin(), bytes, wrote(4, 10)];
        assert_eq!(played(&records).kept, None);
        records.push(Record::Synced);
        assert_eq!(played(&records).kept, kept);
        records.push(Record::Moved);
        assert_eq!(played(&records).kept, kept);
        records.push(Record::Synced);
        assert_eq!(played(&records).kept, None);
    }

    #[test]
    fn what_one_process_did_not_sync_no_later_sync_makes_count() {
        let mut records = vec![begin(), wrote(0, 5), Record::Synced, wrote(5, 20)];
        records.extend([Record::Cut { size: 18 }, Record::Reopened, wrote(0, 2)]);
        assert_eq!(played(&records).draft.local().bytes(), 5);
        records.push(Record::Synced);
        let replayed = played(&records);
        assert_eq!(replayed.draft.local().bytes(), 5);
        assert!(replayed.promised);
    }

    #[test]
    fn a_part_written_to_again_is_sent_again() {
        let records = [
            begin(),
            wrote(0, 20),
            part(0),
            part(1),
            wrote(3, 4),
            Record::Synced,
        ];
        let replayed = played(&records);
        let next = replayed
            .draft
            .next_job(SendOccasion::Closing)
            .map(|job| job.index);
        assert_eq!(next, Some(0));
    }

    #[test]
    fn what_begins_anew_forgets_what_was_before() {
        let mut begin_anew = beginning();
        begin_anew.base = Some(Base {
            key: "hidden".to_owned(),
            etag: "\"e\"".to_owned(),
            size: 30,
        });
        for promised in [false, true] {
            let anew = Record::Anew {
                begin: begin_anew.clone(),
                promised,
                turn: 0,
            };
            let mut records = vec![begin(), wrote(0, 25), part(0), Record::Synced];
            records.extend([Record::Closed, anew, wrote(0, 5)]);
            let replayed = played(&records);
            assert_eq!((replayed.promised, replayed.closed), (promised, false));
            assert_eq!(replayed.begin.base, begin_anew.base);
            assert_eq!(replayed.draft.size(), 30);
            assert_eq!(replayed.draft.sent_parts().count(), 0);
            assert_eq!(replayed.draft.local().bytes(), 0);
            records.push(Record::Synced);
            assert_eq!(played(&records).draft.local().bytes(), 5);
        }
    }

    #[test]
    fn nothing_synced_is_nothing_promised() {
        let replayed = played(&[begin(), wrote(0, 5)]);
        assert!(!replayed.promised);
        assert_eq!(replay(&[Record::Synced]).err(), Some(Contradiction));
        assert_eq!(replay(&[]).err(), Some(Contradiction));
    }
}
