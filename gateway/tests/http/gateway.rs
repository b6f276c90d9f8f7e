//! The HTTP frontend over the real engine, an origin in memory, and a client that uses a new socket
//! for each request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tidegate_cache::Stores;
use tidegate_engine::{Assists, Budget, Clock, Core, EncodingTimes, Engine, Parts, ReadContext};
use tidegate_http::{ClientMemory, Frontend, Metrics, Route, RouteSettings, Routes, Settings};
use tidegate_origin::Origin;
use tidegate_origin::fake::FakeOrigin;
use tidegate_plan::{Geometry, Listen, Profile, Timestamp};
use tidegate_socket::Listener;
use tidegate_write::WritePath;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Timeout of a test's waits; only a failure waits so long.
pub(crate) const LONG: Duration = Duration::from_secs(300);

/// Longer than any client here is silent, on however slow a machine.
const PATIENT: Duration = Duration::from_secs(3600);

/// The names of the samples that count look-ups in the cache.
const LOOKUPS: [&str; 3] = [
    "meta_lookups_total{",
    "store_hits_total{",
    "store_misses_total{",
];

/// 4 KiB, so that small objects have many chunks.
pub(crate) const CHUNK: u64 = 4096;

/// A running gateway.
pub(crate) struct Gateway {
    pub(crate) origin: FakeOrigin,
    pub(crate) core: Arc<Core>,
    pub(crate) write_path: Arc<WritePath>,
    pub(crate) source: Arc<ReadContext>,
    counted: Registry,
    now: Arc<AtomicU64>,
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// A client's answer.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// `Err` if the answer was cut off.
    pub(crate) body: Result<Bytes, hyper::Error>,
}

impl Got {
    /// Returns a header as text: empty if it is missing, several values joined.
    pub(crate) fn header(&self, name: &str) -> String {
        let values = self.headers.get_all(name).iter();
        let texts: Vec<_> = values.map(|value| value.to_str().expect("text")).collect();
        texts.join(", ")
    }

    /// Returns the body, which must be whole.
    pub(crate) fn bytes(&self) -> &Bytes {
        self.body.as_ref().expect("a whole body")
    }
}

/// Makes an engine over stores in memory, which count in `counted`.
fn engine(clock: Clock, counted: &mut Registry) -> Engine {
    let geometry = Geometry::new(CHUNK).expect("a power of two");
    let stores = tidegate_cache::Settings {
        geometry,
        ..tidegate_cache::Settings::default()
    };
    let opened = tidegate_cache::open(&stores, counted);
    let Stores { chunks, meta, .. } = opened.expect("stores in memory");
    let engine = Engine::new(Parts {
        // A second request of a machine that stood still would be counted, and a slow one encodes for long.
        assists: Assists {
            hedge: false,
            ..Assists::default()
        },
        encoding: EncodingTimes {
            wait: PATIENT,
            timeout: PATIENT,
        },
        runtime: None,
        chunks,
        meta,
        geometry,
        budget: Budget::new(64 << 20),
        clock,
        origins: Vec::new(),
    });
    engine.register(counted);
    engine
}

impl Gateway {
    /// Starts a gateway with one route, `/`.
    pub(crate) async fn start() -> Self {
        Self::with(vec![RouteSettings::default()], Settings::default()).await
    }

    /// Starts a gateway with these routes, all of them to the same bucket and with the profile
    /// `web`.
    pub(crate) async fn with(routes: Vec<RouteSettings>, settings: Settings) -> Self {
        let fake = FakeOrigin::new();
        Self::over(Arc::new(fake.clone()), fake, routes, settings).await
    }

