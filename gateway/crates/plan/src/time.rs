//! Wall-clock time as a number, so that rules can take it as an argument.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970-01-01T00:00:00Z. Ages of cache entries outlive the process, so they use
/// the wall clock; deadlines use the monotonic clock instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Returns the time since `earlier`; zero if the clock was set back in between.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Returns whether this lies so far ahead of `now` that the clock was set back since: by more than the minute that clocks
    /// are corrected by. What was confirmed then would count as new until the clock has passed that time.
    #[must_use]
    pub fn is_after_a_step(self, now: Self) -> bool {
        self > now.plus(Duration::from_mins(1))
    }

    /// Returns whole seconds since the epoch: the resolution of HTTP dates.
    #[must_use]
    pub fn secs(self) -> u64 {
        self.0 / 1000
    }

    /// Returns the seconds since the epoch, with their fraction.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        Duration::from_millis(self.0).as_secs_f64()
    }

    /// Returns this time moved forward.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// Creates a time from whole seconds; times before 1970 count as 1970.
    #[must_use]
    pub fn from_secs(secs: i64) -> Self {
        Self(u64::try_from(secs).unwrap_or(0).saturating_mul(1000))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        UNIX_EPOCH + Duration::from_millis(time.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_moved_and_measured_in_whole_milliseconds_and_stops_at_both_ends() {
        let time = |millis| Timestamp(millis);
        let moved = time(1000).plus(Duration::from_micros(2_500_900));
        assert_eq!(moved, time(3500));
        assert_eq!(moved.since(time(1000)), Duration::from_millis(2500));
        assert_eq!(time(1000).since(moved), Duration::ZERO);
        assert_eq!(time(1).plus(Duration::MAX), time(u64::MAX));
    }

    #[test]
    fn whole_seconds_are_rounded_down_and_begin_in_1970() {
        for (millis, secs) in [(0, 0), (999, 0), (1000, 1), (1999, 1)] {
            assert_eq!(Timestamp(millis).secs(), secs);
        }
        for (secs, millis) in [(-1, 0), (0, 0), (2, 2000), (i64::MAX, u64::MAX)] {
            assert_eq!(Timestamp::from_secs(secs), Timestamp(millis));
        }
    }

    #[test]
    fn the_systems_time_and_back_is_the_same_millisecond() {
        let system = UNIX_EPOCH + Duration::from_micros(1_234_567);
        assert_eq!(Timestamp::from(system), Timestamp(1234));
        let back = UNIX_EPOCH + Duration::from_millis(1234);
        assert_eq!(SystemTime::from(Timestamp(1234)), back);
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Timestamp::from(before), Timestamp(0));
    }
}
