//! Serves objects over HTTP: a thin frontend over the engine.
//!
//! The answers are described in `docs/HTTP.md`.
//!
//! # The life of a request
//!
//! `server` accepts a connection, and `server/connection` runs hyper on it with a watchdog beside it
//! (`server/timeouts`; over HTTP/2 also `server/streams`). `read` and `write` answer requests: they find the route, ask
//! the engine or the write path, and decide by the rules in [`tidegate_plan`]. The headers of an object are mostly
//! ready-made (`read/cached_headers`). `body/delivery` carries the engine's bytes to the client without a copy, unless
//! the client is so slow that they would pin memory (`body/client_memory`). An error before the first byte is looked up in
//! one table (`request_error`); an error after it cuts the connection. `record` records each request up to its last byte.
//!
//! ARCHITECTURE lists the functions that a GET passes through.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::header::CONTENT_LENGTH;
use ::http::request::Parts;
use ::http::{Method, Response, Version};
use hyper::body::Incoming;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use tidegate_engine::{Engine, Error, ReadContext};
use tidegate_plan::LogRate;
use tidegate_socket::{Listener, Peer};
use tidegate_telemetry::trace::{self, Tracer};
use tidegate_write::WritePath;

mod body;
mod cache_status;
mod client_address;
mod metrics;
mod purge;
mod read;
mod record;
mod reply;
mod request;
mod request_error;
mod routes;
mod server;
mod settings;
mod write;

pub use body::client_memory::ClientMemory;
pub use client_address::{ClientAddress, client_address};
pub use metrics::Metrics;
pub use purge::{PurgeHeaderError, PurgeTarget, purge_target};
pub use routes::Routes;
pub use server::control::{Changes, Control};
pub use server::live_settings::LiveSettings;
pub use settings::{Cors, RouteAccess, RouteLimits, RouteSettings, Settings};

use body::Body;
use purge::PURGE;
use read::HeaderCache;
use record::RequestRecord;
use reply::Reply;
use request::host;
use request_error::RequestError;
use routes::RouteSet;
use server::Server;
use server::connection::{ConnectionContext, Handler};
use server::sent_body::SentBody;
use server::timeouts::{ConnectionActivity, Turn};
use write::wrong_tokens::TokenGuard;

/// A route as the frontend needs it.
#[derive(Debug, Clone)]
pub struct Route {
    /// Its match and its answers.
    pub settings: RouteSettings,
    /// The origin and profile of its objects.
    pub source: Arc<ReadContext>,
}

/// The frontend: answers requests out of the engine.
pub struct Frontend {
    engine: Engine,
    write_path: Arc<WritePath>,
    routes: Arc<Routes>,
    settings: LiveSettings,
    metrics: Arc<Metrics>,
    client_memory: Arc<ClientMemory>,
    tokens: Arc<TokenGuard>,
    /// The purges that were refused to addresses that may not purge.
    purge_refusals: Mutex<LogRate>,
    /// The start of the time by which limits count.
    started: Instant,
    /// Begins traces; `None`: there are none.
    tracer: Option<Arc<Tracer>>,
}

/// A route, and its cached headers.
struct RouteState {
    settings: RouteSettings,
    source: Arc<ReadContext>,
    headers: HeaderCache,
}

impl RouteState {
    fn new(route: Route) -> Self {
        Self {
            settings: route.settings,
            source: route.source,
            headers: HeaderCache::new(),
        }
    }
}

impl fmt::Debug for RouteState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RouteState")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frontend")
            .field("settings", &self.settings)
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

impl Frontend {
    /// Returns a frontend for `routes`. Engine memory that clients keep alive is charged to `client_memory`.
    #[must_use]
    pub fn new(
        (engine, write_path): (Engine, Arc<WritePath>),
        routes: Arc<Routes>,
        settings: impl Into<LiveSettings>,
        metrics: Arc<Metrics>,
        client_memory: Arc<ClientMemory>,
    ) -> Self {
        Self {
            engine,
            write_path,
            routes,
            settings: settings.into(),
            metrics,
            client_memory,
            tokens: Arc::new(TokenGuard::new()),
            purge_refusals: Mutex::default(),
            started: Instant::now(),
            tracer: None,
        }
    }

    /// Has some requests traced.
    #[must_use]
    pub fn with_tracer(mut self, tracer: Option<Arc<Tracer>>) -> Self {
        self.tracer = tracer;
        self
    }

    /// Serves `listeners` until `stop` is cancelled. Then it accepts no more connections, finishes the answers in
    /// flight, for [`Settings::drain`] at most, and returns.
    pub async fn serve(self, listeners: Vec<Listener>, stop: CancellationToken) {
        self.serve_controlled(Changes::fixed(listeners), stop).await;
    }

    /// Does the same with listeners that come and go. The settings must be those of the same [`Control`].
    pub async fn serve_controlled(self, changes: Changes, stop: CancellationToken) {
        Arc::new(Server::new(self.context()))
            .run(changes, stop)
            .await;
    }

    fn context(self) -> ConnectionContext<Self> {
        let (settings, metrics) = (self.settings.clone(), self.metrics.clone());
        ConnectionContext::new(Arc::new(self), settings, metrics)
    }

