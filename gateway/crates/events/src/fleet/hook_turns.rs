//! The changes whose hooks another gateway calls. They are remembered for as long as that gateway's hooks put a call off,
//! in case it is lost before. Its retries after that are not covered.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tidegate_plan::{FolderChange, KeyChange, ObjectKey};
use tokio::time::Instant;

/// The most keys that are remembered. With more, one folder stands for all keys of the bucket that has the most.
const MAX_KEYS: usize = 1 << 14;

/// A remembered change.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Deferred {
    Key(KeyChange),
    Folder(FolderChange),
}

/// The changes by the names of their buckets.
#[derive(Debug, Default)]
pub(super) struct HookTurns(HashMap<String, BucketTurns>);

#[derive(Debug)]
enum BucketTurns {
    /// The last change of each key.
    Keys(BTreeMap<ObjectKey, Turn<KeyChange>>),
    /// Too many for a list.
    Folder(Turn<FolderChange>),
}

#[derive(Debug)]
struct Turn<T> {
    change: T,
    /// The time of its last change.
    at: Instant,
    /// The time until which it is remembered.
    until: Instant,
}

impl HookTurns {
    /// Remembers a change for a time. It takes the place of one of its key, unless that one has overtaken it.
    pub(super) fn defer(&mut self, change: KeyChange, now: Instant, time: Duration) {
        let bucket = change.bucket.clone();
        let none = || BucketTurns::Keys(BTreeMap::new());
        let turns = self.0.entry(bucket).or_insert_with(none);
        turns.add(change, now, now + time);
        let keys: usize = self.0.values().map(BucketTurns::keys).sum();
        if keys > MAX_KEYS {
            let largest = self.0.values_mut().max_by_key(|turns| turns.keys());
            largest.into_iter().for_each(BucketTurns::widen);
        }
    }

    /// Forgets the changes whose time is over.
    pub(super) fn expire(&mut self, now: Instant) {
        self.retain(|_, _, until| now <= until);
    }

    /// Forgets the changes before a time of the buckets that `are_called` accepts.
    pub(super) fn settle(&mut self, since: Instant, are_called: impl Fn(&str) -> bool) {
        self.retain(|bucket, at, _| at >= since || !are_called(bucket));
    }

    /// Removes and returns the changes since a time, or all, of the buckets that `is_own` accepts.
    pub(super) fn take(
        &mut self,
        since: Option<Instant>,
        is_own: impl Fn(&str) -> bool,
    ) -> Vec<Deferred> {
        let is_due = |at: Instant| since.is_none_or(|since| at >= since);
        let mut due = Vec::new();
        for (_, turns) in self.0.iter_mut().filter(|(bucket, _)| is_own(bucket)) {
            match turns {
                BucketTurns::Keys(keys) => {
                    let taken = keys.extract_if(.., |_, turn| is_due(turn.at));
                    due.extend(taken.map(|(_, turn)| Deferred::Key(turn.change)));
                }
                BucketTurns::Folder(turn) if is_due(turn.at) => {
                    due.push(Deferred::Folder(turn.change.clone()));
                    *turns = BucketTurns::Keys(BTreeMap::new());
                }
                BucketTurns::Folder(_) => {}
            }
        }
        due
    }

    /// Keeps what `keeps` accepts by its bucket, its time and its end.
    fn retain(&mut self, keeps: impl Fn(&str, Instant, Instant) -> bool) {
        self.0.retain(|bucket, turns| match turns {
            BucketTurns::Keys(keys) => {
                keys.retain(|_, turn| keeps(bucket, turn.at, turn.until));
                !keys.is_empty()
            }
            BucketTurns::Folder(turn) => keeps(bucket, turn.at, turn.until),
        });
    }
}

impl BucketTurns {
    fn keys(&self) -> usize {
        match self {
            Self::Keys(keys) => keys.len(),
            Self::Folder(_) => 0,
        }
    }

    fn add(&mut self, change: KeyChange, at: Instant, until: Instant) {
        match self {
            Self::Keys(keys) => {
                let change = match keys.remove(&change.key) {
                    Some(old) if change.is_overtaken => old.change,
                    _ => change,
                };
                keys.insert(change.key.clone(), Turn { change, at, until });
            }
            Self::Folder(turn) => {
                turn.change.add(&change);
                (turn.at, turn.until) = (at, turn.until.max(until));
            }
        }
    }

    /// Has one folder stand for all keys.
    fn widen(&mut self) {
        let Self::Keys(keys) = self else { return };
        let mut turns = std::mem::take(keys).into_values();
        let Some(first) = turns.next() else { return };
        let mut folder = Turn {
            change: FolderChange::of(&first.change),
            at: first.at,
            until: first.until,
        };
        for turn in turns {
            folder.change.add(&turn.change);
            folder.at = folder.at.max(turn.at);
            folder.until = folder.until.max(turn.until);
        }
        *self = Self::Folder(folder);
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(due, [Deferred::Key(created("a", "3"))]);
        let due = turns.take(None, |_| true);
        assert_eq!(due, [Deferred::Key(created("b", "2"))]);
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
        assert_eq!(due, [removed, overtaken("2")].map(Deferred::Key));
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
        assert_eq!(due, [Deferred::Key(created("a", "2"))]);
        let due = turns.take(Some(later), |_| true);
        assert_eq!(due, [Deferred::Key(created("b", "2"))]);
        let due = turns.take(None, |_| true);
        assert_eq!(due, [Deferred::Key(created("b", "1"))]);
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
        assert_eq!(due, [Deferred::Folder(folder)]);
        turns.defer(created("a", "2"), now, SECOND);
        let due = turns.take(None, |bucket| bucket == "a");
        assert_eq!(due, [Deferred::Key(created("a", "2"))], "keys again");
        let due = turns.take(None, |_| true);
        assert_eq!(due, [Deferred::Key(created("small", "1"))]);
    }
}
