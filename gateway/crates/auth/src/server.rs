//! A server of the operator's that is asked about requests, as by nginx's `auth_request`.
//!
//! It gets the method, the target, the client's address and the credentials, and no body. An answer of 2xx admits, 401
//! and 403 refuse; all others, and none, are failures, which are not kept. Requests at the same time that look the same to
//! the server share one sub-request. `Cache-Control: max-age` says for how long an answer is kept.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use http::header::{AUTHORIZATION, CACHE_CONTROL, COOKIE, HOST, USER_AGENT, WWW_AUTHENTICATE};
use http::response::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use prometheus_client::metrics::counter::Counter;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::client::{ClientError, client_for};
use crate::memo::{Digest, Memo};
use crate::metrics::Metrics;
use tidegate_outbound::read_body;
use tidegate_plan::Client;
use tidegate_plan::freshness::delta_seconds;
use tidegate_telemetry::locks::Recover as _;
use tidegate_telemetry::trace::{self, Kind};

/// The most sub-requests under way at once; others wait, for the timeout at most.
const MAX_REQUESTS: usize = 64;

/// The most sub-requests under way and waiting; beyond that the answer is a failure at once.
const MAX_WAITING: usize = 1024;

/// The most of them for one client, if its address is known: one that guesses does not keep out all others.
const MAX_OF_CLIENT: usize = 256;

/// The longest time that an answer is kept.
const MAX_KEPT: Duration = Duration::from_secs(3600);

/// The most bytes of challenges that are passed on.
const MAX_CHALLENGES: usize = 2048;

/// The most bytes of a body that are read, and the time for them: a connection that has none left is used again.
const MAX_BODY: usize = 16 << 10;
const BODY_TIMEOUT: Duration = Duration::from_millis(100);

/// The least time between two lines in the log about failures.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The settings of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthSettings {
    /// Its URL.
    pub uri: Uri,
    /// The time within which it must answer.
    pub timeout: Duration,
    /// The most answers that are kept.
    pub entries: usize,
}

/// A request that a server is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Question<'q> {
    /// Its method.
    pub method: &'q Method,
    /// `http` or `https`, as the client sees it.
    pub scheme: &'static str,
    /// Its host, with the port if the client sent one.
    pub host: &'q str,
    /// Its path and query.
    pub target: &'q str,
    /// The client's address, if it is known.
    pub client: Option<IpAddr>,
    /// Its headers, of which the server gets `Authorization` and `Cookie`.
    pub headers: &'q HeaderMap,
}

/// The answer of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It admits the request.
    Admitted,
    /// It refuses the request with 401, and these challenges (`WWW-Authenticate`).
    Unauthorized(Vec<HeaderValue>),
    /// It refuses the request with 403.
    Forbidden,
    /// It has not answered in time, or neither admitted nor refused it.
    Failed,
}

/// A sub-request under way.
type Flight = Shared<BoxFuture<'static, Answer>>;

/// The sub-requests under way, by their questions, each with the client that was the first to ask.
type Flights = HashMap<Digest, (Flight, Client)>;

/// A server that is asked about requests.
#[derive(Debug)]
pub struct AuthServer {
    settings: AuthSettings,
    client: tidegate_outbound::Client,
    places: Semaphore,
    flights: Mutex<Flights>,
    memo: Memo<Answer>,
    access: Arc<str>,
    metrics: Metrics,
    /// Its metrics, once it is in force.
    counters: OnceLock<Counters>,
    /// The time of the last line in the log.
    logged: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Counters {
    admitted: Counter,
    refused: Counter,
    failed: Counter,
    kept: Counter,
    shared: Counter,
}

/// The headers of a sub-request, in a fixed order.
type Lines = Vec<(HeaderName, HeaderValue)>;

impl AuthServer {
    /// Returns the server of the access of this name. It is not asked yet, and counts nothing before
    /// [`AuthServer::apply`].
    ///
    /// # Errors
    /// It can never be asked.
    pub fn new(
        access: &str,
        settings: AuthSettings,
        metrics: &Metrics,
    ) -> Result<Self, ClientError> {
        Ok(Self {
            client: client_for(&settings.uri)?,
            places: Semaphore::new(MAX_REQUESTS),
            flights: Mutex::default(),
            memo: Memo::new(settings.entries),
            settings,
            access: access.into(),
            metrics: metrics.clone(),
            counters: OnceLock::new(),
            logged: Mutex::default(),
        })
    }

