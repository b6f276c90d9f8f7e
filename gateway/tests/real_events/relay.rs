//! A relay between a real MinIO and the gateway: it takes the messages of the store, by webhook or on a subject of a real NATS
//! server, and sends them on as its test likes.

use std::net::SocketAddr;
use std::time::Duration;

use async_nats::Client;
use futures_util::StreamExt as _;
use http::Method;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep, timeout};

use crate::gateway::{Whole, send};
use crate::nats::Nats;
use crate::ways::{SUBJECT, configuration, connect, counted, publish};
use crate::{Bucket, LONG, Minio, TOKEN, Way, free_addr, report_all, start_minio};

/// The subject of what the relay sends on; MinIO publishes on another.
const RELAY_SUBJECT: &str = "relayed-events";

/// The configuration of a NATS server for messages of a thousand records: its own bound is 1 MiB, and the gateway's 8 MiB.
const SERVER: &str = "max_payload: 8388608\n";

/// A bucket of a real MinIO, whose messages come to the gateway as the relay sends them.
pub(super) struct Relay {
    pub(super) gateway: Whole,
    pub(super) bucket: Bucket,
    messages: UnboundedReceiver<String>,
    /// The connection on which they are sent on. `None`: by webhook.
    client: Option<Client>,
    _nats: Option<Nats>,
    _minio: Minio,
    _folder: TempDir,
}

impl Relay {
    pub(super) async fn start(way: Way) -> Self {
        let folder = TempDir::new().expect("a folder");
        let (tell, messages) = mpsc::unbounded_channel();
        let (minio_address, nats_address) = (free_addr().to_string(), free_addr());
        let (mut nats, mut client, mut webhook) = (None, None, nats_address);
        match way {
            Way::Nats => {
                nats = Some(start_nats(nats_address, &folder).await);
                let connected = connect(nats_address).await;
                take_published(&connected, tell).await;
                client = Some(connected);
            }
            _ => webhook = take_posted(tell).await,
        }
        let text = configuration(way, &minio_address, nats_address, &folder, "");
        let text = text.replace(&format!("\"{SUBJECT}\""), &format!("\"{RELAY_SUBJECT}\""));
        let gateway = Whole::start(&text).await;
        let (servers, queue) = ((webhook, nats_address), folder.path().join("queue"));
        let minio = start_minio(way, &minio_address, servers, &queue).await;
        let bucket = Bucket::create(&minio.settings("media")).await;
        report_all(&bucket, way).await;
        gateway.ready().await;
        let relay = Self {
            gateway,
            bucket,
            messages,
            client,
            _nats: nats,
            _minio: minio,
            _folder: folder,
        };
        relay.heard().await;
        relay
    }

    /// Waits until the gateway hears what is published: a plain subscription misses what came before it.
    async fn heard(&self) {
        let Some(client) = &self.client else {
            return;
        };
        let since = Instant::now();
        while self.counted("ignored").await == 0 {
            assert!(since.elapsed() < LONG, "it does not hear");
            publish(client, RELAY_SUBJECT, r#"{"Event":"s3:TestEvent"}"#).await;
            sleep(Duration::from_millis(20)).await;
        }
        // Messages keep their order: with this one all of them are counted.
        let other = r#"{"Records":[{"eventName":"s3:ObjectCreated:Put","s3":{"bucket":{"name":"other"},"object":{"key":"k"}}}]}"#;
        publish(client, RELAY_SUBJECT, other).await;
        while self.counted("foreign").await == 0 {
            assert!(since.elapsed() < LONG, "it hears no more");
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Returns so many messages about objects, in the order in which they came. Those about heartbeats are dropped.
    pub(super) async fn collect(&mut self, count: usize) -> Vec<String> {
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

    /// Sends messages to the gateway, and waits until all of their records are counted there.
    pub(super) async fn pass_on<'a>(&self, messages: impl IntoIterator<Item = &'a str>) {
        let (since, mut due) = (Instant::now(), self.counted("").await);
        for message in messages {
            due += records(message).len() as u64;
            match &self.client {
                Some(client) => publish(client, RELAY_SUBJECT, message).await,
                None => self.post(message).await,
            }
        }
        loop {
            let counted = self.counted("").await;
            if counted >= due {
                return assert_eq!(counted, due);
            }
            assert!(since.elapsed() < LONG, "{counted} records of {due}");
            sleep(Duration::from_millis(2)).await;
        }
    }

    async fn post(&self, message: &str) {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", &*bearer)];
        let (admin, path) = (self.gateway.admin, "/events/bucket");
        let got = send(admin, Method::POST, path, &headers, message).await;
        assert_eq!(got.status, 200, "{}", got.text());
    }

    /// Returns the number of records whose result begins so.
    pub(super) async fn counted(&self, result: &str) -> u64 {
        counted(&self.gateway, result).await
    }
}

/// Returns the records of a message.
pub(super) fn records(message: &str) -> Vec<Value> {
    let message: Value = serde_json::from_str(message).expect("JSON");
    message["Records"].as_array().expect("a list").clone()
}

async fn start_nats(address: SocketAddr, folder: &TempDir) -> Nats {
    let config = folder.path().join("nats.conf");
    std::fs::write(&config, SERVER).expect("written");
    let config = config.to_str().expect("text");
    let options = ["-c", config, "--user", "gate", "--pass", "s3cret-of-nats"];
    Nats::start(address, &folder.path().join("nats"), &options).await
}

/// Takes the messages that the store publishes.
async fn take_published(client: &Client, tell: UnboundedSender<String>) {
    let mut published = client.subscribe(SUBJECT).await.expect("subscribed");
    client.flush().await.expect("sent");
    tokio::spawn(async move {
        while let Some(message) = published.next().await {
            let text = String::from_utf8(message.payload.to_vec());
            let _ = tell.send(text.expect("JSON"));
        }
    });
}

/// Takes the messages that the store posts to a webhook; returns its address.
async fn take_posted(tell: UnboundedSender<String>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
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
    address
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
