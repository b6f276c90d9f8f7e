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

    /// Returns whole seconds since the epoch: the resolution of HTTP dates.
    #[must_use]
    pub fn secs(self) -> u64 {
        self.0 / 1000
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
