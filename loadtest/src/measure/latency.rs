//! Durations at any percentile.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// A histogram of durations from a microsecond to ten minutes, to three digits.
#[derive(Debug, Clone)]
pub struct Latency(Histogram<u64>);

/// The percentiles of the published figures, in milliseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Percentiles {
    /// The number of durations.
    pub count: u64,
    /// The mean.
    pub avg: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest duration.
    pub p100: f64,
}

const LONGEST_MICROS: u64 = 600_000_000;

impl Default for Latency {
    fn default() -> Self {
        Self(Histogram::new_with_max(LONGEST_MICROS, 3).expect("bounds that a histogram can have"))
    }
}

impl Latency {
    /// Adds a duration; one over ten minutes counts as ten minutes.
    pub fn record(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(LONGEST_MICROS);
        self.0.saturating_record(micros.max(1));
    }

    /// Adds the durations of another.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("same bounds");
    }

    /// Returns the percentiles.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / 1000.0;
        Percentiles {
            count: self.0.len(),
            avg: self.0.mean() / 1000.0,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p100: self.0.max() as f64 / 1000.0,
        }
    }

    /// Returns points of a plot: the percentile, and its duration in milliseconds.
    #[must_use]
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let percentiles = (0..100).map(f64::from).chain([99.5, 99.9, 100.0]);
        let at = |percentile: f64| self.0.value_at_quantile(percentile / 100.0) as f64 / 1000.0;
        percentiles
            .map(|percentile| (percentile, at(percentile)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_one_to_a_hundred_milliseconds() {
        let mut latency = Latency::default();
        for ms in 1..=100 {
            latency.record(Duration::from_millis(ms));
        }
        let found = latency.percentiles();
        assert_eq!(found.count, 100);
        assert!((found.p50 - 50.0).abs() < 0.1, "{found:?}");
        assert!((found.p99 - 99.0).abs() < 0.1, "{found:?}");
        assert!((found.p100 - 100.0).abs() < 0.1, "{found:?}");
    }
}
