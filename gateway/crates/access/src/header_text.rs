//! Headers as text.

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

/// Returns the value of a header. `None`: it is not ASCII.
pub(crate) fn text(value: &HeaderValue) -> Option<&str> {
    let bytes = value.as_bytes();
    // Faster than `HeaderValue::to_str`, which looks at one byte after the other. No header has other control
    // characters than tabs.
    let text = bytes.is_ascii().then(|| std::str::from_utf8(bytes).ok());
    text.flatten()
}

/// Returns the cookies of a request, as `NAME=VALUE`. A line that is not ASCII has none.
pub(crate) fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(text);
    lines.flat_map(|line| line.split(';')).map(str::trim)
}
