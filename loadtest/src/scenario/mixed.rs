//! Small hot objects beside bulk streams: the streams must not slow them down.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::{Flow, Latency};
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::Settings;
use crate::reading::Reading;
use crate::report::terminal::figure;
use crate::report::{Plot, Report, Target};

const STREAMS: u64 = 8;
/// Bytes per second of a stream.
const PACE: f64 = 25e6;
const SMALL: u64 = 35 * 1024;
const SMALL_KEY: &str = "hot.jpg";
/// The interval between requests for the small object, however long the answers take.
const EVERY: Duration = Duration::from_millis(2);
/// The interval at which the scenario checks that the streams still run.
const TURN: Duration = Duration::from_secs(1);

/// Runs 8 cold streams of `--count` MB each through tidegate, and meanwhile requests a small object from tidegate and
/// nginx. Both are measured over the same time, because the streams disturb most when they start. Their requests
/// alternate.
///
/// # Errors
/// If it could not be carried out, or a peer answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("mixed");
    let len = context.count(400) * 1_000_000;
    let bulk = |n: u64| (format!("bulk/{n}"), Pattern { seed: 100 + n, len });
    let small = Pattern {
        seed: 1,
        len: SMALL,
    };
    progress(format!("{STREAMS} objects of {} MB", len / 1_000_000));
    for n in 0..STREAMS {
        let (key, pattern) = bulk(n);
        context.bucket.put(&key, pattern.all()).await?;
    }
    context.bucket.put(SMALL_KEY, small.all()).await?;
    std::fs::write(context.files()?.join(SMALL_KEY), small.all())?;
    let origin = context.origin();
    let tidegate = context.start("tidegate", &origin, Settings::STREAM).await?;
    let nginx = context.start("nginx", &origin, Settings::STREAM).await?;
    for peer in [&tidegate, &nginx] {
        report.peer(peer.name(), peer.config());
    }
    let mut asked = [
        PeerProbe::new(&tidegate).await?,
        PeerProbe::new(&nginx).await?,
    ];
    turn(&mut asked, small).await?;
    let alone = asked.each_ref().map(|one| one.latency.clone());
    for one in &mut asked {
        one.latency = Latency::default();
    }
    let mut streams = JoinSet::new();
    for n in 0..STREAMS {
        let (key, pattern) = bulk(n);
        let (addr, path) = (tidegate.addr(), tidegate.path(&key));
        streams.spawn(async move {
            let mut connection = Connection::open(addr).await?;
            let mut reading = Reading::whole(&path, pattern);
            reading.pace = Some(PACE);
            reading.run(&mut connection).await
        });
    }
    while streams.len() == STREAMS as usize {
        turn(&mut asked, small).await?;
        if let Some(ended) = streams.try_join_next() {
            write(&mut report, &asked, &alone, &[ended??]);
        }
    }
    for flow in streams.join_all().await {
        flow?;
    }
    Ok(report)
}

/// A peer that serves the small object, and its latencies.
struct PeerProbe<'a> {
    peer: &'a Peer,
    connection: Connection,
    latency: Latency,
}

impl<'a> PeerProbe<'a> {
    async fn new(peer: &'a Peer) -> Result<Self> {
        Ok(Self {
            peer,
            connection: Connection::open(peer.addr()).await?,
            latency: Latency::default(),
        })
    }

    /// Requests the object at even intervals for a second, from `start` on. A late answer delays the next ones, and
    /// that counts: each is timed from its due time.
    async fn turn(&mut self, small: Pattern, start: Instant) -> Result<()> {
        let path = self.peer.path(SMALL_KEY);
        let mut due = start;
        while due.duration_since(start) < TURN {
            tokio::time::sleep_until(due.into()).await;
            // Lateness of up to 2 ms is the timer's, not the peer's.
            let began = Instant::now();
            let late = began.saturating_duration_since(due + Duration::from_millis(2));
            let timing = self.connection.verify(&path, small).await;
            let timing = timing.with_context(|| self.peer.name())?;
            self.latency.record(timing.total + late);
            due += EVERY;
        }
        Ok(())
    }
}

/// Requests the object from both peers for a second, each half-way between the other's requests.
async fn turn(asked: &mut [PeerProbe<'_>; 2], small: Pattern) -> Result<()> {
    let start = Instant::now();
    let [one, other] = asked;
    tokio::try_join!(one.turn(small, start), other.turn(small, start + EVERY / 2))?;
    Ok(())
}

fn write(report: &mut Report, asked: &[PeerProbe<'_>; 2], alone: &[Latency; 2], streams: &[Flow]) {
    let mut rows = vec![];
    let mut plot = Plot::latency("A small hot object: which share came within how long");
    for (one, alone) in asked.iter().zip(alone) {
        for (state, latency) in [("alone", alone), ("beside the streams", &one.latency)] {
            let found = latency.percentiles();
            let name = format!("{}, {state}", one.peer.name());
            plot.line(&name, latency.curve());
            let figures = [found.avg, found.p50, found.p90, found.p99, found.p100].map(figure);
            rows.push(
                [name, found.count.to_string()]
                    .into_iter()
                    .chain(figures)
                    .collect(),
            );
        }
    }
    let columns = ["peer", "requests", "avg", "p50", "p90", "p99", "p100"];
    report.table("35 KB, hot, ms", &columns, rows);
    report.plot(plot);
    let [tidegate, nginx] = asked.each_ref().map(|one| one.latency.percentiles());
    let figure = "P99 beside 8 cold streams, over nginx static beside the same";
    report.aim(figure, tidegate.p99 / nginx.p99, Target::AtMost(1.5));
    let rate = streams.iter().map(Flow::rate).sum::<f64>() / streams.len() as f64;
    let text = format!(
        "the first stream to end had {rate:.1} of its {:.0} MB/s",
        PACE / 1e6
    );
    report.notes.push(text);
}
