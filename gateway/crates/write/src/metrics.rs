//! Metrics of writes.

use std::sync::{Arc, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::{Drafts, Writers};
use tidegate_telemetry::names;

/// Counters of everything written through this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics {
    commits: Family<[(&'static str, &'static str); 1], Counter>,
    attributes: Family<[(&'static str, &'static str); 1], Counter>,
    /// Bytes taken from writers.
    pub(crate) written: Counter,
    /// Parts whose bytes left the spool before their object was complete.
    pub(crate) evicted: Counter,
    /// Writes that waited for room in the spool.
    pub(crate) held_back: Counter,
    /// Parts that were sent again because they were written to again.
    pub(crate) resent: Counter,
    /// Uploads completed under a staging key, to read back bytes that left the spool.
    pub(crate) staged: Counter,
}

impl Metrics {
    pub(crate) fn committed(&self, result: &'static str) {
        self.commits.get_or_create(&[("result", result)]).inc();
    }

    pub(crate) fn sent_attributes(&self, result: &'static str) {
        self.attributes.get_or_create(&[("result", result)]).inc();
    }
}

impl Writers {
    /// Registers the metrics of writes.
    pub fn register(&self, registry: &mut Registry) {
        let metrics = &self.0.metrics;
        names::WRITE_COMMITS.register(registry, metrics.commits.clone());
        names::WRITE_ATTRIBUTES.register(registry, metrics.attributes.clone());
        names::WRITE_BYTES.register(registry, metrics.written.clone());
        names::SPOOL_EVICTED.register(registry, metrics.evicted.clone());
        names::SPOOL_WAITS.register(registry, metrics.held_back.clone());
        names::WRITE_RESENT.register(registry, metrics.resent.clone());
        names::WRITE_HIDDEN.register(registry, metrics.staged.clone());
        registry.register_collector(Box::new(Gauges(Arc::downgrade(&self.0))));
    }
}

/// Current values, computed at each scrape.
struct Gauges(Weak<Drafts>);

impl std::fmt::Debug for Gauges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gauges")
    }
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(inner) = self.0.upgrade() else {
            return Ok(());
        };
        let space = &inner.spool.space;
        let rows = [
            (names::SPOOL_USED, space.used()),
            (names::SPOOL_SIZE, space.size()),
            (names::WRITE_PENDING, inner.writings().len() as u64),
            (
                names::WRITE_ATTRIBUTES_PENDING,
                inner.attributes.len() as u64,
            ),
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
