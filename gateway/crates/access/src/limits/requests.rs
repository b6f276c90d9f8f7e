//! Requests in a time, with a burst: the generic cell rate algorithm of the crate `governor`.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::{Quota, RateLimiter};

use super::table::Table;
use super::{LimitKey, Rate};

/// A limit of requests.
#[derive(Debug)]
pub(super) struct RequestLimit(Limiter);

type Limiter = RateLimiter<LimitKey, Table, ToldTime, NoOpMiddleware<Duration>>;

/// A clock that is told the time with each request, and never goes back.
#[derive(Debug, Default)]
struct ToldTime(AtomicU64);

impl ToldTime {
    fn tell(&self, now: Duration) {
        let nanos = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_max(nanos, Ordering::Relaxed);
    }
}

impl Clock for ToldTime {
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

impl RequestLimit {
    pub(super) fn new(rate: Rate, burst: u32, shared: bool) -> Self {
        let burst = NonZeroU32::new(burst.min(rate.max_burst())).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::with_period(rate.each());
        let quota = quota.expect("the period is not zero").allow_burst(burst);
        Self(RateLimiter::new(
            quota,
            Table::new(shared),
            ToldTime::default(),
        ))
    }

    /// Counts a request, or returns the time after which the next one is admitted.
    pub(super) fn check(&self, key: LimitKey, now: Duration) -> Result<(), Duration> {
        self.0.clock().tell(now);
        let checked = self.0.check_key(&key);
        checked.map_err(|until| until.wait_time_from(self.0.clock().now()))
    }
}
