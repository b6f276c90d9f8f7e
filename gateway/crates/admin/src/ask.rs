//! The parts of requests: names in the query, a body in bounded time.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;

/// A body must arrive within this time.
const BODY_DEADLINE: Duration = Duration::from_secs(10);

/// The most bytes of a form of the console.
const MAX_FORM: usize = 1 << 20;

/// The reason why a request is refused: a status, and its text.
pub(super) type Refusal = (StatusCode, String);

/// Reads the body, within 10 s.
pub(super) async fn body(request: Request) -> Result<Bytes, Refusal> {
    tokio::time::timeout(BODY_DEADLINE, Bytes::from_request(request, &()))
        .await
        .map_err(|_| (StatusCode::REQUEST_TIMEOUT, "no body came".to_owned()))?
        .map_err(|error: BytesRejection| (error.status(), error.body_text()))
}

/// Reads the body of a request before anything else looks at it: one that does not come within 10 s holds no place.
pub async fn read_body(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match read_at_most(&head.headers, body, MAX_FORM).await {
        Ok(body) => next.run(Request::from_parts(head, Body::from(body))).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Reads a body of at most `max` bytes, within 10 s. One that says that it is longer is not read at all.
pub(super) async fn bounded_body(request: Request, max: usize) -> Result<Bytes, Refusal> {
    let (head, body) = request.into_parts();
    read_at_most(&head.headers, body, max).await
}

async fn read_at_most(headers: &HeaderMap, body: Body, max: usize) -> Result<Bytes, Refusal> {
    let too_long = || {
        (
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is too long".to_owned(),
        )
    };
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > max as u64) {
        return Err(too_long());
    }
    tokio::time::timeout(BODY_DEADLINE, to_bytes(body, max))
        .await
        .map_err(|_| (StatusCode::REQUEST_TIMEOUT, "no body came".to_owned()))?
        .map_err(|_| too_long())
}

/// Returns the values of `names` in a query, as they stand there. Other names, and repeated ones,
/// are errors.
pub(super) fn values<'q, const N: usize>(
    query: &'q str,
    names: [&str; N],
) -> Result<[Option<&'q str>; N], String> {
    let mut values = [None; N];
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(nth) = names.iter().position(|known| *known == name) else {
            let names = names.join(", ");
            return Err(format!("only these are understood here: {names}"));
        };
        if values[nth].replace(value).is_some() {
            return Err(format!("{name} is given twice"));
        }
    }
    Ok(values)
}

/// Returns a host, percent-decoded.
pub(super) fn host(value: &str) -> Result<String, String> {
    let text = percent_decode_str(value).decode_utf8();
    Ok(text.map_err(|_| "host is not text")?.into_owned())
}

pub(super) fn json(value: &serde_json::Value) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, format!("{value}\n")).into_response()
}
