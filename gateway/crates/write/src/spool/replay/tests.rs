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

fn played(records: &[Record]) -> ReplayedDraft {
    replay(records).expect("they fit together")
}

/// Returns the part that a close would send next.
fn next_part(replayed: &ReplayedDraft) -> Option<u32> {
    let job = replayed.draft.next_job(SendOccasion::Closing);
    job.map(|job| job.index)
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
    assert_eq!(next_part(&replayed), Some(2));
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
    assert_eq!(
        next_part(&replayed),
        Some(2),
        "it was sent with more than was promised"
    );
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

/// The bytes in between were written, and are not durable: zeros in their place are no state of the file.
#[test]
fn a_length_that_was_not_synced_brings_no_zeros() {
    let cut = |size| Record::Cut { size };
    let size_after = |unsynced: &[Record]| {
        let synced = [begin(), wrote(0, 25), Record::Synced];
        played(&[&synced[..], unsynced].concat()).draft.size()
    };
    // Appended, and then cut or grown.
    assert_eq!(size_after(&[wrote(25, 40), cut(30)]), 25);
    assert_eq!(size_after(&[wrote(25, 40), cut(100)]), 25);
    assert_eq!(size_after(&[cut(100)]), 25);
    assert_eq!(size_after(&[cut(10), cut(100)]), 10);
    assert_eq!(size_after(&[cut(10), wrote(10, 20), cut(22)]), 10);
    // Zeros in place of what was cut off: a range at the end was made zero.
    assert_eq!(size_after(&[cut(10), cut(25)]), 25);
    assert_eq!(size_after(&[wrote(10, 20), cut(10), cut(25)]), 25);
    // The next process goes on from there.
    assert_eq!(
        size_after(&[wrote(25, 40), cut(100), Record::Reopened, cut(30)]),
        25
    );
    let synced = [
        wrote(25, 40),
        cut(100),
        Record::Reopened,
        cut(30),
        Record::Synced,
    ];
    assert_eq!(size_after(&synced), 30);
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
    assert_eq!(next_part(&replayed), Some(0));
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
