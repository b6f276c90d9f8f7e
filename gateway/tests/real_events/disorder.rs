//! Events of a real MinIO that come twice and in reverse order: a relay between its webhook and the gateway sends them so.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::gateway::{Whole, ask, send};
use crate::{Bucket, LONG, TOKEN, Way, free_addr, report_all, start_gateway, start_minio};

/// The keys of a batch, and the writes to each of them.
const KEYS: usize = 10;
const WRITES: usize = 5;

/// The messages of a store, as they come.
struct Relay {
    address: SocketAddr,
    messages: mpsc::UnboundedReceiver<String>,
}

impl Relay {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (tell, messages) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let tell = tell.clone();
                tokio::spawn(async move {
                    // A connection without a request is a look whether the relay is there.
                    if let Some(message) = take(stream).await {
                        let _ = tell.send(message);
                    }
                });
            }
        });
        Self { address, messages }
    }

    /// Returns so many messages about objects, in the order in which they came. Those about heartbeats are dropped.
    async fn collect(&mut self, count: usize) -> Vec<String> {
        let mut collected = Vec::new();
        while collected.len() < count {
            let message = timeout(LONG, self.messages.recv()).await;
            let message = message.expect("in time").expect("it runs");
            if !message.contains("heartbeat-bucket") {
                collected.push(message);
            }
        }
        collected
    }
}

/// Answers a request, and returns its body. `None`: there is none.
async fn take(stream: TcpStream) -> Option<String> {
    let mut stream = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let (name, value) = match line.trim_end() {
            "" => break,
            header => header.split_once(':').unwrap_or_default(),
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.write_all(answer).await.ok()?;
    (length > 0).then(|| String::from_utf8(body).expect("JSON"))
}

/// Sends messages to the gateway, the last one first, and each twice.
async fn send_reversed(gateway: &Whole, messages: &[String]) {
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("authorization", &*bearer)];
    for message in messages.iter().rev().flat_map(|message| [message; 2]) {
        let got = send(
            gateway.admin,
            Method::POST,
            "/events/bucket",
            &headers,
            message,
        )
        .await;
        assert_eq!(got.status, 200, "{}", got.text());
    }
}

/// Returns the requests to the bucket that readers have caused.
async fn caused(gateway: &Whole) -> u64 {
    let metrics = gateway.look("/metrics").await;
    let of = |cause| metrics.metric(&["tidegate_origin_requests_total{", cause]);
    of("cause=\"demand\"") + of("cause=\"revalidate\"")
}

/// Reads every key once: each has its last version, and the last of all is missing.
async fn read_all(gateway: &Whole, batch: usize) {
    for key in 0..KEYS {
        let got = gateway.get(&format!("/{key}"), &[]).await;
        let last = format!("{batch}.{WRITES}");
        assert_eq!((got.status, got.text()), (200, last), "{key}");
    }
    let gone = gateway.get("/gone", &[]).await;
    assert_eq!(gone.status, 404, "{}", gone.text());
}

/// Writes a batch: each key often, and one that is removed in the end. Returns what the bucket reported of it.
async fn write(bucket: &Bucket, relay: &mut Relay, batch: usize) -> Vec<String> {
    for write in 1..=WRITES {
        for key in 0..KEYS {
            bucket
                .put(&key.to_string(), format!("{batch}.{write}"))
                .await;
        }
    }
    bucket.put("gone", "x").await;
    bucket.delete("gone").await;
    relay.collect(WRITES * KEYS + 2).await
}

/// Reads a key until it is told to stop: no version is followed by an older one.
async fn read_on(http: SocketAddr, key: usize, stop: Arc<AtomicBool>) {
    let mut latest = String::new();
    while !stop.load(Ordering::Relaxed) {
        let got = ask(http, Method::GET, &format!("/{key}"), &[]).await;
        assert_eq!(got.status, 200, "{}", got.text());
        assert!(got.text() >= latest, "{} after {latest}", got.text());
        latest = got.text();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_come_twice_and_reversed_bring_the_last_version() {
    let folder = TempDir::new().expect("a folder");
    let mut relay = Relay::start().await;
    let (minio_address, unused) = (free_addr().to_string(), free_addr());
    let gateway = start_gateway(Way::Webhook, &minio_address, unused, &folder, "").await;
    let (servers, queue) = ((relay.address, unused), folder.path().join("queue"));
    let minio = start_minio(Way::Webhook, &minio_address, servers, &queue).await;
    let bucket = Bucket::create(&minio.settings("media")).await;
    report_all(&bucket, Way::Webhook).await;
    gateway.ready().await;

    send_reversed(&gateway, &write(&bucket, &mut relay, 1).await).await;
    read_all(&gateway, 1).await;

    // Without readers, each object costs one request once all is reported, and none after that.
    let messages = write(&bucket, &mut relay, 2).await;
    let before = caused(&gateway).await;
    send_reversed(&gateway, &messages).await;
    read_all(&gateway, 2).await;
    let after = caused(&gateway).await;
    assert_eq!(after - before, KEYS as u64 + 1);
    send_reversed(&gateway, &messages[..1]).await;
    read_all(&gateway, 2).await;
    assert!(caused(&gateway).await <= after + 1, "it was of one key");

    // With readers, an event costs a request for its key at most, and perhaps another that it has overtaken.
    let messages = write(&bucket, &mut relay, 3).await;
    let before = caused(&gateway).await;
    let stop = Arc::new(AtomicBool::new(false));
    let readers = (0..KEYS).map(|key| tokio::spawn(read_on(gateway.http, key, stop.clone())));
    let readers: Vec<_> = readers.collect();
    send_reversed(&gateway, &messages).await;
    read_all(&gateway, 3).await;
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.expect("no answer was older than one before");
    }
    let asked = caused(&gateway).await - before;
    assert!(asked <= 2 * messages.len() as u64, "{asked} requests");
    gateway.stop().await;
}
