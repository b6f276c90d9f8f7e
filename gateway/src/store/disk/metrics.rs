//! foyer's own metrics, in our registry.
//!
//! `mixtrics` has an adapter for `prometheus-client`, which would not do here: every cache
//! registers its families anew, so that two disks would give one name twice, it wants to own the
//! registry, and it looks labels up on each count. This one keeps one family a name, hands out
//! metrics already looked up, and registers all of them at the end.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use mixtrics::metrics::{
    BoxedCounter, BoxedCounterVec, BoxedGauge, BoxedGaugeVec, BoxedHistogram, BoxedHistogramVec,
    CounterOps, CounterVecOps, GaugeOps, GaugeVecOps, HistogramOps, HistogramVecOps, RegistryOps,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

type Labels = Vec<(&'static str, String)>;

/// The families of all foyer caches; clones share them.
#[derive(Debug, Clone, Default)]
pub(in crate::store) struct FoyerMetrics {
    counters: Families<Counter>,
    gauges: Families<Gauge>,
    histograms: Families<Histogram, Buckets>,
}

impl FoyerMetrics {
    /// Puts everything that was asked for so far into `registry`.
    pub(in crate::store) fn register(&self, registry: &mut Registry) {
        self.counters.register(registry);
        self.gauges.register(registry);
        self.histograms.register(registry);
    }
}

/// One kind of family, by name, with its help.
#[derive(Debug)]
struct Families<M, C = fn() -> M>(Arc<Mutex<ByName<Family<Labels, M, C>>>>);

type ByName<F> = BTreeMap<String, (String, F)>;

impl<M, C> Clone for Families<M, C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M, C> Default for Families<M, C> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<M, C> Families<M, C>
where
    Family<Labels, M, C>: Metric + Clone,
{
    fn get(
        &self,
        name: &str,
        help: String,
        new: impl FnOnce() -> Family<Labels, M, C>,
    ) -> Family<Labels, M, C> {
        let mut families = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match families.entry(name.to_owned()) {
            Entry::Occupied(entry) => entry.get().1.clone(),
            Entry::Vacant(entry) => entry.insert((help, new())).1.clone(),
        }
    }

    fn register(&self, registry: &mut Registry) {
        let families = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, (help, family)) in families.iter() {
            // The encoder adds `_total` itself.
            let name = name.strip_suffix("_total").unwrap_or(name);
            registry.register(name, help.trim_end_matches('.'), family.clone());
        }
    }
}

impl RegistryOps for FoyerMetrics {
    fn register_counter_vec(
        &self,
        name: Cow<'static, str>,
        desc: Cow<'static, str>,
        names: &'static [&'static str],
    ) -> BoxedCounterVec {
        let family = self.counters.get(&name, desc.into_owned(), Family::default);
        Box::new(Handle { family, names })
    }

    fn register_gauge_vec(
        &self,
        name: Cow<'static, str>,
        desc: Cow<'static, str>,
        names: &'static [&'static str],
    ) -> BoxedGaugeVec {
        let family = self.gauges.get(&name, desc.into_owned(), Family::default);
        Box::new(Handle { family, names })
    }

    fn register_histogram_vec(
        &self,
        name: Cow<'static, str>,
        desc: Cow<'static, str>,
        names: &'static [&'static str],
    ) -> BoxedHistogramVec {
        let seconds = vec![0.0001, 0.001, 0.01, 0.1, 1.0, 10.0];
        self.register_histogram_vec_with_buckets(name, desc, names, seconds)
    }

    fn register_histogram_vec_with_buckets(
        &self,
        name: Cow<'static, str>,
        desc: Cow<'static, str>,
        names: &'static [&'static str],
        buckets: Vec<f64>,
    ) -> BoxedHistogramVec {
        let family = self.histograms.get(&name, desc.into_owned(), || {
            Family::new_with_constructor(Buckets(buckets))
        });
        Box::new(Handle { family, names })
    }
}

/// A family and the names of its labels, whose values foyer gives.
#[derive(Debug)]
struct Handle<M, C = fn() -> M> {
    family: Family<Labels, M, C>,
    names: &'static [&'static str],
}

impl<M: Clone, C: MetricConstructor<M>> Handle<M, C> {
    fn with(&self, values: &[Cow<'static, str>]) -> M {
        let values = values.iter().map(|value| value.to_string());
        let labels: Labels = self.names.iter().copied().zip(values).collect();
        self.family.get_or_create_owned(&labels)
    }
}

#[derive(Debug, Clone)]
struct Buckets(Vec<f64>);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

#[derive(Debug)]
struct Resolved<M>(M);

impl CounterVecOps for Handle<Counter> {
    fn counter(&self, values: &[Cow<'static, str>]) -> BoxedCounter {
        Box::new(Resolved(self.with(values)))
    }
}

impl GaugeVecOps for Handle<Gauge> {
    fn gauge(&self, values: &[Cow<'static, str>]) -> BoxedGauge {
        Box::new(Resolved(self.with(values)))
    }
}

impl HistogramVecOps for Handle<Histogram, Buckets> {
    fn histogram(&self, values: &[Cow<'static, str>]) -> BoxedHistogram {
        Box::new(Resolved(self.with(values)))
    }
}

impl CounterOps for Resolved<Counter> {
    fn increase(&self, by: u64) {
        self.0.inc_by(by);
    }
}

impl GaugeOps for Resolved<Gauge> {
    fn increase(&self, by: u64) {
        self.0.inc_by(i64::try_from(by).unwrap_or(i64::MAX));
    }

    fn decrease(&self, by: u64) {
        self.0.dec_by(i64::try_from(by).unwrap_or(i64::MAX));
    }

    fn absolute(&self, value: u64) {
        self.0.set(i64::try_from(value).unwrap_or(i64::MAX));
    }
}

impl HistogramOps for Resolved<Histogram> {
    fn record(&self, value: f64) {
        self.0.observe(value);
    }
}
