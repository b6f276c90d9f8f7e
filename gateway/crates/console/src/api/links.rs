//! `POST /api/v1/links`: a link to an object, signed as `tidegate sign` does.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::uri::PathAndQuery;
use serde::Deserialize;
use utoipa::ToSchema;

use super::ApiError;
use crate::Console;
use crate::gateway::{Link, LinkRequest};
use tidegate_admin::place;

/// The life of a link: the default, and the maximum.
const DEFAULT_LIFE: u64 = 24 * 3600;
const MAX_LIFE: u64 = 366 * 24 * 3600;

/// A link that is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkOrder {
    /// The path of the public listener, percent-encoded. A signed link to one that ends in `/` opens all below it.
    pub path: String,
    /// The host, if the route names one; left out: that of `http.public_url`.
    pub host: Option<String>,
    /// The id of the key; left out: the only one.
    pub key: Option<String>,
    /// The time that a signed link works for, in seconds: at most 366 days; a day if left out.
    pub life: Option<u64>,
}

/// Makes a link. Only its path is logged: the link opens what it names.
pub(crate) async fn order(console: &Console, order: LinkOrder) -> Result<Link, ApiError> {
    let path = place::checked(&order.path).map_err(ApiError::bad)?;
    if path.parse::<PathAndQuery>().is_err() {
        return Err(ApiError::bad("the path has characters that no URL has"));
    }
    let life = order.life.unwrap_or(DEFAULT_LIFE);
    if !(1..=MAX_LIFE).contains(&life) {
        let words = format!("life is a number of seconds from 1 to {MAX_LIFE}");
        return Err(ApiError::bad(words));
    }
    let wanted = LinkRequest {
        path: order.path.clone(),
        host: order.host.filter(|host| !host.is_empty()),
        key: order.key,
        life: Duration::from_secs(life),
    };
    let link = console.gateway.link(wanted).await.map_err(ApiError::bad)?;
    tracing::info!(path = order.path, key = link.key, life, "a link was made");
    Ok(link)
}

/// Answers `POST /api/v1/links`.
#[utoipa::path(
    post,
    path = "/api/v1/links",
    operation_id = "make_link",
    request_body = LinkOrder,
    responses((status = 200, body = Link), (status = 400, body = ApiError))
)]
pub(crate) async fn make(
    State(console): State<Console>,
    Json(wanted): Json<LinkOrder>,
) -> Result<Json<Link>, ApiError> {
    order(&console, wanted).await.map(Json)
}
