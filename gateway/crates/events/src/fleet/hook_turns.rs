//! The changes whose hooks another gateway calls. They are remembered until it would be known that it is lost.

use std::collections::VecDeque;

use tidegate_plan::KeyChange;
use tokio::time::Instant;

/// The most changes that are remembered. Beyond it the oldest are called here as well.
const MAX_DEFERRED: usize = 1 << 14;

/// The changes, each with the time until which it is remembered.
#[derive(Debug, Default)]
pub(super) struct HookTurns(VecDeque<(Instant, KeyChange)>);

impl HookTurns {
    /// Remembers a change `until` its gateway has surely called. Returns the oldest one if there is no room for it any
    /// more.
    pub(super) fn defer(&mut self, change: KeyChange, until: Instant) -> Option<KeyChange> {
        let oldest = (self.0.len() >= MAX_DEFERRED).then(|| self.0.pop_front());
        self.0.push_back((until, change));
        Some(oldest??.1)
    }

    /// Forgets the changes whose gateway has had its time.
    pub(super) fn expire(&mut self, now: Instant) {
        self.0.retain(|(until, _)| now <= *until);
    }

    /// Removes and returns the changes of the buckets that `is_own` accepts.
    pub(super) fn due(&mut self, is_own: impl Fn(&str) -> bool) -> Vec<KeyChange> {
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
    use std::time::Duration;

    use super::*;
    use tidegate_plan::{ChangeKind, ObjectKey};

    fn change(bucket: &str, key: usize) -> KeyChange {
        let key = ObjectKey::new(&key.to_string()).expect("a key");
        KeyChange::of(bucket, &key, ChangeKind::Created)
    }

    #[test]
    fn changes_are_remembered_until_their_gateway_has_had_its_time() {
        let now = Instant::now();
        let mut turns = HookTurns::default();
        assert_eq!(turns.defer(change("a", 1), now), None);
        let later = now + Duration::from_secs(1);
        turns.defer(change("b", 2), later);
        turns.defer(change("a", 3), later);
        turns.expire(later);
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
