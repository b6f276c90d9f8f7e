//! The pages of requests that were refused before a page was made, or that cannot be read.

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use maud::html;

use super::{SECTIONS, failure};
use crate::Console;
use crate::access::AdmissionKind;
use crate::api::ApiError;
use crate::api::errors::reason_in;

/// Replaces an error without a page by a page with its reason. Only browsers get it. The headers stay.
pub(crate) async fn as_page(
    State(console): State<Console>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    // A client that shows the token itself is a script.
    let is_browser = !request.headers().contains_key(AUTHORIZATION);
    let has_body = request.method() != Method::HEAD;
    let mut answer = next.run(request).await;
    let admitted = answer.extensions_mut().remove::<AdmissionKind>();
    let status = answer.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !(is_browser && has_body && is_error) || is_page(&answer) {
        return answer;
    }
    let (head, body) = answer.into_parts();
    let error = ApiError::new(
        status,
        reason_in(body).await.unwrap_or_else(|| reason(status)),
    );
    let mut sections = SECTIONS.iter().map(|(section, _)| *section);
    let section = sections.find(|section| *section == path).unwrap_or("/");
    let ways = html! { p { a.button href=(section) { "Back" } } };
    let admitted = admitted.unwrap_or(AdmissionKind::Reader);
    let mut page = failure(&console, &admitted, section, &error, &ways);
    for (name, value) in &head.headers {
        if ![CONTENT_LENGTH, CONTENT_TYPE].contains(name) {
            page.headers_mut().insert(name, value.clone());
        }
    }
    page
}

fn is_page(answer: &Response) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
}

/// Returns the reason of an answer that says none.
fn reason(status: StatusCode) -> String {
    let words = status.canonical_reason().unwrap_or("It did not work");
    words.to_owned()
}
