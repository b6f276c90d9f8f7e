//! A bucket that has every key: it answers GET and HEAD of whatever is asked for with a few bytes, faster than a store that
//! keeps them. A gateway in front of it knows a million objects within minutes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The bytes of every object.
pub const BODY: &str = "an object";
/// The version of every object.
const ETAG: HeaderValue = HeaderValue::from_static("\"00000000000000000000000000000001\"");
const MODIFIED: HeaderValue = HeaderValue::from_static("Tue, 15 Nov 1994 08:12:31 GMT");
/// The header of an object's tags, as gateways look for it.
const TAGS: &str = "x-amz-meta-cache-tags";
/// The tag of one object in so many.
pub const TAG: &str = "tagged";
/// Objects whose number is a multiple of this have the tag.
pub const TAGGED: u64 = 10;

/// A running bucket. It ends when it is dropped.
#[derive(Debug)]
pub struct EndlessBucket {
    addr: SocketAddr,
    asked: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl EndlessBucket {
    /// Listens on a free port.
    ///
    /// # Errors
    /// If there is none.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let asked = Arc::<AtomicU64>::default();
        let task = tokio::spawn(accept(listener, asked.clone()));
        Ok(Self { addr, asked, task })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the number of requests so far.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for EndlessBucket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, asked: Arc<AtomicU64>) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let asked = asked.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request: Request<Incoming>| {
                asked.fetch_add(1, Ordering::Relaxed);
                let answer = answer(request.method(), request.uri().path(), request.headers());
                async { Ok::<_, Infallible>(answer) }
            });
            // A client that leaves ends its connection with an error.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}

/// Answers with the whole object, which any range that begins with its first byte covers.
fn answer(method: &Method, path: &str, asked: &HeaderMap) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::default());
    let headers = answer.headers_mut();
    headers.insert(header::ETAG, ETAG);
    headers.insert(header::LAST_MODIFIED, MODIFIED);
    if number(path).is_some_and(|number| number % TAGGED == 0) {
        headers.insert(TAGS, HeaderValue::from_static(TAG));
    }
    if asked.get(header::IF_NONE_MATCH) == Some(&ETAG) {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        return answer;
    }
    let len = BODY.len();
    if asked.contains_key(header::RANGE) {
        let range = format!("bytes 0-{}/{len}", len - 1);
        let range = HeaderValue::try_from(range).expect("numbers");
        headers.insert(header::CONTENT_RANGE, range);
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_LENGTH, len.into());
    if *method != Method::HEAD {
        *answer.body_mut() = Full::new(Bytes::from_static(BODY.as_bytes()));
    }
    answer
}

/// Returns the number at the end of a path.
fn number(path: &str) -> Option<u64> {
    path.rsplit('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_is_there_and_one_in_ten_has_the_tag() {
        let mut headers = HeaderMap::new();
        let whole = answer(&Method::GET, "/media/k/000020", &headers);
        assert_eq!(whole.status(), 200);
        assert_eq!(whole.headers()[TAGS], TAG);
        assert_eq!(whole.headers()[header::CONTENT_LENGTH], "9");
        headers.insert(header::RANGE, HeaderValue::from_static("bytes=0-262143"));
        let part = answer(&Method::GET, "/media/k/000021", &headers);
        assert_eq!(part.status(), 206);
        assert!(!part.headers().contains_key(TAGS));
        assert_eq!(part.headers()[header::CONTENT_RANGE], "bytes 0-8/9");
        headers.insert(header::IF_NONE_MATCH, ETAG);
        assert_eq!(answer(&Method::GET, "/media/k/1", &headers).status(), 304);
    }
}
