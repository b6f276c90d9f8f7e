use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::*;
use crate::body::client_memory::ClientMemory;
use crate::body::delivery::Delivery;
use crate::body::delivery::tests::{Fake, Fault};
use crate::body::readable::Readable as _;
use crate::body::{Body, Content};
use crate::cache_status::CacheResult;
use crate::record::RequestRecord;
use crate::server::live_settings::LiveSettings;
use crate::server::sent_body::SentBody;
use crate::server::timeouts::{ConnectionActivity, Turn};
use crate::settings::Settings;
use tidegate_plan::Listen;
use tidegate_socket::Peer;

mod broken;
mod control;
mod crowded;
mod discarded;
mod in_memory;
mod one_write;
mod resting;
mod slow_client;
mod slow_streams;
mod told;
mod untaken;

/// Longer than any step here takes; only a failure waits for it.
const LONG: Duration = Duration::from_secs(300);
/// A deadline that a test wants to see pass.
const SHORT: Duration = Duration::from_millis(200);

/// An offset at which the head and some bytes are on their way.
const BREAKS_AT: usize = 600_000;

/// Answers every path with the same bytes, and some paths with a fault.
struct FakeHandler {
    fake: Fake,
    memory: Arc<ClientMemory>,
    metrics: Arc<Metrics>,
    requests: AtomicUsize,
    arrived: Notify,
    go: Notify,
}

impl FakeHandler {
    fn new(size: usize, metrics: Arc<Metrics>) -> Self {
        Self {
            fake: Fake::new(size, 256 << 10),
            memory: Arc::new(ClientMemory::new(usize::MAX)),
            metrics,
            requests: AtomicUsize::new(0),
            arrived: Notify::new(),
            go: Notify::new(),
        }
    }
}

impl Handler for FakeHandler {
    type Body = Body;

    async fn answer(
        &self,
        (parts, sent): (&Parts, Incoming),
        turn: Turn,
        peer: &Peer,
    ) -> Result<Response<Body>, Infallible> {
        let activity = turn.come(parts.version).await;
        self.requests.fetch_add(1, Relaxed);
        // It answers before the body has come.
        drop(SentBody::new(parts, sent, &activity));
        let mut record = RequestRecord::begin(
            activity,
            peer.address,
            parts.method.clone(),
            parts.uri.clone(),
            parts.version == Version::HTTP_2,
        );
        let mut fake = self.fake.clone();
        match parts.uri.path() {
            "/wait" => {
                self.arrived.notify_one();
                self.go.notified().await;
            }
            "/hang" => fake.fault = Some((10, Fault::Hangs)),
            "/break" => fake.fault = Some((BREAKS_AT, Fault::Fails)),
            _ => {}
        }
        let all = fake.all();
        let memory = self.memory.clone();
        let content = match parts.uri.path() {
            "/at-hand" => {
                let read = Delivery::single(&fake, all, &memory).await;
                read.expect("no fault")
            }
            _ => {
                let delivery = Delivery::new(fake.clone(), fake.read_at(all), all, memory);
                Content::Delivery(Box::new(delivery))
            }
        };
        let mut answer = Response::default();
        record.begin_answer(&mut answer, CacheResult::None);
        Ok(answer.map(|()| Body::new(content, record)))
    }
}

/// A server on a port of its own.
struct Running {
    handler: Arc<FakeHandler>,
    address: Listen,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(size: usize, settings: Settings) -> Self {
        Self::at(Listen::Tcp(([127, 0, 0, 1], 0).into()), size, settings).await
    }

    async fn at(address: Listen, size: usize, settings: Settings) -> Self {
        let listener = Listener::bind(&address, 0o600).await;
        let listener = listener.expect("a free address");
        let address = listener.address().expect("bound");
        Self::serving(
            address,
            size,
            settings.into(),
            Changes::fixed(vec![listener]),
        )
    }

    fn serving(address: Listen, size: usize, settings: LiveSettings, changes: Changes) -> Self {
        let metrics = Arc::new(Metrics::default());
        let handler = Arc::new(FakeHandler::new(size, metrics.clone()));
        let context = ConnectionContext::new(handler.clone(), settings, metrics);
        let stop = CancellationToken::new();
        let server = Arc::new(Server::new(context));
        Self {
            task: tokio::spawn(server.run(changes, stop.clone())),
            handler,
            address,
            stop,
        }
    }

