use super::*;
use tidegate_plan::ChangeKind;

const SECOND: Duration = Duration::from_secs(1);

fn change(bucket: &str, key: &str, kind: ChangeKind) -> KeyChange {
    KeyChange::of(bucket, &ObjectKey::new(key).expect("a key"), kind)
}

fn created(bucket: &str, key: &str) -> KeyChange {
    change(bucket, key, ChangeKind::Created)
}

#[test]
fn changes_are_remembered_until_their_gateway_has_had_its_time() {
    let now = Instant::now();
    let mut turns = HookTurns::default();
    turns.defer(created("a", "1"), now, Duration::ZERO);
    turns.defer(created("b", "2"), now, SECOND);
    turns.defer(created("a", "3"), now, SECOND);
    turns.expire(now + SECOND);
    let due = turns.take(None, |bucket| bucket == "a");
    assert_eq!(due, [DeferredChange::Key(created("a", "3"))]);
    let due = turns.take(None, |_| true);
    assert_eq!(due, [DeferredChange::Key(created("b", "2"))]);
    assert_eq!(turns.take(None, |_| true), []);
}

#[test]
fn a_key_is_remembered_once_with_its_last_change() {
    let now = Instant::now();
    let mut turns = HookTurns::default();
    let overtaken = |key| KeyChange {
        is_overtaken: true,
        ..created("a", key)
    };
    let removed = change("a", "1", ChangeKind::Removed);
    for one in [created("a", "1"), removed.clone(), overtaken("1")] {
        turns.defer(one, now, SECOND);
    }
    turns.defer(overtaken("2"), now, SECOND);
    let due = turns.take(None, |_| true);
    assert_eq!(due, [removed, overtaken("2")].map(DeferredChange::Key));
}

#[test]
fn what_was_called_is_forgotten_and_what_came_late_is_not() {
    let now = Instant::now();
    let (mut turns, later) = (HookTurns::default(), now + SECOND);
    for bucket in ["a", "b"] {
        turns.defer(created(bucket, "1"), now, 60 * SECOND);
        turns.defer(created(bucket, "2"), later, 60 * SECOND);
    }
    turns.settle(later, |bucket| bucket == "a");
    let due = turns.take(None, |bucket| bucket == "a");
    assert_eq!(due, [DeferredChange::Key(created("a", "2"))]);
    let due = turns.take(Some(later), |_| true);
    assert_eq!(due, [DeferredChange::Key(created("b", "2"))]);
    let due = turns.take(None, |_| true);
    assert_eq!(due, [DeferredChange::Key(created("b", "1"))]);
}

#[test]
fn they_are_bounded_and_none_is_dropped() {
    let now = Instant::now();
    let mut turns = HookTurns::default();
    turns.defer(created("small", "1"), now, 3 * SECOND);
    for n in 0..MAX_KEYS {
        turns.defer(created("a", &format!("x/y/{n}")), now, SECOND);
    }
    assert!(turns.0.values().map(BucketTurns::keys).sum::<usize>() <= MAX_KEYS);
    let last = change("a", "x/z/1", ChangeKind::Removed);
    turns.defer(last, now + SECOND, SECOND);
    let folder = FolderChange {
        bucket: "a".to_owned(),
        folder: "x/".to_owned(),
        kinds: vec![ChangeKind::Created, ChangeKind::Removed],
        count: MAX_KEYS as u64 + 1,
    };
    turns.expire(now + 2 * SECOND);
    let due = turns.take(None, |bucket| bucket == "a");
    assert_eq!(due, [DeferredChange::Folder(folder)]);
    turns.defer(created("a", "2"), now, SECOND);
    let due = turns.take(None, |bucket| bucket == "a");
    assert_eq!(due, [DeferredChange::Key(created("a", "2"))], "keys again");
    let due = turns.take(None, |_| true);
    assert_eq!(due, [DeferredChange::Key(created("small", "1"))]);
}
