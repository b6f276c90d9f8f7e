//! `GET /routes`, `PUT` and `PATCH /routes/profile`: each route's profile, and another one for a route, without a
//! restart.
//!
//! The route is named as the configuration names it: `?path=/books/`, and `&host=…` if several routes have this path.
//! The body is JSON:
//!
//! - `PUT {"profile": "stream"}`: the profile of this name;
//! - `PUT {"extends": "stream", "read_ahead": "64MiB"}`: a profile of these keys, which are those of `[profile.NAME]`,
//!   as if it stood in the file;
//! - `PATCH {"read_ahead": "64MiB"}`: these keys over the route's present profile.
//!
//! Reads that begin afterwards use it. The next start uses the file again.

use axum::extract::{RawQuery, Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::Admin;
use super::ask::{self, Refusal};
use tidegate_plan::profile::DiskUse;
use tidegate_plan::{ByteSize, Period, Profile};

/// The routes, as holders of profiles.
pub trait Routes: Send + Sync + 'static {
    /// Returns the present profile of each route, in the order of the configuration.
    fn list(&self) -> Vec<RouteProfile>;

    /// Gives one route another profile, and returns that.
    ///
    /// # Errors
    /// If the route keeps its present profile.
    fn change(&self, change: &ProfileChange) -> Result<RouteProfile, ProfileChangeError>;
}

/// A route and its present profile.
#[derive(Debug, Clone, PartialEq)]
pub struct RouteProfile {
    /// The host that it is limited to.
    pub host: Option<String>,
    /// The prefix of its paths.
    pub path: String,
    /// The origin's name.
    pub origin: String,
    /// The profile's name; `None` for one that was given at run time without a name.
    pub name: Option<String>,
    /// Its values.
    pub profile: Profile,
}

/// A requested change.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileChange {
    /// The route's path, as configured.
    pub path: String,
    /// The route's host; left out if the path is enough.
    pub host: Option<String>,
    /// The new profile.
    pub to: NewProfile,
}

/// A route's new profile.
#[derive(Debug, Clone, PartialEq)]
pub enum NewProfile {
    /// The profile of this name.
    Named(String),
    /// A profile of these keys.
    Keys(Value),
    /// The present profile, with these keys over it.
    Over(Value),
}

/// The reason why a profile was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileChangeError {
    /// There is no such route.
    #[error("no route has this path and host; GET /routes lists them")]
    NoRoute,
    /// Several routes match.
    #[error("several routes have this path: say which host")]
    Several,
    /// There is no such profile, or its keys are wrong.
    #[error("{0}")]
    Wrong(String),
}

/// Answers `GET /routes`.
pub(super) async fn list(State(admin): State<Admin>) -> Response {
    let routes: Vec<Value> = admin.routes.list().iter().map(shown).collect();
    ask::json(&json!({ "routes": routes }))
}

/// Answers `PUT` and `PATCH /routes/profile`.
pub(super) async fn change(
    State(admin): State<Admin>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let change = match read(query.as_deref().unwrap_or_default(), request).await {
        Ok(change) => change,
        Err((status, why)) => return (status, format!("{why}\n")).into_response(),
    };
    match admin.routes.change(&change) {
        Ok(now) => {
            let shown = shown(&now);
            let (path, host) = (&now.path, now.host.as_deref().unwrap_or_default());
            tracing::info!(?path, ?host, now = %shown["now"], "profile changed");
            ask::json(&shown)
        }
        Err(error) => {
            let status = match error {
                ProfileChangeError::NoRoute => StatusCode::NOT_FOUND,
                ProfileChangeError::Several | ProfileChangeError::Wrong(_) => {
                    StatusCode::BAD_REQUEST
                }
            };
            (status, format!("{error}\n")).into_response()
        }
    }
}

async fn read(query: &str, request: Request) -> Result<ProfileChange, Refusal> {
    let over = request.method() == Method::PATCH;
    let body = ask::body(request).await?;
    let bad = |why: String| (StatusCode::BAD_REQUEST, why);
    let [path, host] = ask::values(query, ["path", "host"]).map_err(bad)?;
    let path = path.ok_or_else(|| bad("path is missing: say which route".to_owned()))?;
    let host = host.map(ask::host).transpose().map_err(bad)?;
    let body: Value = serde_json::from_slice(&body).map_err(|error| bad(error.to_string()))?;
    Ok(ProfileChange {
        path: path.to_owned(),
        host,
        to: asked(body, over).map_err(bad)?,
    })
}

fn asked(body: Value, over: bool) -> Result<NewProfile, String> {
    let Some(name) = body.get("profile") else {
        return Ok(if over {
            NewProfile::Over(body)
        } else {
            NewProfile::Keys(body)
        });
    };
    let alone = body.as_object().is_some_and(|keys| keys.len() == 1);
    match (name.as_str(), over, alone) {
        (Some(name), false, true) => Ok(NewProfile::Named(name.to_owned())),
        (None, ..) => Err("profile is a name".to_owned()),
        (_, true, _) => Err("a profile is not laid over another: PUT it".to_owned()),
        (_, _, false) => Err("either profile or keys of one: use extends".to_owned()),
    }
}

/// Returns a route as JSON, its profile's values as they would stand in the file.
fn shown(route: &RouteProfile) -> Value {
    let profile = &route.profile;
    let time = |time| Period(time).to_string();
    json!({
        "path": route.path,
        "host": route.host,
        "origin": route.origin,
        "profile": route.name,
        "now": {
            "read_ahead": ByteSize(profile.read_ahead).to_string(),
            "streams": profile.streams,
            "disk": match profile.disk {
                DiskUse::Off => "off",
                DiskUse::First => "first",
                DiskUse::Second => "second",
            },
            "ttl": time(profile.ttl),
            "force_ttl": profile.force_ttl,
            "stale_while_revalidate": time(profile.stale_while_revalidate),
            "stale_if_error": time(profile.stale_if_error),
            "negative_ttl": time(profile.negative_ttl),
            "list_pages": profile.list_pages,
            "bulk": profile.bulk,
        },
    })
}

#[cfg(test)]
pub(super) mod tests;
