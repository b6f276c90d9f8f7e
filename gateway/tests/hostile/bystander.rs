//! A polite client, and its latencies.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::target::LONG;

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(10);

/// Number of parts that the samples are cut into. The median of their percentiles counts, so that one pause of the
/// machine does not.
const PARTS: usize = 5;

/// A client that requests a cached object and `/healthz` again and again until it is told to stop.
pub(crate) struct Bystander {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Latencies>,
}

/// The time of each request, from its first byte to the last of its answer.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    pub(crate) reads: Vec<Duration>,
    pub(crate) health: Vec<Duration>,
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
    let (mut public, mut private) = (connect(http).await, connect(admin).await);
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut latencies = Latencies::default();
    while !stop.load(Ordering::Relaxed) || latencies.reads.len() < 20 * PARTS {
        ticks.tick().await;
        latencies.reads.push(ask(&mut public, http, "/small").await);
        latencies
            .health
            .push(ask(&mut private, admin, "/healthz").await);
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

/// Sends one request that must be answered with 200, and returns the time it took.
pub(crate) async fn ask(
    to: &mut SendRequest<Empty<Bytes>>,
    host: SocketAddr,
    path: &str,
) -> Duration {
    let request = Request::get(path).header("host", host.to_string());
    let request = request.body(Empty::new()).expect("a request");
    let begun = Instant::now();
    let answered = async {
        // The client's own task may not have seen the end of the last answer yet.
        to.ready().await.expect("an open connection");
        let answer = to.send_request(request).await.expect("an answer");
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.expect("a whole body");
        (status, body.to_bytes())
    };
    let (status, body) = timeout(LONG, answered).await.expect("in time");
    assert!(status == 200 && !body.is_empty(), "{path}: {status}");
    begun.elapsed()
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
