//! An unsent answer: head, content, and the cache's part in it.

pub(crate) mod cors;
pub(crate) mod vary;

use std::time::Duration;

use http::header::ALLOW;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use crate::body::Content;
use crate::cache_status::CacheResult;
use crate::request_error::{self, RequestError};
use crate::settings::RouteSettings;

/// An answer, and the cache's part in it.
pub(crate) struct Reply {
    /// Boxed: several functions hand it on, each to the next.
    pub(crate) answer: Box<Response<Content>>,
    pub(crate) cache: CacheResult,
}

impl Reply {
    pub(crate) fn new(status: StatusCode, headers: HeaderMap, content: Content) -> Self {
        let mut answer = Box::new(Response::new(content));
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Self {
            answer,
            cache: CacheResult::None,
        }
    }

    /// Returns the answer that the table has for `error`.
    pub(crate) fn error(error: &RequestError, negative_ttl: Duration, method: &Method) -> Self {
        let (status, headers, text) = request_error::answer(error, negative_ttl);
        let content = match *method {
            Method::HEAD => Content::Nothing,
            _ => Content::Ready(text.into()),
        };
        Self::new(status, headers, content)
    }
}

/// Returns 204 with the allowed methods; for a CORS preflight also the allowed origin and headers. A hidden route answers
/// nothing but the preflights of allowed sites.
pub(crate) fn options(route: &RouteSettings, request: &HeaderMap) -> Reply {
    let is_preflight = |cors| cors::is_preflight(cors, request);
    if route.is_hidden() && !route.cors.as_ref().is_some_and(is_preflight) {
        return Reply::error(&RequestError::NoRoute, Duration::ZERO, &Method::OPTIONS);
    }
    let mut headers = HeaderMap::new();
    headers.insert(ALLOW, request_error::methods(route.write_token.is_some()));
    if let Some(cors) = &route.cors {
        let access = route.access.as_ref();
        let with_token = access.is_some_and(|access| access.rules.reads_authorization());
        cors::preflight(cors, with_token, request, &mut headers);
    }
    Reply::new(StatusCode::NO_CONTENT, headers, Content::Nothing)
}

/// Returns the time to open the version, and to its first bytes (Server-Timing, in milliseconds).
pub(crate) fn timing(open: Duration, ready: Duration) -> HeaderValue {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let text = format!(
        "open;dur={:.3}, first;dur={:.3}",
        millis(open),
        millis(ready.saturating_sub(open))
    );
    HeaderValue::try_from(text).expect("plain ASCII is a valid header value")
}
