//! The metrics of the budget.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::Budget;
use tidegate_telemetry::names;

/// Counters of demand that did not get its bytes at once.
#[derive(Debug, Clone, Default)]
pub(super) struct BudgetMetrics {
    pub(super) waits: Counter,
    pub(super) refused: Counter,
}

impl Budget {
    /// Registers the metrics of this budget.
    pub(crate) fn register(&self, registry: &mut Registry) {
        names::BUDGET_WAITS.register(registry, self.metrics.waits.clone());
        names::BUDGET_REFUSED.register(registry, self.metrics.refused.clone());
        registry.register_collector(Box::new(Gauges(self.clone())));
    }
}

/// Current values, computed at each scrape.
#[derive(Debug)]
struct Gauges(Budget);

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let rows = [
            (names::BUDGET_SIZE, self.0.total()),
            (names::BUDGET_USED, self.0.used()),
        ];
        for (metric, value) in rows {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let kind = gauge.metric_type();
            let encoder = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
            gauge.encode(encoder)?;
        }
        Ok(())
    }
}
