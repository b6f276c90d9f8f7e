//! The order in which the clock hands pass the segments; see [`evict`](super::evict).

use std::collections::VecDeque;

/// Every n-th turn takes a proven segment.
const PROVEN_TURN_INTERVAL: u64 = 8;

/// Full segments, in the order in which the hands pass them.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    trial: VecDeque<u32>,
    proven: VecDeque<u32>,
    turn: u64,
}

impl Clocks {
    /// Adds a segment that was just filled.
    pub(super) fn push_trial(&mut self, segment: u32) {
        self.trial.push_back(segment);
    }

    /// Adds a segment that was filled before all others that are there, or that the hand is to look at again.
    pub(super) fn push_oldest_trial(&mut self, segment: u32) {
        self.trial.push_front(segment);
    }

    /// Adds a segment that the hand has passed.
    pub(super) fn push_proven(&mut self, segment: u32) {
        self.proven.push_back(segment);
    }

    /// Removes all segments.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.trial.is_empty() && self.proven.is_empty()
    }

    /// Takes the segment under the hand: one on trial, if these hold more than their share.
    pub(super) fn next(&mut self, holds_more: impl Fn(&VecDeque<u32>) -> bool) -> Option<u32> {
        self.turn = self.turn.wrapping_add(1);
        let is_theirs = !self.turn.is_multiple_of(PROVEN_TURN_INTERVAL) && holds_more(&self.trial);
        let (first, second) = if is_theirs {
            (&mut self.trial, &mut self.proven)
        } else {
            (&mut self.proven, &mut self.trial)
        };
        first.pop_front().or_else(|| second.pop_front())
    }
}
