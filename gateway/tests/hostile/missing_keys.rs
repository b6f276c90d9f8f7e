//! Missing keys, more of them than the origin has places for: each is a request to the store, and none is ever cached.
//! A reader of cold objects at another address uses the same origin.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tidegate_origin::fake::Fault;
use tokio::net::TcpSocket;
use tokio::time::sleep;

use crate::bystander;
use crate::multiplexed::Multiplexed;
use crate::target::{LONG, Target};

const CONNECTIONS: usize = 16;
const STREAMS: usize = 128;

/// The requests that the program has under way at the store (`max_requests`).
const PLACES: u64 = 128;

/// The time in which the store answers.
const ROUND: Duration = Duration::from_millis(50);

/// Number of cold objects that the reader takes one after another.
const COLD: usize = 10;

/// Rounds of all places that the reader may wait for one object: two for its turn, and one for each request.
const ROUNDS: u64 = 10;

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_not_there() {
    let target = Target::start().await;
    for number in 0..COLD {
        target
            .s3
            .bucket
            .put(&format!("cold/{number}"), vec![7; 100_000]);
    }
    target.s3.bucket.set_faults([Fault::Latency(ROUND)]);
    let siege = target.besiege("2,048 missing keys at a time", attack(&target));
    let (refused, mut waits) = siege.await.bore();
    waits.sort_unstable();
    println!("the reader waited for {waits:?} requests; {refused} of the flood were refused");
    assert!(waits[COLD / 2] <= PLACES * ROUNDS, "{waits:?}");
    target.quiet().await;
}

/// Floods the origin until the reader is done; returns the number of refusals and the reader's waits, in requests.
async fn attack(target: &Target) -> (usize, Vec<u64>) {
    let enough = Arc::new(AtomicBool::new(false));
    let mut floods = Vec::new();
    for connection in 0..CONNECTIONS {
        let attacker = Multiplexed::connect(target, 65_535).await;
        floods.push(tokio::spawn(flood(connection, attacker, enough.clone())));
    }
    // More requests than memory and places suffice for.
    let in_flight = ["tidegate_http_requests_in_flight "];
    let since = Instant::now();
    while target.metric(&in_flight).await < 1000 {
        assert!(since.elapsed() < LONG, "no flood");
        sleep(Duration::from_millis(5)).await;
    }
    let waits = read(target).await;
    enough.store(true, Ordering::Relaxed);
    let mut refused = 0;
    for flood in floods {
        refused += flood.await.expect("no panic");
    }
    (refused, waits)
}

/// Requests missing keys again and again, as many at a time as one connection carries.
async fn flood(connection: usize, mut attacker: Multiplexed, enough: Arc<AtomicBool>) -> usize {
    let (mut refused, mut turn) = (0, 0);
    while !enough.load(Ordering::Relaxed) {
        turn += 1;
        let mut answers = Vec::new();
        for stream in 0..STREAMS {
            let path = format!("/none/{connection}/{turn}/{stream}");
            answers.extend(attacker.ask(&path, &[]).await);
        }
        if answers.is_empty() {
            // The connection has ended.
            break;
        }
        for answer in answers {
            let status = match answer.await {
                Ok(answer) => answer.status().as_u16(),
                Err(error) => {
                    let reason = error.reason();
                    assert_ne!(reason, Some(h2::Reason::PROTOCOL_ERROR), "malformed");
                    0
                }
            };
            refused += usize::from(status != 404);
        }
    }
    refused
}

/// Reads the cold objects from another address of this machine; panics if one is refused. Returns how many requests came
/// to the store during each.
async fn read(target: &Target) -> Vec<u64> {
    let http = target.http;
    let requests = || target.s3.bucket.gets() + target.s3.bucket.heads();
    let socket = TcpSocket::new_v4().expect("a socket");
    let other = SocketAddr::from(([127, 0, 0, 2], 0));
    socket.bind(other).expect("all of 127.0.0.0/8 is ours");
    let stream = socket.connect(http).await.expect("it listens");
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.expect("a connection");
    tokio::spawn(connection);
    let mut waits = Vec::new();
    for number in 0..COLD {
        sender.ready().await.expect("it stays");
        let path = format!("/cold/{number}");
        let before = requests();
        bystander::ask(&mut sender, http, &path).await;
        waits.push(requests() - before);
    }
    waits
}
