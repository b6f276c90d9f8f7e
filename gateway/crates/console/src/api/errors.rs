//! The bodies of answers of the API that are no success.

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use tidegate_engine::Error;

/// The path of the API.
pub(crate) const API_PATH: &str = "/api/v1";

/// The longest text that becomes the reason in a body.
const MAX_REASON: usize = 16 << 10;

/// The body of an answer that is no success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ApiError {
    /// The reason, in words.
    pub error: String,
    #[serde(skip)]
    status: StatusCode,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, why: impl ToString) -> Self {
        Self {
            error: why.to_string(),
            status,
        }
    }

    /// Returns the status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn bad(why: impl ToString) -> Self {
        Self::new(StatusCode::BAD_REQUEST, why)
    }

    pub(crate) fn missing(why: impl ToString) -> Self {
        Self::new(StatusCode::NOT_FOUND, why)
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::Forbidden | Error::BadOrigin(_) => StatusCode::BAD_GATEWAY,
            Error::Timeout => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
    }
}

/// Gives each answer of the API that is no success an [`ApiError`] as its body. It is the outermost layer, so it covers
/// the checks of the host and the token, requests that cannot be read, and paths and methods that the API does not have.
pub(crate) async fn as_json(request: Request, next: Next) -> Response {
    let below = request.uri().path().strip_prefix(API_PATH);
    let is_of_api = below.is_some_and(|below| below.is_empty() || below.starts_with('/'));
    // The answer to HEAD has no body.
    let has_body = request.method() != Method::HEAD;
    let answer = next.run(request).await;
    let status = answer.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !(is_of_api && has_body && is_error) || is_json(&answer) {
        return answer;
    }
    let (mut head, body) = answer.into_parts();
    let error = reason_in(body).await;
    let error = error.unwrap_or_else(|| reason(status).to_owned());
    let body = serde_json::json!({ "error": error }).to_string();
    head.headers.remove(CONTENT_LENGTH);
    let kind = HeaderValue::from_static("application/json");
    head.headers.insert(CONTENT_TYPE, kind);
    Response::from_parts(head, Body::from(body))
}

/// Returns the reason in the body of an answer; `None`: there is none.
pub(crate) async fn reason_in(body: Body) -> Option<String> {
    let text = to_bytes(body, MAX_REASON).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn is_json(answer: &Response) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

/// Returns the reason of an answer that says none.
fn reason(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "the API has no such path",
        StatusCode::METHOD_NOT_ALLOWED => "the path does not take this method",
        status => status.canonical_reason().unwrap_or("it did not work"),
    }
}