    /// Takes that it is in force: its questions are counted from now on.
    pub fn apply(&self) {
        self.counters.get_or_init(|| {
            let [admitted, refused, failed, kept, shared] = self.metrics.requests(&self.access);
            Counters {
                admitted,
                refused,
                failed,
                kept,
                shared,
            }
        });
    }

    fn count(&self, of: impl Fn(&Counters) -> &Counter) {
        self.counters.get().map(|counters| of(counters).inc());
    }

    /// Returns the server's answer to a question: the one that it has kept, else that of a sub-request. A client that
    /// leaves does not end a sub-request that others wait for.
    pub async fn ask(self: &Arc<Self>, question: &Question<'_>) -> Answer {
        let Some(lines) = lines(question) else {
            self.count(|all| &all.failed);
            return Answer::Failed;
        };
        let digest = digest(&lines);
        if let Some(answer) = self.memo.find(&digest, Instant::now()) {
            self.count(|all| &all.kept);
            return answer;
        }
        let flight = self.flight(digest, lines, Client::from(question.client));
        match flight {
            Some(flight) => flight.await,
            None => {
                self.count(|all| &all.failed);
                Answer::Failed
            }
        }
    }

    /// Joins the sub-request for this question, or begins one. `None`: too many wait.
    fn flight(self: &Arc<Self>, digest: Digest, lines: Lines, client: Client) -> Option<Flight> {
        let mut flights = self.flights.lock().recover();
        if let Some((flight, _)) = flights.get(&digest) {
            self.count(|all| &all.shared);
            return Some(flight.clone());
        }
        let of_client = flights.values().filter(|(_, other)| *other == client);
        if flights.len() >= MAX_WAITING
            || (client != Client::Local && of_client.count() >= MAX_OF_CLIENT)
        {
            return None;
        }
        let landing = FlightGuard {
            server: self.clone(),
            digest,
        };
        let task = tokio::spawn(trace::carry(async move {
            let server = &landing.server;
            let time = server.settings.timeout;
            let fetched = timeout(time, server.fetch(lines)).await;
            let fetched = fetched.unwrap_or_else(|_| Err(format!("no answer within {time:?}")));
            let (answer, keep) = fetched.unwrap_or_else(|reason| {
                server.log_failure(&reason);
                (Answer::Failed, None)
            });
            server.count(|all| match answer {
                Answer::Admitted => &all.admitted,
                Answer::Failed => &all.failed,
                _ => &all.refused,
            });
            if let Some(time) = keep {
                let until = Instant::now() + time;
                server.memo.keep(landing.digest, until, answer.clone());
            }
            answer
        }));
        let flight = task.map(|done| done.unwrap_or(Answer::Failed));
        let flight = flight.boxed().shared();
        flights.insert(digest, (flight.clone(), client));
        Some(flight)
    }

    /// Sends a sub-request. Returns the answer, and the time for which it may be kept.
    ///
    /// # Errors
    /// The reason why there is none, for the log.
    async fn fetch(&self, lines: Lines) -> Result<(Answer, Option<Duration>), String> {
        let place = self.places.acquire().await;
        let _place = place.map_err(|error| error.to_string())?;
        let mut request = Request::new(Full::<Bytes>::default());
        let uri = self.settings.uri.clone();
        let own = uri.authority().map_or("", |own| own.as_str());
        let own = HeaderValue::try_from(own.rsplit('@').next().unwrap_or(own));
        // Its own: the client's would choose which site of a shared server judges.
        let own = own.map_err(|error| error.to_string())?;
        request.headers_mut().insert(HOST, own);
        *request.uri_mut() = uri;
        for (name, value) in lines {
            request.headers_mut().append(name, value);
        }
        let span = trace::span("auth_request", Kind::Client);
        let traceparent = span.as_ref().map(|span| span.context().traceparent());
        if let Some(value) = traceparent.and_then(|text| HeaderValue::try_from(text).ok()) {
            request.headers_mut().insert("traceparent", value);
        }
        let answer = self.client.send(request, self.settings.timeout).await;
        let (head, body) = answer.map_err(|error| error.to_string())?.into_parts();
        let _ = timeout(BODY_TIMEOUT, read_body(body, MAX_BODY)).await;
        match read_answer(&head) {
            (Answer::Failed, _) => Err(format!("the answer was {}", head.status.as_u16())),
            answer => Ok(answer),
        }
    }

