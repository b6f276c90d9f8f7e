//! `[trace]`: traces of single requests, for a collector.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::Secret;

/// Traces of single requests, which a collector gets by OTLP over HTTP. Off without an `endpoint`.
///
/// A trace has what the access log has of a request, and its steps: the look-up, the tiers, fetches, and requests to the
/// bucket. No request waits for the collector: spans that it does not take in time are dropped, and counted.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Trace {
    /// The collector's URL; without a path, `/v1/traces` is asked.
    #[schemars(extend("examples" = ["http://127.0.0.1:4318"]))]
    pub endpoint: Option<String>,
    /// The share of requests that are traced, from 0 to 1.
    pub sample: f64,
    /// Let the sampled flag of a request's `traceparent` decide instead of `sample`.
    ///
    /// Only behind a proxy that sets the header: any client could have all of its requests traced.
    pub follow_parent: bool,
    /// The name of this service in traces.
    pub service: String,
    /// Headers for the collector: text or secrets.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "Authorization": { "file": "/etc/tidegate/collector" } }]))]
    pub headers: BTreeMap<String, Secret>,
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            endpoint: None,
            sample: 0.01,
            follow_parent: false,
            service: "tidegate".into(),
            headers: BTreeMap::new(),
        }
    }
}
