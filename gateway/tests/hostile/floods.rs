//! Floods of frames and heads.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::target::{LONG, Target};
use crate::wire::{
    CONTINUATION, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, PRIORITY, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, connect, field, frame, get, rest, send,
};

/// Duration of a flood that the program bears, if it does not close the connection before.
const FLOOD: Duration = Duration::from_millis(1500);

/// Duration of a flood that ends when the program closes the connection.
const UNTIL_CLOSED: Duration = LONG;

const CONNECTIONS: usize = 8;

/// Sends the output of `next` on several connections side by side, for a time; returns how many were closed.
async fn flood(target: &Target, time: Duration, next: impl Fn(u32) -> Vec<u8>) -> usize {
    let one = async || {
        let mut stream = connect(target).await;
        send(&mut stream, PREFACE).await.expect("it has just begun");
        let (mut reader, mut writer) = stream.split();
        let begun = Instant::now();
        let write = async {
            for number in 0.. {
                let bytes = next(number);
                let sent = tokio::io::AsyncWriteExt::write_all(&mut writer, &bytes);
                match timeout(time, sent).await {
                    Ok(Ok(())) if begun.elapsed() < time => {}
                    Ok(Ok(())) | Err(_) => return false,
                    Ok(Err(_)) => return true,
                }
            }
            false
        };
        // The answers are read, or the flood would stop at them.
        let mut sink = tokio::io::sink();
        let read = tokio::io::copy(&mut reader, &mut sink);
        tokio::select! {
            closed = write => closed,
            _ = read => true,
        }
    };
    let all = std::iter::repeat_with(one).take(CONNECTIONS);
    let all = futures_util::future::join_all(all).await;
    all.into_iter().filter(|closed| *closed).count()
}

/// Returns the number of the stream that the request `number` opens.
fn stream(number: u32) -> u32 {
    2 * number + 1
}

#[tokio::test(flavor = "multi_thread")]
async fn rapid_reset() {
    let target = Target::start().await;
    let attack = flood(&target, UNTIL_CLOSED, |number| {
        let numbers = number * 64..(number + 1) * 64;
        let pairs = numbers.map(stream).map(|stream| {
            let mut pair = frame(HEADERS, END_HEADERS | END_STREAM, stream, &get("/fill/1"));
            pair.extend(frame(RST_STREAM, 0, stream, &8u32.to_be_bytes()));
            pair
        });
        pairs.collect::<Vec<_>>().concat()
    });
    let closed = target.besiege("rapid reset", attack).await.bore();
    assert_eq!(closed, CONNECTIONS, "each is closed");
    target.quiet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn continuations_without_end() {
    let target = Target::start().await;
    let attack = flood(&target, UNTIL_CLOSED, |number| match number {
        0 => frame(HEADERS, 0, 1, &get("/small")),
        _ => frame(CONTINUATION, 0, 1, &field("x", "y").repeat(2000)),
    });
    let closed = target.besiege("CONTINUATION", attack).await.bore();
    assert_eq!(closed, CONNECTIONS, "each is closed");
    target.quiet().await;
}

/// Frames that cost a client nothing: SETTINGS and PING have to be answered, the others are looked at.
#[tokio::test(flavor = "multi_thread")]
async fn control_frames_without_end() {
    let target = Target::start().await;
    let kinds: [(u8, u32, &[u8]); 4] = [
        (SETTINGS, 0, &[0, 4, 0, 0, 0xff, 0xff]),
        (PING, 0, &[0; 8]),
        (WINDOW_UPDATE, 0, &[0, 0, 0, 1]),
        (PRIORITY, 1, &[0, 0, 0, 0, 16]),
    ];
    let attack = flood(&target, FLOOD, |number| {
        let (kind, stream, payload) = kinds[number as usize % kinds.len()];
        frame(kind, 0, stream, payload).repeat(500)
    });
    let closed = target.besiege("control frames", attack).await.bore();
    println!("control frames: {closed} of {CONNECTIONS} connections were closed");
    target.quiet().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_frames_without_end() {
    let target = Target::start().await;
    let attack = flood(&target, FLOOD, |number| match number {
        0 => frame(HEADERS, END_HEADERS, 1, &get("/small")),
        _ => frame(crate::wire::DATA, 0, 1, &[]).repeat(100),
    });
    target.besiege("empty DATA", attack).await.bore();
    target.quiet().await;
}

/// Heads of the allowed size and beyond it, on many connections at once.
#[tokio::test(flavor = "multi_thread")]
async fn heads_that_are_bombs() {
    let target = Target::start().await;
    let attack = async {
        let mut streams = Vec::new();
        for _ in 0..1000 {
            let mut stream = connect(&target).await;
            let head = format!(
                "GET /small HTTP/1.1\r\nHost: h\r\nX: {}",
                "x".repeat(15 << 10)
            );
            send(&mut stream, head.as_bytes())
                .await
                .expect("not too large yet");
            streams.push(stream);
        }
        streams
    };
    let held = target.besiege("1,000 heads of 15 KiB", attack).await.bore();
    target.quiet().await;
    drop(held);
    let rows = [
        (format!("X: {}\r\n", "x".repeat(64 << 10)), "431"),
        ("X: y\r\n".repeat(1000), "431"),
        (String::new(), "414"),
    ];
    for (fields, status) in rows {
        let path = if fields.is_empty() {
            "x".repeat(9 << 10)
        } else {
            "small".to_owned()
        };
        let mut stream = connect(&target).await;
        let head = format!("GET /{path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
        let _ = send(&mut stream, head.as_bytes()).await;
        let answer = rest(&mut stream).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer:.99}"
        );
    }
}

/// A few bytes that HPACK expands: one remembered field, named again and again.
#[tokio::test(flavor = "multi_thread")]
async fn hpack_bombs() {
    let target = Target::start().await;
    let attack = flood(&target, FLOOD, |number| {
        let mut block = get("/small");
        if number == 0 {
            // A literal field, remembered as number 62 (RFC 7541, 6.2.1).
            block.extend([0x40, 1, b'x', 0x7f, 0x81, 0x1e]);
            block.extend([b'y'; 127 + 3841]);
        }
        block.extend([0xbe; 8000]);
        frame(HEADERS, END_HEADERS | END_STREAM, stream(number), &block)
    });
    target.besiege("HPACK bombs", attack).await.bore();
    target.quiet().await;
    let _ = timeout(LONG, target.get("/small", &[]))
        .await
        .expect("it lives");
}
