//! Maps causes to answers: the one table of errors.
//!
//! Texts are short, plain and written here; no text of the origin reaches a client.

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};

use tidegate_engine::Error;
use tidegate_plan::KeyError;
use tidegate_plan::wrong_tokens::MAX_DELAY;
use tidegate_write::WriteError;

/// Returns the methods that a route answers.
pub(super) fn methods(writable: bool) -> HeaderValue {
    HeaderValue::from_static(match writable {
        true => "GET, HEAD, OPTIONS, PUT, DELETE",
        false => "GET, HEAD, OPTIONS",
    })
}

/// The `Retry-After` if the origin gave none.
const PAUSE: Duration = Duration::from_secs(2);

/// The reason why a request is not answered with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    /// The engine does not deliver.
    Engine(Error),
    /// The object changed each time that an answer was about to begin.
    Restless,
    /// No route matches.
    NoRoute,
    /// A method other than [`methods`].
    Method {
        /// Whether the route is writable.
        writable: bool,
    },
    /// A write that does not show the route's token.
    Token,
    /// The same, if too many such answers wait already.
    TooManyTokens,
    /// A write that would mean something else here than at its source; the reason.
    Refused(&'static str),
    /// A digest that cannot be read.
    Digest,
    /// The engine does not write.
    Write(WriteError),
    /// The path is no key.
    Key(KeyError),
    /// HTTP/1.1 without `Host`, or with several (RFC 9112, 3.2).
    Host,
    /// The request's target is too long.
    Target,
    /// A precondition does not hold.
    Precondition,
    /// No range lies within the object, which has this size.
    Range(u64),
}

impl From<Error> for Cause {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<WriteError> for Cause {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Origin(error) => Self::Engine(error),
            error => Self::Write(error),
        }
    }
}

