//! The metrics of orders.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::failure::FailureKind;
use tidegate_telemetry::names;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

/// The counters.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    orders: Family<ResultLabels, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let orders = Family::<ResultLabels, Counter>::default();
        for result in ["issued", "refused", "limited", "failed"] {
            let _ = orders.get_or_create(&ResultLabels { result });
        }
        Self { orders }
    }
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        names::ACME_ORDERS.register(registry, self.orders.clone());
    }

    /// Counts an order: `None` if a certificate was issued.
    pub(crate) fn count(&self, failure: Option<FailureKind>) {
        let result = match failure {
            None => "issued",
            Some(FailureKind::Refused) => "refused",
            Some(FailureKind::Limited) => "limited",
            Some(FailureKind::UnknownAccount | FailureKind::Failed) => "failed",
        };
        self.orders.get_or_create(&ResultLabels { result }).inc();
    }
}
