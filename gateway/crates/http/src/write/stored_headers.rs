//! The headers that an object is stored with, as the request has them.

use std::time::UNIX_EPOCH;

use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, EXPIRES};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::request_error::RequestError;
use tidegate_plan::version::is_stored_header;

/// Headers that are no lists: several lines must all be the same.
const SINGLE_VALUE_HEADERS: [HeaderName; 3] = [CONTENT_TYPE, CONTENT_DISPOSITION, EXPIRES];

/// Returns the headers to store: one line of each, of plain text.
///
/// # Errors
/// If a header cannot be stored as it was sent.
pub(crate) fn stored_headers(
    headers: &HeaderMap,
) -> Result<Vec<(HeaderName, HeaderValue)>, RequestError> {
    let names = headers.keys().filter(|name| is_stored_header(name));
    names
        .map(|name| Ok((name.clone(), stored_value(name, headers)?)))
        .collect()
}

fn stored_value(name: &HeaderName, headers: &HeaderMap) -> Result<HeaderValue, RequestError> {
    let lines = headers.get_all(name).iter().map(HeaderValue::to_str);
    let lines: Result<Vec<_>, _> = lines.collect();
    let mut lines = lines.map_err(|_| {
        RequestError::Refused("a header to be kept with the object has letters beyond ASCII")
    })?;
    if SINGLE_VALUE_HEADERS.contains(name) {
        lines.dedup();
        if lines.len() > 1 {
            let why = "Content-Type, Content-Disposition or Expires is there twice";
            return Err(RequestError::Refused(why));
        }
    }
    // RFC 9110, 5.3. A tab means what a space does (5.6.3), and stores differ in how they sign it.
    let mut text = lines.join(", ").replace('\t', " ");
    if *name == EXPIRES {
        // RFC 9111, 5.3: an invalid date, such as "0", is a time in the past. Stores keep dates.
        let date = httpdate::parse_http_date(&text).unwrap_or(UNIX_EPOCH);
        text = httpdate::fmt_http_date(date);
    }
    Ok(HeaderValue::try_from(text).expect("made of header values"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[(&str, &[u8])]) -> Result<Vec<(String, String)>, RequestError> {
        let lines = lines.iter().map(|(name, value)| {
            let value = HeaderValue::from_bytes(value).expect("a value");
            (name.parse().expect("a name"), value)
        });
        let mut headers = HeaderMap::new();
        lines.for_each(|(name, value): (HeaderName, _)| {
            headers.append(name, value);
        });
        let text = |value: HeaderValue| value.to_str().expect("text").to_owned();
        let kept = stored_headers(&headers)?.into_iter();
        Ok(kept.map(|(n, v)| (n.to_string(), text(v))).collect())
    }

    #[test]
    fn each_is_kept_as_one_line() {
        let rows: &[(&str, &[&[u8]], &str)] = &[
            (
                "cache-control",
                &[b"private", b"max-age=60"],
                "private, max-age=60",
            ),
            ("x-amz-meta-a", &[b"1", b"1"], "1, 1"),
            ("content-type", &[b"text/a", b"text/a"], "text/a"),
            (
                "content-type",
                &[b"text/plain;\tcharset=utf-8"],
                "text/plain; charset=utf-8",
            ),
            ("expires", &[b"0"], "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("expires", &[b"-1"], "Thu, 01 Jan 1970 00:00:00 GMT"),
            (
                "expires",
                &[b"Sunday, 06-Nov-94 08:49:37 GMT"],
                "Sun, 06 Nov 1994 08:49:37 GMT",
            ),
        ];
        for (name, lines, wanted) in rows {
            let lines: Vec<_> = lines.iter().map(|line| (*name, *line)).collect();
            let kept = of(&lines).expect("kept");
            assert_eq!(kept, [(name.to_string(), wanted.to_string())]);
        }
        assert_eq!(of(&[("x-other", "\u{e4}".as_bytes())]), Ok(vec![]));
    }

    #[test]
    fn what_no_store_could_keep_is_refused() {
        let rows: [&[(&str, &[u8])]; 4] = [
            &[("content-type", b"text/a"), ("content-type", b"text/b")],
            &[("expires", b"0"), ("expires", b"1")],
            &[("x-amz-meta-name", "\u{e4}".as_bytes())],
            &[("content-disposition", b"inline; filename=\"\xe4\"")],
        ];
        for lines in rows {
            assert!(
                matches!(of(lines), Err(RequestError::Refused(_))),
                "{lines:?}"
            );
        }
    }
}
