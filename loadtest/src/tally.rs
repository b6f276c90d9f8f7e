//! A proxy between a peer and the bucket that counts requests by kind.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Empty, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The time for which an answer of the bucket counts: the `probe` of the recipe for several servers.
pub const PROBE: Duration = Duration::from_secs(1);

/// A counting proxy in front of an S3 server with path-style addresses.
#[derive(Debug)]
pub struct Tally {
    addr: SocketAddr,
    counts: Arc<Counts>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Counts {
    get: AtomicU64,
    head: AtomicU64,
    list: AtomicU64,
    put: AtomicU64,
    put_empty: AtomicU64,
    copy: AtomicU64,
    delete: AtomicU64,
    multipart: AtomicU64,
    bucket: AtomicU64,
    bucket_again: AtomicU64,
    other: AtomicU64,
    bytes: AtomicU64,
    sent: AtomicU64,
    /// The time of the last success that the peer knows of.
    known: LastSuccess,
}

/// The time of the last success of the bucket, when it was passed on to the peer.
#[derive(Debug, Default)]
struct LastSuccess(Mutex<Option<Instant>>);

/// The requests so far, or between two points in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct RequestCounts {
    /// GETs of an object.
    pub get: u64,
    /// HEADs of an object.
    pub head: u64,
    /// Listings.
    pub list: u64,
    /// PUTs of objects and parts.
    pub put: u64,
    /// Of these, the requests for an empty object that is no folder's marker: a file that was closed empty and is written later.
    pub put_empty: u64,
    /// Copies of objects and parts.
    pub copy: u64,
    /// Deletions, of one object or of many.
    pub delete: u64,
    /// Requests that begin, complete or abort a multipart upload.
    pub multipart: u64,
    /// Other requests about the bucket, such as for its existence or location.
    pub bucket: u64,
    /// Of these, the requests sent within [`PROBE`] of an answer to another request, which proves as much, and of which the
    /// peer knew: it has sent another request over the same connection since.
    pub bucket_again: u64,
    /// All other requests, about the server.
    pub other: u64,
    /// Bytes of object bodies sent to the peer.
    pub bytes: u64,
    /// Bytes of bodies received from the peer.
    pub sent: u64,
}

impl Tally {
    /// Starts a proxy that passes everything on to `upstream`.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let counts = Arc::new(Counts::default());
        let task = tokio::spawn(accept(listener, upstream, Arc::clone(&counts)));
        Ok(Self { addr, counts, task })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn asked(&self) -> RequestCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RequestCounts {
            get: read(&self.counts.get),
            head: read(&self.counts.head),
            list: read(&self.counts.list),
            put: read(&self.counts.put),
            put_empty: read(&self.counts.put_empty),
            copy: read(&self.counts.copy),
            delete: read(&self.counts.delete),
            multipart: read(&self.counts.multipart),
            bucket: read(&self.counts.bucket),
            bucket_again: read(&self.counts.bucket_again),
            other: read(&self.counts.other),
            bytes: read(&self.counts.bytes),
            sent: read(&self.counts.sent),
        }
    }

    /// Waits until nothing has changed for a second and returns the counts, so that background
    /// requests are included.
    pub async fn settled(&self) -> RequestCounts {
        self.quiet_for(Duration::from_secs(1)).await
    }

    /// Does the same as [`Tally::settled`], for a given time.
    pub async fn quiet_for(&self, time: Duration) -> RequestCounts {
        let mut last = self.asked();
        loop {
            tokio::time::sleep(time).await;
            let now = self.asked();
            if now == last {
                return now;
            }
            last = now;
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RequestCounts {
    /// Returns the counts since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            get: self.get - earlier.get,
            head: self.head - earlier.head,
            list: self.list - earlier.list,
            put: self.put - earlier.put,
            put_empty: self.put_empty - earlier.put_empty,
            copy: self.copy - earlier.copy,
            delete: self.delete - earlier.delete,
            multipart: self.multipart - earlier.multipart,
            bucket: self.bucket - earlier.bucket,
            bucket_again: self.bucket_again - earlier.bucket_again,
            other: self.other - earlier.other,
            bytes: self.bytes - earlier.bytes,
            sent: self.sent - earlier.sent,
        }
    }

    /// Returns the number of all requests.
    #[must_use]
    pub const fn requests(self) -> u64 {
        let writing = self.put + self.copy + self.delete + self.multipart;
        self.get + self.head + self.list + writing + self.bucket + self.other
    }
}

