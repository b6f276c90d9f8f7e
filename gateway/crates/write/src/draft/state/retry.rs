//! The requests of a draft that are under way, and its pauses after failed ones.

use std::time::Duration;

use tokio::time::Instant;

use crate::WriteError;
use tidegate_plan::retry::Backoff;

/// The pauses of sending ahead after a failure that the origin's own retries did not cure.
const SEND_PAUSE: Backoff = Backoff {
    base: Duration::from_secs(1),
    cap: Duration::from_secs(30),
};

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Retry {
    /// Parts being sent.
    sending: usize,
    /// The latest error of a part.
    failure: Option<WriteError>,
    /// Failures in a row. No part is sent ahead before `not_before`.
    failures: u32,
    not_before: Option<Instant>,
    /// The time of the next try of the queue, while it waits for that.
    next_try: Option<Instant>,
}

impl Retry {
    /// Returns the number of parts that are being sent.
    pub(crate) fn sending(&self) -> usize {
        self.sending
    }

    pub(crate) fn is_sending(&self) -> bool {
        self.sending > 0
    }

    /// Returns whether no part is sent ahead now.
    pub(crate) fn is_paused(&self, now: Instant) -> bool {
        self.not_before.is_some_and(|until| now < until)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Returns the end of the pause, if no part is being sent any more.
    pub(crate) fn pause_when_idle(&self) -> Option<Instant> {
        self.not_before.filter(|_| !self.is_sending())
    }

    /// Returns the time of the queue's next try, while it waits for that.
    pub(crate) fn next_try(&self) -> Option<Instant> {
        self.next_try
    }

    pub(super) fn begin_part(&mut self) {
        self.sending += 1;
    }

    pub(super) fn end_part(&mut self) {
        self.sending -= 1;
    }

    /// Ends the pause: a part was sent.
    pub(super) fn end_pause(&mut self) {
        self.failures = 0;
        self.not_before = None;
    }

    /// Pauses after the failure of a part, longer after each one in a row.
    pub(super) fn pause(&mut self, now: Instant, error: WriteError) {
        self.not_before = Some(now + SEND_PAUSE.pause(self.failures, 1.0));
        self.failures = self.failures.saturating_add(1);
        self.failure = Some(error);
    }

    /// Notes an error for the publish under way, without a pause.
    pub(crate) fn fail(&mut self, error: WriteError) {
        self.failure = Some(error);
    }

    /// Takes the error of a part. The publish under way fails with it.
    pub(crate) fn take_failure(&mut self) -> Option<WriteError> {
        self.failure.take()
    }

    /// Forgets the error before, and keeps its pause.
    pub(crate) fn forget_failure(&mut self) {
        self.failure = None;
    }

    /// Forgets the error before, and its pause, because a publish begins.
    pub(crate) fn begin_publish(&mut self) {
        self.failure = None;
        self.not_before = None;
    }

    /// Has the queue wait for its next try.
    pub(crate) fn begin_wait(&mut self, until: Instant) {
        self.next_try = Some(until);
    }

    pub(crate) fn end_wait(&mut self) {
        self.next_try = None;
    }
}
