//! Where paths of the public listener lead: what the endpoints ask the routes.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::ask;
use crate::engine::Source;
use tidegate_plan::ObjectKey;

/// A path of the public listener, as it stands in a URL, and perhaps the host that it was asked of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Percent-encoded, from the first `/`, without the query.
    pub path: String,
    /// The host; left out: whichever has the path.
    pub host: Option<String>,
}

/// An object that a path names.
#[derive(Debug, Clone)]
pub struct Located {
    /// The host of the route, where it names one.
    pub host: Option<String>,
    /// The name of the origin.
    pub origin: String,
    /// The origin, and how its objects are treated there.
    pub source: Arc<Source>,
    /// The object.
    pub key: ObjectKey,
    /// Objects that may be sent in its place, in another coding.
    pub siblings: Vec<ObjectKey>,
}

/// What lies below a path.
#[derive(Debug, Clone)]
pub struct Below {
    /// The name of the origin.
    pub origin: String,
    /// The origin, and how its objects are treated there.
    pub source: Arc<Source>,
    /// What the keys begin with; empty: every object of the bucket.
    pub prefix: String,
    /// The route, for [`Locate::path`].
    pub route: usize,
}

/// Why a path leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// It is none that an object could have.
    #[error("{0}")]
    BadPath(String),
    /// No route has it.
    #[error("no route has this path")]
    NoRoute,
    /// It means different things to several hosts.
    #[error("several routes have this path: say which host")]
    Several,
}

/// The routes, as far as paths are concerned.
pub trait Locate: Send + Sync + 'static {
    /// The objects that a request for this path would get: one where the host is named, else one for
    /// each host to which it means something else.
    ///
    /// # Errors
    /// It leads nowhere.
    fn objects(&self, place: &Place) -> Result<Vec<Located>, PlaceError>;

    /// The one place in one bucket that lies below this path. Routes further below are not in it.
    ///
    /// # Errors
    /// It leads nowhere, or to several places.
    fn below(&self, place: &Place) -> Result<Below, PlaceError>;

    /// Everything that requests for paths get that begin with this one, character by character: of the
    /// host that is named, else of each.
    ///
    /// # Errors
    /// It leads nowhere.
    fn beginning(&self, place: &Place) -> Result<Vec<Below>, PlaceError>;

    /// The path, percent-encoded, by which a request gets the object of this key through that route;
    /// `None` where no request can, for want of a path or because another route has it.
    fn path(&self, below: &Below, key: &str) -> Option<String>;

    /// The name of an origin.
    fn origin(&self, id: tidegate_plan::OriginId) -> Option<String>;
}

impl PlaceError {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::BadPath(_) | Self::Several => StatusCode::BAD_REQUEST,
            Self::NoRoute => StatusCode::NOT_FOUND,
        }
    }
}

impl IntoResponse for PlaceError {
    fn into_response(self) -> Response {
        (self.status(), format!("{self}\n")).into_response()
    }
}

/// A place out of a query's `path` and `host`, which are taken as they stand there.
pub(super) fn read(path: Option<&str>, host: Option<&str>) -> Result<Place, String> {
    Ok(Place {
        path: checked(path.ok_or("path is missing")?)?.to_owned(),
        host: host.map(ask::host).transpose()?,
    })
}

/// A path that begins as one, and has no query behind it.
pub(super) fn checked(path: &str) -> Result<&str, String> {
    if !path.starts_with('/') {
        return Err("path must begin with `/`, as it stands in a URL".to_owned());
    }
    if path.contains(['?', '#']) {
        return Err("path must not have a query: it is no part of the key".to_owned());
    }
    Ok(path)
}
