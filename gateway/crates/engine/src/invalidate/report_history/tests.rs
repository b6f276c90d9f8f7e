use super::*;
use tidegate_plan::{ObjectKey, OriginId};

fn id(number: usize) -> ObjectId {
    ObjectId {
        origin: OriginId(1),
        key: ObjectKey::new(&format!("k{number}")).expect("a key"),
    }
}

fn change(id: &ObjectId, kind: ChangeKind, etag: &str) -> KeyChange {
    KeyChange {
        etag: ETag::parse(etag),
        ..KeyChange::of("b", &id.key, kind)
    }
}

#[test]
fn another_version_reported_since_contradicts_a_write() {
    let all = ReportedChanges::default();
    let (id, own) = (id(1), ETag::parse("\"a\"").expect("a tag"));
    let contradicts = |since| all.contradict(&id, &own, Timestamp(since));
    assert!(!contradicts(0));
    all.note(
        &id,
        &change(&id, ChangeKind::Created, "\"a\""),
        Timestamp(5),
    );
    assert!(!contradicts(0));
    all.note(
        &id,
        &change(&id, ChangeKind::Created, "\"b\""),
        Timestamp(6),
    );
    assert_eq!([contradicts(6), contradicts(7)], [true, false]);
    all.note(&id, &change(&id, ChangeKind::Removed, ""), Timestamp(8));
    assert!(contradicts(8));
}

#[test]
fn a_creation_outlasts_a_deletion_that_it_came_during() {
    let all = ReportedChanges::default();
    let id = id(1);
    let lately = |now| all.is_created_lately(&id, Timestamp(now));
    all.note(
        &id,
        &change(&id, ChangeKind::Created, "\"a\""),
        Timestamp(5),
    );
    assert_eq!(
        [lately(5), lately(60_004), lately(60_005)],
        [true, true, false]
    );
    all.note(&id, &change(&id, ChangeKind::Removed, ""), Timestamp(6));
    assert!(!lately(6));
}

#[test]
fn an_overtaken_change_contradicts_every_write_and_removal() {
    let all = ReportedChanges::default();
    let (id, own) = (id(1), ETag::parse("\"a\"").expect("a tag"));
    for kind in [ChangeKind::Created, ChangeKind::Removed] {
        let change = KeyChange {
            is_overtaken: true,
            ..change(&id, kind, "\"a\"")
        };
        all.note(&id, &change, Timestamp(5));
        assert!(all.contradict(&id, &own, Timestamp(5)), "{kind:?}");
        assert!(all.is_created_lately(&id, Timestamp(5)), "{kind:?}");
    }
}

#[test]
fn a_change_is_overtaken_by_one_of_its_key_that_was_noted_before() {
    let all = ReportedChanges::default();
    let (id, own) = (id(1), ETag::parse("\"a\"").expect("a tag"));
    let note = |etag, sequencer| {
        let change = KeyChange {
            sequencer: Sequencer::parse(sequencer),
            ..change(&id, ChangeKind::Created, etag)
        };
        all.note(&id, &change, Timestamp(5))
    };
    let contradicts = || all.contradict(&id, &own, Timestamp(5));
    assert!(!note("\"b\"", "02"));
    assert!(note("\"a\"", "01"));
    assert!(contradicts(), "the later one may stand");
    // A fleet's message has no sequencer: nothing is known of its place.
    assert!(!note("\"a\"", ""));
    assert!(note("\"a\"", "01"));
    assert!(!note("\"a\"", "02"));
    assert!(!note("\"a\"", "03"));
    assert!(!contradicts());
}

#[test]
fn an_own_removal_explains_one_event_after_it() {
    let all = ReportedChanges::default();
    let id = id(1);
    assert!(!all.take_own_removal(&id));
    all.note_own_removal(&id, Timestamp(5));
    assert_eq!([(); 2].map(|()| all.take_own_removal(&id)), [true, false]);
    // Its event came before the answer to its request.
    all.note(&id, &change(&id, ChangeKind::Removed, ""), Timestamp(6));
    all.note_own_removal(&id, Timestamp(7));
    assert!(!all.take_own_removal(&id));
}

#[test]
fn it_is_bounded_and_a_dropped_change_contradicts_every_write_before_it() {
    let all = ReportedChanges::default();
    let own = ETag::parse("\"a\"").expect("a tag");
    for number in 0..3 * MAX_GENERATION {
        let id = id(number);
        let at = Timestamp(number as u64);
        all.note(&id, &change(&id, ChangeKind::Created, "\"b\""), at);
    }
    assert!(all.lock().last.len() <= 2 * MAX_GENERATION);
    let last_dropped = Timestamp(MAX_GENERATION as u64 - 1);
    let unknown = id(usize::MAX);
    assert!(all.contradict(&unknown, &own, last_dropped));
    assert!(!all.contradict(&unknown, &own, last_dropped.plus(Duration::from_millis(1))));
}
