//! The amplification: bytes fetched from origins over bytes delivered to readers.
//!
//! Below 1 the cache works well; above it, read-ahead or whole chunks fetch bytes that no reader
//! takes. The gauge covers the life of the process. For a window of time, divide the rates of the
//! two counters that it is computed from.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::metric::Metric;
use super::names;

/// Registers the gauge over two counts of bytes, which are read at each scrape.
pub fn register(
    registry: &mut Registry,
    fetched: impl Fn() -> u64 + Send + Sync + 'static,
    delivered: impl Fn() -> u64 + Send + Sync + 'static,
) {
    registry.register_collector(Box::new(Amplification {
        ratio: move || ratio(fetched(), delivered()),
    }));
}

/// Returns the ratio; `None` if nothing was delivered.
fn ratio(fetched: u64, delivered: u64) -> Option<f64> {
    (delivered > 0).then(|| fetched as f64 / delivered as f64)
}

struct Amplification<F> {
    ratio: F,
}

impl<F> fmt::Debug for Amplification<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Amplification").finish_non_exhaustive()
    }
}

impl<F> Collector for Amplification<F>
where
    F: Fn() -> Option<f64> + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let Some(ratio) = (self.ratio)() else {
            return Ok(());
        };
        let gauge = ConstGauge::new(ratio);
        let Metric { name, help, .. } = names::AMPLIFICATION;
        gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_its_counters_and_is_absent_before_the_first_byte() {
        assert_eq!(ratio(0, 0), None);
        assert_eq!(ratio(5, 0), None);
        assert_eq!(ratio(0, 5), Some(0.0));
        assert_eq!(ratio(3, 2), Some(1.5));
    }
}
