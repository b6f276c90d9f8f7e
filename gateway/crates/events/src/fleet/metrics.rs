//! The metrics of a fleet. The labels are fixed words.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use tidegate_telemetry::names;
use tidegate_telemetry::sharded::Durations;

/// The end of the first bucket of lags.
const FIRST_LAG: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReceivedLabels {
    kind: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

/// The metrics of a fleet.
#[derive(Debug)]
pub struct FleetMetrics {
    pub(super) connected: Gauge,
    pub(super) peers: Gauge,
    pub(super) dropped: Counter,
    pub(super) lag: Durations,
    sent: Family<KindLabel, Counter>,
    received: Family<ReceivedLabels, Counter>,
    doubts: Family<ReasonLabel, Counter>,
}

impl Default for FleetMetrics {
    fn default() -> Self {
        Self {
            connected: Gauge::default(),
            peers: Gauge::default(),
            dropped: Counter::default(),
            lag: Durations::new(FIRST_LAG),
            sent: Family::default(),
            received: Family::default(),
            doubts: Family::default(),
        }
    }
}

impl FleetMetrics {
    /// Registers them.
    pub fn register(&self, registry: &mut Registry) {
        // They begin at 0, so that the first one counts as a rise.
        for reason in ["joined", "gap", "lost", "failed"] {
            let _ = self.doubts.get_or_create(&ReasonLabel { reason });
        }
        names::FLEET_CONNECTED.register(registry, self.connected.clone());
        names::FLEET_PEERS.register(registry, self.peers.clone());
        names::FLEET_SENT.register(registry, self.sent.clone());
        names::FLEET_DROPPED.register(registry, self.dropped.clone());
        names::FLEET_RECEIVED.register(registry, self.received.clone());
        names::FLEET_DOUBTS.register(registry, self.doubts.clone());
        names::FLEET_LAG.register(registry, self.lag.clone());
    }

    pub(super) fn sent(&self, kind: &'static str) {
        self.sent.get_or_create_owned(&KindLabel { kind }).inc();
    }

    pub(super) fn received(&self, kind: &'static str, result: &'static str) {
        let labels = ReceivedLabels { kind, result };
        self.received.get_or_create_owned(&labels).inc();
    }

    pub(super) fn doubt(&self, reason: &'static str) {
        self.doubts
            .get_or_create_owned(&ReasonLabel { reason })
            .inc();
    }
}
