//! The last events, for an operator: a bounded ring that all sources share.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use crate::metrics::EventResult;
use tidegate_plan::{ChangeKind, KeyChange, Timestamp};
use tidegate_telemetry::locks::Recover as _;

/// Events that are kept: at most some 250 KiB of them.
pub const MAX_LOGGED: usize = 200;

/// The last events, of all sources. The oldest makes room.
#[derive(Debug, Default)]
pub struct EventLog(Mutex<VecDeque<LoggedEvent>>);

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedEvent {
    /// The time at which it was dealt with.
    pub time: Timestamp,
    /// The name of the subscription, or `fleet`.
    pub source: String,
    /// The kind of the change.
    pub kind: LoggedKind,
    /// The key; of a purge or a pin also a prefix or a tag.
    pub key: String,
    /// Its result.
    pub result: EventResult,
    /// The time from the change until it was dealt with, if the event says when the key changed.
    pub lag: Option<Duration>,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggedKind {
    /// An object was created or replaced.
    Created,
    /// An object was removed.
    Removed,
    /// Another gateway has purged.
    Purged,
    /// Another gateway has marked objects as stale.
    MarkedStale,
    /// Another gateway has pinned a prefix.
    Pinned,
    /// Another gateway has removed a pin.
    Unpinned,
}

impl EventLog {
    /// Adds events; of more than [`MAX_LOGGED`] the last ones are kept.
    pub fn add(&self, events: impl ExactSizeIterator<Item = LoggedEvent>) {
        let skipped = events.len().saturating_sub(MAX_LOGGED);
        let mut kept = self.0.lock().recover();
        for event in events.skip(skipped) {
            if kept.len() >= MAX_LOGGED {
                kept.pop_front();
            }
            kept.push_back(event);
        }
    }

    /// Returns the events, the latest first.
    #[must_use]
    pub fn latest(&self) -> Vec<LoggedEvent> {
        self.0.lock().recover().iter().rev().cloned().collect()
    }
}

impl LoggedEvent {
    /// Returns a change that a subscription has dealt with at `time`.
    pub(crate) fn of(
        change: &KeyChange,
        source: &str,
        time: Timestamp,
        result: EventResult,
    ) -> Self {
        Self {
            time,
            source: source.to_owned(),
            kind: change.kind.into(),
            key: change.key.as_str().to_owned(),
            result,
            lag: change.time.map(|changed| time.since(changed)),
        }
    }
}

impl From<ChangeKind> for LoggedKind {
    fn from(kind: ChangeKind) -> Self {
        match kind {
            ChangeKind::Created => Self::Created,
            ChangeKind::Removed => Self::Removed,
        }
    }
}

impl LoggedKind {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Removed => "removed",
            Self::Purged => "purged",
            Self::MarkedStale => "marked stale",
            Self::Pinned => "pinned",
            Self::Unpinned => "unpinned",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept_and_no_more() {
        let log = EventLog::default();
        let event = |n: usize| LoggedEvent {
            time: Timestamp::from_secs(n as i64),
            source: "bucket".to_owned(),
            kind: LoggedKind::Created,
            key: n.to_string(),
            result: EventResult::Applied,
            lag: None,
        };
        log.add((0..3).map(event));
        let keys = || -> Vec<_> { log.latest().into_iter().map(|one| one.key).collect() };
        assert_eq!(keys(), ["2", "1", "0"]);
        log.add((3..1003).map(event));
        assert_eq!(keys().len(), MAX_LOGGED);
        assert_eq!((&*keys()[0], &*keys()[MAX_LOGGED - 1]), ("1002", "803"));
        log.add((1003..1004).map(event));
        assert_eq!((keys().len(), &*keys()[0]), (MAX_LOGGED, "1003"));
    }
}
