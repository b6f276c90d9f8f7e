//! A polite client, and its latencies.

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::target::LONG;

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(10);

/// Number of parts that the samples are cut into. The median of their percentiles counts, so that one pause of the
/// machine does not.
const PARTS: usize = 5;

/// Rounds of the plain server's work: some milliseconds of a processor.
const WORK: u64 = 1_000_000;

/// A client that requests a cached object and `/healthz` again and again until it is told to stop. Beside them it asks a
/// plain server of this process, which does a fixed work for each answer: what that takes is the machine's own time.
pub(crate) struct Bystander {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Latencies>,
}

/// The time of each request, from its first byte to the last of its answer.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    pub(crate) reads: Vec<Duration>,
    pub(crate) health: Vec<Duration>,
    pub(crate) plain: Vec<Duration>,
}

impl Bystander {
    pub(crate) fn start(http: SocketAddr, admin: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(asks(http, admin, stop.clone()));
        Self { stop, task }
    }

    /// Stops after at least `samples` requests; panics if one of them failed.
    pub(crate) async fn stop(self) -> Latencies {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("every request was answered")
    }
}

async fn asks(http: SocketAddr, admin: SocketAddr, stop: Arc<AtomicBool>) -> Latencies {
    let mut public = Connected::to(http).await;
    let mut private = Connected::to(admin).await;
    let mut plain = Connected::to(plain_server().await).await;
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut latencies = Latencies::default();
    while !stop.load(Ordering::Relaxed) || latencies.reads.len() < 20 * PARTS {
        ticks.tick().await;
        latencies.reads.push(public.ask("/small").await);
        latencies.health.push(private.ask("/healthz").await);
        latencies.plain.push(plain.ask("/").await);
    }
    latencies
}

async fn connect(address: SocketAddr) -> SendRequest<Empty<Bytes>> {
    let stream = timeout(LONG, TcpStream::connect(address)).await;
    let stream = stream.expect("in time").expect("it listens");
    let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("a connection");
    tokio::spawn(connection);
    sender
}

/// A connection that is kept. One that has ended while it was idle is opened again: on a machine that stands still for
/// longer than the program's deadline, that is no fault.
struct Connected {
    address: SocketAddr,
    sender: SendRequest<Empty<Bytes>>,
}

impl Connected {
    async fn to(address: SocketAddr) -> Self {
        Self {
            address,
            sender: connect(address).await,
        }
    }

    /// Sends one request that must be answered with 200, and returns the time it took.
    async fn ask(&mut self, path: &str) -> Duration {
        let begun = Instant::now();
        loop {
            if let Some(took) = try_ask(&mut self.sender, self.address, path).await {
                return took;
            }
            assert!(begun.elapsed() < LONG, "{path}: no connection stays");
            self.sender = connect(self.address).await;
        }
    }
}

/// Computes for as long as the requests take that are ahead of a polite one, on a thread that shares the processors with
/// attacker and program.
fn work() -> u64 {
    let (mut state, mut round) = (1_u64, 0);
    while round < WORK {
        state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round;
        round += 1;
    }
    state
}

/// Starts a server that works for a while, and answers any request with a few bytes; returns its address.
async fn plain_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                while let Ok(1..) = stream.read(&mut [0; 4096]).await {
                    let worked = spawn_blocking(|| black_box(work())).await;
                    worked.expect("no panic");
                    let _ = stream.write_all(answer).await;
                }
            });
        }
    });
    address
}

/// Sends one request that must be answered with 200, and returns the time it took.
pub(crate) async fn ask(
    to: &mut SendRequest<Empty<Bytes>>,
    host: SocketAddr,
    path: &str,
) -> Duration {
    try_ask(to, host, path).await.expect("an answer")
}

/// Does the same; `None`: the connection has ended without an answer.
async fn try_ask(
    to: &mut SendRequest<Empty<Bytes>>,
    host: SocketAddr,
    path: &str,
) -> Option<Duration> {
    let request = Request::get(path).header("host", host.to_string());
    let request = request.body(Empty::new()).expect("a request");
    let begun = Instant::now();
    let answered = async {
        // The client's own task may not have seen the end of the last answer yet.
        to.ready().await.ok()?;
        let answer = to.send_request(request).await.ok()?;
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.expect("a whole body");
        Some((status, body.to_bytes()))
    };
    let (status, body) = timeout(LONG, answered).await.expect("in time")?;
    assert!(status == 200 && !body.is_empty(), "{path}: {status}");
    Some(begun.elapsed())
}

/// Returns the 99th percentile of the samples: the median of the percentiles of their parts.
pub(crate) fn p99(samples: &[Duration]) -> Duration {
    let size = samples.len().div_ceil(PARTS).max(1);
    let mut parts: Vec<Duration> = samples
        .chunks(size)
        .map(|part| {
            let mut part = part.to_vec();
            part.sort_unstable();
            part[(part.len() * 99).div_ceil(100).max(1) - 1]
        })
        .collect();
    parts.sort_unstable();
    parts[parts.len() / 2]
}
