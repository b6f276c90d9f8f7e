//! The search for a header among those of a request.

use http::{HeaderMap, HeaderName};

/// Returns whether a request has a header of this name. A scan of its few fields costs less than a look-up, which
/// hashes the name.
#[inline]
#[must_use]
pub fn has_header(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.keys().any(|own| own == name)
}
