//! `POST /reload`: reads the configuration again and applies it, whole or not at all.
//!
//! The answer is JSON: the keys that have `changed`, and those that `needs_restart` until the process starts anew. If
//! the file is wrong, the answer is 422 and says where; then nothing has changed.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_core::future::BoxFuture;
use serde::Serialize;
use serde_json::json;

use super::{Admin, ask};

/// Reads the configuration of a running gateway again.
pub trait Reload: Send + Sync {
    /// Applies the configuration as it is now. Two calls follow one another.
    ///
    /// # Errors
    /// The configuration is wrong or cannot be applied. Then nothing has changed.
    fn reload(self: Arc<Self>) -> BoxFuture<'static, Result<ReloadReport, ReloadError>>;
}

/// The result of a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReloadReport {
    /// The keys that are written otherwise and are in force now, such as `route[1].path`.
    pub changed: Vec<String>,
    /// The keys that are written otherwise and are not in force before a restart.
    pub needs_restart: Vec<String>,
}

/// The reason why a configuration was not applied, in words; one line for each problem, with its file, line and key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReloadError(pub String);

/// Answers `POST /reload`.
pub(super) async fn reload(State(admin): State<Admin>) -> Response {
    match admin.reload.clone().reload().await {
        Ok(report) => ask::json(&json!(report)),
        Err(error) => {
            tracing::warn!(%error, "the configuration was not reloaded");
            (StatusCode::UNPROCESSABLE_ENTITY, format!("{error}\n")).into_response()
        }
    }
}
