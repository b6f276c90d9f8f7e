//! The metrics of what others are asked.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use tidegate_telemetry::names;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AccessLabel {
    access: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    access: Arc<str>,
    result: &'static str,
}

/// The metrics of all accesses of a process. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    keys: Family<AccessLabel, Gauge>,
    loads: Family<ResultLabel, Counter>,
    requests: Family<ResultLabel, Counter>,
}

impl Metrics {
    /// Adds them to the output of `/metrics`.
    pub fn register(&self, registry: &mut Registry) {
        names::ACCESS_KEYS.register(registry, self.keys.clone());
        names::ACCESS_KEY_LOADS.register(registry, self.loads.clone());
        names::ACCESS_AUTH_REQUESTS.register(registry, self.requests.clone());
    }

    /// Tells how many keys an access has.
    pub(crate) fn set_keys(&self, access: &Arc<str>, keys: usize) {
        let label = AccessLabel {
            access: access.clone(),
        };
        let keys = i64::try_from(keys).unwrap_or(i64::MAX);
        self.keys.get_or_create(&label).set(keys);
    }

    /// Counts an attempt to load the keys of an access.
    pub(crate) fn count_load(&self, access: &Arc<str>, loaded: bool) {
        let result = if loaded { "loaded" } else { "failed" };
        self.loads.get_or_create(&label(access, result)).inc();
    }

    /// Returns the counter of what became of questions to the server of an access.
    pub(crate) fn requests(&self, access: &Arc<str>, result: &'static str) -> Counter {
        self.requests.get_or_create_owned(&label(access, result))
    }
}

fn label(access: &Arc<str>, result: &'static str) -> ResultLabel {
    ResultLabel {
        access: access.clone(),
        result,
    }
}