    async fn connect(&self) -> TcpStream {
        let Listen::Tcp(address) = &self.address else {
            panic!("not on TCP")
        };
        TcpStream::connect(address).await.expect("listening")
    }

    /// Connects and asks for `path`.
    async fn ask(&self, path: &str) -> TcpStream {
        let mut stream = self.connect().await;
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("written");
        stream
    }

    async fn end(self) {
        self.stop.cancel();
        timeout(LONG, self.task)
            .await
            .expect("in time")
            .expect("no panic");
    }
}

/// Returns settings whose deadlines no pause of a slow machine reaches.
fn patient() -> Settings {
    Settings {
        header_timeout: 10 * LONG,
        idle_timeout: 10 * LONG,
        stall_timeout: 10 * LONG,
        ..Settings::default()
    }
}

/// Reads an answer's head.
async fn head(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        let byte = timeout(LONG, stream.read_u8()).await.expect("in time");
        text.push(byte.expect("more of the head"));
    }
    String::from_utf8(text).expect("text").to_ascii_lowercase()
}

/// Reads until the server closes the connection, in any way.
async fn rest(stream: &mut (impl AsyncReadExt + Unpin)) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset is an end as well.
    let _ = timeout(LONG, stream.read_to_end(&mut bytes))
        .await
        .expect("in time");
    bytes
}

async fn body(stream: &mut (impl AsyncReadExt + Unpin), length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    timeout(LONG, stream.read_exact(&mut bytes))
        .await
        .expect("in time")
        .expect("whole");
    bytes
}

#[tokio::test]
async fn keeps_connections_alive_and_never_chunks() {
    let server = Running::start(700_000, patient()).await;
    let mut stream = server.ask("/").await;
    for _ in 0..3 {
        let head = head(&mut stream).await;
        assert!(head.starts_with("http/1.1 200 ok\r\n"), "{head}");
        assert!(head.contains("content-length: 700000\r\n"), "{head}");
        assert!(!head.contains("transfer-encoding"), "{head}");
        assert_eq!(body(&mut stream, 700_000).await, server.handler.fake.bytes);
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            .await
            .expect("alive");
    }
    assert_eq!(server.handler.metrics.accepted.get(), 1);
    drop(stream);
    server.end().await;
}

#[tokio::test]
async fn speaks_http2_with_prior_knowledge() {
    let server = Running::start(700_000, patient()).await;
    let io = TokioIo::new(server.connect().await);
    let executor = TokioExecutor::new();
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io)
        .await
        .expect("a preface");
    let connection = tokio::spawn(connection);
    let request = || {
        let request = Request::get("http://h/").body(Empty::<Bytes>::new());
        request.expect("a request")
    };
    let answers = [
        sender.send_request(request()),
        sender.send_request(request()),
    ];
    for answer in answers {
        let answer = answer.await.expect("answered");
        assert_eq!(answer.version(), Version::HTTP_2);
        assert_eq!(answer.headers()["content-length"], "700000");
        let bytes = answer
            .into_body()
            .collect()
            .await
            .expect("whole")
            .to_bytes();
        assert_eq!(bytes, server.handler.fake.bytes);
    }
    drop(sender);
    connection.await.expect("no panic").expect("orderly");
    server.end().await;
}

#[tokio::test]
async fn listens_on_a_unix_socket() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("t.sock");
    let server = Running::at(Listen::Unix(path.clone()), 10, patient()).await;
    let mut stream = UnixStream::connect(&path).await.expect("listening");
    stream
        .write_all(b"GET / HTTP/1.0\r\n\r\n")
        .await
        .expect("written");
    let answer = rest(&mut stream).await;
    assert!(answer.ends_with(&server.handler.fake.bytes));
    server.end().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn bounds_heads() {
    let settings = Settings {
        max_header_bytes: 8192,
        ..patient()
    };
    let server = Running::start(10, settings).await;
    let mut stream = server.connect().await;
    let long = format!(
        "GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n",
        "x".repeat(9000)
    );
    stream.write_all(long.as_bytes()).await.expect("written");
    assert!(head(&mut stream).await.starts_with("http/1.1 431 "));
    server.end().await;
}

