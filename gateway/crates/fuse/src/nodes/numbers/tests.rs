//! The table of numbers by itself, and its file.

use super::*;

const ORIGIN: OriginId = OriginId(7);

#[test]
fn a_number_belongs_to_one_key() {
    let table = NumberTable::default();
    table.keep(ORIGIN, "a", 10);
    assert_eq!(table.get(ORIGIN, "a"), Some(10));
    assert!(table.is_taken(ORIGIN, "b", 10) && !table.is_taken(ORIGIN, "a", 10));
    assert_eq!(table.get(OriginId(8), "a"), None);
    table.keep(ORIGIN, "b", 10);
    assert_eq!(table.get(ORIGIN, "a"), None, "the other has it now");
    table.keep(ORIGIN, "b", 11);
    assert!(!table.is_taken(ORIGIN, "c", 10));
    table.forget(ORIGIN, "b");
    assert!(!table.is_taken(ORIGIN, "c", 11));
}

#[test]
fn it_is_bounded_and_forgets_the_oldest() {
    let mut state = TableState::default();
    for n in 1..=3 * MAX_GENERATION as u64 {
        state.insert(u128::from(n), n);
    }
    assert!(state.all().len() <= 2 * MAX_GENERATION);
    assert_eq!((state.get(1), state.owner(1)), (None, None));
    for n in [2 * MAX_GENERATION as u64, 3 * MAX_GENERATION as u64] {
        assert_eq!(
            (state.get(n.into()), state.owner(n)),
            (Some(n), Some(n.into()))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn numbers_are_there_after_a_restart_and_a_torn_end_is_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || Arc::new(NumberTable::open(folder.path()));
    let table = open();
    for n in 0..20 {
        table.keep(ORIGIN, &format!("{n}"), 100 + n);
    }
    table.forget(ORIGIN, "3");
    table.keep(ORIGIN, "last", 300);
    table.write_out().await;
    drop(table);
    let path = folder.path().join(NumberRow::FILE_NAME);
    let mut bytes = std::fs::read(&path).expect("there");
    let whole = bytes.len();
    // A flipped bit in the last row, and half of another row after it.
    bytes[whole - 20] ^= 1;
    bytes.extend_from_slice(&[7; 13]);
    std::fs::write(&path, &bytes).expect("written");
    let table = open();
    assert_eq!(table.get(ORIGIN, "19"), Some(119));
    assert_eq!(table.get(ORIGIN, "3"), None);
    assert_eq!(table.get(ORIGIN, "last"), None, "that row is not whole");
    table.keep(ORIGIN, "last", 300);
    table.write_out().await;
    let last = open().get(ORIGIN, "last");
    assert_eq!(last, Some(300), "rows behind a torn end are read");
}
