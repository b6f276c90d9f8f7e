//! The lines of a log that clients cause: few, and with a count of those left out.

use std::time::Duration;

/// The shortest time between two log lines, unless another one is given.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Chooses the events of one kind that are logged.
#[derive(Debug)]
pub struct LogRate {
    every: Duration,
    logged: Option<Duration>,
    unlogged: u64,
}

impl Default for LogRate {
    fn default() -> Self {
        Self::every(LOG_EVERY)
    }
}

impl LogRate {
    /// Returns one with at least `every` between two log lines.
    #[must_use]
    pub const fn every(every: Duration) -> Self {
        Self {
            every,
            logged: None,
            unlogged: 0,
        }
    }

    /// Counts an event at `now`, a time since any fixed moment. Returns the number of events since the last log line, this
    /// one too, if a line is due.
    pub fn record(&mut self, now: Duration) -> Option<u64> {
        self.unlogged += 1;
        let quiet = |logged| now.saturating_sub(logged) < self.every;
        if self.logged.is_some_and(quiet) {
            return None;
        }
        self.logged = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_count_what_they_leave_out() {
        let mut rate = LogRate::default();
        let lines: Vec<_> = (0..1000)
            .filter_map(|n| rate.record(Duration::from_secs(n) / 50))
            .collect();
        assert_eq!(lines, [1, 500]);
    }
}
