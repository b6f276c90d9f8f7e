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
pub(super) enum DeferredChange {
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
    ) -> Vec<DeferredChange> {
        let is_due = |at: Instant| since.is_none_or(|since| at >= since);
        let mut due = Vec::new();
        for (_, turns) in self.0.iter_mut().filter(|(bucket, _)| is_own(bucket)) {
            match turns {
                BucketTurns::Keys(keys) => {
                    let taken = keys.extract_if(.., |_, turn| is_due(turn.at));
                    due.extend(taken.map(|(_, turn)| DeferredChange::Key(turn.change)));
                }
                BucketTurns::Folder(turn) if is_due(turn.at) => {
                    due.push(DeferredChange::Folder(turn.change.clone()));
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
mod tests;
