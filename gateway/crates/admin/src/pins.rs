//! `GET`, `PUT` and `DELETE /pins`: prefixes whose objects are kept from eviction on disk.
//!
//! - `PUT {"path": "/films/new/", "limit": "10GiB"}`: objects below the path are kept, up to so many bytes on disk; the
//!   limit of an existing pin is changed;
//! - `DELETE ?path=/films/new/`: they are kept no longer, and evicted in their turn.
//!
//! If several routes have the path, `host` beside `path` selects one. A pin belongs to the origin and the keys behind
//! the path, and so holds for every route that leads there.

use axum::extract::{RawQuery, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Admin;
use super::ask::{self, Refusal};
use super::cache::size;
use super::place::{self, LocatedPrefix, Place};

/// The pins, as the operator sees them. Changes are durable when they return.
pub trait Pins: Send + Sync + 'static {
    /// Returns all pins, by origin and prefix.
    fn list(&self) -> Vec<Pin>;

    /// Keeps the objects there, up to `limit` bytes; returns a note for the operator, if there is one.
    ///
    /// # Errors
    /// If they cannot be kept.
    fn pin<'a>(
        &'a self,
        below: &'a LocatedPrefix,
        limit: u64,
    ) -> BoxFuture<'a, Result<Option<String>, PinError>>;

    /// Removes a pin.
    ///
    /// # Errors
    /// If there is no such pin, or the removal is not durable.
    fn unpin<'a>(&'a self, below: &'a LocatedPrefix) -> BoxFuture<'a, Result<(), PinError>>;
}

/// One pin. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pin {
    /// The name of the origin; `null` if no configured origin has that bucket any more.
    pub origin: Option<String>,
    /// The prefix of the keys.
    pub prefix: String,
    /// The bytes that it may keep on disk.
    pub limit: u64,
    /// The bytes that it keeps there.
    pub used: u64,
}

/// The reason why a pin was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// There is no such pin.
    #[error("{0}")]
    NoSuch(String),
    /// It cannot be done.
    #[error("{0}")]
    Refused(String),
    /// It may not outlive the process.
    #[error("{0}")]
    NotDurable(String),
}

/// The body of `PUT /pins`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinRequest {
    /// The path of the folder.
    pub path: String,
    /// The host whose route has the path.
    pub host: Option<String>,
    /// The bytes that it may keep on disk.
    #[serde(deserialize_with = "size")]
    pub limit: u64,
}

impl PinRequest {
    /// Reads it from JSON.
    ///
    /// # Errors
    /// It is no request for a pin.
    pub fn from_json(body: &[u8]) -> Result<Self, String> {
        let wanted: Self = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        place::checked(&wanted.path)?;
        if wanted.limit == 0 {
            return Err("limit must be more than nothing; DELETE unpins".to_owned());
        }
        Ok(wanted)
    }
}

/// Answers `GET /pins`.
pub(super) async fn list(State(admin): State<Admin>) -> Response {
    ask::json(&json!({ "pins": admin.pins.list() }))
}

impl Admin {
    /// Keeps the objects there, up to `limit` bytes, and logs it; returns a note for the operator, if there is one.
    ///
    /// # Errors
    /// Those of [`Pins::pin`].
    pub async fn pin(&self, below: &LocatedPrefix, limit: u64) -> Result<Option<String>, PinError> {
        let note = self.pins.pin(below, limit).await?;
        let LocatedPrefix { origin, prefix, .. } = below;
        tracing::info!(%origin, ?prefix, limit, "pinned");
        Ok(note)
    }

    /// Removes a pin, and logs it.
    ///
    /// # Errors
    /// Those of [`Pins::unpin`].
    pub async fn unpin(&self, below: &LocatedPrefix) -> Result<(), PinError> {
        self.pins.unpin(below).await?;
        let LocatedPrefix { origin, prefix, .. } = below;
        tracing::info!(%origin, ?prefix, "unpinned");
        Ok(())
    }
}

/// Answers `PUT /pins`.
pub(super) async fn pin(State(admin): State<Admin>, request: Request) -> Response {
    let wanted = match read(request).await {
        Ok(wanted) => wanted,
        Err((status, why)) => return (status, format!("{why}\n")).into_response(),
    };
    let place = Place {
        path: wanted.path,
        host: wanted.host,
    };
    let below = match admin.locate.below(&place) {
        Ok(below) => below,
        Err(error) => return error.into_response(),
    };
    let limit = wanted.limit;
    match admin.pin(&below, limit).await {
        Ok(note) => {
            let LocatedPrefix { origin, prefix, .. } = &below;
            let pinned = json!({ "origin": origin, "prefix": prefix, "limit": limit });
            ask::json(&json!({ "pinned": pinned, "note": note }))
        }
        Err(error) => error.into_response(),
    }
}

/// Answers `DELETE /pins`.
pub(super) async fn unpin(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Response {
    let asked = ask::values(query.as_deref().unwrap_or_default(), ["path", "host"]);
    let place = match asked.and_then(|[path, host]| place::read(path, host)) {
        Ok(place) => place,
        Err(why) => return (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    };
    let below = match admin.locate.below(&place) {
        Ok(below) => below,
        Err(error) => return error.into_response(),
    };
    match admin.unpin(&below).await {
        Ok(()) => {
            let LocatedPrefix { origin, prefix, .. } = &below;
            ask::json(&json!({ "unpinned": { "origin": origin, "prefix": prefix } }))
        }
        Err(error) => error.into_response(),
    }
}

async fn read(request: Request) -> Result<PinRequest, Refusal> {
    let body = ask::body(request).await?;
    PinRequest::from_json(&body).map_err(|why| (StatusCode::BAD_REQUEST, why))
}

impl IntoResponse for PinError {
    fn into_response(self) -> Response {
        let status = match self {
            Self::NoSuch(_) => StatusCode::NOT_FOUND,
            Self::Refused(_) => StatusCode::BAD_REQUEST,
            Self::NotDurable(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, format!("{self}\n")).into_response()
    }
}

#[cfg(test)]
pub(super) mod tests;
