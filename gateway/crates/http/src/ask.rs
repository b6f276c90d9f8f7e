//! The request, as its head describes it.

use http::header::{CACHE_CONTROL, HOST, PRAGMA};
use http::request::Parts;
use http::{HeaderMap, Version};

use super::rescue::Cause;

/// Returns the requested host: from the target if it names one (RFC 9112, 3.2.2), else from `Host`,
/// which HTTP/1.1 demands exactly once.
pub(super) fn host(parts: &Parts) -> Result<&str, Cause> {
    let mut lines = parts.headers.get_all(HOST).iter();
    let first = lines.next();
    if lines.next().is_some() || (parts.version == Version::HTTP_11 && first.is_none()) {
        return Err(Cause::Host);
    }
    let own = first.and_then(|value| value.to_str().ok());
    Ok(parts.uri.host().or(own).unwrap_or_default())
}

/// Returns the directives of the request's `Cache-Control`, without their values.
pub(super) fn directives(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let lines = headers.get_all(CACHE_CONTROL).iter();
    lines
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(|item| item.trim().to_ascii_lowercase())
}

/// Returns whether the client wants the origin to be asked (RFC 9111, 5.2.1 and 5.4).
pub(super) fn wants_fresh(headers: &HeaderMap) -> bool {
    if headers.contains_key(CACHE_CONTROL) {
        return directives(headers).any(|own| own == "no-cache" || own == "max-age=0");
    }
    headers
        .get(PRAGMA)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"no-cache"))
}

#[cfg(test)]
#[path = "ask/tests.rs"]
mod tests;