#[tokio::test]
async fn ends_silent_slow_and_idle_connections() {
    let settings = Settings {
        header_timeout: SHORT,
        ..patient()
    };
    let server = Running::start(10, settings).await;
    let mut silent = server.connect().await;
    assert_eq!(rest(&mut silent).await, b"");
    let mut slow = server.connect().await;
    slow.write_all(b"GET / HTTP/1.1\r\nHo")
        .await
        .expect("written");
    assert_eq!(rest(&mut slow).await, b"");
    assert_eq!(server.handler.metrics.expired.get(), 2);
    server.end().await;

    let settings = Settings {
        idle_timeout: SHORT,
        ..patient()
    };
    let server = Running::start(10, settings).await;
    let mut idle = server.ask("/").await;
    assert!(rest(&mut idle).await.ends_with(&server.handler.fake.bytes));
    assert_eq!(server.handler.metrics.expired.get(), 1);
    server.end().await;
}

#[tokio::test]
async fn ends_a_client_that_takes_nothing_and_frees_what_it_held() {
    let settings = Settings {
        stall_timeout: SHORT,
        ..Settings::default()
    };
    // More than the kernel's buffers on both sides hold.
    let server = Running::start(64 << 20, settings).await;
    let stream = server.ask("/").await;
    let gone = async {
        while server.handler.metrics.expired.get() == 0 {
            tokio::task::yield_now().await;
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, gone).await.expect("expired");
    assert_eq!(server.handler.metrics.expired.get(), 1);
    let handler = server.handler.clone();
    server.end().await;
    assert_eq!(handler.memory.used(), 0);
    drop(stream);
}

#[tokio::test]
async fn an_http2_client_that_opens_no_window_stalls_too() {
    let settings = Settings {
        stall_timeout: SHORT,
        // A slow machine takes its time from the connection to the request.
        idle_timeout: 10 * SHORT,
        ..patient()
    };
    let server = Running::start(1 << 20, settings).await;
    let io = TokioIo::new(server.connect().await);
    let (mut sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(1000)
        .handshake(io)
        .await
        .expect("a preface");
    let connection = tokio::spawn(connection);
    let request = Request::get("http://h/").body(Empty::<Bytes>::new());
    let answer = sender
        .send_request(request.expect("a request"))
        .await
        .expect("begun");
    // The body is not read, so that its window stays shut.
    let ended = timeout(LONG, connection).await.expect("expired");
    drop(ended);
    let metrics = &server.handler.metrics;
    assert_eq!((metrics.streams_reset.get(), metrics.expired.get()), (1, 1));
    assert_eq!(
        (metrics.streams.get(), server.handler.memory.used()),
        (0, 0)
    );
    assert!(answer.into_body().collect().await.is_err());
    server.end().await;
}

#[tokio::test]
async fn a_slow_origin_is_no_reason_to_end_a_connection() {
    let settings = Settings {
        stall_timeout: SHORT,
        idle_timeout: SHORT,
        ..patient()
    };
    let server = Running::start(1000, settings).await;
    let mut stream = server.ask("/hang").await;
    head(&mut stream).await;
    assert_eq!(body(&mut stream, 10).await, server.handler.fake.bytes[..10]);
    let more = timeout(4 * SHORT, stream.read_u8()).await;
    assert!(more.is_err(), "neither more nor closed");
    drop(stream);
    server.end().await;
}

#[tokio::test]
async fn drains_what_is_under_way_and_refuses_the_rest() {
    let server = Running::start(10, patient()).await;
    let mut idle = server.ask("/").await;
    head(&mut idle).await;
    let mut busy = server.ask("/wait").await;
    server.handler.arrived.notified().await;
    server.stop.cancel();
    assert_eq!(
        rest(&mut idle).await,
        server.handler.fake.bytes,
        "idle ones close at once"
    );
    let Listen::Tcp(address) = &server.address else {
        panic!("not on TCP")
    };
    TcpStream::connect(address).await.expect_err("refused");
    server.handler.go.notify_one();
    let head = head(&mut busy).await;
    assert!(head.contains("connection: close\r\n"), "{head}");
    assert_eq!(rest(&mut busy).await, server.handler.fake.bytes);
    server.end().await;
}

#[tokio::test]
async fn a_drain_has_a_deadline() {
    let settings = Settings {
        drain: SHORT,
        ..patient()
    };
    let server = Running::start(10, settings).await;
    let mut busy = server.ask("/wait").await;
    server.handler.arrived.notified().await;
    let handler = server.handler.clone();
    server.end().await;
    assert_eq!(rest(&mut busy).await, b"");
    assert_eq!(handler.metrics.in_flight.get(), 0);
    assert_eq!(handler.metrics.connections.get(), 0);
}
