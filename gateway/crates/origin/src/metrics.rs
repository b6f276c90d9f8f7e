//! The metrics of each origin.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{Cause, OriginError};
use tidegate_telemetry::names;

/// The upper bounds in seconds: from a store in the same rack to the deadline.
const FIRST_BYTE_BUCKETS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
];

/// The usual reasons for which a body breaks off.
const BROKEN_BODY_REASONS: [&str; 3] = ["unavailable", "timeout", "bad_answer"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OriginLabel {
    origin: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabel {
    origin: Arc<str>,
    kind: &'static str,
    result: &'static str,
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabel {
    origin: Arc<str>,
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    origin: Arc<str>,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PriorityLabel {
    origin: Arc<str>,
    priority: &'static str,
}

/// The metrics of all origins of a process. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: Family<RequestLabel, Counter>,
    bytes: Family<CauseLabel, Counter>,
    sent: Family<OriginLabel, Counter>,
    first_byte: Family<OriginLabel, Histogram, fn() -> Histogram>,
    retries: Family<OriginLabel, Counter>,
    broken: Family<ReasonLabel, Counter>,
    breaker_open: Family<OriginLabel, Gauge>,
    running: Family<PriorityLabel, Gauge>,
    queued: Family<PriorityLabel, Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            bytes: Family::default(),
            sent: Family::default(),
            first_byte: Family::new_with_constructor(|| Histogram::new(FIRST_BYTE_BUCKETS)),
            retries: Family::default(),
            broken: Family::default(),
            breaker_open: Family::default(),
            running: Family::default(),
            queued: Family::default(),
        }
    }
}

impl Metrics {
    /// Adds them to the output of `/metrics`.
    pub fn register(&self, registry: &mut Registry) {
        names::ORIGIN_REQUESTS.register(registry, self.requests.clone());
        names::ORIGIN_BYTES.register(registry, self.bytes.clone());
        names::ORIGIN_SENT.register(registry, self.sent.clone());
        names::ORIGIN_FIRST_BYTE.register(registry, self.first_byte.clone());
        names::ORIGIN_RETRIES.register(registry, self.retries.clone());
        names::ORIGIN_BROKEN_BODIES.register(registry, self.broken.clone());
        names::ORIGIN_BREAKER_OPEN.register(registry, self.breaker_open.clone());
        names::ORIGIN_RUNNING.register(registry, self.running.clone());
        names::ORIGIN_QUEUED.register(registry, self.queued.clone());
    }

    /// Returns the metrics of the origin named `name`.
    #[must_use]
    pub fn of(&self, name: &str) -> Meter {
        let origin: Arc<str> = name.into();
        let label = OriginLabel {
            origin: origin.clone(),
        };
        // They begin at 0, so that the first one counts as a rise.
        for reason in BROKEN_BODY_REASONS {
            let origin = origin.clone();
            let _ = self.broken.get_or_create(&ReasonLabel { origin, reason });
        }
        let by_priority = |family: &Family<PriorityLabel, Gauge>| {
            ["demand", "ahead"].map(|priority| {
                let origin = origin.clone();
                family
                    .get_or_create(&PriorityLabel { origin, priority })
                    .clone()
            })
        };
        Meter(Arc::new(OriginMeters {
            bytes: Cause::ALL.map(|cause| self.bytes_by(&origin, cause)),
            sent: self.sent.get_or_create(&label).clone(),
            first_byte: self.first_byte.get_or_create(&label).clone(),
            retries: self.retries.get_or_create(&label).clone(),
            breaker_open: self.breaker_open.get_or_create(&label).clone(),
            running: by_priority(&self.running),
            queued: by_priority(&self.queued),
            requests: self.requests.clone(),
            broken: self.broken.clone(),
            origin,
        }))
    }

    /// Returns the number of body bytes received from the origin named `name` so far.
    #[must_use]
    pub fn received(&self, name: &str) -> u64 {
        let origin = name.into();
        let of = |cause| self.bytes_by(&origin, cause).get();
        Cause::ALL.into_iter().map(of).sum()
    }

    fn bytes_by(&self, origin: &Arc<str>, cause: Cause) -> Counter {
        let label = CauseLabel {
            origin: origin.clone(),
            cause: cause.as_str(),
        };
        self.bytes.get_or_create_owned(&label)
    }
}

/// The metrics of one origin.
#[derive(Debug, Clone)]
pub struct Meter(Arc<OriginMeters>);

#[derive(Debug)]
struct OriginMeters {
    origin: Arc<str>,
    bytes: [Counter; Cause::ALL.len()],
    sent: Counter,
    first_byte: Histogram,
    retries: Counter,
    breaker_open: Gauge,
    running: [Gauge; 2],
    queued: [Gauge; 2],
    requests: Family<RequestLabel, Counter>,
    broken: Family<ReasonLabel, Counter>,
}

impl Meter {
    /// Returns the name of the origin.
    pub(super) fn name(&self) -> &str {
        &self.0.origin
    }

    pub(super) fn count_retry(&self) {
        self.0.retries.inc();
    }

    pub(super) fn set_breaker_open(&self, open: bool) {
        self.0.breaker_open.set(open.into());
    }

    pub(super) fn running(&self, by_priority: [usize; 2]) {
        set_gauges(&self.0.running, by_priority);
    }

    pub(super) fn queued(&self, by_priority: [usize; 2]) {
        set_gauges(&self.0.queued, by_priority);
    }

    pub(super) fn received(&self, cause: Cause, bytes: usize) {
        self.0.bytes[cause as usize].inc_by(bytes as u64);
    }

    pub(super) fn sent(&self, bytes: usize) {
        self.0.sent.inc_by(bytes as u64);
    }

    pub(super) fn observe_answer(&self, time: Duration) {
        self.0.first_byte.observe(time.as_secs_f64());
    }

    pub(super) fn count_request(&self, kind: &'static str, result: &'static str, cause: Cause) {
        let origin = self.0.origin.clone();
        let label = RequestLabel {
            origin,
            kind,
            result,
            cause: cause.as_str(),
        };
        self.0.requests.get_or_create(&label).inc();
    }

    pub(super) fn count_broken_body(&self, error: &OriginError) {
        let (origin, reason) = (self.0.origin.clone(), word(error));
        self.0
            .broken
            .get_or_create(&ReasonLabel { origin, reason })
            .inc();
    }
}

fn set_gauges(gauges: &[Gauge; 2], values: [usize; 2]) {
    for (gauge, value) in gauges.iter().zip(values) {
        gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
    }
}

/// Returns the label of an error.
pub(super) fn word(error: &OriginError) -> &'static str {
    match error {
        OriginError::NotFound => "not_found",
        OriginError::NoSuchBucket => "no_such_bucket",
        OriginError::Forbidden => "forbidden",
        OriginError::Changed => "changed",
        OriginError::Unsatisfiable { .. } => "unsatisfiable",
        OriginError::Throttled { .. } => "throttled",
        OriginError::Timeout(_) => "timeout",
        OriginError::Unavailable(_) => "unavailable",
        OriginError::BadAnswer(_) => "bad_answer",
        OriginError::NoSuchUpload => "no_such_upload",
        OriginError::InvalidPart => "invalid_part",
        OriginError::Unsupported => "unsupported",
        OriginError::KeyRefused => "key_refused",
        OriginError::StorageFull => "storage_full",
        OriginError::Refused(_) => "refused",
        OriginError::Damaged => "damaged",
    }
}
