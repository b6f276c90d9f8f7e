//! The record of one request, for its connection, the metrics and the access log.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderValue, Method, Response, StatusCode, Uri};
use tokio::time::Instant;

use crate::body::delivery::BodyError;
use crate::cache_status::CacheResult;
use crate::metrics::Break;
use crate::server::streams::Http2Stream;
use crate::server::timeouts::ConnectionActivity;
use tidegate_access::without_signature;
use tidegate_engine::Error;
use tidegate_telemetry::logging::ACCESS;
use tidegate_telemetry::trace::Span;

/// Streams of one connection while streams are scarce: more than a browser has answers under way at a
/// time.
const MAX_STREAMS_WHILE_SCARCE: usize = 8;

/// One request from its head to the last byte of its answer. Dropping it ends the record: if the answer is not complete
/// by then, the client or the origin cut it off.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    activity: Arc<ConnectionActivity>,
    /// Set over HTTP/2.
    stream: Option<Arc<Http2Stream>>,
    client: Option<IpAddr>,
    method: Method,
    uri: Uri,
    started: Instant,
    /// The time when its first bytes were ready.
    answered: Option<Instant>,
    /// `None` until an answer begins: a client that left before that has none.
    status: Option<StatusCode>,
    cache: CacheResult,
    sent: u64,
    waits_for_server: bool,
    complete: bool,
    /// The reason why it is not complete, if its record ends so.
    broken_by: Break,
    /// Set if the request is traced.
    trace: Option<Box<Span>>,
}

impl RequestRecord {
    /// Begins the record of a request whose head has arrived. It is boxed, for it is handed on several times.
    pub(crate) fn begin(
        activity: Arc<ConnectionActivity>,
        client: Option<IpAddr>,
        method: Method,
        uri: Uri,
        multiplexed: bool,
    ) -> Box<Self> {
        let started = Instant::now();
        let stream = multiplexed.then(|| activity.new_stream());
        activity.begin_request(started, stream.as_ref());
        activity.metrics.in_flight.inc();
        Box::new(Self {
            activity,
            stream,
            client,
            method,
            uri,
            started,
            answered: None,
            status: None,
            cache: CacheResult::None,
            sent: 0,
            waits_for_server: true,
            complete: false,
            broken_by: Break::Client,
            trace: None,
        })
    }

    /// Has the request traced by a span, which ends with this record.
    pub(crate) fn trace(&mut self, span: Span) {
        self.trace = Some(Box::new(span));
    }

    /// Returns the span of the request, if it is traced.
    pub(crate) fn span(&self) -> Option<&Span> {
        self.trace.as_deref()
    }

    /// Returns the time when the request's head arrived.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Returns the client's address, if it has one.
    pub(crate) fn client(&self) -> Option<IpAddr> {
        self.client
    }

    /// Its HTTP/2 stream; `None` over HTTP/1.
    pub(crate) fn stream(&self) -> Option<Arc<Http2Stream>> {
        self.stream.clone()
    }

    /// Returns whether its connection has more streams open than its share of the `max` streams in all.
    pub(crate) fn exceeds_stream_share(&self, max: usize) -> bool {
        let all = self.activity.metrics.streams.get();
        let all = usize::try_from(all).unwrap_or(0);
        self.stream.is_some() && self.activity.has_more_streams(stream_share(all, max))
    }

    /// Records that the answer is decided, and its first bytes are ready. The head says if the connection ends behind it.
    pub(crate) fn begin_answer<B>(&mut self, answer: &mut Response<B>, cache: CacheResult) {
        if self.activity.ends_unread() {
            let close = HeaderValue::from_static("close");
            answer.headers_mut().insert(CONNECTION, close);
        }
        let now = Instant::now();
        self.answered = Some(now);
        self.activity.record_step(now);
        self.status = Some(answer.status());
        self.cache = cache;
    }

    /// Records that the next bytes are not there yet.
    pub(crate) fn wait_for_server(&mut self) {
        if !self.waits_for_server {
            self.waits_for_server = true;
            self.set_waiting(true);
        }
    }

    /// Records that the client has to take bytes before it gets the next ones.
    pub(crate) fn wait_for_client(&mut self) {
        self.add_sent(0);
    }

    /// Records bytes that go to the client.
    pub(crate) fn add_sent(&mut self, bytes: usize) {
        if self.waits_for_server {
            // The first bytes were ready when the answer was decided; later ones were waited for.
            if self.sent > 0 {
                self.activity.record_progress(Instant::now());
            }
            self.waits_for_server = false;
            self.set_waiting(false);
        }
        self.sent += bytes as u64;
    }

