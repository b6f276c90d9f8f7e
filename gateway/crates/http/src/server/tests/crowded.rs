//! More clients than slots.

use tokio::io::{DuplexStream, duplex};
use tokio::time::Instant;

use super::in_memory::{all_wait, limits};
use super::resting::Pipe;
use super::*;
use crate::server::connection;

#[tokio::test]
async fn an_idle_connection_gives_way_and_a_busy_one_does_not() {
    let settings = Settings {
        connections: 2,
        ..patient()
    };
    let server = Running::start(10, settings).await;
    let mut busy = server.ask("/wait").await;
    server.handler.arrived.notified().await;
    let mut idle = server.ask("/").await;
    assert!(head(&mut idle).await.starts_with("http/1.1 200 "));
    assert_eq!(body(&mut idle, 10).await, server.handler.fake.bytes);
    let mut next = server.ask("/").await;
    assert!(head(&mut next).await.starts_with("http/1.1 200 "));
    assert_eq!(rest(&mut idle).await, b"");
    server.handler.go.notify_one();
    assert!(head(&mut busy).await.starts_with("http/1.1 200 "));
    let metrics = &server.handler.metrics;
    assert_eq!((metrics.displaced.get(), metrics.expired.get()), (1, 0));
    server.end().await;
}

/// A server of so many slots, with clients in memory. The addresses of `10.0.0.0/8` are of trusted proxies.
struct Crowd(Arc<Server<FakeHandler>>);

impl Crowd {
    fn new(connections: usize) -> Self {
        let settings = Settings {
            connections,
            trusted_proxies: vec!["10.0.0.0/8".parse().expect("a network")],
            ..limits()
        };
        let metrics = Arc::new(Metrics::default());
        let handler = Arc::new(FakeHandler::new(10, metrics.clone()));
        let context = ConnectionContext::new(handler, settings.into(), metrics);
        Self(Arc::new(Server::new(context)))
    }

    /// Connects from an address, and sends the beginning of a request; returns when there is a slot for it.
    async fn connect(&self, from: &str, sends: &[u8]) -> DuplexStream {
        let from = from.parse().expect("an address");
        let admitted = self.0.admit(Some(from));
        let open = timeout(Duration::from_secs(2), admitted).await;
        let open = open.expect("a slot within two seconds");
        let (mut client, socket) = duplex(64 << 10);
        let run = connection::run(
            self.0.context.clone(),
            Pipe::new(socket),
            Peer::default(),
            open.place.clone(),
            Shutdown::default(),
        );
        tokio::spawn(async move {
            run.await;
            drop(open);
        });
        client.write_all(sends).await.expect("written");
        all_wait().await;
        client
    }

    fn displaced(&self) -> u64 {
        self.0.context.metrics.displaced.get()
    }
}

/// Sends the rest of a request, and reads the answer.
async fn is_answered(client: &mut DuplexStream, rest: &[u8]) {
    client.write_all(rest).await.expect("written");
    assert!(head(client).await.starts_with("http/1.1 200 "));
    body(client, 10).await;
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn a_client_is_answered_though_another_one_fills_all_slots_without_a_request() {
    let crowd = Crowd::new(3);
    let mut dripping = crowd.connect("192.0.2.1", b"G").await;
    let mut silent = crowd.connect("192.0.2.1", b"").await;
    let mut begun = crowd.connect("192.0.2.1", b"GET / HTTP/1.1\r\nHo").await;
    let dripped = tokio::spawn(async move {
        for byte in b"ET / HTTP/1.1\r\nHost: h" {
            sleep(Duration::from_secs(1)).await;
            if dripping.write_u8(*byte).await.is_err() {
                return;
            }
        }
        panic!("it has kept its slot");
    });
    let mut others = Vec::new();
    for displaced in 1..=3 {
        let since = Instant::now();
        let mut other = crowd.connect(&format!("198.51.100.{displaced}"), b"").await;
        is_answered(&mut other, REQUEST).await;
        assert!(since.elapsed() <= Duration::from_secs(2));
        assert_eq!(crowd.displaced(), displaced);
        others.push(other);
    }
    dripped.await.expect("it ends");
    for client in [&mut silent, &mut begun] {
        assert_eq!(rest(client).await, b"");
    }
    assert_eq!(crowd.0.context.metrics.expired.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn slow_heads_of_proxies_and_other_clients_stay_while_a_flood_gives_way() {
    let crowd = Crowd::new(6);
    let (first, second) = REQUEST.split_at(10);
    let mut kept = Vec::new();
    // They wait longer than the flood does.
    for from in ["10.0.0.1", "10.0.0.1", "203.0.113.1"] {
        kept.push(crowd.connect(from, first).await);
    }
    let mut flood = Vec::new();
    for from in ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:8000::"] {
        flood.push(crowd.connect(from, b"").await);
    }
    for last in 1..3 {
        let mut next = crowd.connect(&format!("198.51.100.{last}"), b"").await;
        is_answered(&mut next, REQUEST).await;
        kept.push(next);
    }
    assert_eq!(crowd.displaced(), 2);
    for client in &mut kept[..3] {
        is_answered(client, second).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_has_begun_may_come_slowly_where_another_connection_is_idle() {
    let crowd = Crowd::new(2);
    let (first, second) = REQUEST.split_at(10);
    let mut slow = crowd.connect("198.51.100.1", first).await;
    let mut idle = crowd.connect("198.51.100.2", b"").await;
    is_answered(&mut idle, REQUEST).await;
    // Both have waited for longer than a second.
    tokio::time::advance(Duration::from_secs(2)).await;
    let mut next = crowd.connect("198.51.100.3", b"").await;
    is_answered(&mut next, REQUEST).await;
    assert_eq!(crowd.displaced(), 1);
    is_answered(&mut slow, second).await;
    assert_eq!(rest(&mut idle).await, b"");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_stays_while_a_client_with_many_owes_heads() {
    for (count, displaces_idle) in [(16, true), (17, false)] {
        let crowd = Crowd::new(count + 1);
        let mut idle = crowd.connect("198.51.100.1", b"").await;
        is_answered(&mut idle, REQUEST).await;
        let mut flood = Vec::new();
        for _ in 0..count {
            flood.push(crowd.connect("192.0.2.1", b"").await);
        }
        let mut next = crowd.connect("198.51.100.2", b"").await;
        is_answered(&mut next, REQUEST).await;
        assert_eq!(crowd.displaced(), 1);
        let ended = timeout(Duration::ZERO, idle.read_u8()).await.is_ok();
        assert_eq!(ended, displaces_idle, "{count}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_gives_way_before_its_handshake_is_done() {
    let crowd = Crowd::new(1);
    let open = crowd.0.admit(None).await;
    let metrics = crowd.0.context.metrics.clone();
    let handshake = tokio::spawn(async move {
        let (never, shutdown) = (std::future::pending::<()>(), Shutdown::default());
        unless_displaced(never, &metrics, &open.place, &shutdown).await
    });
    let since = Instant::now();
    let mut next = crowd.connect("198.51.100.1", b"").await;
    is_answered(&mut next, REQUEST).await;
    assert!(since.elapsed() >= Duration::from_secs(1));
    assert_eq!(handshake.await.expect("no panic"), None);
    assert_eq!(crowd.displaced(), 1);
}
