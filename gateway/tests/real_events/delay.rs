//! The time from a PUT to the first fresh read, for each way of events.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::{LONG, Way, World};

/// A connection to the public listener that is kept.
struct Reader {
    sender: SendRequest<Empty<Bytes>>,
}

impl Reader {
    async fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("listening");
        stream.set_nodelay(true).expect("TCP");
        let (sender, connection) = handshake(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(connection);
        Self { sender }
    }

    async fn read(&mut self, path: &str) -> Bytes {
        self.sender.ready().await.expect("a connection");
        let request = Request::get(path).header("host", "gate");
        let request = request.body(Empty::new()).expect("a request");
        let answer = self.sender.send_request(request).await.expect("an answer");
        let body = answer.into_body().collect().await.expect("a body");
        body.to_bytes()
    }
}

/// The longest delay that half of the PUTs may have: far more than the target, which a slow machine misses, and far less than
/// `ttl`.
const MAX_MEDIAN: Duration = Duration::from_secs(60);

/// The time that MinIO lets pass between two looks into its queue.
const QUEUE_PAUSE: Duration = Duration::from_secs(3);

/// The longest delay that one PUT may have: an event that is lost comes no sooner than `ttl` ends, an hour here.
const MAX_DELAY: Duration = LONG;

/// Prints how long a read of a cached object stays old after its PUT was answered, beside the target; the bounds are generous.
/// `pause` is the time that the store itself may wait.
async fn print_delay(way: Way, (name, pause): (&str, Duration), puts: usize) {
    let world = World::new(way).await;
    let mut reader = Reader::new(world.gateway().http).await;
    world.bucket.put("object", "0000").await;
    world.reads("/object", 200, "0000").await;
    let mut delays = Vec::new();
    for n in 1..=puts {
        let new = format!("{n:04}");
        world.bucket.put("object", new.clone()).await;
        let answered = Instant::now();
        while reader.read("/object").await != new.as_bytes() {
            assert!(answered.elapsed() < LONG, "{n} does not come");
        }
        delays.push(answered.elapsed());
    }
    delays.sort();
    let at = |percent: usize| delays[(puts * percent).div_ceil(100) - 1];
    let (p50, p99, max) = (at(50), at(99), at(100));
    let target = Duration::from_millis(if pause.is_zero() { 100 } else { 3500 });
    eprintln!(
        "{name}: from the answer of {puts} PUTs to the first fresh read: p50 {p50:?}, p99 {p99:?} (target {target:?}), \
         at most {max:?}"
    );
    assert!(p50 <= MAX_MEDIAN + pause, "{name}: p50 {p50:?}");
    assert!(max <= MAX_DELAY, "{name}: {max:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_delay_of_a_webhook_is_printed() {
    print_delay(Way::Webhook, ("webhook", Duration::ZERO), 200).await;
}

/// MinIO looks into its queue each 3 s, so that these are few.
#[tokio::test(flavor = "multi_thread")]
async fn the_delay_of_a_webhook_with_a_queue_is_printed() {
    print_delay(Way::Queue, ("webhook with queue_dir", QUEUE_PAUSE), 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_delay_of_nats_is_printed() {
    print_delay(Way::Nats, ("nats", Duration::ZERO), 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_delay_of_a_stream_is_printed() {
    print_delay(Way::JetStream, ("stream", Duration::ZERO), 200).await;
}
