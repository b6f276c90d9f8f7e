use proptest::prelude::*;

use super::*;
use tidegate_plan::ByteRange;

fn records() -> Vec<Record> {
    vec![
        Record::Wrote {
            size: 10,
            extents: vec![(0, 4), (6, 10)],
        },
        Record::Bytes {
            at: 0,
            length: 5,
            place: 29,
        },
        Record::Synced,
        Record::Part {
            index: 0,
            length: 10,
            etag: "\"e\"".to_owned(),
            crc64: u64::MAX,
            crc32c: 7,
        },
        Record::Closed,
    ]
}

proptest! {
    /// All records before a torn end are read unchanged, also with the rest of an earlier
    /// journal after it.
    #[test]
    fn a_torn_end_costs_nothing_before_it(
        cut in 0..400_usize,
        flip in prop::option::of((0..400_usize, 0..8_u8)),
        before in prop::option::of(0..400_usize),
    ) {
        let mut bytes = head(7);
        let mut ends = vec![bytes.len()];
        for record in records() {
            if matches!(record, Record::Bytes { .. }) {
                bytes.extend(raw(7, b"bytes"));
            }
            bytes.extend(framed(7, &record));
            ends.push(bytes.len());
        }
        let whole = bytes.clone();
        bytes.truncate(cut);
        if let Some((at, bit)) = flip.filter(|(at, _)| (BLANK_HEAD.len()..bytes.len()).contains(at)) {
            bytes[at] ^= 1 << bit;
        }
        if let Some(shift) = before {
            // Whole frames, some of which begin where the truncated ones would have.
            let earlier = records().iter().map(|it| framed(8, it)).collect::<Vec<_>>().concat();
            bytes.extend_from_slice(&earlier[shift.min(earlier.len())..]);
        }
        let sound = whole.iter().zip(&bytes).take_while(|(a, b)| a == b).count();
        let found = read(&bytes);
        // The head is one sector, which is written completely or not at all.
        if sound < BLANK_HEAD.len() {
            let has_records = matches!(found, JournalContents::Journal { records, .. } if !records.is_empty());
            prop_assert!(!has_records);
            return Ok(());
        }
        let JournalContents::Journal { id, records: found, sound: length } = found else {
            panic!("it has its head");
        };
        prop_assert_eq!(id, 7);
        let count = ends.iter().filter(|end| **end <= sound).count() - 1;
        prop_assert_eq!(&found[..], &records()[..count]);
        // After the last record there may be the bytes of one that is cut off.
        prop_assert!((ends[count] as u64..=sound as u64).contains(&length));
    }
}

/// A file with scattered writes over a long time.
#[test]
fn no_record_is_too_long_to_be_read() {
    let mut extents = Extents::default();
    for n in 0..250_000 {
        let start = (1 << 40) + n * 8192;
        extents.insert(ByteRange::new(start, start + 4096));
    }
    let records = Record::wrote(1 << 42, &extents);
    assert_eq!(records.len(), 3);
    assert!(
        records
            .iter()
            .all(|it| framed(7, it).len() < MAX_RECORD_BYTES / 8)
    );
    let frames = records.iter().map(|it| framed(7, it)).collect::<Vec<_>>();
    let JournalContents::Journal { records: found, .. } =
        read(&[head(7), frames.concat()].concat())
    else {
        panic!("it has its head");
    };
    assert_eq!(found, records);
}

/// Parts that an earlier version has sent are not sent again.
#[test]
fn words_that_came_later_may_be_missing() {
    let part = br#"{"Part":{"index":3,"length":10,"etag":"\"e\"","crc64":5}}"#;
    let known = Record::Part {
        index: 3,
        length: 10,
        etag: "\"e\"".to_owned(),
        crc64: 5,
        crc32c: 0,
    };
    assert_eq!(serde_json::from_slice::<Record>(part).expect("read"), known);
    let upload = br#"{"Upload":{"key":"k","id":"i","headers":[]}}"#;
    let known = Record::Upload {
        key: "k".to_owned(),
        id: "i".to_owned(),
        headers: vec![],
        sums: PartSums::Crc64,
    };
    assert_eq!(
        serde_json::from_slice::<Record>(upload).expect("read"),
        known
    );
}

#[test]
fn another_format_is_not_read() {
    assert_eq!(
        read(b"tidegate-spool-2\nand what was in it"),
        JournalContents::OtherFormat(OtherData::Elsewhere)
    );
    assert_eq!(
        read(b"and what is none at all"),
        JournalContents::OtherFormat(OtherData::Unknown)
    );
    assert_eq!(
        [read(b""), read(&[0; 100])],
        [JournalContents::Blank, JournalContents::Blank]
    );
}

/// A head that was torn, byte by byte, while it was written or blanked.
#[test]
fn a_torn_head_makes_no_journal() {
    let whole = begun(7, &Record::Synced);
    for at in 1..BLANK_HEAD.len() {
        let (mut written, mut blanked) = (whole.clone(), whole.clone());
        written[at..BLANK_HEAD.len()].fill(0);
        blanked[..at].fill(0);
        let found = [read(&written), read(&blanked), read(&whole[..at])];
        assert_eq!(
            found,
            [
                JournalContents::Blank,
                JournalContents::Blank,
                JournalContents::Blank
            ],
            "{at}"
        );
    }
}

#[test]
fn bytes_that_the_disk_does_not_have_are_not_read() {
    let mut file = tempfile::tempfile().expect("a file");
    let place = (BLANK_HEAD.len() + FRAME_HEAD_BYTES) as u64;
    let whole = [head(7), raw(7, b"bytes"), framed(7, &Record::Synced)].concat();
    file.write_all_at(&whole, 0).expect("written");
    assert_eq!(read_raw(&file, 7, place).expect("read"), b"bytes");
    assert!(read_raw(&file, 8, place).is_err());
    for at in BLANK_HEAD.len()..BLANK_HEAD.len() + FRAME_HEAD_BYTES + 5 {
        let mut lost = whole.clone();
        lost[at] ^= 1;
        file.write_all_at(&lost, 0).expect("written");
        assert!(read_raw(&file, 7, place).is_err(), "{at}");
    }
    file = tempfile::tempfile().expect("a file");
    assert!(read_raw(&file, 7, place).is_err());
}
