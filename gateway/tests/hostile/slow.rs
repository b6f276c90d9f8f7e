//! Clients that send a byte now and then, so that their connections do not end.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::net::TcpStream;
use tokio::time::{interval, sleep};

use crate::target::{LONG, Target};
use crate::wire::{DATA, END_HEADERS, HEADERS, PREFACE, connect, frame, get, send};

const CONNECTIONS: usize = 60;

/// Duration of each attack, if the program does not end it: no deadline is as long on however slow a machine.
const DRIP: Duration = LONG;

/// Pause between two drops of a connection.
const PAUSE: Duration = Duration::from_millis(500);

/// A name, the beginning of a connection, and the bytes of each drop.
type Row<'a> = (&'static str, &'a [u8], fn(u32) -> Vec<u8>);

/// Sends `begin`, then `drop` again and again, on many connections, until the program has closed them all. Returns how
/// long that took.
async fn drip(target: &Target, begin: &[u8], drop: impl Fn(u32) -> Vec<u8>) -> Option<Duration> {
    let mut streams: Vec<TcpStream> = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = connect(target).await;
        send(&mut stream, begin).await.expect("it has just begun");
        streams.push(stream);
    }
    let (begun, mut ticks) = (Instant::now(), interval(PAUSE));
    for round in 0.. {
        ticks.tick().await;
        let mut open = Vec::new();
        for mut stream in streams {
            if send(&mut stream, &drop(round)).await.is_ok() {
                open.push(stream);
            }
        }
        streams = open;
        if streams.is_empty() {
            return Some(begun.elapsed());
        }
        if begun.elapsed() > DRIP {
            return None;
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_and_bodies_that_drip() {
    let target = Target::start().await;
    let head = b"GET /small HTTP/1.1\r\nHost: h\r\n".to_vec();
    let body = b"GET /small HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n".to_vec();
    let chunked = b"GET /small HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let streams = [PREFACE, &frame(HEADERS, 0, 1, &get("/small"))].concat();
    let open = [PREFACE, &frame(HEADERS, END_HEADERS, 1, &get("/small"))].concat();
    let rows: [Row<'_>; 5] = [
        ("heads that drip", &head, |_| b"X: y\r\n".to_vec()),
        ("bodies that drip", &body, |_| b"x".to_vec()),
        ("chunks that drip", &chunked, |_| b"1\r\nx\r\n".to_vec()),
        ("HTTP/2 heads that drip", &streams, |_| {
            frame(crate::wire::CONTINUATION, 0, 1, b"\0\x01x\x01y")
        }),
        ("HTTP/2 bodies that drip", &open, |_| {
            frame(DATA, 0, 1, b"x")
        }),
    ];
    let attack = join_all(rows.map(async |(name, begin, drop)| {
        let ended = drip(&target, begin, drop).await;
        (name, ended)
    }));
    for (name, ended) in target
        .besiege("heads and bodies that drip", attack)
        .await
        .bore()
    {
        println!("{name}: every connection was ended after {ended:.1?}");
        assert!(ended.is_some(), "{name}: still open after {DRIP:?}");
    }
}

/// The program reads each of these bodies after its answer, and the client takes no answer.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_not_taken() {
    let target = Target::start().await;
    let request = b"HEAD /small HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx";
    let requests = request.repeat(256);
    let one = async || {
        let mut stream = connect(&target).await;
        while send(&mut stream, &requests).await.is_ok() {}
    };
    let attack = join_all(std::iter::repeat_with(one).take(CONNECTIONS));
    let attack = target.besiege("answers that are not taken", attack);
    attack.await.bore();
    target.quiet().await;
}

/// PING and SETTINGS keep no idle connection open.
#[tokio::test(flavor = "multi_thread")]
async fn pings_are_no_requests() {
    let target = Target::start().await;
    let begin = [PREFACE, &frame(HEADERS, END_HEADERS | 1, 1, &get("/small"))].concat();
    let ping = drip(&target, &begin, |round| {
        let mut both = frame(6, 0, 0, &u64::from(round).to_be_bytes());
        both.extend(frame(4, 0, 0, &[]));
        both
    });
    let ended = target.besiege("PING and SETTINGS", ping).await.bore();
    println!("PING and SETTINGS: every connection was ended after {ended:.1?}");
    assert!(ended.is_some(), "still open after {DRIP:?}");
    // The program closed the connections because they had expired.
    let expired = ["tidegate_http_connections_expired_total"];
    let begun = Instant::now();
    while target.metric(&expired).await < CONNECTIONS as u64 {
        assert!(begun.elapsed() < LONG, "too few have expired");
        sleep(PAUSE).await;
    }
}
