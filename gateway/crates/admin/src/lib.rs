//! The operator's listener: health, metrics and purge, on an address of its own, never the public
//! one.
//!
//! | endpoint | answer |
//! | --- | --- |
//! | `GET /healthz` | 200 while the process lives; checks nothing else |
//! | `GET /readyz` | 200 once origins and cache index are ready; else 503, one line for each thing that is not. Other problems follow as notes |
//! | `GET /metrics` | all metrics, as OpenMetrics text |
//! | `GET /cache` | the state of the tiers, as JSON (see [`cache`]) |
//! | `PUT /cache/disk` | a disk is switched off, or on |
//! | `GET /stat` | the cached bytes of an object, as JSON (see [`stat`]) |
//! | `GET /pending` | objects written through mounts that are not in the bucket yet, as JSON (see [`pending`]) |
//! | `GET`, `PUT`, `DELETE /pins` | prefixes that are kept from eviction on disk (see [`pins`]) |
//! | `GET /list` | a page of the objects below a path in the bucket; asks for the token |
//! | `POST /warm` | fetches objects ahead of use (see [`warm`]) |
//! | `GET /routes` | the present profile of each route, as JSON |
//! | `POST /reload` | reads the configuration again and applies it, whole or not at all (see [`reload`]) |
//! | `GET`, `POST /overrides` | lists the keys that were set while it runs; sets one, or undoes that |
//! | `POST /events/NAME` | takes what a bucket reports of its changes, by a token of its own (see [`events`]) |
//! | `POST /purge` | removes paths, or all below them; 200 once that is durable (see [`purge`]) |
//!
//! The composition root adds the console and its API (`/`, `/console/`, `/api/v1/`) by [`Admin::router_with`].
//!
//! Changes ask for `Authorization: Bearer <token>`, and are refused with 403 while no token is
//! configured. Other paths are 404, other methods 405. All but the first three and events accept only
//! requests that name one of the listener's hosts ([`hosts`]).
//!
//! This layer does not know origins or stores, and routes only by their names. It sees the gateway as the engine, the
//! writers, and traits that the binary implements. [`EngineControl`] implements [`Control`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, Version, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use futures_core::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{Predicate as _, SizeAbove};
use tower_http::set_header::SetResponseHeaderLayer;

use place::PlaceError;
use tidegate_engine::Engine;
use tidegate_plan::{AcceptedCodings, Coding};
use tidegate_write::Writers;

mod ask;
pub mod auth;
pub mod cache;
pub mod control;
pub mod events;
mod listen;
mod pending;
pub mod pins;
pub mod place;
pub mod profile;
pub mod purge;
pub mod reload;
mod stat;
mod warm;

/// The endpoints of the listener.
pub type Endpoints = Router;

pub use ask::read_body;
pub use control::EngineControl;
pub use listen::control::{AdminControl, AdminListeners, serve_controlled};
pub use listen::hosts;
pub use purge::{Purge, PurgeError, PurgeExtent, PurgeResult, ResolvedPurge};
pub use warm::WarmRequest;

/// `/readyz` answers within this time, whatever the check waits for: half of the 10 s that many load balancers wait for
/// an answer.
const READY_DEADLINE: Duration = Duration::from_secs(5);

/// The longest body that is read, but for lists of paths.
const MAX_BODY: usize = 16 << 10;

/// The admin listener's view of the gateway.
pub trait Control: Send + Sync + 'static {
    /// Returns whether origins and cache index are ready; else one line for each that is not.
    fn ready(&self) -> BoxFuture<'_, Result<(), Vec<String>>>;

    /// Problems that do not prevent answers, one line each.
    fn notes(&self) -> Vec<String>;

    /// Long work under way, in words, one line each: the load of an index, the spool of an earlier process, the drain.
    fn work(&self) -> Vec<String>;

    /// Finds the objects that `purge` names. Purges nothing.
    ///
    /// # Errors
    /// If its path leads nowhere.
    fn resolve(&self, purge: &Purge) -> Result<ResolvedPurge, PlaceError>;

    /// Purges what was resolved. Durable when it returns.
    ///
    /// # Errors
    /// It could not be made durable.
    fn purge<'a>(
        &'a self,
        purge: &'a ResolvedPurge,
    ) -> BoxFuture<'a, Result<PurgeResult, PurgeError>>;
}

/// The state that the endpoints need.
#[derive(Clone)]
pub struct Admin {
    /// The gateway behind them.
    pub control: Arc<dyn Control>,
    /// The routes and their profiles.
    pub routes: Arc<dyn profile::Routes>,
    /// Reads the configuration again.
    pub reload: Arc<dyn reload::Reload>,
    /// The tiers, which may be resized and switched off.
    pub tiers: Arc<dyn cache::Tiers>,
    /// The pins.
    pub pins: Arc<dyn pins::Pins>,
    /// The subscriptions that webhooks feed.
    pub events: Arc<dyn events::Events>,
    /// The routes, to resolve paths.
    pub locate: Arc<dyn place::Locate>,
    /// The engine, to ask about objects.
    pub engine: Engine,
    /// The drafts of mounts, if one is writable.
    pub writers: Option<Writers>,
    /// Renders all metrics, in OpenMetrics text.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// The hosts that it answers to.
    pub hosts: hosts::Hosts,
    /// The token that a change must show.
    pub token: auth::AdminToken,
    /// Cancelled when the gateway begins to drain: `/readyz` says so from then on. The public listener closes at that moment.
    pub draining: CancellationToken,
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin")
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

impl Admin {
    /// Returns the endpoints in the head of this module.
    pub fn router(self) -> Router {
        self.router_with(auth::Guesses::new(), Router::new())
    }

