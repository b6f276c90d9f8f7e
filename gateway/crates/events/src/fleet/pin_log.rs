//! The last change of each pin. Pins are sent again to gateways that may have missed them, and the later one counts.

use std::collections::HashMap;

use super::message::FleetChange;

/// The most pins that are remembered. A store has fewer.
const MAX_PINS: usize = 1024;

/// A bucket and a prefix.
type PinnedKey = (String, String);

#[derive(Debug, Clone, Copy)]
struct LastPin {
    at: u64,
    limit: Option<u64>,
    is_own: bool,
    /// It was not applied here, and counts when it comes again.
    has_failed: bool,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(super) struct PinLog(HashMap<PinnedKey, LastPin>);

impl PinLog {
    /// Notes a change of a pin that was made at `at`; returns whether it is later than the last one. If there is no room,
    /// it is not remembered, and counts.
    pub(super) fn note(&mut self, change: &FleetChange, at: u64, is_own: bool) -> bool {
        let Some((place, limit)) = pinned(change) else {
            return true;
        };
        let last = LastPin {
            at,
            limit,
            is_own,
            has_failed: false,
        };
        let has_room = self.0.len() < MAX_PINS;
        match self.0.get_mut(&place) {
            Some(known) if (at, limit) < (known.at, known.limit) => return false,
            Some(known) if (at, limit) == (known.at, known.limit) && !known.has_failed => {
                return false;
            }
            Some(known) => *known = last,
            None if has_room => {
                self.0.insert(place, last);
            }
            None => {}
        }
        true
    }

    /// Returns whether no later change of its pin is known than this one, which was made at `at`.
    pub(super) fn is_last(&self, change: &FleetChange, at: u64) -> bool {
        let known = pinned(change).and_then(|(place, limit)| Some((self.0.get(&place)?, limit)));
        known.is_none_or(|(last, limit)| (at, limit) >= (last.at, last.limit))
    }

    /// Takes that a change of a pin that was made at `at` was not applied here.
    pub(super) fn failed(&mut self, change: &FleetChange, at: u64) {
        let change = pinned(change);
        let known = change.and_then(|(place, limit)| Some((self.0.get_mut(&place)?, limit)));
        if let Some((last, limit)) = known
            && (last.at, last.limit) == (at, limit)
        {
            last.has_failed = true;
        }
    }

    /// Forgets the pins of a bucket that was not there when they came.
    pub(super) fn forget(&mut self, bucket: &str) {
        self.0.retain(|(of, _), last| last.is_own || of != bucket);
    }

    /// Returns the changes that were made through this gateway and that no later one has replaced, with their times.
    pub(super) fn own(&self) -> Vec<(u64, FleetChange)> {
        let own = self.0.iter().filter(|(_, last)| last.is_own);
        own.map(|((bucket, prefix), last)| {
            let change = FleetChange::Pinned {
                bucket: bucket.clone(),
                prefix: prefix.clone(),
                limit: last.limit,
            };
            (last.at, change)
        })
        .collect()
    }
}

/// Returns the pin that a change is of, and its limit; `None`: it is of no pin.
fn pinned(change: &FleetChange) -> Option<(PinnedKey, Option<u64>)> {
    match change {
        FleetChange::Pinned {
            bucket,
            prefix,
            limit,
        } => Some(((bucket.clone(), prefix.clone()), *limit)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(prefix: &str, limit: Option<u64>) -> FleetChange {
        FleetChange::Pinned {
            bucket: "b".to_owned(),
            prefix: prefix.to_owned(),
            limit,
        }
    }

    #[test]
    fn the_later_change_of_a_pin_counts() {
        let mut log = PinLog::default();
        assert!(log.note(&pin("a", Some(1)), 5, true));
        assert_eq!(log.own(), [(5, pin("a", Some(1)))]);
        assert!(!log.note(&pin("a", Some(1)), 5, false), "it came again");
        assert!(!log.note(&pin("a", None), 4, false), "it is late");
        assert!(log.note(&pin("a", None), 6, false));
        assert_eq!(log.own(), [], "another gateway's has replaced it");
    }

    #[test]
    fn a_change_that_failed_counts_when_it_comes_again() {
        let mut log = PinLog::default();
        assert!(log.note(&pin("a", Some(1)), 5, false));
        log.failed(&pin("a", Some(1)), 4);
        assert!(!log.note(&pin("a", Some(1)), 5, false), "another failed");
        log.failed(&pin("a", Some(1)), 5);
        assert!(!log.note(&pin("a", None), 4, false), "it is late");
        assert!(log.note(&pin("a", Some(1)), 5, false));
        assert!(!log.note(&pin("a", Some(1)), 5, false), "it came again");
    }

    #[test]
    fn it_is_bounded() {
        let mut log = PinLog::default();
        for n in 0..5000 {
            assert!(log.note(&pin(&n.to_string(), Some(1)), n, true));
        }
        assert_eq!(log.own().len(), MAX_PINS);
    }
}
