//! Maps request errors to answers: the one table.
//!
//! Texts are short, plain and written here; no text of the origin reaches a client.

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::cache_status::{CACHE_STATUS, refused_status};
use tidegate_access::Refusal;
use tidegate_access::limits::ReachedLimit;
use tidegate_engine::Error;
use tidegate_plan::KeyError;
use tidegate_plan::wrong_tokens::MAX_DELAY;
use tidegate_write::WriteError;

/// Returns the methods that a route answers.
pub(crate) fn methods(writable: bool) -> HeaderValue {
    HeaderValue::from_static(match writable {
        true => "GET, HEAD, OPTIONS, PUT, DELETE",
        false => "GET, HEAD, OPTIONS",
    })
}

/// The `Retry-After` if the origin gave none.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(2);

/// The reason why a request is not answered with an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestError {
    /// The engine does not deliver.
    Engine(Error),
    /// The object changed each time that an answer was about to begin.
    KeepsChanging,
    /// No route matches.
    NoRoute,
    /// A method other than [`methods`].
    Method {
        /// Whether the route is writable.
        writable: bool,
    },
    /// A read that the route's access refuses.
    Access {
        /// The reason.
        refusal: Refusal,
        /// The challenges that say which credentials could admit it.
        challenge: Challenge,
    },
    /// A read that reaches a limit of its route.
    Limited(ReachedLimit),
    /// A write that does not show the route's token.
    Token,
    /// The same, if too many such answers wait already.
    TooManyTokens,
    /// A write that would mean something else here than at its source; the reason.
    Refused(&'static str),
    /// A body whose end or whose bytes would not be known; the status and the reason.
    Framing(StatusCode, &'static str),
    /// A purge by a client that may not purge, or that is not known.
    PurgeRefused,
    /// A purge that could not be made durable.
    PurgeLost,
    /// A digest that cannot be read.
    Digest,
    /// The engine does not write.
    Write(WriteError),
    /// The path is no key.
    Key(KeyError),
    /// A malformed `Host`, or HTTP/1.1 without one or with several (RFC 9112, 3.2).
    Host,
    /// The request's target is too long.
    Target,
    /// A precondition does not hold.
    Precondition,
    /// No range lies within the object, which has this size.
    Range(u64),
}

/// The challenges of an answer to a request that an access refuses (RFC 9110, 11.6.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// None: no credentials in `Authorization` could help.
    None,
    /// For a bearer token (RFC 6750, 3).
    Bearer,
    /// The same, and for players that know nothing else a password (RFC 7617, 2).
    BearerOrBasic,
    /// Those of the server that has refused it.
    PassedOn(Vec<HeaderValue>),
}

impl From<Error> for RequestError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<WriteError> for RequestError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Origin(error) => Self::Engine(error),
            error => Self::Write(error),
        }
    }
}

impl From<KeyError> for RequestError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

