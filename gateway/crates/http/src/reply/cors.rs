//! Access for scripts of other sites (Fetch standard, "CORS protocol").

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
};
use http::{HeaderMap, HeaderValue};

use super::vary;
use crate::request_error::methods;
use crate::settings::Cors;

const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static("Content-Range, ETag, Accept-Ranges");

/// The headers that a reader of ranges sends, except those that are always allowed.
const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "Range, If-Range, If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, \
     Cache-Control",
);

/// Adds the headers that let a script read an answer. Credentials are never allowed: no answer
/// depends on them.
pub(crate) fn apply(cors: &Cors, request: &HeaderMap, answer: &mut HeaderMap) {
    if let Some(allowed) = allowed_origin(cors, request, answer) {
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    }
}

/// Does the same for the answer to a preflight.
///
/// With `with_token` a script may send the token of the route's access; it names it itself, and no browser adds it.
pub(crate) fn preflight(
    cors: &Cors,
    with_token: bool,
    request: &HeaderMap,
    answer: &mut HeaderMap,
) {
    if !request.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return;
    }
    if let Some(allowed) = allowed_origin(cors, request, answer) {
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, allowed);
        // Writing is for programs that hold a token, not for pages.
        answer.insert(ACCESS_CONTROL_ALLOW_METHODS, methods(false));
        answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
        if with_token {
            let name = HeaderValue::from_static("Authorization");
            answer.append(ACCESS_CONTROL_ALLOW_HEADERS, name);
        }
        answer.insert(ACCESS_CONTROL_MAX_AGE, cors.max_age.as_secs().into());
    }
}

/// Returns whether a request is a preflight (Fetch standard, "CORS-preflight request") of a site that is allowed.
pub(crate) fn is_preflight(cors: &Cors, request: &HeaderMap) -> bool {
    request.contains_key(ORIGIN)
        && request.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
        && allowed_origin(cors, request, &mut HeaderMap::new()).is_some()
}

/// Adds what every answer differs by. It is the `Origin` unless every site is allowed; also if that of a request is not.
pub(crate) fn add_vary(cors: &Cors, answer: &mut HeaderMap) {
    if !allows_all(cors) {
        vary::add(answer, "Origin");
    }
}

fn allows_all(cors: &Cors) -> bool {
    cors.origins.iter().any(|own| own == "*")
}

fn allowed_origin(cors: &Cors, request: &HeaderMap, answer: &mut HeaderMap) -> Option<HeaderValue> {
    if allows_all(cors) {
        return Some(HeaderValue::from_static("*"));
    }
    add_vary(cors, answer);
    let origin = request.get(ORIGIN)?;
    let listed = |own: &String| own.as_bytes().eq_ignore_ascii_case(origin.as_bytes());
    cors.origins.iter().any(listed).then(|| origin.clone())
}

#[cfg(test)]
mod tests;
