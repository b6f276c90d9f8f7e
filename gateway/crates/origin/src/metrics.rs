//! The metrics of each origin.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{Cause, OriginError};
use tidegate_telemetry::locks::Recover as _;
use tidegate_telemetry::names;

/// The upper bounds in seconds: from a store in the same rack to the deadline.
const FIRST_BYTE_BUCKETS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
];

/// The priorities of requests.
const PRIORITIES: [&str; 2] = ["demand", "ahead"];

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

/// The metrics of all origins of a process. Clones share them. Those of an origin are shown while a [`Meter`] of it is held.
/// A reload that removes an origin removes its values, so that no alert waits for them.
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
    origins: Arc<Mutex<OriginMap>>,
}

/// The shown origins by their names.
type OriginMap = HashMap<Arc<str>, ShownOrigin>;

/// An origin whose metrics are shown.
#[derive(Debug)]
struct ShownOrigin {
    meters: Weak<OriginMeters>,
    counted: Arc<OriginCounters>,
}

/// The labels of an origin that were counted so far. Another origin of its name that begins before it has ended takes them
/// over.
#[derive(Debug, Default)]
struct OriginCounters {
    requests: Mutex<HashMap<RequestKey, Counter>>,
    broken: Mutex<HashMap<&'static str, Counter>>,
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
            origins: Arc::default(),
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
        self.meter(&mut self.origins.lock().recover(), name)
    }

    fn meter(&self, origins: &mut OriginMap, name: &str) -> Meter {
        let shown = origins.get(name);
        if let Some(meters) = shown.and_then(|shown| shown.meters.upgrade()) {
            return Meter(meters);
        }
        let counted = shown.map(|shown| shown.counted.clone());
        let counted = counted.unwrap_or_default();
        let origin: Arc<str> = name.into();
        let meters = Arc::new(self.meters_of(origin.clone(), counted.clone()));
        let shown = ShownOrigin {
            meters: Arc::downgrade(&meters),
            counted,
        };
        origins.insert(origin, shown);
        Meter(meters)
    }

    fn meters_of(&self, origin: Arc<str>, counted: Arc<OriginCounters>) -> OriginMeters {
        let label = OriginLabel {
            origin: origin.clone(),
        };
        // They begin at 0, so that the first one counts as a rise.
        let broken = BROKEN_BODY_REASONS.map(|reason| {
            let origin = origin.clone();
            let label = ReasonLabel { origin, reason };
            (reason, self.broken.get_or_create_owned(&label))
        });
        counted.broken.lock().recover().extend(broken);
        let by_priority = |family: &Family<PriorityLabel, Gauge>| {
            PRIORITIES.map(|priority| {
                let origin = origin.clone();
                family
                    .get_or_create(&PriorityLabel { origin, priority })
                    .clone()
            })
        };
        OriginMeters {
            bytes: Cause::ALL.map(|cause| self.bytes_by(&origin, cause)),
            sent: self.sent.get_or_create(&label).clone(),
            first_byte: self.first_byte.get_or_create(&label).clone(),
            retries: self.retries.get_or_create(&label).clone(),
            breaker_open: self.breaker_open.get_or_create(&label).clone(),
            running: by_priority(&self.running),
            queued: by_priority(&self.queued),
            counted,
            all: self.clone(),
            origin,
        }
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

/// The metrics of one origin. The last one that is dropped takes them out of `/metrics`.
#[derive(Debug, Clone)]
pub struct Meter(Arc<OriginMeters>);

/// The kind, result and cause of a request.
type RequestKey = (&'static str, &'static str, &'static str);

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
    counted: Arc<OriginCounters>,
    all: Metrics,
}

impl OriginMeters {
    fn request_label(&self, (kind, result, cause): RequestKey) -> RequestLabel {
        RequestLabel {
            origin: self.origin.clone(),
            kind,
            result,
            cause,
        }
    }

    fn reason_label(&self, reason: &'static str) -> ReasonLabel {
        ReasonLabel {
            origin: self.origin.clone(),
            reason,
        }
    }
}

impl Drop for OriginMeters {
    fn drop(&mut self) {
        let all = &self.all;
        let mut origins = all.origins.lock().recover();
        // Another origin of this name may have begun in this moment, and shows them.
        let present = origins.get(&self.origin);
        if present.is_none_or(|present| present.meters.strong_count() > 0) {
            return;
        }
        origins.remove(&self.origin);
        for key in self.counted.requests.lock().recover().keys() {
            all.requests.remove(&self.request_label(*key));
        }
        for reason in self.counted.broken.lock().recover().keys() {
            all.broken.remove(&self.reason_label(reason));
        }
        let origin = || self.origin.clone();
        for cause in Cause::ALL.map(Cause::as_str) {
            let origin = origin();
            all.bytes.remove(&CauseLabel { origin, cause });
        }
        for priority in PRIORITIES {
            let origin = origin();
            let label = PriorityLabel { origin, priority };
            all.running.remove(&label);
            all.queued.remove(&label);
        }
        let label = OriginLabel { origin: origin() };
        all.sent.remove(&label);
        all.retries.remove(&label);
        all.first_byte.remove(&label);
        all.breaker_open.remove(&label);
    }
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
        let (meters, key) = (&self.0, (kind, result, cause.as_str()));
        let mut requests = meters.counted.requests.lock().recover();
        let new = || {
            let label = meters.request_label(key);
            meters.all.requests.get_or_create_owned(&label)
        };
        requests.entry(key).or_insert_with(new).inc();
    }

    pub(super) fn count_broken_body(&self, error: &OriginError) {
        let (meters, reason) = (&self.0, word(error));
        let mut broken = meters.counted.broken.lock().recover();
        let new = || {
            let label = meters.reason_label(reason);
            meters.all.broken.get_or_create_owned(&label)
        };
        broken.entry(reason).or_insert_with(new).inc();
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
        OriginError::HeadersTooLarge => "headers_too_large",
        OriginError::ObjectTooLarge => "object_too_large",
        OriginError::StorageFull => "storage_full",
        OriginError::Refused(_) => "refused",
        OriginError::Damaged => "damaged",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    /// Returns the metrics as they are shown.
    pub(crate) fn shown(metrics: &Metrics) -> String {
        let mut registry = Registry::with_prefix("tidegate");
        metrics.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        text
    }

    #[test]
    fn the_metrics_of_an_origin_go_with_its_last_meter() {
        let metrics = Metrics::default();
        let text = || shown(&metrics);
        let none = text();
        let (kept, other) = (metrics.of("kept"), metrics.of("gone"));
        // A reload connects anew before the connection of before ends.
        let again = metrics.of("gone");
        for meter in [&kept, &other, &again] {
            meter.count_request("get", "content", Cause::Demand);
            meter.count_request("put", "timeout", Cause::Write);
            meter.count_broken_body(&OriginError::Damaged);
            meter.set_breaker_open(true);
        }
        drop(other);
        let line = r#"origin="gone",kind="get",result="content",cause="demand"} 2"#;
        assert!(text().contains(line), "{}", text());
        drop(again);
        assert!(!text().contains("\"gone\"") && text().contains("\"kept\""));
        drop(kept);
        assert_eq!(text(), none);
    }

    #[test]
    fn an_origin_that_begins_as_another_of_its_name_ends_takes_its_metrics_along() {
        let metrics = Metrics::default();
        let text = || shown(&metrics);
        let none = text();
        let old = metrics.of("o");
        old.count_request("put", "timeout", Cause::Write);
        old.count_broken_body(&OriginError::Damaged);
        let ended = Arc::downgrade(&old.0);
        let mut origins = metrics.origins.lock().recover();
        let end = std::thread::spawn(move || drop(old));
        while ended.strong_count() > 0 {
            std::thread::yield_now();
        }
        let new = metrics.meter(&mut origins, "o");
        drop(origins);
        end.join().expect("no panic");
        new.count_request("put", "timeout", Cause::Write);
        let line = r#"origin="o",kind="put",result="timeout",cause="write"} 2"#;
        assert!(text().contains(line), "{}", text());
        drop(new);
        assert_eq!(text(), none);
    }
}
