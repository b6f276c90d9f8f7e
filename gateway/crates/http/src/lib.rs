//! Serves objects over HTTP: a thin frontend over the engine.
//!
//! The life of a request. `serve` accepts a connection and `connection` runs hyper on it, with a watchdog (`pulse`)
//! beside it. `handler` finds the route, opens the object through the engine, decides by the rules in [`tidegate_plan`]
//! which bytes are sent, and waits for the first ones. Its headers are mostly ready-made (`block`). `delivery` carries
//! the engine's bytes to the client without a copy, unless the client is so slow that they would pin memory (`pace`).
//! An error before the first byte is looked up in one table (`rescue`); an error after it cuts the connection.
//! `exchange` records each request up to its last byte.
//!
//! The answers are described in `docs/HTTP.md`.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ::http::{Method, Request, Response, Version};
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use tidegate_engine::{Engine, Error, ReadContext};
use tidegate_plan::route::{RouteRule, RouteTable};
use tidegate_socket::Listener;
use tidegate_write::WritePath;

mod ask;
mod block;
mod body;
pub mod client;
mod compress;
mod connection;
mod cors;
mod delivery;
mod draft;
mod exchange;
mod handler;
pub mod metrics;
mod multipart;
pub mod pace;
mod pulse;
mod reply;
mod rescue;
mod serve;
pub mod settings;
mod status;
mod streams;
mod write;
mod wrong_tokens;

pub use metrics::Metrics;
pub use pace::{Allowance, Ceiling};
pub use settings::{Cors, RouteSettings, Settings};

use block::Blocks;
use body::Body;
use connection::{Ending, Handler};
use exchange::Exchange;
use pulse::Pulse;
use reply::Reply;
use rescue::Cause;
use serve::Server;
use wrong_tokens::TokenGuard;

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
    table: RouteTable,
    routes: Vec<RouteState>,
    settings: Arc<Settings>,
    metrics: Arc<Metrics>,
    allowance: Arc<dyn Allowance>,
    tokens: Arc<TokenGuard>,
}

/// A route, and its cached headers.
struct RouteState {
    settings: RouteSettings,
    source: Arc<ReadContext>,
    blocks: Blocks,
}

impl fmt::Debug for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frontend")
            .field("settings", &self.settings)
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl Frontend {
    /// Returns a frontend for `routes`. Engine memory that clients keep alive is charged to `allowance`.
    #[must_use]
    pub fn new(
        (engine, write_path): (Engine, Arc<WritePath>),
        routes: Vec<Route>,
        settings: Settings,
        metrics: Arc<Metrics>,
        allowance: Arc<dyn Allowance>,
    ) -> Self {
        let table = RouteTable::new(routes.iter().map(|route| RouteRule {
            host: route.settings.host.clone(),
            path: route.settings.path.clone(),
        }));
        let state = |route: Route| RouteState {
            settings: route.settings,
            source: route.source,
            blocks: Blocks::new(),
        };
        Self {
            engine,
            write_path,
            table,
            routes: routes.into_iter().map(state).collect(),
            settings: Arc::new(settings),
            metrics,
            allowance,
            tokens: Arc::new(TokenGuard::new()),
        }
    }

    /// Serves `listeners` until `stop` is cancelled. Then it accepts no more connections, finishes the answers in
    /// flight, for [`Settings::drain`] at most, and returns.
    pub async fn serve(self, listeners: Vec<Listener>, stop: CancellationToken) {
        self.server().run(listeners, stop).await;
    }

    /// Serves one connection that was accepted elsewhere, until its client ends it or a deadline passes.
    pub async fn serve_stream<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        connection::run(self.server(), stream, None, Ending::default()).await;
    }

    fn server(self) -> Arc<Server<Self>> {
        let (settings, metrics) = (self.settings.clone(), self.metrics.clone());
        Arc::new(Server::new(Arc::new(self), settings, metrics))
    }
}

/// Returns the answer to a stream beyond the limit. It has no body, which would wait for the client as well.
fn refused() -> Reply {
    let retry_after = Some(Duration::from_secs(1));
    let cause = Cause::Engine(Error::Overloaded { retry_after });
    Reply::error(&cause, Duration::ZERO, &Method::HEAD)
}

impl Handler for Frontend {
    type Body = Body;

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        pulse: Arc<Pulse>,
        peer: Option<IpAddr>,
    ) -> Response<Body> {
        // The body of a request that does not write means nothing; hyper discards it.
        let (parts, sent) = request.into_parts();
        let trusted = &self.settings.trusted_proxies;
        let client = client::address(peer, &parts.headers, trusted);
        let mut exchange = Exchange::begin(
            self.metrics.clone(),
            pulse,
            client,
            parts.method.clone(),
            parts.uri.clone(),
            parts.version == Version::HTTP_2,
        );
        let reply = match write::writes(&parts.method) {
            _ if exchange.is_one_too_many(self.settings.streams) => {
                self.metrics.streams_refused.inc();
                refused()
            }
            true => Box::pin(self.write(&parts, sent, client)).await,
            false => self.reply(&parts, exchange.started(), client.into()).await,
        };
        exchange.answers(reply.answer.status(), reply.cache);
        reply.answer.map(|content| Body::new(content, exchange))
    }
}
