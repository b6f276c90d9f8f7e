//! The recent speed of an origin's connections: the time to the first byte, and the bytes a second
//! after it.

use std::sync::Mutex;
use std::time::Duration;

use tidegate_plan::tiering::ConnectionEstimate;
use tidegate_telemetry::locks::Recover as _;

/// The weight of the newest measurement in an average.
const NEWEST_WEIGHT: f64 = 0.2;

/// Bodies shorter than this come out of buffers and tell nothing about a connection's rate.
const MIN_MEASURED_BODY: u64 = 128 << 10;

/// A body counts as at most so many times longer than the present rate predicts. One that stalled tells little of the others,
/// and its seconds would rule the average for dozens of bodies; a connection that has become slow shows in a few.
const MAX_SURPRISE: f64 = 8.0;

/// Running averages over the requests to one origin. See the module's head.
#[derive(Debug, Default)]
pub(crate) struct OriginRate(Mutex<Averages>);

#[derive(Debug, Default, Clone, Copy)]
struct Averages {
    first_byte: Option<f64>,
    /// The usual distance of a first byte's time from that average.
    deviation: f64,
    /// The bytes of a body, and the seconds that it took.
    body: Option<(f64, f64)>,
}

fn mix(old: Option<f64>, new: f64) -> Option<f64> {
    Some(old.map_or(new, |old| old + NEWEST_WEIGHT * (new - old)))
}

impl OriginRate {
    fn averages(&self) -> std::sync::MutexGuard<'_, Averages> {
        self.0.lock().recover()
    }

    /// Records the time to a request's first byte.
    pub(crate) fn record_first_byte(&self, after: Duration) {
        let (mut averages, after) = (self.averages(), after.as_secs_f64());
        if let Some(usual) = averages.first_byte {
            let away = (after - usual).abs();
            averages.deviation += NEWEST_WEIGHT * (away - averages.deviation);
        }
        averages.first_byte = mix(averages.first_byte, after);
    }

    /// Records the time of a body of `bytes` after its first byte.
    pub(crate) fn record_body(&self, bytes: u64, within: Duration) {
        if bytes >= MIN_MEASURED_BODY {
            let mut averages = self.averages();
            let (before, bytes) = (averages.body, bytes as f64);
            // Much shorter ones, which a buffer may have had, predict nothing.
            let alike = before.filter(|(usual, _)| bytes < 4.0 * usual);
            let expected = alike.map(|(usual, seconds)| bytes * seconds / usual);
            let most = expected.map_or(f64::INFINITY, |seconds| MAX_SURPRISE * seconds);
            let seconds = within.as_secs_f64().clamp(1e-6, most.max(1e-6));
            let bytes = mix(before.map(|body| body.0), bytes);
            averages.body = bytes.zip(mix(before.map(|body| body.1), seconds));
        }
    }

    /// Returns the bytes a second of one connection: the average bytes over the average time. A short body that was in a
    /// buffer came in no time. It counts for its bytes, where the average of the rates of bodies would be its own.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.averages().body.map(|(bytes, seconds)| bytes / seconds)
    }

    /// Returns the usual time to a request's first byte.
    pub(crate) fn first_byte(&self) -> Option<Duration> {
        self.averages().first_byte.map(Duration::from_secs_f64)
    }

    /// Returns a time within which most first bytes come.
    pub(crate) fn patient_first_byte(&self) -> Option<Duration> {
        let averages = self.averages();
        let first_byte = averages.first_byte? + 2.0 * averages.deviation;
        Some(Duration::from_secs_f64(first_byte))
    }

    /// Returns the expected speed of one more connection.
    pub(crate) fn connection(&self) -> ConnectionEstimate {
        ConnectionEstimate::new(self.first_byte(), self.rate())
    }

    /// Returns the bytes before a body's end at which the next request must start, so that its first
    /// byte has most likely arrived with this body's last one.
    pub(crate) fn lead(&self) -> u64 {
        match (self.patient_first_byte(), self.rate()) {
            (Some(first_byte), Some(rate)) => (first_byte.as_secs_f64() * rate) as u64,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Short bodies of a connection of 10 MB/s come out of a buffer.
    #[test]
    fn short_bodies_in_bursts_do_not_make_a_connection_fast() {
        let rate = OriginRate::default();
        let short = || rate.record_body(256 << 10, Duration::from_micros(100));
        let long = || rate.record_body(4_000_000, Duration::from_millis(400));
        for _ in 0..20 {
            short();
        }
        assert!(
            rate.rate().is_some_and(|it| it > 1e9),
            "nothing else is known"
        );
        for shorts in [0, 1, 4] {
            long();
            (0..shorts).for_each(|_| short());
            let measured = rate.rate().expect("measured") / 1e6;
            assert!((9.0..20.0).contains(&measured), "{shorts}: {measured}");
        }
    }

    #[test]
    fn a_connection_that_becomes_slow_is_known_soon_and_a_stall_is_forgotten() {
        let rate = OriginRate::default();
        let body = |took| rate.record_body(4_000_000, Duration::from_millis(took));
        let measured = || rate.rate().expect("measured") / 1e6;
        (0..20).for_each(|_| body(40));
        body(10_000);
        assert!(measured() > 40.0, "one stall: {}", measured());
        (0..4).for_each(|_| body(40));
        assert!(measured() > 60.0, "four bodies later: {}", measured());
        (0..6).for_each(|_| body(4000));
        assert!(measured() < 2.0, "slow for good: {}", measured());
    }
}