    fn set_waiting(&self, for_server: bool) {
        match &self.stream {
            Some(stream) => stream.set_waiting(for_server),
            None => self.activity.set_waiting(for_server),
        }
    }

    /// Records and logs why the answer is cut off here. Only the log has the cause.
    pub(crate) fn break_off(&mut self, error: &BodyError) {
        self.broken_by = match error {
            BodyError::Engine(Error::Stopped) => Break::Stopped,
            _ => Break::Error,
        };
        tracing::warn!(
            path = &*without_signature(self.uri.path()),
            sent = self.sent,
            %error,
            "answer cut off"
        );
    }

    /// Records that the answer is whole.
    pub(crate) fn complete(&mut self) {
        self.complete = true;
    }
}

impl Drop for RequestRecord {
    fn drop(&mut self) {
        match &self.stream {
            Some(stream) => stream.set_waiting(false),
            None => self.activity.end_request(self.waits_for_server),
        }
        self.status = self.final_status();
        let metrics = &self.activity.metrics;
        metrics.in_flight.dec();
        metrics.count_request(
            &self.method,
            self.status,
            self.cache,
            self.sent,
            (!self.complete).then(|| match self.broken_by {
                Break::Client if self.activity.is_cut_off() => Break::Stopped,
                broken_by => broken_by,
            }),
        );
        if let Some(span) = self.trace.take() {
            self.end_trace(*span);
        }
        let first_byte = self.answered.map(|at| at.duration_since(self.started));
        if let Some(first_byte) = first_byte {
            metrics.first_byte.observe(first_byte);
        }
        // 499 as in nginx: the client went before there was an answer.
        tracing::info!(
            target: ACCESS,
            method = self.method.as_str(),
            path = &*without_signature(self.uri.path()),
            status = self.status.map_or(499, |status| status.as_u16()),
            bytes = self.sent,
            cache = self.cache.as_str(),
            first_byte_ms = first_byte.map(millis),
            duration_ms = millis(self.started.elapsed()),
            client = self.client.map(tracing::field::display),
            complete = self.complete,
        );
    }
}

impl RequestRecord {
    /// Returns the status for metrics and log: 503 if the gateway ended before there was an answer.
    fn final_status(&self) -> Option<StatusCode> {
        let is_cut_off = self.status.is_none() && self.activity.is_cut_off();
        match is_cut_off {
            true => Some(StatusCode::SERVICE_UNAVAILABLE),
            false => self.status,
        }
    }

    /// Ends the span with what the access log has as well.
    #[cold]
    fn end_trace(&self, mut span: Span) {
        let status = self.status.map_or(499, |status| status.as_u16());
        span.set("http.request.method", self.method.as_str().to_owned());
        span.set("url.path", without_signature(self.uri.path()).into_owned());
        span.set("http.response.status_code", u64::from(status));
        span.set("http.response.body.size", self.sent);
        span.set("tidegate.cache", self.cache.as_str());
        span.set("tidegate.complete", self.complete);
        if let Some(client) = self.client {
            span.set("client.address", client.to_string());
        }
        if let Some(answered) = self.answered {
            let first_byte = answered.duration_since(self.started);
            let micros = u64::try_from(first_byte.as_micros()).unwrap_or(u64::MAX);
            span.set("tidegate.first_byte_us", micros);
        }
        if status >= 500 || !self.complete {
            span.fail();
        }
    }
}

/// Returns the number of streams that one connection may have open while there are `all` of at most `max`. If they are
/// scarce, each connection has a few, and then one at a time as over HTTP/1: a client is never refused because of
/// others.
fn stream_share(all: usize, max: usize) -> usize {
    match all {
        all if all <= max / 2 => usize::MAX,
        all if all <= max => MAX_STREAMS_WHILE_SCARCE,
        _ => 1,
    }
}

/// Returns milliseconds, to the microsecond.
fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_its_share_of_the_streams() {
        let rows = [
            (1, usize::MAX),
            (50, usize::MAX),
            (51, MAX_STREAMS_WHILE_SCARCE),
            (100, MAX_STREAMS_WHILE_SCARCE),
            (101, 1),
        ];
        for (all, expected) in rows {
            assert_eq!(stream_share(all, 100), expected, "{all}");
        }
    }
}
