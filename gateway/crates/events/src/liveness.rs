//! The time since which no change can have been missed.
//!
//! The evidence is the heartbeat: an object that is written each `every`, and whose event has to come back within `every`.
//! The answer is the time at which the first heartbeat of an unbroken chain came back: from then on the way from the
//! store was open. A heartbeat that stays away, a disconnect, or a gap in a sequence ends the chain, and only a heartbeat
//! whose write begins after that starts another.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_plan::freshness::EventProof;
use tidegate_plan::{ETag, Timestamp};

/// The most heartbeats that wait for their event, and the most events that wait for the answer to their write.
const MAX_WAITING: usize = 32;

/// Inputs of several threads may come in another order than their times, by less than this.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// The chain of heartbeats, as a state machine without a clock.
#[derive(Debug)]
pub struct Liveness {
    every: Duration,
    is_connected: bool,
    /// Heartbeats whose write began before this prove nothing.
    not_before: Timestamp,
    /// The time of the last input.
    now: Timestamp,
    since: Option<Timestamp>,
    /// The begin of the last write that came back.
    confirmed: Timestamp,
    /// Written heartbeats whose event has not come.
    waiting: VecDeque<WrittenHeartbeat>,
    /// Events whose write has not been answered yet.
    early: VecDeque<SeenHeartbeat>,
}

#[derive(Debug)]
struct WrittenHeartbeat {
    began: Timestamp,
    etag: ETag,
}

#[derive(Debug)]
struct SeenHeartbeat {
    at: Timestamp,
    etag: ETag,
}

impl Liveness {
    /// Creates one for a heartbeat each `every`. `is_connected` says whether the transport needs no connection.
    #[must_use]
    pub fn new(every: Duration, is_connected: bool) -> Self {
        Self {
            every,
            is_connected,
            not_before: Timestamp(0),
            now: Timestamp(0),
            since: None,
            confirmed: Timestamp(0),
            waiting: VecDeque::new(),
            early: VecDeque::new(),
        }
    }

    /// Returns the time since which no change can have been missed. It holds as of the last input.
    #[must_use]
    pub fn unbroken_since(&self) -> Option<Timestamp> {
        self.since
    }

    /// Returns what the chain proves. It ends by itself if no further input comes.
    #[must_use]
    pub fn proof(&self) -> EventProof {
        self.since.map_or(EventProof::NONE, |since| EventProof {
            since,
            proven: self.confirmed,
            alive_until: self.confirmed.plus(self.every * 2),
        })
    }

    /// Takes a heartbeat that was written: the time before its request, and the ETag that the store answered.
    pub fn written(&mut self, began: Timestamp, etag: ETag, now: Timestamp) {
        self.tick(now);
        if began < self.not_before {
            return;
        }
        if let Some(nth) = self.early.iter().position(|seen| seen.etag == etag) {
            let seen = self.early.remove(nth).expect("it was found");
            self.came_back(began, seen.at);
            return;
        }
        if self.waiting.len() == MAX_WAITING {
            return self.gap(now);
        }
        self.waiting.push_back(WrittenHeartbeat { began, etag });
    }

    /// Takes the event of a heartbeat, perhaps of another gateway's.
    pub fn seen(&mut self, etag: ETag, now: Timestamp) {
        self.tick(now);
        if let Some(nth) = self.waiting.iter().position(|one| one.etag == etag) {
            let written = self.waiting.remove(nth).expect("it was found");
            self.came_back(written.began, now);
            return;
        }
        if self.early.len() == MAX_WAITING {
            self.early.pop_front();
        }
        self.early.push_back(SeenHeartbeat { at: now, etag });
    }

    fn came_back(&mut self, began: Timestamp, seen: Timestamp) {
        if !self.is_connected || seen < self.not_before {
            return;
        }
        self.confirmed = self.confirmed.max(began);
        self.since.get_or_insert(seen);
    }

    /// Takes that the transport is connected. What happened before may have been missed.
    pub fn connected(&mut self, now: Timestamp) {
        self.gap(now);
        self.is_connected = true;
    }

    /// Takes that the transport has lost its connection.
    pub fn disconnected(&mut self, now: Timestamp) {
        self.gap(now);
        self.is_connected = false;
    }

    /// Takes that a message may have been lost.
    pub fn gap(&mut self, now: Timestamp) {
        self.since = None;
        self.now = now;
        // A heartbeat that is written in the same millisecond may be older than the gap.
        self.not_before = now.plus(Duration::from_millis(1));
        self.waiting.clear();
        self.early.clear();
    }

    /// Takes the time, which ends the chain if a heartbeat has stayed away.
    pub fn tick(&mut self, now: Timestamp) {
        let is_late = |one: &WrittenHeartbeat| now.since(one.began) > self.every;
        let is_missing = self.waiting.iter().any(is_late);
        // No write succeeds: nothing is evidence any more.
        let is_silent = self.since.is_some() && now.since(self.confirmed) > self.every * 2;
        // A clock that was set back would hide both.
        let is_set_back = now.plus(CLOCK_TOLERANCE) < self.now;
        if is_missing || is_silent || is_set_back {
            self.gap(now);
        }
        self.now = self.now.max(now);
    }

    /// Returns when [`Liveness::tick`] may have something to say next.
    #[must_use]
    pub fn deadline(&self) -> Option<Timestamp> {
        let millisecond = Duration::from_millis(1);
        let waiting = self.waiting.iter().map(|one| one.began.plus(self.every));
        let silent = self.since.map(|_| self.confirmed.plus(self.every * 2));
        waiting.chain(silent).min().map(|at| at.plus(millisecond))
    }
}

#[cfg(test)]
mod tests;