impl From<KeyError> for Cause {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

/// Looks up a cause in the table: its status and text.
fn row(cause: &Cause) -> (StatusCode, &'static str) {
    match cause {
        Cause::Key(KeyError::Empty) | Cause::NoRoute | Cause::Engine(Error::NotFound) => {
            (StatusCode::NOT_FOUND, "not found")
        }
        Cause::Key(KeyError::TooLong) => (StatusCode::BAD_REQUEST, "the key is too long"),
        Cause::Key(KeyError::NotText) => (StatusCode::BAD_REQUEST, "the path is not valid text"),
        Cause::Key(KeyError::DotSegment) => (StatusCode::BAD_REQUEST, "the path has a dot segment"),
        Cause::Host => (StatusCode::BAD_REQUEST, "one Host header is needed"),
        Cause::Engine(Error::Forbidden) => (StatusCode::FORBIDDEN, "forbidden"),
        Cause::Method { .. } => (StatusCode::METHOD_NOT_ALLOWED, "method not allowed"),
        Cause::Token => (StatusCode::UNAUTHORIZED, "this needs the route's token"),
        Cause::TooManyTokens => (StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens"),
        Cause::Refused(why) => (StatusCode::BAD_REQUEST, why),
        Cause::Digest => (StatusCode::BAD_REQUEST, "the digest cannot be read"),
        Cause::Write(error) => row_of_write(error),
        Cause::Precondition => (StatusCode::PRECONDITION_FAILED, "precondition failed"),
        Cause::Target => (StatusCode::URI_TOO_LONG, "the request target is too long"),
        Cause::Range(_) => (StatusCode::RANGE_NOT_SATISFIABLE, "range not satisfiable"),
        Cause::Engine(Error::BadOrigin(_)) => (StatusCode::BAD_GATEWAY, "bad gateway"),
        Cause::Engine(Error::Overloaded { .. }) => (StatusCode::SERVICE_UNAVAILABLE, "overloaded"),
        Cause::Engine(Error::Unavailable) => {
            (StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable")
        }
        Cause::Engine(Error::Changed) | Cause::Restless => {
            (StatusCode::SERVICE_UNAVAILABLE, "the object is changing")
        }
        Cause::Engine(Error::Timeout) => (StatusCode::GATEWAY_TIMEOUT, "timed out"),
        // RFC 9111, 5.2.1.7.
        Cause::Engine(Error::NotCached) => (StatusCode::GATEWAY_TIMEOUT, "not cached"),
    }
}

/// Looks up a failed write.
fn row_of_write(error: &WriteError) -> (StatusCode, &'static str) {
    match error {
        WriteError::Exists | WriteError::Changed => {
            (StatusCode::PRECONDITION_FAILED, "precondition failed")
        }
        WriteError::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the object is too large"),
        WriteError::Digest => (StatusCode::BAD_REQUEST, "the digest does not match"),
        WriteError::Interrupted => (StatusCode::BAD_REQUEST, "the body is not whole"),
        WriteError::Full | WriteError::Closing => {
            (StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable")
        }
        // RFC 4918, 11.5.
        WriteError::StorageFull => (StatusCode::INSUFFICIENT_STORAGE, "the storage is full"),
        WriteError::Lost
        | WriteError::Gone(_)
        | WriteError::Unsupported
        | WriteError::Origin(_) => (StatusCode::BAD_GATEWAY, "bad gateway"),
        WriteError::Spool(_) | WriteError::Bug => {
            (StatusCode::INTERNAL_SERVER_ERROR, "internal error")
        }
    }
}

/// Returns status, headers and text for a cause. A missing object may be cached as missing for
/// `negative_ttl`; other errors are not cacheable.
pub(super) fn answer(cause: &Cause, negative_ttl: Duration) -> (StatusCode, HeaderMap, Bytes) {
    let (status, text) = row(cause);
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let text = format!("{} {text}\n", status.as_u16());
    headers.insert(CONTENT_LENGTH, text.len().into());
    let cache = match cause {
        Cause::Engine(Error::NotFound) if negative_ttl.as_secs() > 0 => {
            let value = format!("max-age={}", negative_ttl.as_secs());
            HeaderValue::try_from(value).expect("a number is a valid header value")
        }
        _ => HeaderValue::from_static("no-store"),
    };
    headers.insert(CACHE_CONTROL, cache);
    match cause {
        Cause::Method { writable } => {
            headers.insert(ALLOW, methods(*writable));
        }
        Cause::Token => {
            let challenge = HeaderValue::from_static("Bearer realm=\"tidegate\"");
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        Cause::Range(size) => {
            let value = HeaderValue::try_from(format!("bytes */{size}"));
            headers.insert(
                CONTENT_RANGE,
                value.expect("a number is a valid header value"),
            );
        }
        Cause::Engine(Error::Overloaded { retry_after }) => {
            headers.insert(RETRY_AFTER, pause(retry_after.unwrap_or(PAUSE)));
        }
        Cause::TooManyTokens => {
            headers.insert(RETRY_AFTER, pause(MAX_DELAY));
        }
        _ if status == StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(RETRY_AFTER, pause(PAUSE));
        }
        _ => {}
    }
    (status, headers, text.into())
}

/// Returns whole seconds, rounded up and at least one.
fn pause(time: Duration) -> HeaderValue {
    let whole = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    whole.max(1).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_status() {
        let rows = [
            (Error::NotFound.into(), 404, None),
            (Error::Forbidden.into(), 403, None),
            (Error::NotCached.into(), 504, None),
            (Error::Changed.into(), 503, Some("2")),
            (Error::Unavailable.into(), 503, Some("2")),
            (
                Error::Overloaded { retry_after: None }.into(),
                503,
                Some("2"),
            ),
            (
                Error::Overloaded {
                    retry_after: Some(Duration::from_millis(7001)),
                }
                .into(),
                503,
                Some("8"),
            ),
            (Error::Timeout.into(), 504, None),
            (Error::BadOrigin("secret").into(), 502, None),
            (Cause::Restless, 503, Some("2")),
            (Cause::NoRoute, 404, None),
            (Cause::Method { writable: false }, 405, None),
            (Cause::Token, 401, None),
            (Cause::Refused("why"), 400, None),
            (WriteError::Changed.into(), 412, None),
            (WriteError::TooLarge.into(), 413, None),
            (WriteError::Digest.into(), 400, None),
            (WriteError::Closing.into(), 503, Some("2")),
            (WriteError::StorageFull.into(), 507, None),
            (
                WriteError::Origin(Error::Unavailable).into(),
                503,
                Some("2"),
            ),
            (KeyError::Empty.into(), 404, None),
            (KeyError::DotSegment.into(), 400, None),
            (KeyError::NotText.into(), 400, None),
            (KeyError::TooLong.into(), 400, None),
            (Cause::Host, 400, None),
            (Cause::Target, 414, None),
            (Cause::Precondition, 412, None),
            (Cause::Range(7), 416, None),
        ];
        for (cause, status, retry) in rows {
            let (found, headers, text) = answer(&cause, Duration::from_secs(5));
            assert_eq!(found, status, "{cause:?}");
            let after = headers
                .get(RETRY_AFTER)
                .map(|value| value.to_str().expect("text"));
            assert_eq!(after, retry, "{cause:?}");
            assert_eq!(headers[CONTENT_LENGTH], text.len().to_string().as_str());
            assert!(!String::from_utf8_lossy(&text).contains("secret"));
            let missing = cause == Cause::Engine(Error::NotFound);
            let cache = if missing { "max-age=5" } else { "no-store" };
            assert_eq!(headers[CACHE_CONTROL], cache, "{cause:?}");
        }
        let (_, headers, _) = answer(&Cause::Range(7), Duration::ZERO);
        assert_eq!(headers[CONTENT_RANGE], "bytes */7");
        let (_, headers, _) = answer(&Cause::Method { writable: false }, Duration::ZERO);
        assert_eq!(headers[ALLOW], "GET, HEAD, OPTIONS");
        let (_, headers, _) = answer(&Cause::Method { writable: true }, Duration::ZERO);
        assert_eq!(headers[ALLOW], "GET, HEAD, OPTIONS, PUT, DELETE");
        let (_, headers, _) = answer(&Error::NotFound.into(), Duration::ZERO);
        assert_eq!(headers[CACHE_CONTROL], "no-store");
    }
}
