//! The frontend's metrics. Every handle is resolved at start; counting is an atomic addition.

use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::cache_status::CacheResult;
use tidegate_access::Refusal;
use tidegate_access::limits::ReachedLimit;
use tidegate_telemetry::names;
use tidegate_telemetry::sharded::{self, Counter, Durations};

const METHOD_LABELS: [&str; 6] = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "other"];
const STATUS_LABELS: [&str; 5] = ["2xx", "3xx", "4xx", "5xx", "gone"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CacheLabels {
    result: &'static str,
}

/// The reason why an answer that was begun is not sent whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// The client left, or took nothing for too long.
    Client,
    /// The origin or the gateway failed.
    Error,
    /// An operator stopped it, or the gateway ended before it was sent.
    Stopped,
}

/// The labels of [`Break`], in its order.
const BREAK_LABELS: [&str; 3] = ["client", "error", "stopped"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BreakLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    limit: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    reason: &'static str,
}

/// The frontend's metrics.
#[derive(Debug)]
pub struct Metrics {
    request_family: Family<RequestLabels, Counter>,
    cache_family: Family<CacheLabels, Counter>,
    refusal_family: Family<RefusalLabels, Counter>,
    limit_family: Family<LimitLabels, Counter>,
    break_family: Family<BreakLabels, Counter>,
    requests: [[Counter; STATUS_LABELS.len()]; METHOD_LABELS.len()],
    cache: [Counter; CacheResult::ALL.len()],
    refusals: [Counter; Refusal::ALL.len()],
    limited: [Counter; ReachedLimit::NAMES.len()],
    sent: Counter,
    pub(crate) broken: [Counter; BREAK_LABELS.len()],
    pub(crate) in_flight: sharded::Gauge,
    pub(crate) first_byte: Durations,
    pub(crate) connections: Gauge,
    pub(crate) accepted: Counter,
    pub(crate) expired: Counter,
    /// Idle connections that gave way.
    pub(crate) displaced: Counter,
    /// HTTP/2 streams that are open.
    pub(crate) streams: Gauge,
    pub(crate) streams_reset: Counter,
    pub(crate) streams_refused: Counter,
}

impl Default for Metrics {
    fn default() -> Self {
        let request_family = Family::<RequestLabels, Counter>::default();
        let cache_family = Family::<CacheLabels, Counter>::default();
        let requests = METHOD_LABELS.map(|method| {
            STATUS_LABELS
                .map(|status| request_family.get_or_create_owned(&RequestLabels { method, status }))
        });
        let cache = CacheResult::ALL.map(|result| {
            let result = result.as_str();
            cache_family.get_or_create_owned(&CacheLabels { result })
        });
        let refusal_family = Family::<RefusalLabels, Counter>::default();
        let refusals = Refusal::ALL.map(|refusal| {
            let reason = refusal.as_str();
            refusal_family.get_or_create_owned(&RefusalLabels { reason })
        });
        let limit_family = Family::<LimitLabels, Counter>::default();
        let limited = ReachedLimit::NAMES
            .map(|limit| limit_family.get_or_create_owned(&LimitLabels { limit }));
        let break_family = Family::<BreakLabels, Counter>::default();
        let broken =
            BREAK_LABELS.map(|reason| break_family.get_or_create_owned(&BreakLabels { reason }));
        Self {
            request_family,
            cache_family,
            refusal_family,
            limit_family,
            break_family,
            requests,
            cache,
            refusals,
            limited,
            sent: Counter::default(),
            broken,
            in_flight: sharded::Gauge::default(),
            // From 50 µs, a hit in memory, to 26 s, a cold read from an origin in distress.
            first_byte: Durations::new(Duration::from_micros(50)),
            connections: Gauge::default(),
            accepted: Counter::default(),
            expired: Counter::default(),
            displaced: Counter::default(),
            streams: Gauge::default(),
            streams_reset: Counter::default(),
            streams_refused: Counter::default(),
        }
    }
}

