//! `POST /reload`: reads the configuration again and applies it, whole or not at all.
//!
//! The answer is JSON: the keys that have `changed`, and those that `needs_restart` until the process starts anew. If
//! the file is wrong, the answer is 422 and says where; then nothing has changed.
//!
//! `POST /overrides` sets one key (`{"key": "cache.memory", "value": "2GiB"}`), or undoes that (`"value": null`). The
//! change is checked with the whole configuration, kept in the state folder, and applied as by a reload, with the same
//! answer. `GET /overrides` lists the keys that are set.

use std::fmt;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Admin, ask};

/// Reads the configuration of a running gateway again.
pub trait Reload: Send + Sync {
    /// Applies the configuration as it is now. Two calls follow one another.
    ///
    /// # Errors
    /// The configuration is wrong or cannot be applied. Then nothing has changed.
    fn reload(self: Arc<Self>) -> BoxFuture<'static, Result<ReloadReport, ReloadError>>;

    /// Keeps an override and applies the configuration with it. Two calls follow one another.
    ///
    /// # Errors
    /// As [`Reload::reload`], or if the override cannot be kept.
    fn set(
        self: Arc<Self>,
        change: OverrideChange,
    ) -> BoxFuture<'static, Result<ReloadReport, ReloadError>>;

    /// Returns the keys that are overridden.
    fn overridden(&self) -> BoxFuture<'_, Vec<String>>;
}

/// A change of one override.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverrideChange {
    /// The key, such as `route[/media/].profile`.
    pub key: String,
    /// Its value, as text or TOML; `None`: it is overridden no more.
    pub value: Option<String>,
}

impl fmt::Debug for OverrideChange {
    /// Shows the key alone: the value may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OverrideChange").field(&self.key).finish()
    }
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

impl Admin {
    /// Logs the change of an override, keeps it, and applies the configuration with it.
    ///
    /// # Errors
    /// Those of [`Reload::set`].
    pub async fn set_override(&self, change: OverrideChange) -> Result<ReloadReport, ReloadError> {
        tracing::info!(key = ?change.key, unset = change.value.is_none(), "override");
        self.reload.clone().set(change).await
    }
}

/// Answers `POST /reload`.
pub(super) async fn reload(State(admin): State<Admin>) -> Response {
    answer(admin.reload.clone().reload().await)
}

/// Answers `POST /overrides`.
pub(super) async fn set(State(admin): State<Admin>, request: Request) -> Response {
    let body = match ask::body(request).await {
        Ok(body) => body,
        Err((status, why)) => return (status, format!("{why}\n")).into_response(),
    };
    match serde_json::from_slice::<OverrideChange>(&body) {
        Ok(change) => answer(admin.set_override(change).await),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

/// Answers `GET /overrides`.
pub(super) async fn overridden(State(admin): State<Admin>) -> Response {
    ask::json(&json!({ "overridden": admin.reload.overridden().await }))
}

fn answer(done: Result<ReloadReport, ReloadError>) -> Response {
    match done {
        Ok(report) => ask::json(&json!(report)),
        Err(error) => {
            tracing::warn!(%error, "the configuration was not reloaded");
            (StatusCode::UNPROCESSABLE_ENTITY, format!("{error}\n")).into_response()
        }
    }
}