    /// Does the same over any bucket; tests inspect `fake`.
    pub(crate) async fn over(
        bucket: Arc<dyn Origin>,
        fake: FakeOrigin,
        routes: Vec<RouteSettings>,
        settings: Settings,
    ) -> Self {
        // A pause of the machine is none of a client.
        let settings = Settings {
            header_timeout: PATIENT,
            idle_timeout: PATIENT,
            stall_timeout: PATIENT,
            ..settings
        };
        // A time after 1970, so that a version can be older than now.
        let now = Arc::new(AtomicU64::new(1_800_000_000_000));
        let clock = now.clone();
        let clock: Clock = Arc::new(move || Timestamp(clock.load(Ordering::SeqCst)));
        let mut counted = Registry::default();
        let engine = engine(clock, &mut counted);
        let source = Arc::new(ReadContext::new(bucket, Profile::web()));
        let route = |settings| Route {
            settings,
            source: source.clone(),
        };
        let metrics = Arc::new(Metrics::default());
        metrics.register(&mut counted);
        let routes = Arc::new(Routes::new(routes.into_iter().map(route).collect()));
        let pinned = Arc::new(ClientMemory::new(16 << 20));
        let (core, write_path) = (engine.core().clone(), WritePath::new(&engine));
        let frontend = Frontend::new(
            (engine, write_path.clone()),
            routes,
            settings,
            metrics,
            pinned,
        );
        let any = Listen::Tcp(([127, 0, 0, 1], 0).into());
        let listener = Listener::bind(&any, 0o600).await.expect("a free port");
        let Listen::Tcp(address) = listener.address().expect("bound") else {
            panic!("asked for TCP")
        };
        let stop = CancellationToken::new();
        Self {
            origin: fake,
            core,
            write_path,
            source,
            counted,
            now,
            address,
            stop: stop.clone(),
            task: tokio::spawn(frontend.serve(vec![listener], stop)),
        }
    }

    /// Advances the clock that decides on freshness.
    pub(crate) fn later(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).expect("a short time");
        self.now.fetch_add(millis, Ordering::SeqCst);
    }

    /// Returns the value of the stores', the engine's or the frontend's sample with this beginning, labels included.
    pub(crate) fn counted(&self, sample: &str) -> u64 {
        let text = self.samples();
        let value = text.lines().find_map(|line| line.strip_prefix(sample));
        value.map_or(0, |value| value.trim().parse().expect("a number"))
    }

    /// Returns the number of times that the cache was asked for an object's metadata or one of its chunks.
    pub(crate) fn lookups(&self) -> u64 {
        let text = self.samples();
        let value = |line: &str| {
            let is_lookup = LOOKUPS.iter().any(|name| line.starts_with(name));
            let value = line.rsplit(' ').next().filter(|_| is_lookup)?;
            Some(value.parse::<u64>().expect("a number"))
        };
        text.lines().filter_map(value).sum()
    }

    fn samples(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.counted).expect("text");
        text
    }

    /// Sends a GET with these headers.
    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Got {
        self.ask(Method::GET, path, headers).await
    }

    /// Sends one request on a connection of its own.
    pub(crate) async fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Got {
        self.send_to(method, path, headers, Empty::<Bytes>::new())
            .await
    }

    /// Does the same with a body.
    pub(crate) async fn send_to<B>(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: B,
    ) -> Got
    where
        B: http_body::Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
    {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "media.example");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).expect("a request");
        timeout(LONG, self.send(request)).await.expect("in time")
    }

    async fn send<B>(&self, request: Request<B>) -> Got
    where
        B: http_body::Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static,
    {
        let stream = TcpStream::connect(self.address).await.expect("listening");
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.expect("a connection");
        let connection = tokio::spawn(connection);
        let answer = sender.send_request(request).await.expect("an answer");
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map(|whole| whole.to_bytes());
        connection.abort();
        Got {
            status: head.status,
            headers: head.headers,
            body,
        }
    }

    /// Opens a connection, for requests that no ordinary client sends.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("listening")
    }

    /// Opens an HTTP/2 connection, for a client that leaves in the middle.
    pub(crate) async fn connect_h2(&self) -> h2::client::SendRequest<Bytes> {
        let handshake = h2::client::handshake(self.connect().await);
        let (sender, connection) = handshake.await.expect("a connection");
        tokio::spawn(connection);
        sender.ready().await.expect("a stream")
    }

    /// Stops the gateway and waits for its end.
    pub(crate) async fn end(self) {
        self.stop.cancel();
        let ended = timeout(LONG, self.task).await;
        ended.expect("in time").expect("no panic");
    }
}

/// Returns bytes that differ from their neighbours.
pub(crate) fn sample(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at * 31 % 251) as u8).collect()
}

/// Yields to the other tasks until `condition` holds.
pub(crate) async fn until(condition: impl Fn() -> bool) {
    let holds = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, holds).await.expect("in time");
}

pub(crate) fn status(got: &Got) -> u16 {
    got.status.as_u16()
}
