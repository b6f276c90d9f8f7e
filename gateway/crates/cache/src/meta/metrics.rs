//! The metrics of the metadata store.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use tidegate_telemetry::names;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FoundLabel {
    found: &'static str,
}

/// The counters and gauges; clones share them.
#[derive(Debug, Clone)]
pub(super) struct MetaMetrics {
    lookups: Family<FoundLabel, Counter>,
    pub(super) in_memory: Counter,
    pub(super) on_disk: Counter,
    pub(super) nowhere: Counter,
    /// Rows that the database did not give in time, or was not asked for.
    pub(super) unknown: Counter,
    /// 1 while the database is read.
    pub(super) reads_up: Gauge,
    /// Reads that were given up and have not returned.
    pub(super) hung: Gauge,
    pub(super) corrupt: Counter,
    pub(super) purged: Counter,
    pub(super) errors: Counter,
    pub(super) lost: Counter,
    pub(super) writes: Counter,
    pub(super) commits: Counter,
    pub(super) purges: Gauge,
    pub(super) coalesced: Counter,
    /// Rows that were removed to make room for others.
    pub(super) swept: Counter,
}

impl Default for MetaMetrics {
    fn default() -> Self {
        let lookups = Family::<FoundLabel, Counter>::default();
        let found = |found| lookups.get_or_create_owned(&FoundLabel { found });
        Self {
            in_memory: found("memory"),
            on_disk: found("disk"),
            nowhere: found("nowhere"),
            unknown: Counter::default(),
            reads_up: Gauge::default(),
            hung: Gauge::default(),
            lookups,
            corrupt: Counter::default(),
            purged: Counter::default(),
            errors: Counter::default(),
            lost: Counter::default(),
            writes: Counter::default(),
            commits: Counter::default(),
            purges: Gauge::default(),
            coalesced: Counter::default(),
            swept: Counter::default(),
        }
    }
}

impl MetaMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        names::META_LOOKUPS.register(registry, self.lookups.clone());
        names::META_UNKNOWN.register(registry, self.unknown.clone());
        names::META_READS_UP.register(registry, self.reads_up.clone());
        names::META_HUNG_READS.register(registry, self.hung.clone());
        names::META_CORRUPT.register(registry, self.corrupt.clone());
        names::META_PURGED.register(registry, self.purged.clone());
        names::META_ERRORS.register(registry, self.errors.clone());
        names::META_LOST.register(registry, self.lost.clone());
        names::META_WRITES.register(registry, self.writes.clone());
        names::META_COMMITS.register(registry, self.commits.clone());
        names::META_PURGES.register(registry, self.purges.clone());
        names::META_COALESCED.register(registry, self.coalesced.clone());
        names::META_SWEPT.register(registry, self.swept.clone());
    }
}