    /// Logs a failure, unless one was logged a short time ago: clients cause them.
    fn log_failure(&self, reason: &str) {
        let now = Instant::now();
        let mut logged = self.logged.lock().recover();
        if logged.is_none_or(|at| now - at >= LOG_INTERVAL) {
            *logged = Some(now);
            tracing::warn!(
                reason,
                "the server of auth_request neither admits nor refuses"
            );
        }
    }
}

/// Takes a sub-request out of those under way, also if its task panics.
#[derive(Debug)]
struct FlightGuard {
    server: Arc<AuthServer>,
    digest: Digest,
}

impl Drop for FlightGuard {
    fn drop(&mut self) {
        let mut flights = self.server.flights.lock().recover();
        flights.remove(&self.digest);
    }
}

/// Returns the headers of the sub-request for a question. All that the server learns is in them. `None`: a part of it
/// cannot stand in a header.
fn lines(question: &Question<'_>) -> Option<Lines> {
    let (scheme, host, target) = (question.scheme, question.host, question.target);
    let url = format!("{scheme}://{host}{target}");
    let method = question.method.as_str();
    let texts = [
        (HeaderName::from_static("x-original-uri"), target),
        (HeaderName::from_static("x-original-url"), &url),
        (HeaderName::from_static("x-original-method"), method),
        (HeaderName::from_static("x-forwarded-method"), method),
        (HeaderName::from_static("x-forwarded-proto"), scheme),
        (HeaderName::from_static("x-forwarded-host"), host),
        (HeaderName::from_static("x-forwarded-uri"), target),
    ];
    let mut lines = Vec::with_capacity(16);
    for (name, text) in texts {
        lines.push((name, HeaderValue::from_str(text).ok()?));
    }
    if let Some(client) = question.client {
        let client = HeaderValue::try_from(client.to_string()).ok()?;
        lines.push((HeaderName::from_static("x-forwarded-for"), client.clone()));
        lines.push((HeaderName::from_static("x-real-ip"), client));
    }
    lines.push((USER_AGENT, HeaderValue::from_static("tidegate")));
    let credentials = question.headers.get_all(AUTHORIZATION).iter();
    lines.extend(credentials.map(|value| (AUTHORIZATION, value.clone())));
    lines.extend(cookies(question.headers).map(|cookies| (COOKIE, cookies)));
    Some(lines)
}

/// Returns the cookies of a request in one line. A client of HTTP/2 may send several lines, which a server of HTTP/1.1
/// must not see (RFC 9113, 8.2.3).
fn cookies(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut lines = headers.get_all(COOKIE).iter();
    let first = lines.next()?;
    let mut all = first.as_bytes().to_vec();
    for line in lines {
        all.extend_from_slice(b"; ");
        all.extend_from_slice(line.as_bytes());
    }
    HeaderValue::from_bytes(&all).ok()
}

/// Returns the digest of a question. No two questions have the same text: lengths come first.
fn digest(lines: &Lines) -> Digest {
    let mut hash = Sha256::new();
    for (name, value) in lines {
        for part in [name.as_str().as_bytes(), value.as_bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    hash.finalize().into()
}

/// Reads the head of a server's answer: its decision, and the time for which that may be kept.
#[must_use]
pub fn read_answer(head: &Parts) -> (Answer, Option<Duration>) {
    match judge(head) {
        Answer::Failed => (Answer::Failed, None),
        answer => (answer, max_age(&head.headers)),
    }
}

fn judge(head: &Parts) -> Answer {
    match head.status {
        status if status.is_success() => Answer::Admitted,
        StatusCode::UNAUTHORIZED => {
            let mut left = MAX_CHALLENGES;
            let challenges = head.headers.get_all(WWW_AUTHENTICATE).iter();
            let fitting = challenges.take_while(|value| {
                let fits = value.len() <= left;
                left = left.saturating_sub(value.len());
                fits
            });
            Answer::Unauthorized(fitting.cloned().collect())
        }
        StatusCode::FORBIDDEN => Answer::Forbidden,
        _ => Answer::Failed,
    }
}

/// Returns the time for which an answer may be kept (RFC 9111, 5.2.2). It is the answer to one client, so `private` does
/// not count. Of several times, the shortest holds.
fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let mut found: Option<Duration> = None;
    for line in headers.get_all(CACHE_CONTROL) {
        for directive in line.to_str().ok()?.split(',') {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            let name = name.trim();
            if name.eq_ignore_ascii_case("no-store") || name.eq_ignore_ascii_case("no-cache") {
                return None;
            }
            if name.eq_ignore_ascii_case("max-age") {
                let time = delta_seconds(value);
                found = Some(found.map_or(time, |other| other.min(time)));
            }
        }
    }
    let time = found?.min(MAX_KEPT);
    (!time.is_zero()).then_some(time)
}

#[cfg(test)]
mod tests;
