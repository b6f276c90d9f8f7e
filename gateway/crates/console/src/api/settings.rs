//! `GET /api/v1/settings` and `GET /api/v1/routes`. `/overrides` of the listener changes a key.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::Console;
use crate::gateway::{RouteInfo, Setting};

/// Every key of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SettingList {
    /// The keys, in the order of the reference; those of lists once for each entry.
    pub settings: Vec<Setting>,
}

/// The routes of the public listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RouteList {
    /// The routes, in the order of the configuration.
    pub routes: Vec<RouteInfo>,
}

/// Answers `GET /api/v1/settings`.
#[utoipa::path(
    get,
    path = "/api/v1/settings",
    operation_id = "list_settings",
    responses((status = 200, body = SettingList))
)]
pub(crate) async fn list(State(console): State<Console>) -> Json<SettingList> {
    Json(SettingList {
        settings: console.gateway.settings(),
    })
}

/// Answers `GET /api/v1/routes`.
#[utoipa::path(
    get,
    path = "/api/v1/routes",
    operation_id = "list_routes",
    responses((status = 200, body = RouteList))
)]
pub(crate) async fn routes(State(console): State<Console>) -> Json<RouteList> {
    Json(RouteList {
        routes: console.gateway.overview().routes,
    })
}
