//! `GET /api/v1/sessions` and `DELETE /api/v1/sessions/ID`.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Serialize;
use utoipa::ToSchema;

use super::ApiError;
use crate::Console;
use crate::access::AdmissionKind;
use crate::sessions::SessionInfo;

/// The sessions of browsers.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SessionList {
    /// The sessions, the latest first.
    pub sessions: Vec<SessionInfo>,
}

/// Answers `GET /api/v1/sessions`.
#[utoipa::path(
    get,
    path = "/api/v1/sessions",
    operation_id = "list_sessions",
    responses((status = 200, body = SessionList))
)]
pub(crate) async fn list(
    State(console): State<Console>,
    Extension(admitted): Extension<AdmissionKind>,
) -> Json<SessionList> {
    let own = admitted.session().map(|own| own.id);
    Json(SessionList {
        sessions: console.sessions.list(own),
    })
}

/// Answers `DELETE /api/v1/sessions/ID`.
#[utoipa::path(
    delete,
    path = "/api/v1/sessions/{id}",
    operation_id = "end_session",
    params(("id" = u64, Path, description = "The number of the session")),
    responses((status = 204), (status = 404, body = ApiError))
)]
pub(crate) async fn end(
    State(console): State<Console>,
    Path(id): Path<u64>,
) -> Result<StatusCode, ApiError> {
    match console.sessions.end(id) {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiError::missing("there is no such session")),
    }
}
