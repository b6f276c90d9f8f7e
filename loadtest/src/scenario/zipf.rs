//! Many objects, few of them popular, requested at a steady rate however long answers take. The
//! hits in memory are compared with a simulation of the same policy on the same requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::Latency;
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::Settings;
use crate::progress::Bar;
use crate::random::Random;
use crate::report::terminal::figure;
use crate::report::{Plot, Report, Target};

mod s3fifo;

use s3fifo::S3Fifo;

/// Sizes in bytes: 2,684 in the mean with an entry's overhead, so that 100,000 objects are four
/// times 64 MiB.
const SIZES: (u64, u64) = (1500, 3356);
/// The bytes that the memory tier counts for an entry beside its body.
const OVERHEAD: u64 = 256;
const CONNECTIONS: usize = 64;
const PER_SECOND: f64 = 2000.0;
/// Requests for each object, in the mean; the first half warms up and is not counted.
const REQUESTS_PER_OBJECT: u64 = 2;
/// A time to live that outlasts a run.
const PROFILE: &str = "ttl = \"1h\"\n";

struct Trace {
    objects: Vec<Pattern>,
    requests: Vec<usize>,
}

/// Requests `--count` objects.
///
/// # Errors
/// If it could not be carried out, or tidegate answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("zipf");
    let trace = Arc::new(Trace::new(context.count(100_000), context.options.seed));
    let working_set: u64 = trace.objects.iter().map(|one| one.len + OVERHEAD).sum();
    let memory_mib = (working_set / 4) >> 20;
    ensure!(memory_mib > 0, "too few objects for a memory of a MiB");
    progress(format!(
        "{} objects, {memory_mib} MiB of memory",
        trace.objects.len()
    ));
    let objects: Vec<_> = (0..).map(key).zip(trace.objects.iter().copied()).collect();
    context.bucket.put_all(objects).await?;
    let settings = Settings {
        memory_mib,
        profile: PROFILE,
        ..Settings::WEB
    };
    let peer = context
        .start("tidegate", &context.origin(), settings)
        .await?;
    report.peer("tidegate", peer.config());
    let (hits, latency) = ask(&peer, &trace).await?;
    let simulated = trace.simulate(memory_mib << 20);
    let counted = (trace.requests.len() - trace.warm()) as f64;
    let (found, simulated) = (
        hits as f64 / counted * 100.0,
        simulated as f64 / counted * 100.0,
    );
    let percentiles = latency.percentiles();
    report.table(
        format!("{counted:.0} requests after as many to warm up, {PER_SECOND:.0} a second"),
        &["hit ratio, %", "simulated, %", "p50 ms", "p99 ms"],
        vec![
            [found, simulated, percentiles.p50, percentiles.p99]
                .map(figure)
                .to_vec(),
        ],
    );
    let mut plot = Plot::latency("A request, from when it was due: which share took how long");
    plot.line("tidegate", latency.curve());
    report.plot(plot);
    let figure = "hit ratio beside a simulation of the same policy, points apart";
    report.aim(figure, (found - simulated).abs(), Target::AtMost(3.0));
    Ok(report)
}

fn key(n: usize) -> String {
    format!("zipf/{n:06}")
}

impl Trace {
    /// Draws objects and requests; the `n`th most popular object gets `1/n` as many as the first.
    fn new(objects: u64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let sizes = (0..objects).map(|n| Pattern {
            seed: n,
            len: SIZES.0 + random.below(SIZES.1 - SIZES.0 + 1),
        });
        let objects: Vec<_> = sizes.collect();
        let mut sum = 0.0;
        let weights: Vec<f64> = (1..=objects.len())
            .map(|rank| {
                sum += 1.0 / rank as f64;
                sum
            })
            .collect();
        let requests = objects.len() as u64 * REQUESTS_PER_OBJECT;
        let requests = (0..requests).map(|_| {
            let drawn = random.next_u64() as f64 / u64::MAX as f64 * sum;
            weights
                .partition_point(|weight| *weight < drawn)
                .min(weights.len() - 1)
        });
        let requests = requests.collect();
        Self { objects, requests }
    }

    const fn warm(&self) -> usize {
        self.requests.len() / 2
    }

    /// Returns the simulated hits after the warm-up.
    fn simulate(&self, capacity: u64) -> u64 {
        let mut cache = S3Fifo::new(capacity);
        let mut hits = 0;
        for (turn, &object) in self.requests.iter().enumerate() {
            let hit = cache.ask(object, self.objects[object].len + OVERHEAD);
            hits += u64::from(hit && turn >= self.warm());
        }
        hits
    }
}

async fn ask(peer: &Peer, trace: &Arc<Trace>) -> Result<(u64, Latency)> {
    let start = Instant::now();
    let (next, hits) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (trace, next, hits) = (Arc::clone(trace), Arc::clone(&next), Arc::clone(&hits));
        let (addr, prefix) = (peer.addr(), peer.path(""));
        tasks.spawn(async move {
            let mut connection = Connection::open(addr).await?;
            let mut latency = Latency::default();
            loop {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                let Some(&object) = trace.requests.get(turn) else {
                    return anyhow::Ok(latency);
                };
                let due = start + Duration::from_secs_f64(turn as f64 / PER_SECOND);
                tokio::time::sleep_until(due.into()).await;
                let path = format!("{prefix}{}", key(object));
                let hit = one(&mut connection, &path, trace.objects[object]).await?;
                if turn >= trace.warm() {
                    latency.record(due.elapsed());
                    hits.fetch_add(u64::from(hit), Ordering::Relaxed);
                }
            }
        });
    }
    watch(&next, trace.requests.len()).await;
    let mut latency = Latency::default();
    for reader in tasks.join_all().await {
        latency.merge(&reader?);
    }
    Ok((hits.load(Ordering::Relaxed), latency))
}

/// Shows the progress until all requests are made, or none is made any more.
async fn watch(next: &AtomicUsize, requests: usize) {
    let mut bar = Bar::new("requests", requests as u64);
    let mut seen = 0;
    while seen < requests {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = next.load(Ordering::Relaxed).min(requests);
        bar.add((now - seen) as u64);
        if now == seen && now > 0 {
            // All tasks have failed or are stuck: their results tell the reason.
            return;
        }
        seen = now;
    }
}

/// Reads an object and returns whether it was a hit by `Cache-Status` (RFC 9211, 2.1).
async fn one(connection: &mut Connection, path: &str, pattern: Pattern) -> Result<bool> {
    let (answer, _) = connection.get(path, &[]).await?;
    ensure!(
        answer.head.status == http::StatusCode::OK,
        "{path}: {}",
        answer.head.status
    );
    let right = answer.body.len() as u64 == pattern.len && pattern.matches(0, &answer.body);
    ensure!(right, "{path}: wrong bytes");
    let status = answer.head.headers.get("cache-status");
    let status = status.context("no Cache-Status")?.to_str()?;
    Ok(status.split(';').any(|parameter| parameter.trim() == "hit"))
}
