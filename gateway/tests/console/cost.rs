//! The cost of an open console to a gateway at full hot load, measured and printed (`just figures`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::admission::log_in_at;
use super::live::listen_to;
use super::serving::Serving;
use super::{World, api_at, ask, configuration, sample};

/// The bytes of the object: as a picture of a page has.
const SIZE: usize = 35_000;

/// Connections that each have one request under way.
const CONNECTIONS: usize = 16;

/// The target: processor time of a hit with a console over one without.
const TARGET: f64 = 1.02;

/// The time of one half of a round, and the rounds.
const HALF: Duration = Duration::from_secs(4);
const ROUNDS: usize = 5;

/// Sends hot requests until `end`; returns how many were answered.
async fn hits(http: SocketAddr, end: Instant) -> u64 {
    let mut io = TcpStream::connect(http).await.expect("listening");
    let head = b"GET /hot.bin HTTP/1.1\r\nhost: t\r\n\r\n";
    let (mut answer, mut count) = (Vec::new(), 0);
    while Instant::now() < end {
        io.write_all(head).await.expect("sent");
        answer.clear();
        let body = loop {
            let read = io.read_buf(&mut answer).await.expect("an answer");
            assert!(read > 0, "it is kept open");
            let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                break end + 4;
            }
        };
        assert!(answer.starts_with(b"HTTP/1.1 200 "));
        while answer.len() < body + SIZE {
            io.read_buf(&mut answer).await.expect("its body");
        }
        count += 1;
    }
    count
}

/// Returns the processor time that the gateway has used, in seconds.
async fn cpu(admin: SocketAddr) -> f64 {
    let got = ask(admin, Method::GET, "/metrics", &[]).await;
    let text = got.text();
    let line = text.lines().find_map(|line| {
        let rest = line.strip_prefix("tidegate_process_cpu_seconds_total ")?;
        rest.trim().parse().ok()
    });
    line.expect("the metric")
}

/// Returns the processor time of one hot request, in seconds.
async fn cost(serving: &Serving) -> f64 {
    let before = cpu(serving.admin).await;
    let end = Instant::now() + HALF;
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        clients.spawn(hits(serving.http, end));
    }
    let answered: u64 = clients.join_all().await.into_iter().sum();
    (cpu(serving.admin).await - before) / answered as f64
}

/// Opens the page's live part, takes what comes and counts its bytes.
async fn open_console(
    admin: SocketAddr,
    cookie: &str,
    taken: &Arc<AtomicUsize>,
) -> tokio::task::JoinHandle<()> {
    let (mut io, status) = listen_to(admin, "now", cookie).await;
    assert_eq!(status, 200);
    let taken = taken.clone();
    tokio::spawn(async move {
        let mut piece = vec![0; 64 << 10];
        while let Ok(read @ 1..) = io.read(&mut piece).await {
            taken.fetch_add(read, Ordering::Relaxed);
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: `just figures`"]
async fn figures_of_an_open_console() {
    let world = World::new().await;
    world.put("hot.bin", &sample(SIZE, 1)).await;
    let mut serving = Serving::configured(&configuration(&world));
    serving.start().await;
    let (cookie, _) = log_in_at(serving.admin).await;
    // The first one warms.
    cost(&serving).await;
    let (mut ratios, taken) = (Vec::new(), Arc::default());
    for round in 0..ROUNDS {
        let mut of = [0.0; 2];
        // In turn, and each of them first in every other round.
        for half in [round % 2, 1 - round % 2] {
            let open = match half {
                0 => None,
                _ => Some(open_console(serving.admin, &cookie, &taken).await),
            };
            let before = taken.load(Ordering::Relaxed);
            of[half] = cost(&serving).await;
            if let Some(open) = open {
                open.abort();
                assert!(
                    taken.load(Ordering::Relaxed) > before,
                    "the console shows nothing"
                );
            }
        }
        println!(
            "round {round}: {:.1} µs a request, {:.1} with a console",
            of[0] * 1e6,
            of[1] * 1e6
        );
        ratios.push(of[1] / of[0]);
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "processor time of a hit with a console over one without: median {:.3} (target {TARGET}), from {:.3} to {:.3}",
        ratios[ROUNDS / 2],
        ratios[0],
        ratios[ROUNDS - 1]
    );
    api_at(serving.admin, "/api/v1/now").await;
    serving.end().await;
}
