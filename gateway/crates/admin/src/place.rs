//! Objects and prefixes that paths of the public listener lead to: the endpoints' questions to the routes.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::ask;
use tidegate_engine::ReadContext;
use tidegate_plan::ObjectKey;

/// A path of the public listener, as it stands in a URL, and optionally the host of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Percent-encoded, from the first `/`, without the query.
    pub path: String,
    /// The host; empty: one that no route names. If left out, any host that has the path.
    pub host: Option<String>,
}

/// An object that a path names.
#[derive(Debug, Clone)]
pub struct LocatedObject {
    /// The host of the route, if it names one.
    pub host: Option<String>,
    /// The name of the origin.
    pub origin: String,
    /// The origin, and the profile of its objects.
    pub source: Arc<ReadContext>,
    /// The object.
    pub key: ObjectKey,
    /// Objects that may be sent in its place, in another coding.
    pub siblings: Vec<ObjectKey>,
}

/// The objects below a path.
#[derive(Debug, Clone)]
pub struct LocatedPrefix {
    /// The name of the origin.
    pub origin: String,
    /// The origin, and the profile of its objects.
    pub source: Arc<ReadContext>,
    /// The prefix of the keys; empty: every object of the bucket.
    pub prefix: String,
    /// The route, for [`Locate::path`].
    pub route: usize,
    /// The host that was asked for; paths are those of it, else of the route's own.
    pub host: Option<String>,
}

/// The path of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderPath {
    /// Percent-encoded, with a `/` at its end.
    pub path: String,
    /// The path of another route that governs it: the folder there is that route's.
    pub governed_by: Option<String>,
}

/// The reason why a path leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// No object can have it.
    #[error("{0}")]
    BadPath(String),
    /// No route has it.
    #[error("no route has this path")]
    NoRoute,
    /// No route leads to an origin of this name.
    #[error("no route leads to an origin of this name")]
    NoOrigin,
    /// It leads to different objects for several hosts.
    #[error("several routes have this path: say which host")]
    Several,
}

/// The routes, as a map from paths to objects.
pub trait Locate: Send + Sync + 'static {
    /// Returns the objects that a request for this path would get: one if the host is named, else one for each host for
    /// which it leads to another object.
    ///
    /// # Errors
    /// If it leads nowhere.
    fn objects(&self, place: &Place) -> Result<Vec<LocatedObject>, PlaceError>;

    /// Returns the one prefix in one bucket that lies below this path. Routes further below are not in it.
    ///
    /// # Errors
    /// If it leads nowhere, or to several prefixes.
    fn below(&self, place: &Place) -> Result<LocatedPrefix, PlaceError>;

    /// Returns all prefixes that requests can reach whose paths begin with this one, character by character: for the
    /// named host, else for each.
    ///
    /// # Errors
    /// If it leads nowhere.
    fn beginning(&self, place: &Place) -> Result<Vec<LocatedPrefix>, PlaceError>;

    /// Returns the path, percent-encoded, by which a request gets the object of this key through that route; `None` if
    /// no request can, because it has no path or another route has it.
    fn path(&self, below: &LocatedPrefix, key: &str) -> Option<String>;

    /// Returns the path of the folder of this prefix, which ends with `/`, below that route; `None` if it has no path. An
    /// index makes no difference: it is an object in the folder.
    fn folder_path(&self, below: &LocatedPrefix, prefix: &str) -> Option<FolderPath>;

    /// Returns the name of an origin.
    fn origin(&self, id: tidegate_plan::OriginId) -> Option<String>;
}

impl PlaceError {
    /// Returns the HTTP status that reports it.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::BadPath(_) | Self::Several => StatusCode::BAD_REQUEST,
            Self::NoRoute | Self::NoOrigin => StatusCode::NOT_FOUND,
        }
    }
}

impl IntoResponse for PlaceError {
    fn into_response(self) -> Response {
        (self.status(), format!("{self}\n")).into_response()
    }
}

/// Makes a place of a query's `path` and `host`, which are taken as they stand there.
pub(super) fn read(path: Option<&str>, host: Option<&str>) -> Result<Place, String> {
    Ok(Place {
        path: checked(path.ok_or("path is missing")?)?.to_owned(),
        host: host.map(ask::host).transpose()?,
    })
}

/// Checks that a path begins with `/`, and has no query behind it.
///
/// # Errors
/// The fault of the path, in words.
pub fn checked(path: &str) -> Result<&str, String> {
    if !path.starts_with('/') {
        return Err("path must begin with `/`, as it stands in a URL".to_owned());
    }
    if path.contains(['?', '#']) {
        return Err("path must not have a query: it is no part of the key".to_owned());
    }
    Ok(path)
}
