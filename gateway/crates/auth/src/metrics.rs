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

/// The results of attempts to load keys.
const LOADS: [&str; 2] = ["loaded", "failed"];

/// The results of questions to a server.
const REQUESTS: [&str; 5] = ["admitted", "refused", "failed", "kept", "shared"];

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

    /// Returns the gauge of how many keys an access has.
    pub(crate) fn keys(&self, access: &Arc<str>) -> Gauge {
        let access = access.clone();
        self.keys.get_or_create_owned(&AccessLabel { access })
    }

    /// Returns the counters of attempts to load the keys of an access: those that succeeded, and those that failed.
    pub(crate) fn loads(&self, access: &Arc<str>) -> [Counter; LOADS.len()] {
        LOADS.map(|result| self.loads.get_or_create_owned(&label(access, result)))
    }

    /// Returns the counters of the results of questions to the server of an access.
    pub(crate) fn requests(&self, access: &Arc<str>) -> [Counter; REQUESTS.len()] {
        REQUESTS.map(|result| self.requests.get_or_create_owned(&label(access, result)))
    }

    /// Removes those of the keys of an access that has no source of keys any more.
    pub fn forget_keys(&self, access: &str) {
        let access: Arc<str> = access.into();
        for result in LOADS {
            self.loads.remove(&label(&access, result));
        }
        self.keys.remove(&AccessLabel { access });
    }

    /// Removes those of the server of an access that asks none any more.
    pub fn forget_server(&self, access: &str) {
        let access = access.into();
        for result in REQUESTS {
            self.requests.remove(&label(&access, result));
        }
    }
}

fn label(access: &Arc<str>, result: &'static str) -> ResultLabel {
    ResultLabel {
        access: access.clone(),
        result,
    }
}