/// Looks up an error in the table: its status and text.
fn row(error: &RequestError) -> (StatusCode, &'static str) {
    match error {
        RequestError::Key(KeyError::Empty | KeyError::LeadingSlash)
        | RequestError::NoRoute
        | RequestError::Engine(Error::NotFound) => (StatusCode::NOT_FOUND, "not found"),
        RequestError::Key(KeyError::TooLong) => (StatusCode::BAD_REQUEST, "the key is too long"),
        RequestError::Key(KeyError::NotText) => {
            (StatusCode::BAD_REQUEST, "the path is not valid text")
        }
        RequestError::Key(KeyError::DotSegment) => {
            (StatusCode::BAD_REQUEST, "the path has a dot segment")
        }
        RequestError::Host => (StatusCode::BAD_REQUEST, "one valid Host header is needed"),
        RequestError::Engine(Error::Forbidden) => (StatusCode::FORBIDDEN, "forbidden"),
        RequestError::Method { .. } => (StatusCode::METHOD_NOT_ALLOWED, "method not allowed"),
        RequestError::Access { refusal, challenge } => match (refusal, challenge) {
            (Refusal::Unanswered, _) => {
                (StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable")
            }
            (_, Challenge::None) => (StatusCode::FORBIDDEN, "forbidden"),
            _ => (
                StatusCode::UNAUTHORIZED,
                "this needs a token or a signed link",
            ),
        },
        RequestError::Limited(_) => (StatusCode::TOO_MANY_REQUESTS, "too many requests"),
        RequestError::Token => (StatusCode::UNAUTHORIZED, "this needs the route's token"),
        RequestError::TooManyTokens => (StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens"),
        RequestError::Refused(why) => (StatusCode::BAD_REQUEST, why),
        RequestError::Framing(status, why) => (*status, why),
        RequestError::PurgeRefused => (StatusCode::FORBIDDEN, "this address may not purge"),
        RequestError::PurgeLost => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "the purge may not outlast a restart: purge again",
        ),
        RequestError::Digest => (StatusCode::BAD_REQUEST, "the digest cannot be read"),
        RequestError::Write(error) => write_row(error),
        RequestError::Precondition => (StatusCode::PRECONDITION_FAILED, "precondition failed"),
        RequestError::Target => (StatusCode::URI_TOO_LONG, "the request target is too long"),
        RequestError::Range(_) => (StatusCode::RANGE_NOT_SATISFIABLE, "range not satisfiable"),
        RequestError::Engine(Error::BadOrigin(_)) => (StatusCode::BAD_GATEWAY, "bad gateway"),
        RequestError::Engine(Error::Overloaded { .. }) => {
            (StatusCode::SERVICE_UNAVAILABLE, "overloaded")
        }
        RequestError::Engine(Error::Unavailable | Error::Stopped) => {
            (StatusCode::SERVICE_UNAVAILABLE, "temporarily unavailable")
        }
        RequestError::Engine(Error::Changed) | RequestError::KeepsChanging => {
            (StatusCode::SERVICE_UNAVAILABLE, "the object is changing")
        }
        RequestError::Engine(Error::Timeout) => (StatusCode::GATEWAY_TIMEOUT, "timed out"),
        // RFC 9111, 5.2.1.7.
        RequestError::Engine(Error::NotCached) => (StatusCode::GATEWAY_TIMEOUT, "not cached"),
    }
}

/// Looks up a failed write.
fn write_row(error: &WriteError) -> (StatusCode, &'static str) {
    match error {
        WriteError::Exists | WriteError::Changed => {
            (StatusCode::PRECONDITION_FAILED, "precondition failed")
        }
        WriteError::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "the object is too large"),
        WriteError::KeyRefused => (StatusCode::BAD_REQUEST, "the storage takes no such key"),
        WriteError::HeadersTooLarge => (
            StatusCode::BAD_REQUEST,
            "the headers to be kept with the object are too large",
        ),
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

/// The longest time that a client may remember a 404. No client hears that the object has come.
const MAX_MISSING_AGE: Duration = Duration::from_secs(5);

/// Returns status, headers and text for an error. A missing object may be cached as missing for `negative_ttl`, for
/// [`MAX_MISSING_AGE`] at most; other errors are not cacheable.
pub(crate) fn answer(
    error: &RequestError,
    negative_ttl: Duration,
) -> (StatusCode, HeaderMap, Bytes) {
    let (status, text) = row(error);
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let text = format!("{} {text}\n", status.as_u16());
    headers.insert(CONTENT_LENGTH, text.len().into());
    let cache = match error {
        RequestError::Engine(Error::NotFound) if negative_ttl.as_secs() > 0 => {
            let age = negative_ttl.min(MAX_MISSING_AGE);
            let value = format!("max-age={}", age.as_secs());
            HeaderValue::try_from(value).expect("a number is a valid header value")
        }
        _ => HeaderValue::from_static("no-store"),
    };
    headers.insert(CACHE_CONTROL, cache);
    match error {
        RequestError::Access { refusal, challenge } => {
            add_refusal(&mut headers, *refusal, challenge);
        }
        RequestError::Limited(limited) => add_limit(&mut headers, *limited),
        RequestError::Method { writable } => {
            headers.insert(ALLOW, methods(*writable));
        }
        RequestError::Token => {
            let challenge = HeaderValue::from_static("Bearer realm=\"tidegate\"");
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        RequestError::Range(size) => {
            let value = HeaderValue::try_from(format!("bytes */{size}"));
            headers.insert(
                CONTENT_RANGE,
                value.expect("a number is a valid header value"),
            );
        }
        RequestError::Engine(Error::Overloaded { retry_after }) => {
            headers.insert(
                RETRY_AFTER,
                whole_seconds(retry_after.unwrap_or(DEFAULT_RETRY_AFTER)),
            );
        }
        RequestError::TooManyTokens => {
            headers.insert(RETRY_AFTER, whole_seconds(MAX_DELAY));
        }
        _ if status == StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(RETRY_AFTER, whole_seconds(DEFAULT_RETRY_AFTER));
        }
        _ => {}
    }
    (status, headers, text.into())
}

/// Adds the reason of a refusal and its challenges; to an outage the time after which to try again.
fn add_refusal(headers: &mut HeaderMap, refusal: Refusal, challenge: &Challenge) {
    headers.insert(CACHE_STATUS, refused_status("access", refusal.as_str()));
    if refusal == Refusal::Unanswered {
        headers.insert(RETRY_AFTER, whole_seconds(DEFAULT_RETRY_AFTER));
        return;
    }
    let bearer = HeaderValue::from_static("Bearer realm=\"tidegate\"");
    let basic = HeaderValue::from_static("Basic realm=\"tidegate\"");
    let schemes = match challenge {
        Challenge::None => vec![],
        Challenge::Bearer => vec![bearer],
        Challenge::BearerOrBasic => vec![bearer, basic],
        Challenge::PassedOn(own) => own.clone(),
    };
    for scheme in schemes {
        headers.append(WWW_AUTHENTICATE, scheme);
    }
}

/// Adds the limit that was reached, and the time after which to try again.
fn add_limit(headers: &mut HeaderMap, limited: ReachedLimit) {
    let wait = match limited {
        ReachedLimit::Requests { retry_after } => retry_after,
        ReachedLimit::Connections => DEFAULT_RETRY_AFTER,
    };
    headers.insert(RETRY_AFTER, whole_seconds(wait));
    headers.insert(CACHE_STATUS, refused_status("limit", limited.as_str()));
}

/// Returns whole seconds, rounded up and at least one.
fn whole_seconds(time: Duration) -> HeaderValue {
    let whole = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    whole.max(1).into()
}

#[cfg(test)]
mod tests;
