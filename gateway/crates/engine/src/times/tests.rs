//! The table of times by itself, and its file.

use tidegate_plan::ObjectKey;

use super::*;
use tidegate_origin::{FakeOrigin, Origin};

fn id(key: &str) -> ObjectId {
    ObjectId {
        origin: OriginId(1),
        key: ObjectKey::new(key).expect("a valid key"),
    }
}

fn etag(text: &str) -> ETag {
    ETag::parse(text).expect("a tag")
}

fn told(table: &TimeTable, key: &str, tag: &str) -> (Option<u64>, Option<u64>) {
    let tag = etag(tag);
    let stored = Some(Timestamp(1000));
    let shown = table.times_of((OriginId(1), key), Some(&tag), stored);
    (shown.modified.map(|it| it.0), shown.changed.map(|it| it.0))
}

#[test]
fn a_version_keeps_its_time_and_another_has_its_own() {
    let table = TimeTable::default();
    assert_eq!(told(&table, "a", "\"1\""), (Some(1000), Some(1000)));
    table.keep(
        &id("a"),
        &etag("\"1\""),
        Times::at(Timestamp(1543)),
        KnownAttributes::Unknown,
    );
    assert_eq!(told(&table, "a", "\"1\""), (Some(1543), Some(1543)));
    assert_eq!(told(&table, "a", "W/\"1\""), (Some(1543), Some(1543)));
    assert_eq!(told(&table, "a", "\"2\""), (Some(1000), Some(1543)));
    assert_eq!(told(&table, "b", "\"1\""), (Some(1000), Some(1000)));
    table.forget(&id("a"), Some(Timestamp(1600)));
    assert_eq!(told(&table, "a", "\"1\""), (Some(1000), Some(1600)));
    table.forget(&id("b"), None);
    assert_eq!(told(&table, "b", "\"1\""), (Some(1000), Some(1000)));
    assert_eq!(table.of_draft(&id("a")), None);
}

#[test]
fn a_version_has_one_time_under_every_identity_of_its_bucket() {
    let bucket = FakeOrigin::new();
    let (one, other) = (bucket.seen_by("one"), bucket.seen_by("other"));
    let named = |origin: &FakeOrigin| -> (String, Arc<dyn Origin>) {
        (String::new(), Arc::new(origin.clone()))
    };
    let identities = Arc::new(Identities::default());
    identities.add(&[named(&one)]);
    let table = TimeTable::new(identities.clone());
    // An origin that is configured later.
    identities.add(&[named(&other)]);
    let tag = etag("\"1\"");
    let id = ObjectId {
        origin: one.id(),
        ..id("a")
    };
    let times = Times::at(Timestamp(1543));
    table.keep(&id, &tag, times, KnownAttributes::Unknown);
    let told = |origin| table.times_of((origin, "a"), Some(&tag), None).modified;
    assert_eq!(told(other.id()), Some(Timestamp(1543)));
    assert_eq!(told(OriginId(3)), None);
}

#[tokio::test]
async fn what_was_kept_is_there_after_a_restart_and_a_torn_end_is_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || {
        let table = Arc::new(TimeTable::default());
        table.attach(folder.path());
        table
    };
    let table = open();
    for n in 0..20 {
        let times = Times::at(Timestamp(2000 + n));
        table.keep(&id("a"), &etag("\"1\""), times, KnownAttributes::Unknown);
        table.keep_draft(&id(&format!("{n}")), times);
    }
    table.write_out().await;
    drop(table);
    let path = folder
        .path()
        .join(<TimeRow as crate::table_log::rows::Row>::FILE_NAME);
    let mut bytes = std::fs::read(&path).expect("there");
    let whole = bytes.len();
    // A flipped bit in the last row, and half of another row after it.
    bytes[whole - 20] ^= 1;
    bytes.extend_from_slice(&[7; 13]);
    std::fs::write(&path, &bytes).expect("written");
    let table = open();
    assert_eq!(told(&table, "a", "\"1\""), (Some(2019), Some(2019)));
    let of = |n: u64| table.of_draft(&id(&format!("{n}")));
    assert_eq!(of(18), Some(Times::at(Timestamp(2018))));
    assert_eq!(of(19), None, "that row is not whole");
    table.keep_draft(&id("19"), Times::at(Timestamp(9)));
    table.write_out().await;
    assert_eq!(
        open().of_draft(&id("19")),
        Some(Times::at(Timestamp(9))),
        "what is written behind a torn end is read"
    );
}

#[test]
fn it_is_bounded_and_forgets_the_oldest() {
    let mut state = TimeTableState::default();
    let kept = |n: usize| TimeEntry {
        etag: 1,
        ..TimeEntry::none(Times::at(Timestamp(n as u64)))
    };
    for n in 0..3 * MAX_GENERATION {
        state.insert(n as u128, kept(n));
    }
    assert!(state.entries.len() <= 2 * MAX_GENERATION);
    assert_eq!(state.get(0), None);
    for n in [2 * MAX_GENERATION, 3 * MAX_GENERATION - 1] {
        assert_eq!(state.get(n as u128), Some(kept(n)));
    }
    assert_eq!(state.latest, Timestamp(3 * MAX_GENERATION as u64 - 1));
}
