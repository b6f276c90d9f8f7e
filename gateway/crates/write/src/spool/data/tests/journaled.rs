//! Small objects that are in memory or in a journal, and have no file.

use super::*;

/// A small object has no file, also if it must be durable.
#[test]
fn what_fills_no_block_stays_in_memory_or_goes_into_the_journal() {
    let directory = tempfile::tempdir().expect("a folder");
    let data = data(directory.path(), 64 * MIB);
    assert!(data.take_in(0, &pattern(1, 8192).into()) && data.take_in(8192, &"more".into()));
    let some = ByteRange::new(8190, 9000);
    assert_eq!(data.at_hand(some).expect("there").len(), 6);
    let journal = journal(directory.path());
    assert_eq!(
        data.sync(&journal).expect("durable"),
        SyncLocation::InJournal
    );
    assert_eq!(data.at_hand(some), None, "it holds no memory");
    assert_eq!(
        data.first(some).expect("read")[..6],
        data.read(some).expect("read")[..6]
    );
    assert_eq!(length(&data), None);

    let mut truth = Truth(&data, [&pattern(1, 8192)[..], b"more"].concat());
    truth.holds();
    truth.put(4096 * 5, &pattern(2, 100));
    truth.put(8000, &pattern(3, 300));
    assert!(length(&data).is_some());
    assert_eq!(data.sync(no_journal).expect("durable"), SyncLocation::Moved);
    truth.holds();
}

/// Bytes in a journal are the written ones, at any offset of the object.
#[test]
fn what_is_in_the_journal_can_be_cut_and_written_to() {
    let directory = tempfile::tempdir().expect("a folder");
    for (at, size) in [
        (0, 100),
        (8192, 9000),
        (8192, 8192),
        (8192, 100),
        (8192, 20000),
    ] {
        let data = data(directory.path(), 64 * MIB);
        let mut truth = Truth(&data, Vec::new());
        truth.put(at, &pattern(1, 5000));
        data.sync(journal(directory.path())).expect("durable");
        truth.holds();
        data.cut(size).expect("cut");
        truth.1.truncate(size as usize);
        truth.1.resize(30000, 0);
        truth.holds();
        truth.put(size, &pattern(2, 50));
    }
}