    /// Reads the settings that each request is judged by.
    fn terms(&self, peer: &Peer, parts: &Parts) -> RequestTerms {
        let in_force = self.settings.load();
        let settings = &in_force.settings;
        RequestTerms {
            address: client_address(peer.address, &parts.headers, &settings.trusted_proxies),
            streams: settings.streams,
            max_uri_bytes: settings.max_uri_bytes,
        }
    }
}

/// The settings in force, as far as one request is judged by them.
struct RequestTerms {
    address: ClientAddress,
    streams: usize,
    max_uri_bytes: usize,
}

/// A route that was found, and the path below it.
type Found<'s, 'p> = Option<(&'s RouteState, &'p str)>;

/// Returns the host of a request, and its route with the path below it, if a route has its host and path.
fn find_route<'s, 'p>(
    routes: &'s RouteSet,
    parts: &'p Parts,
    max_uri_bytes: usize,
) -> Result<(&'p str, Found<'s, 'p>), RequestError> {
    check_target(parts, max_uri_bytes)?;
    let host = host(parts)?;
    Ok((host, routes.find(host, parts.uri.path())))
}

/// Checks the length of a request's target.
fn check_target(parts: &Parts, max_uri_bytes: usize) -> Result<(), RequestError> {
    let target = parts.uri.path_and_query();
    match target.map_or(0, |text| text.as_str().len()) > max_uri_bytes {
        true => Err(RequestError::Target),
        false => Ok(()),
    }
}

/// Returns the answer to a stream beyond the limit. It has no body, which would wait for the client as well.
fn too_many_streams() -> Reply {
    let retry_after = Some(Duration::from_secs(1));
    let error = RequestError::Engine(Error::Overloaded { retry_after });
    let mut reply = Reply::error(&error, Duration::ZERO, &Method::HEAD);
    // Only an answer to HEAD may tell the length of a body that does not come (RFC 9113, 8.1.1).
    reply.answer.headers_mut().remove(CONTENT_LENGTH);
    reply
}

/// Returns the body of a request that writes. That of another one means nothing, and is discarded: a client of HTTP/2 could
/// send a window of it, which would lie in memory while the answer is pending.
fn wanted_body(
    parts: &Parts,
    sent: Incoming,
    activity: &Arc<ConnectionActivity>,
) -> Option<SentBody> {
    let sent = SentBody::new(parts, sent, activity);
    write::writes(&parts.method).then_some(sent)
}

/// Has a request traced, if it is one of those that are.
#[cold]
fn trace_request(tracer: &Arc<Tracer>, parts: &Parts, record: &mut RequestRecord) {
    let parent = parts.headers.get(TRACEPARENT);
    let parent = parent.and_then(|value| value.to_str().ok());
    let name = match parts.method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ if parts.method.as_str() == PURGE => PURGE,
        _ => "HTTP",
    };
    if let Some(span) = tracer.begin(name, parent) {
        record.trace(span);
    }
}

/// W3C Trace Context, 3.2.
const TRACEPARENT: &str = "traceparent";

impl Handler for Frontend {
    type Body = Body;

    async fn answer(
        &self,
        (parts, sent): (&Parts, Incoming),
        turn: Turn,
        peer: &Peer,
    ) -> Result<Response<Body>, Infallible> {
        let activity = turn.come(parts.version).await;
        let sent = wanted_body(parts, sent, &activity);
        let RequestTerms {
            address,
            streams,
            max_uri_bytes,
        } = self.terms(peer, parts);
        let mut record = RequestRecord::begin(
            activity,
            address.counted,
            parts.method.clone(),
            parts.uri.clone(),
            parts.version == Version::HTTP_2,
        );
        if let Some(tracer) = &self.tracer {
            trace_request(tracer, parts, &mut record);
        }
        let mut reply = match sent {
            _ if record.exceeds_stream_share(streams) => {
                self.metrics.streams_refused.inc();
                too_many_streams()
            }
            Some(sent) => {
                let written = self.write((parts, sent), address.counted, max_uri_bytes);
                Box::pin(trace::within(record.span(), written)).await
            }
            _ if self.takes_purge(&parts.method) => {
                let purged = self.purge(parts, address, max_uri_bytes);
                Box::pin(trace::within(record.span(), purged)).await
            }
            None => {
                let (started, client) = (record.started(), (address, peer));
                match record.span() {
                    None => self.read(parts, started, client, max_uri_bytes).await,
                    // Boxed, so that a request that is not traced does not carry its state.
                    Some(span) => {
                        let read = self.read(parts, started, client, max_uri_bytes);
                        Box::pin(trace::within(Some(span), read)).await
                    }
                }
            }
        };
        record.begin_answer(&mut reply.answer, reply.cache);
        let (head, content) = reply.answer.into_parts();
        Ok(Response::from_parts(head, Body::new(content, record)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_stream_gets_an_answer_that_is_well_formed() {
        let answer = too_many_streams().answer;
        assert_eq!(answer.status(), ::http::StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.headers()["retry-after"], "1");
        assert!(!answer.headers().contains_key(CONTENT_LENGTH));
    }
}
