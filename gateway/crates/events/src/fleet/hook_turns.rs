//! The changes whose hooks another gateway calls. They are remembered until it would be known that it is lost.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_plan::{ChangeKind, ObjectKey};
use tokio::time::Instant;

use super::peers::PEER_TIMEOUT;

/// The most changes that are remembered. Beyond it the oldest are called here as well.
const MAX_DEFERRED: usize = 4096;

/// A change is remembered for this long: until its gateway counts as lost, with the time between two looks.
const DEFERRAL: Duration = PEER_TIMEOUT.saturating_mul(2);

/// A change of a key that hooks are called for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookChange {
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: ObjectKey,
    /// The kind of the change.
    pub kind: ChangeKind,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct HookTurns(VecDeque<(Instant, HookChange)>);

impl HookTurns {
    /// Remembers a change. Returns the oldest one if there is no room for it any more.
    pub(super) fn defer(&mut self, change: HookChange, now: Instant) -> Option<HookChange> {
        let oldest = (self.0.len() >= MAX_DEFERRED).then(|| self.0.pop_front());
        self.0.push_back((now, change));
        Some(oldest??.1)
    }

    /// Forgets the changes whose gateway has had its time.
    pub(super) fn expire(&mut self, now: Instant) {
        self.0.retain(|(at, _)| now.duration_since(*at) <= DEFERRAL);
    }

    /// Removes and returns the changes of the buckets that `is_own` accepts.
    pub(super) fn due(&mut self, is_own: impl Fn(&str) -> bool) -> Vec<HookChange> {
        let (due, rest): (Vec<_>, Vec<_>) = self
            .0
            .drain(..)
            .partition(|(_, change)| is_own(&change.bucket));
        self.0 = rest.into();
        due.into_iter().map(|(_, change)| change).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(bucket: &str, key: usize) -> HookChange {
        HookChange {
            bucket: bucket.to_owned(),
            key: ObjectKey::new(&key.to_string()).expect("a key"),
            kind: ChangeKind::Created,
        }
    }

    #[test]
    fn changes_are_remembered_until_their_gateway_has_had_its_time() {
        let now = Instant::now();
        let mut turns = HookTurns::default();
        assert_eq!(turns.defer(change("a", 1), now), None);
        turns.defer(change("b", 2), now + DEFERRAL);
        turns.defer(change("a", 3), now + DEFERRAL);
        turns.expire(now + DEFERRAL + Duration::from_millis(1));
        assert_eq!(turns.due(|bucket| bucket == "a"), [change("a", 3)]);
        assert_eq!(turns.due(|_| true), [change("b", 2)]);
    }

    #[test]
    fn they_are_bounded_and_none_is_dropped() {
        let now = Instant::now();
        let mut turns = HookTurns::default();
        let called: Vec<_> = (0..2 * MAX_DEFERRED)
            .filter_map(|n| turns.defer(change("a", n), now))
            .collect();
        assert_eq!(called.len(), MAX_DEFERRED);
        assert_eq!(called[0], change("a", 0));
        assert_eq!(turns.due(|_| true).len(), MAX_DEFERRED);
    }
}
