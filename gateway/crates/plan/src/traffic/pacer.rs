//! A rate limit for a stream of pieces, with the time as an argument.

use std::time::Duration;

/// Computes the wait before each piece, so that all pieces together keep to a rate.
///
/// The first piece goes at once, and each other after the time of the pieces before it. Unused time is not saved up.
#[derive(Debug)]
pub struct Pacer {
    rate: f64,
    free_at: Duration,
}

impl Pacer {
    /// Creates a pacer for a rate in bytes a second; 0 counts as 1.
    #[must_use]
    pub fn new(rate: u64) -> Self {
        Self {
            rate: rate.max(1) as f64,
            free_at: Duration::ZERO,
        }
    }

    /// Returns the wait at the time `now` (since any fixed start) before a piece of `bytes`.
    pub fn wait(&mut self, now: Duration, bytes: u64) -> Duration {
        let begin = self.free_at.max(now);
        self.free_at = begin.saturating_add(self.takes(bytes));
        begin - now
    }

    /// Returns the size in bytes of the largest piece that takes no longer than `time`.
    #[must_use]
    pub fn piece(&self, time: Duration) -> u64 {
        (self.rate * time.as_secs_f64()) as u64
    }

    fn takes(&self, bytes: u64) -> Duration {
        Duration::try_from_secs_f64(bytes as f64 / self.rate).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A sender that keeps to the waits never begins more than one piece beyond the rate.
        #[test]
        fn the_rate_is_kept(rate in 1u64..10_000, pieces in proptest::collection::vec((1u64..5000, 0u64..3000), 1..50)) {
            let mut pacer = Pacer::new(rate);
            let (mut now, mut sent) = (Duration::ZERO, 0u64);
            for (bytes, idle) in pieces {
                now += Duration::from_millis(idle);
                now += pacer.wait(now, bytes);
                let allowed = rate as f64 * now.as_secs_f64() + 1.0;
                prop_assert!(sent as f64 <= allowed, "{sent} of {allowed}");
                sent += bytes;
            }
        }
    }

    #[test]
    fn it_waits_for_what_went_before_and_for_nothing_else() {
        let mut pacer = Pacer::new(100);
        let secs = Duration::from_secs;
        assert_eq!(pacer.wait(secs(5), 200), Duration::ZERO);
        assert_eq!(pacer.wait(secs(6), 100), secs(1));
        assert_eq!(
            pacer.wait(secs(60), 100),
            Duration::ZERO,
            "nothing is saved up"
        );
        assert_eq!(pacer.piece(Duration::from_millis(250)), 25);
    }
}
