//! The declaration of a metric.

use prometheus_client::registry::{self, Registry};

/// One metric's declaration.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name without prefix and `_total`.
    pub name: &'static str,
    /// Its type.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// One sentence for the reader of a dashboard.
    pub help: &'static str,
}

impl Metric {
    /// Registers `handle`, or a family of handles, under this name.
    pub fn register(self, registry: &mut Registry, handle: impl registry::Metric) {
        registry.register(self.name, self.help, handle);
    }
}

/// The type of a metric, as the exposition format names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that only rises; scraped with the suffix `_total`.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// A distribution, scraped as `_bucket`, `_sum` and `_count`.
    Histogram,
    /// A constant 1 whose labels carry the information. Scraped with the suffix `_info`.
    Info,
}

impl MetricKind {
    /// Returns the word behind `# TYPE`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}