    /// Returns these endpoints and others. `guesses` counts the wrong tokens of both, and the hosts of both are checked.
    pub fn router_with(self, guesses: auth::Guesses, others: Router) -> Router {
        let guard = auth::Guard::new(self.clone(), guesses.clone());
        let changes = middleware::from_fn_with_state(guard, auth::require_token);
        let events = post(events::receive).with_state((self.clone(), guesses));
        let hosts = middleware::from_fn_with_state(self.hosts.clone(), hosts::require_host);
        Router::new()
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .route("/cache", get(cache::show))
            .route("/cache/disk", put(cache::disk).route_layer(changes.clone()))
            .route("/stat", get(stat::stat))
            .route("/pending", get(pending::list))
            .route("/list", get(warm::list).route_layer(changes.clone()))
            .route(
                "/warm",
                post(warm::warm)
                    .layer(DefaultBodyLimit::max(warm::MAX_BODY))
                    .route_layer(changes.clone()),
            )
            .route(
                "/pins",
                put(pins::pin)
                    .delete(pins::unpin)
                    .route_layer(changes.clone())
                    .get(pins::list),
            )
            .route("/routes", get(profile::list))
            .route("/reload", post(reload::reload).route_layer(changes.clone()))
            .route(
                "/overrides",
                post(reload::set)
                    .route_layer(changes.clone())
                    .get(reload::overridden),
            )
            .route(
                "/purge",
                post(purge::purge)
                    .layer(DefaultBodyLimit::max(purge::MAX_BODY))
                    .route_layer(changes),
            )
            .route(&format!("{}{{name}}", events::PATH), events)
            .with_state(self)
            .merge(others)
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .layer(hosts)
            .layer(always(header::CACHE_CONTROL, "no-store"))
            .layer(always(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
            .layer(always(RESOURCE_POLICY, "same-origin"))
    }
}

/// Compresses long texts of all answers of `router`. It goes around every layer that reads or changes a body.
pub fn compressed(router: Router) -> Router {
    let long = SizeAbove::new(MIN_COMPRESSED).and(is_text);
    router
        .layer(CompressionLayer::new().compress_when(long))
        .layer(middleware::map_request(offer_gzip))
}

/// Leaves `gzip` of an `Accept-Encoding`, or nothing. The layer within would answer 406 to a request that refuses
/// everything, once it was carried out; RFC 9110 (12.5.3) lets a server answer uncompressed.
async fn offer_gzip(mut request: Request) -> Request {
    let accepted = AcceptedCodings::from_headers(request.headers());
    let headers = request.headers_mut();
    match accepted.preferred(&[Coding::Gzip]).next() {
        Some(_) => headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip")),
        None => headers.remove(header::ACCEPT_ENCODING),
    };
    request
}

/// The length of an answer above which it is compressed, if it is known.
const MIN_COMPRESSED: u64 = 1024;

/// Returns whether an answer is text: pages, JSON and metrics, no stream of events. The secret of a page differs each time
/// it is shown, so that its compressed length does not tell it (BREACH).
fn is_text(_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_text = kind.starts_with("text/") && !kind.starts_with("text/event-stream");
    is_text || kind.starts_with("application/json") || kind.starts_with("application/openmetrics")
}

/// Keeps pages of other origins from showing a picture of ours: ports share cookies
/// (<https://fetch.spec.whatwg.org/#cross-origin-resource-policy-header>).
const RESOURCE_POLICY: header::HeaderName =
    header::HeaderName::from_static("cross-origin-resource-policy");

/// Adds a header to every answer that has none of its name.
fn always(name: header::HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
}

async fn healthz() -> &'static str {
    "ok\n"
}

async fn readyz(State(admin): State<Admin>) -> Response {
    let (status, mut lines) = if admin.draining.is_cancelled() {
        let line = "draining: the process is shutting down".to_owned();
        (StatusCode::SERVICE_UNAVAILABLE, vec![line])
    } else {
        match tokio::time::timeout(READY_DEADLINE, admin.control.ready()).await {
            Ok(Ok(())) => (StatusCode::OK, vec!["ready".to_owned()]),
            Ok(Err(lines)) => (StatusCode::SERVICE_UNAVAILABLE, lines),
            Err(_) => {
                let line = format!("the check took longer than {} s", READY_DEADLINE.as_secs());
                (StatusCode::SERVICE_UNAVAILABLE, vec![line])
            }
        }
    };
    if status != StatusCode::OK {
        let mut work = admin.control.work();
        work.retain(|line| !lines.contains(line));
        lines.append(&mut work);
    }
    let notes = admin.control.notes().into_iter();
    lines.extend(notes.map(|note| format!("note: {note}")));
    let mut body = lines.join("\n");
    body.push('\n');
    (status, body).into_response()
}

async fn metrics(State(admin): State<Admin>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], (admin.metrics)()).into_response()
}

#[cfg(test)]
mod tests;
