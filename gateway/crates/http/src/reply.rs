//! An unsent answer: head, content, and the cache's part in it.

use std::time::Duration;

use http::header::ALLOW;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use super::body::Content;
use super::cors;
use super::rescue::{self, Cause};
use super::settings::RouteSettings;
use super::status::CacheResult;

/// An answer, and the cache's part in it.
pub(super) struct Reply {
    pub(super) answer: Response<Content>,
    pub(super) cache: CacheResult,
}

impl Reply {
    pub(super) fn new(status: StatusCode, headers: HeaderMap, content: Content) -> Self {
        let mut answer = Response::new(content);
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Self {
            answer,
            cache: CacheResult::None,
        }
    }

    /// Returns the answer that the table has for `cause`.
    pub(super) fn error(cause: &Cause, negative_ttl: Duration, method: &Method) -> Self {
        let (status, headers, text) = rescue::answer(cause, negative_ttl);
        let content = match *method {
            Method::HEAD => Content::Nothing,
            _ => Content::Text(text),
        };
        Self::new(status, headers, content)
    }
}

/// Returns 204 with the allowed methods; for a CORS preflight also the allowed origin and headers.
pub(super) fn options(route: &RouteSettings, request: &HeaderMap) -> Reply {
    let mut headers = HeaderMap::new();
    headers.insert(ALLOW, rescue::methods(route.write_token.is_some()));
    if let Some(cors) = &route.cors {
        cors::preflight(cors, request, &mut headers);
    }
    Reply::new(StatusCode::NO_CONTENT, headers, Content::Nothing)
}

/// Returns the time to open the version, and to its first bytes (Server-Timing, in milliseconds).
pub(super) fn timing(open: Duration, ready: Duration) -> HeaderValue {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let text = format!(
        "open;dur={:.3}, first;dur={:.3}",
        millis(open),
        millis(ready.saturating_sub(open))
    );
    HeaderValue::try_from(text).expect("plain ASCII is a valid header value")
}