impl LastSuccess {
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request over a connection with a last success of its own, of which the peer knows now: on a busy machine an
    /// answer may be under way for long. Returns the last one that it knows of.
    fn asked_over(&self, connection: &Self) -> Option<Instant> {
        let mut known = self.lock();
        *known = (*known).max(*connection.lock());
        *known
    }
}

impl Counts {
    /// Counts a request over a connection with this last success.
    fn count(&self, request: &Request<Incoming>, connection: &LastSuccess) -> Kind {
        let kind = kind(
            request.method(),
            request.uri().path(),
            request.uri().query(),
            request.headers().contains_key("x-amz-copy-source"),
        );
        let counter = match kind {
            Kind::Get => &self.get,
            Kind::Head => &self.head,
            Kind::List => &self.list,
            Kind::Put => &self.put,
            Kind::Copy => &self.copy,
            Kind::Delete => &self.delete,
            Kind::Multipart => &self.multipart,
            Kind::Bucket => &self.bucket,
            Kind::Other => &self.other,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let known = self.known.asked_over(connection);
        if kind == Kind::Bucket && is_needless(known.map(|at| at.elapsed())) {
            self.bucket_again.fetch_add(1, Ordering::Relaxed);
        }
        let is_empty = || {
            let length = request.headers().get(header::CONTENT_LENGTH);
            length.is_some_and(|length| length == "0") && !request.uri().path().ends_with('/')
        };
        if kind == Kind::Put && is_empty() {
            self.put_empty.fetch_add(1, Ordering::Relaxed);
        }
        kind
    }
}

/// Returns whether a request about the bucket asks for nothing new, this long after the last success that the peer knows of.
fn is_needless(since: Option<Duration>) -> bool {
    since.is_some_and(|since| since < PROBE)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Get,
    Head,
    List,
    Put,
    Copy,
    Delete,
    Multipart,
    Bucket,
    Other,
}

/// Classifies a path-style request: `/bucket/key` is an object, `/bucket` or `/bucket/` the bucket
/// itself.
fn kind(method: &Method, path: &str, query: Option<&str>, copies: bool) -> Kind {
    let (bucket, key) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    let query = query.unwrap_or("");
    let asks = |name: &str| {
        query
            .split('&')
            .any(|part| part.split('=').next() == Some(name))
    };
    match (method, bucket.is_empty(), key.is_empty()) {
        (&Method::GET, false, false) => Kind::Get,
        (&Method::HEAD, false, false) => Kind::Head,
        (&Method::PUT, false, false) if copies => Kind::Copy,
        (&Method::PUT, false, false) => Kind::Put,
        (&Method::DELETE, false, false) if asks("uploadId") => Kind::Multipart,
        (&Method::DELETE, false, false) => Kind::Delete,
        (&Method::POST, false, false) if asks("uploads") || asks("uploadId") => Kind::Multipart,
        (&Method::POST, false, true) if asks("delete") => Kind::Delete,
        (&Method::GET, false, true) if asks("location") || asks("versioning") => Kind::Bucket,
        (&Method::GET, false, true) => Kind::List,
        (&Method::HEAD, false, true) => Kind::Bucket,
        _ => Kind::Other,
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, counts: Arc<Counts>) {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, CountedBody> = Client::builder(TokioExecutor::new()).build(connector);
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let (client, counts) = (client.clone(), Arc::clone(&counts));
        let answered = Arc::new(LastSuccess::default());
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let counted = (Arc::clone(&counts), Arc::clone(&answered));
                pass_on(client.clone(), upstream, counted, request)
            });
            // A peer may break its connection; the counts remain.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// Passes a request on unchanged: its `Host` is part of its signature.
async fn pass_on(
    client: Client<HttpConnector, CountedBody>,
    upstream: SocketAddr,
    (counts, answered): (Arc<Counts>, Arc<LastSuccess>),
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, hyper::Error>>, Infallible> {
    let kind = counts.count(&request, &answered);
    let mut request = request.map(|inner| CountedBody {
        inner,
        counts: Arc::clone(&counts),
        bytes: |counts| &counts.sent,
    });
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    let uri = format!("http://{upstream}{path}").parse();
    let answer = match uri {
        Ok(uri) => {
            *request.uri_mut() = uri;
            client.request(request).await.ok()
        }
        Err(_) => None,
    };
    if answer.as_ref().is_some_and(|it| it.status().is_success()) {
        *answered.lock() = Some(Instant::now());
    }
    Ok(match answer {
        Some(answer) if kind == Kind::Get => answer.map(|inner| {
            BoxBody::new(CountedBody {
                inner,
                counts,
                bytes: |counts| &counts.bytes,
            })
        }),
        Some(answer) => answer.map(BoxBody::new),
        None => {
            let mut gone = Response::new(Empty::new().map_err(|never| match never {}).boxed());
            *gone.status_mut() = StatusCode::BAD_GATEWAY;
            gone
        }
    })
}

/// A body whose bytes are counted as they pass.
#[derive(Debug)]
struct CountedBody {
    inner: Incoming,
    counts: Arc<Counts>,
    bytes: fn(&Counts) -> &AtomicU64,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            (self.bytes)(&self.counts).fetch_add(data.len() as u64, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart_by_method_path_and_query() {
        let kind = |method: &Method, path, query| super::kind(method, path, query, false);
        let get = |path, query| kind(&Method::GET, path, query);
        assert_eq!(get("/media/a/b.jpg", None), Kind::Get);
        assert_eq!(get("/media/a/b.jpg", Some("x-id=GetObject")), Kind::Get);
        assert_eq!(get("/media", Some("list-type=2&prefix=a%2F")), Kind::List);
        assert_eq!(get("/media/", Some("delimiter=%2F&prefix=")), Kind::List);
        assert_eq!(get("/media/", Some("location")), Kind::Bucket);
        assert_eq!(kind(&Method::HEAD, "/media/a", None), Kind::Head);
        assert_eq!(kind(&Method::HEAD, "/media/", None), Kind::Bucket);
        assert_eq!(kind(&Method::PUT, "/media/a", None), Kind::Put);
        assert_eq!(kind(&Method::PUT, "/media", None), Kind::Other);
        let put = |copies| super::kind(&Method::PUT, "/media/a", Some("partNumber=1"), copies);
        assert_eq!((put(false), put(true)), (Kind::Put, Kind::Copy));
        for (method, query, expected) in [
            (Method::POST, "uploads", Kind::Multipart),
            (Method::POST, "uploadId=x", Kind::Multipart),
            (Method::DELETE, "uploadId=x", Kind::Multipart),
            (Method::DELETE, "x-id=DeleteObject", Kind::Delete),
        ] {
            assert_eq!(kind(&method, "/media/a", Some(query)), expected, "{query}");
        }
        assert_eq!(kind(&Method::POST, "/media", Some("delete")), Kind::Delete);
        assert_eq!(get("/", None), Kind::Other);
    }

    #[test]
    fn a_probe_is_needless_while_an_answer_counts() {
        let after = |millis| is_needless(Some(Duration::from_millis(millis)));
        assert!(!is_needless(None) && !after(1000));
        assert!(after(0) && after(999));
    }

    #[test]
    fn the_peer_knows_of_an_answer_once_its_connection_brings_another_request() {
        let (known, [one, other]) = (
            LastSuccess::default(),
            [(); 2].map(|()| LastSuccess::default()),
        );
        let first = Instant::now();
        *one.lock() = Some(first);
        assert_eq!(known.asked_over(&other), None, "under way");
        assert_eq!(known.asked_over(&one), Some(first));
        assert_eq!(
            known.asked_over(&other),
            Some(first),
            "once known, over any"
        );
        let second = first + Duration::from_secs(1);
        *other.lock() = Some(second);
        assert_eq!(known.asked_over(&one), Some(first));
        assert_eq!(known.asked_over(&other), Some(second));
        assert_eq!(known.asked_over(&one), Some(second), "the last of all");
    }
}
