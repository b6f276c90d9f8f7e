//! The operator's console: a page at `/` of the admin listener, and its data at `/api/v1/`.
//!
//! Both are made of the same figures. [`api`] collects them from the engine, the write path, `admin`'s traits and the
//! gateway's own metrics; its answers are described by an OpenAPI document that is made from the code. [`page`] renders
//! them as HTML on the server. A script replaces the live parts of a page as the server sends them ([`live`]); without
//! scripts each page shows its state at the time of the request, and every form works.
//!
//! Requests are admitted by the admin token, or by a session that a browser has opened with it ([`access`],
//! [`sessions`]). `admin` checks the host of each before. Nothing is looked at while no request asks, but the metrics,
//! once every 10 s, for the history of the last day ([`sampler`]).

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};
use tokio_util::sync::CancellationToken;

use tidegate_admin::auth::Guesses;
use tidegate_admin::{Admin, Endpoints};

mod access;
pub mod api;
mod exposition;
pub mod figures;
pub mod gateway;
pub mod history;
mod live;
mod page;
mod readiness;
mod sampler;
mod section;
pub mod sessions;
pub mod warms;

pub use gateway::Gateway;

use api::doctor::DoctorRun;
use api::objects::Pages;
use api::writes::KnownVersions;
use live::LiveFeed;
use page::now::DrawnCharts;
use page::throughput::Throughput;
use readiness::Readiness;
use sampler::Sampler;
use sessions::Sessions;
use warms::Warms;

/// The parts of which a console is made.
#[derive(Debug)]
pub struct ConsoleParts {
    /// The admin listener's view of the gateway.
    pub admin: Admin,
    /// The rest of the gateway.
    pub gateway: Arc<dyn Gateway>,
    /// The state folder, for the history.
    pub state: Option<PathBuf>,
    /// Whether every client that reaches the listener may read without the token.
    pub open_to_read: bool,
    /// Cancelled when the admin listener stops, after the drain.
    pub stop: CancellationToken,
}

/// The console.
#[derive(Clone)]
pub struct Console {
    admin: Admin,
    gateway: Arc<dyn Gateway>,
    sampler: Arc<Sampler>,
    readiness: Arc<Readiness>,
    sessions: Arc<Sessions>,
    pages: Arc<Pages>,
    versions: Arc<KnownVersions>,
    doctor: Arc<DoctorRun>,
    throughput: Arc<Throughput>,
    live: Arc<LiveFeed>,
    warms: Arc<Warms>,
    charts: Arc<DrawnCharts>,
    guesses: Guesses,
    open_to_read: bool,
    stop: CancellationToken,
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

impl Console {
    /// Makes a console. Wrong tokens are counted with those of the listener.
    #[must_use]
    pub fn new(parts: ConsoleParts, guesses: Guesses) -> Self {
        Self {
            sampler: Sampler::new(parts.admin.clone(), parts.state),
            sessions: Arc::new(Sessions::new(parts.admin.token.clone())),
            admin: parts.admin,
            gateway: parts.gateway,
            readiness: Arc::default(),
            pages: Arc::default(),
            versions: Arc::default(),
            doctor: Arc::default(),
            throughput: Arc::default(),
            live: Arc::default(),
            warms: Arc::default(),
            charts: Arc::default(),
            guesses,
            open_to_read: parts.open_to_read,
            stop: parts.stop,
        }
    }

    /// Keeps the history until the admin listener stops; returns when it is written.
    pub async fn run(self) {
        self.sampler.run(self.stop).await;
    }

    /// Returns the endpoints of the admin listener: those of `admin`, the page and the API.
    pub fn endpoints(self) -> Endpoints {
        let (admin, guesses) = (self.admin.clone(), self.guesses.clone());
        let all = admin.router_with(guesses, self.router());
        tidegate_admin::compressed(all.layer(middleware::from_fn(api::errors::as_json)))
    }

    fn router(self) -> Router {
        let api = middleware::from_fn_with_state(self.clone(), access::require_api);
        let pages_access = middleware::from_fn_with_state(self.clone(), access::require_page);
        let errors = middleware::from_fn_with_state(self.clone(), page::errors::as_page);
        let api = api::openapi::router().route_layer(api);
        Router::new()
            .nest(api::errors::API_PATH, api)
            .merge(
                pages()
                    .route_layer(pages_access.clone())
                    .merge(login())
                    .route_layer(errors),
            )
            .merge(page_parts().route_layer(pages_access))
            .route("/console/console.css", get(page::assets::style))
            .route("/console/console.js", get(page::assets::script))
            .route("/console/icon.svg", get(page::assets::icon))
            .layer(middleware::from_fn(tidegate_admin::read_body))
            .with_state(self)
    }
}

/// Returns the pages that ask for a session, unless the console is open to read.
fn pages() -> Router<Console> {
    Router::new()
        .route("/", get(page::now::page))
        .route(
            "/console/streams",
            get(page::streams::page).post(page::streams::act),
        )
        .route(
            "/console/objects",
            get(page::objects::page).post(page::objects::act),
        )
        .route("/console/preview", get(page::preview::page))
        .route("/console/tiers", get(page::tiers::page))
        .route(
            "/console/writes",
            get(page::writes::page).post(page::writes::act),
        )
        .route("/console/events", get(page::events::page))
        .route(
            "/console/settings",
            get(page::settings::page).post(page::settings::act),
        )
        .route(
            "/console/doctor",
            get(page::doctor::page).post(page::doctor::act),
        )
        .route(
            "/console/sessions",
            get(page::login::sessions).post(page::login::end),
        )
}

/// Returns the routes of resources that pages load. Their errors stay plain text.
fn page_parts() -> Router<Console> {
    Router::new()
        .route("/console/preview/bytes", get(page::preview::bytes))
        .route(page::throughput::PATH, get(page::throughput::bytes))
        .route(section::LIVE_PATH, get(live::events))
}

/// Returns the login and the logout, which all may ask for.
fn login() -> Router<Console> {
    Router::new()
        .route(
            access::LOGIN_PATH,
            get(page::login::page).post(page::login::log_in),
        )
        .route("/console/logout", post(page::login::log_out))
}
