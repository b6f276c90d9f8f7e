//! The metrics of subscriptions. The labels are the names in the configuration, and fixed words.

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
struct SubscriptionLabel {
    subscription: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    subscription: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GapLabels {
    subscription: String,
    reason: &'static str,
}

/// The result of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum EventResult {
    /// It is in force here.
    Applied,
    /// It had come before, and was dropped.
    Duplicate,
    /// A later one of its key had come before; it is in force as a doubt.
    Late,
    /// It is of another bucket. It is not logged.
    Foreign,
    /// It changes no key that is served. It is not logged.
    Ignored,
    /// Its kind is not known. It is not logged.
    Unknown,
    /// It could not be read. It is not logged.
    Invalid,
    /// It could not be applied; its source may send it again.
    Failed,
}

impl EventResult {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        RESULTS[self as usize]
    }
}

/// The result of one heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum HeartbeatResult {
    Written,
    Failed,
    Seen,
}

/// The reason why changes may have been missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum GapReason {
    /// A heartbeat did not come back.
    Heartbeat,
    /// The connection was lost or made anew.
    Connection,
    /// A sequence has skipped messages.
    Sequence,
    /// A message could not be read, or was too large.
    Unreadable,
    /// Changes could not be applied.
    Failed,
    /// Messages came faster than they were applied.
    Overflow,
}

const RESULTS: [&str; 8] = [
    "applied",
    "duplicate",
    "late",
    "foreign",
    "ignored",
    "unknown",
    "invalid",
    "failed",
];
const HEARTBEATS: [&str; 3] = ["written", "failed", "seen"];
const GAPS: [&str; 6] = [
    "heartbeat",
    "connection",
    "sequence",
    "unreadable",
    "failed",
    "overflow",
];

/// The metrics of all subscriptions. A clone counts into the same ones.
#[derive(Debug, Clone)]
pub struct Metrics {
    events: Family<ResultLabels, Counter>,
    heartbeats: Family<ResultLabels, Counter>,
    gaps: Family<GapLabels, Counter>,
    alive: Family<SubscriptionLabel, Gauge>,
    lag: Family<SubscriptionLabel, Durations, fn() -> Durations>,
}

/// The metrics of one subscription.
#[derive(Debug)]
pub(crate) struct SubscriptionMetrics {
    events: [Counter; RESULTS.len()],
    heartbeats: [Counter; HEARTBEATS.len()],
    gaps: [Counter; GAPS.len()],
    /// Absent without a heartbeat, which alone can tell.
    alive: Option<Gauge>,
    pub(crate) lag: Durations,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            events: Family::default(),
            heartbeats: Family::default(),
            gaps: Family::default(),
            alive: Family::default(),
            lag: Family::new_with_constructor(|| Durations::new(FIRST_LAG)),
        }
    }
}

impl Metrics {
    /// Registers them.
    pub fn register(&self, registry: &mut Registry) {
        names::EVENTS.register(registry, self.events.clone());
        names::EVENTS_HEARTBEATS.register(registry, self.heartbeats.clone());
        names::EVENTS_GAPS.register(registry, self.gaps.clone());
        names::EVENTS_ALIVE.register(registry, self.alive.clone());
        names::EVENTS_LAG.register(registry, self.lag.clone());
    }

    /// Removes those of a subscription that has ended.
    pub fn forget(&self, name: &str) {
        let subscription = || name.to_owned();
        for (family, results) in [
            (&self.events, &RESULTS[..]),
            (&self.heartbeats, &HEARTBEATS),
        ] {
            for result in results {
                family.remove(&ResultLabels {
                    subscription: subscription(),
                    result,
                });
            }
        }
        for reason in GAPS {
            self.gaps.remove(&GapLabels {
                subscription: subscription(),
                reason,
            });
        }
        let label = SubscriptionLabel {
            subscription: subscription(),
        };
        self.alive.remove(&label);
        self.lag.remove(&label);
    }

    /// Returns those of the subscription of this name, and whether it is alive only if it has a heartbeat.
    pub(crate) fn of(&self, name: &str, has_heartbeat: bool) -> SubscriptionMetrics {
        let result = |family: &Family<ResultLabels, Counter>, result| {
            let subscription = name.to_owned();
            family.get_or_create_owned(&ResultLabels {
                subscription,
                result,
            })
        };
        let label = SubscriptionLabel {
            subscription: name.to_owned(),
        };
        SubscriptionMetrics {
            events: RESULTS.map(|word| result(&self.events, word)),
            heartbeats: HEARTBEATS.map(|word| result(&self.heartbeats, word)),
            gaps: GAPS.map(|reason| {
                let subscription = name.to_owned();
                self.gaps.get_or_create_owned(&GapLabels {
                    subscription,
                    reason,
                })
            }),
            alive: has_heartbeat.then(|| self.alive.get_or_create_owned(&label)),
            lag: self.lag.get_or_create_owned(&label),
        }
    }
}

impl SubscriptionMetrics {
    pub(crate) fn count(&self, result: EventResult, count: u64) {
        self.events[result as usize].inc_by(count);
    }

    pub(crate) fn heartbeat(&self, result: HeartbeatResult) {
        self.heartbeats[result as usize].inc();
    }

    pub(crate) fn gap(&self, reason: GapReason) {
        self.gaps[reason as usize].inc();
    }

    pub(crate) fn set_alive(&self, is_alive: bool) {
        if let Some(alive) = &self.alive {
            alive.set(i64::from(is_alive));
        }
    }
}