impl Metrics {
    /// Returns the number of requests under way.
    #[must_use]
    pub fn requests_in_flight(&self) -> u64 {
        u64::try_from(self.in_flight.get()).unwrap_or(0)
    }

    /// Registers the metrics in `registry`.
    pub fn register(&self, registry: &mut Registry) {
        names::HTTP_REQUESTS.register(registry, self.request_family.clone());
        names::HTTP_CACHE_RESULTS.register(registry, self.cache_family.clone());
        names::HTTP_ACCESS_REFUSED.register(registry, self.refusal_family.clone());
        names::HTTP_LIMITED.register(registry, self.limit_family.clone());
        names::HTTP_SENT_BYTES.register(registry, self.sent.clone());
        names::HTTP_BROKEN_ANSWERS.register(registry, self.break_family.clone());
        names::HTTP_REQUESTS_IN_FLIGHT.register(registry, self.in_flight.clone());
        names::HTTP_FIRST_BYTE_SECONDS.register(registry, self.first_byte.clone());
        names::HTTP_CONNECTIONS.register(registry, self.connections.clone());
        names::HTTP_CONNECTIONS_ACCEPTED.register(registry, self.accepted.clone());
        names::HTTP_CONNECTIONS_EXPIRED.register(registry, self.expired.clone());
        names::HTTP_CONNECTIONS_DISPLACED.register(registry, self.displaced.clone());
        names::HTTP_STREAMS.register(registry, self.streams.clone());
        names::HTTP_STREAMS_RESET.register(registry, self.streams_reset.clone());
        names::HTTP_STREAMS_REFUSED.register(registry, self.streams_refused.clone());
    }

    /// Counts a request that an access refused.
    pub(crate) fn count_refusal(&self, refusal: Refusal) {
        self.refusals[refusal as usize].inc();
    }

    /// Counts a request that a limit refused.
    pub(crate) fn count_limited(&self, limited: ReachedLimit) {
        self.limited[limited.index()].inc();
    }

    /// Counts a request that is over; without a status its client left before the answer. `broken` is `None` if the answer
    /// was sent whole.
    pub(crate) fn count_request(
        &self,
        method: &Method,
        status: Option<StatusCode>,
        cache: CacheResult,
        sent: u64,
        broken: Option<Break>,
    ) {
        let method = match *method {
            Method::GET => 0,
            Method::HEAD => 1,
            Method::OPTIONS => 2,
            Method::PUT => 3,
            Method::DELETE => 4,
            _ => 5,
        };
        let class = match status.map(|status| status.as_u16() / 100) {
            Some(2) => 0,
            Some(3) => 1,
            Some(4) => 2,
            Some(_) => 3,
            None => 4,
        };
        self.requests[method][class].inc();
        self.cache[cache as usize].inc();
        self.sent.inc_by(sent);
        if let Some(reason) = broken.filter(|_| status.is_some()) {
            self.broken[reason as usize].inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_method_class_and_result() {
        let metrics = Metrics::default();
        let ok = Some(StatusCode::OK);
        metrics.count_request(&Method::GET, ok, CacheResult::Hit, 10, None);
        metrics.count_request(&Method::GET, ok, CacheResult::Miss, 5, Some(Break::Client));
        metrics.count_request(&Method::GET, ok, CacheResult::Hit, 0, Some(Break::Error));
        let gone = Some(Break::Client);
        metrics.count_request(&Method::PATCH, None, CacheResult::None, 0, gone);
        let mut registry = Registry::with_prefix("tidegate");
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
        for line in [
            "tidegate_http_requests_total{method=\"GET\",status=\"2xx\"} 3",
            "tidegate_http_requests_total{method=\"other\",status=\"gone\"} 1",
            "tidegate_http_cache_results_total{result=\"hit\"} 2",
            "tidegate_http_cache_results_total{result=\"none\"} 1",
            "tidegate_http_sent_bytes_total 15",
            "tidegate_http_broken_answers_total{reason=\"client\"} 1",
            "tidegate_http_broken_answers_total{reason=\"error\"} 1",
            "tidegate_http_broken_answers_total{reason=\"stopped\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
