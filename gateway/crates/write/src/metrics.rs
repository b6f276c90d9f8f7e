//! Metrics of writes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::{Drafts, Stage, Writers};
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
        // They begin at 0, so that the first one counts as a rise.
        for result in ["committed", "failed", "changed", "refused"] {
            let _ = metrics.commits.get_or_create(&[("result", result)]);
        }
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

impl Drafts {
    /// Returns the number of drafts in each stage, and the age of the oldest write that is closed and not in the bucket.
    fn unsent(&self) -> ([i64; Stage::ALL.len()], Duration) {
        let drafts: Vec<_> = self.writings().values().cloned().collect();
        let (mut stages, mut oldest) = ([0; Stage::ALL.len()], Duration::ZERO);
        let now = self.core.now();
        for draft in drafts {
            let state = draft.state();
            let stage = state.stage();
            stages[stage as usize] += 1;
            if stage != Stage::Open && state.phase().is_unpublished() {
                oldest = oldest.max(now.since(state.unsent_since()));
            }
        }
        (stages, oldest)
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
        let (stages, oldest) = inner.unsent();
        let descriptor = names::WRITE_PENDING;
        let mut pending =
            encoder.encode_descriptor(descriptor.name, descriptor.help, None, MetricType::Gauge)?;
        for (stage, count) in Stage::ALL.iter().zip(stages) {
            let label = [("stage", stage.as_str())];
            ConstGauge::new(count).encode(pending.encode_family(&label)?)?;
        }
        let space = &inner.spool.space;
        let rows = [
            (names::SPOOL_USED, space.used()),
            (names::SPOOL_SIZE, space.size()),
            (names::WRITE_OLDEST_UNSENT, oldest.as_secs()),
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
