//! The request, as its head describes it, and the object that was opened for it.

mod host_syntax;

use std::sync::Arc;
use std::time::Duration;

use http::header::{CACHE_CONTROL, HOST, PRAGMA};
use http::request::Parts;
use http::{HeaderMap, Method};
use tokio::time::Instant;

use crate::RouteState;
use crate::read::CachedHeaders;
use crate::request_error::RequestError;
use tidegate_engine::{Object, OpenOptions};
use tidegate_plan::Ranges;
use tidegate_plan::{Client, ObjectKey, RangeSpec, has_header};

/// A request whose target names a route and, below it, an object.
pub(crate) struct ObjectRequest<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) route: &'a RouteState,
    pub(crate) key: ObjectKey,
    pub(crate) ranges: Option<Ranges>,
    pub(crate) started: Instant,
    /// Whether the answer says how long it took.
    pub(crate) wants_timing: bool,
    pub(crate) client: Client,
}

impl ObjectRequest<'_> {
    /// Returns the engine's options to open the object for this request.
    pub(crate) fn open_options(&self) -> OpenOptions {
        let headers = &self.parts.headers;
        let first = match self.parts.method {
            Method::HEAD => None,
            _ => Some(
                self.ranges
                    .as_ref()
                    .map_or(RangeSpec::From(0), Ranges::first),
            ),
        };
        OpenOptions {
            first,
            revalidate: self.route.settings.client_no_cache && wants_fresh(headers),
            only_if_cached: has_directive(headers, &["only-if-cached"]),
            client: self.client,
            ..OpenOptions::default()
        }
    }
}

/// An object opened for a request, and the headers of its answers.
pub(crate) struct OpenedObject {
    pub(crate) object: Object,
    pub(crate) headers: Arc<CachedHeaders>,
    /// The time from the request's head until the object was open, if the client wants to know.
    pub(crate) open_time: Option<Duration>,
}

impl OpenedObject {
    /// Prepares the headers of `object`, which has just been opened under `key`.
    pub(crate) fn new(request: &ObjectRequest<'_>, key: &ObjectKey, object: Object) -> Self {
        let route = request.route;
        Self {
            headers: route.headers.get(object.version(), key, &route.settings),
            object,
            open_time: request.wants_timing.then(|| request.started.elapsed()),
        }
    }
}

/// Returns the requested host: from the target if it names one (RFC 9112, 3.2.2), else from `Host`,
/// which HTTP/1.1 demands exactly once. It may be empty, but not malformed, even if the target names a host.
pub(crate) fn host(parts: &Parts) -> Result<&str, RequestError> {
    let mut lines = parts.headers.get_all(HOST).iter();
    let first = lines.next();
    if lines.next().is_some() || (parts.version == http::Version::HTTP_11 && first.is_none()) {
        return Err(RequestError::Host);
    }
    let own = match first {
        Some(value) => host_syntax::parse(value.as_bytes()).ok_or(RequestError::Host)?,
        None => "",
    };
    Ok(parts.uri.host().unwrap_or(own))
}

/// Returns the requested host as the client sent it, with its port: `host` is what [`host`] has returned.
pub(crate) fn authority<'p>(parts: &'p Parts, host: &'p str) -> &'p str {
    let target = parts.uri.authority();
    target.map_or(host, http::uri::Authority::as_str)
}

/// Returns whether the request's `Cache-Control` has one of these directives. `max-age=0` is compared with its value.
fn has_directive(headers: &HeaderMap, wanted: &[&str]) -> bool {
    if !has_header(headers, &CACHE_CONTROL) {
        return false;
    }
    let lines = headers.get_all(CACHE_CONTROL).iter();
    let lines = lines.filter_map(|value| value.to_str().ok());
    let mut directives = lines.flat_map(|line| line.split(',')).map(str::trim);
    directives.any(|own| wanted.iter().any(|wanted| own.eq_ignore_ascii_case(wanted)))
}

/// Returns whether the client wants the origin to be asked (RFC 9111, 5.2.1 and 5.4).
fn wants_fresh(headers: &HeaderMap) -> bool {
    if headers.contains_key(CACHE_CONTROL) {
        return has_directive(headers, &["no-cache", "max-age=0"]);
    }
    headers
        .get(PRAGMA)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"no-cache"))
}

#[cfg(test)]
mod tests;
