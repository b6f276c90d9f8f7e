//! The record of one request, for its connection, the metrics and the access log.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode, Uri};
use tokio::time::Instant;

use super::delivery::Broken;
use super::metrics::Metrics;
use super::pulse::Pulse;
use super::status::CacheResult;
use super::streams::Stream;

/// Streams of one connection while streams are scarce: more than a browser has answers under way at a
/// time.
const FEW_STREAMS: usize = 8;

/// One request from its head to the last byte of its answer. Dropping it ends the record: if the answer is not complete
/// by then, the client or the origin cut it off.
#[derive(Debug)]
pub(super) struct Exchange {
    metrics: Arc<Metrics>,
    pulse: Arc<Pulse>,
    /// Set over HTTP/2.
    stream: Option<Arc<Stream>>,
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
    waits: bool,
    complete: bool,
}

impl Exchange {
    /// Begins the record of a request whose head has arrived.
    pub(super) fn begin(
        metrics: Arc<Metrics>,
        pulse: Arc<Pulse>,
        client: Option<IpAddr>,
        method: Method,
        uri: Uri,
        multiplexed: bool,
    ) -> Self {
        let started = Instant::now();
        let stream = multiplexed.then(|| Stream::begin(&metrics.streams));
        pulse.begins(started, stream.as_ref());
        metrics.in_flight.inc();
        Self {
            metrics,
            pulse,
            stream,
            client,
            method,
            uri,
            started,
            answered: None,
            status: None,
            cache: CacheResult::None,
            sent: 0,
            waits: true,
            complete: false,
        }
    }

    /// Returns the time when the request's head arrived.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Its HTTP/2 stream; `None` over HTTP/1.
    pub(super) fn stream(&self) -> Option<Arc<Stream>> {
        self.stream.clone()
    }

    /// Returns whether its connection has more streams open than its share of the `most` streams in all.
    pub(super) fn is_one_too_many(&self, most: usize) -> bool {
        let all = self.metrics.streams.get();
        let all = usize::try_from(all).unwrap_or(0);
        self.stream.is_some() && self.pulse.exceeds(share(all, most))
    }

    /// Notes that the answer is decided, and its first bytes are ready.
    pub(super) fn answers(&mut self, status: StatusCode, cache: CacheResult) {
        let now = Instant::now();
        self.answered = Some(now);
        self.pulse.moved(now);
        self.status = Some(status);
        self.cache = cache;
    }

    /// Notes that the next bytes are not there yet.
    pub(super) fn waits(&mut self) {
        if !self.waits {
            self.waits = true;
            self.tells(true);
        }
    }

    /// Notes that the client has to take bytes before it gets the next ones.
    pub(super) fn waits_for_client(&mut self) {
        self.hands(0);
    }

    /// Notes bytes that go to the client.
    pub(super) fn hands(&mut self, bytes: usize) {
        if self.waits {
            // The first bytes were ready when the answer was decided; later ones were waited for.
            if self.sent > 0 {
                self.pulse.moved(Instant::now());
            }
            self.waits = false;
            self.tells(false);
        }
        self.sent += bytes as u64;
    }

    fn tells(&self, waits_for_us: bool) {
        match &self.stream {
            Some(stream) => stream.waits_for_us(waits_for_us),
            None => self.pulse.waits_for_us(waits_for_us),
        }
    }

    /// Logs why the answer is cut off here. Only the log has the cause.
    pub(super) fn breaks(&self, error: &Broken) {
        tracing::warn!(
            path = self.uri.path(),
            sent = self.sent,
            %error,
            "answer cut off"
        );
    }

    /// Notes that the answer is whole.
    pub(super) fn completes(&mut self) {
        self.complete = true;
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        match &self.stream {
            Some(stream) => stream.waits_for_us(false),
            None => self.pulse.ends(self.waits),
        }
        self.metrics.in_flight.dec();
        self.metrics.ended(
            &self.method,
            self.status,
            self.cache,
            self.sent,
            self.complete,
        );
        let first_byte = self.answered.map(|at| at.duration_since(self.started));
        if let Some(first_byte) = first_byte {
            self.metrics.first_byte.observe(first_byte.as_secs_f64());
        }
        // 499 as in nginx: the client went before there was an answer.
        tracing::info!(
            target: "tidegate::access",
            method = self.method.as_str(),
            path = self.uri.path(),
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

/// Returns the number of streams that one connection may have open while there are `all` of at most `most`. If they are
/// scarce, each connection has a few, and then one at a time as over HTTP/1: a client is never refused because of
/// others.
fn share(all: usize, most: usize) -> usize {
    match all {
        all if all <= most / 2 => usize::MAX,
        all if all <= most => FEW_STREAMS,
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
            (51, FEW_STREAMS),
            (100, FEW_STREAMS),
            (101, 1),
        ];
        for (all, expected) in rows {
            assert_eq!(share(all, 100), expected, "{all}");
        }
    }
}
