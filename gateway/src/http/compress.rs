//! Text compressed on the way, for clients that accept it.

use std::convert::Infallible;
use std::future::ready;

use bytes::Bytes;
use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use tower::ServiceExt;
use tower_http::compression::Compression;

use super::body::Content;
use super::delivery::{Broken, Readable};

/// Whether the client takes gzip or br at all. Without that there is nothing to negotiate, and
/// identity is sent even to a client that forbids it: better than 406 (RFC 9110, 12.5.3).
pub(super) fn accepted(request: &HeaderMap) -> bool {
    let lines = request.get_all(ACCEPT_ENCODING).iter();
    lines
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(','))
        .any(is_wanted)
}

fn is_wanted(item: &str) -> bool {
    let mut parts = item.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let known = ["gzip", "x-gzip", "br", "*"]
        .iter()
        .any(|own| own.eq_ignore_ascii_case(name));
    let refused = parts.any(|part| {
        let weight = part
            .strip_prefix(['q', 'Q'])
            .and_then(|q| q.strip_prefix('='));
        weight.is_some_and(|q| q.parse::<f32>().is_ok_and(|q| q <= 0.0))
    });
    known && !refused
}

/// Encodes an answer as its client prefers, which may be not at all. The encoded answer has
/// `Content-Encoding` and neither `Content-Length` nor `Accept-Ranges`.
pub(super) async fn encode<O: Readable>(
    request: &HeaderMap,
    answer: Response<Content<O>>,
) -> Response<Content<O>> {
    let mut asked = Request::new(());
    for value in request.get_all(ACCEPT_ENCODING) {
        asked.headers_mut().append(ACCEPT_ENCODING, value.clone());
    }
    let mut answer = Some(answer);
    let service = tower::service_fn(move |_: Request<()>| {
        ready(Ok::<_, Infallible>(answer.take().expect("called once")))
    });
    let always = |_, _, _: &HeaderMap, _: &http::Extensions| true;
    let encoder = Compression::new(service).compress_when(always);
    let Ok(encoded) = encoder.oneshot(asked).await;
    let body = |body: tower_http::compression::CompressionBody<Content<O>>| {
        let body = body
            .map_frame(|frame| frame.map_data(Bytes::from))
            .map_err(|error| {
                *error
                    .downcast::<Broken>()
                    .unwrap_or(Box::new(Broken::Encoder))
            });
        Content::Encoded(body.boxed_unsync())
    };
    encoded.map(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn sees_what_is_accepted() {
        let rows = [
            ("gzip", true),
            ("br;q=0.5", true),
            ("deflate, GZIP;q=1.0", true),
            ("*", true),
            ("", false),
            ("identity", false),
            ("gzip;q=0", false),
            ("gzip; q=0.000, identity", false),
            ("zstd", false),
            ("gzip;q=0, br", true),
        ];
        for (value, expected) in rows {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepted(&headers), expected, "{value}");
        }
        assert!(!accepted(&HeaderMap::new()));
    }
}
