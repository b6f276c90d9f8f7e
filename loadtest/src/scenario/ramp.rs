//! The ramp: the first seconds of a cold read at full speed, over several distances to the bucket, and the cost of a
//! client that only looks.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::client::{Connection, next_piece};
use crate::context::{Context, progress};
use crate::measure::{Flow, median, median_ratio};
use crate::pattern::Pattern;
use crate::peers::cloud::{Cloud, Distance};
use crate::peers::tidegate::Settings;
use crate::peers::{Origin, Peer};
use crate::reading::{Reading, in_parallel};
use crate::report::terminal::figure;
use crate::report::{Plot, Report, Target};
use crate::tally::{RequestCounts, Tally};

const KEY: &str = "ramp.bin";
/// The number of connections that the profile `stream` may use.
const STREAMS: u64 = 16;
/// The bytes that a client takes of an open range before it leaves.
const PROBE: usize = 64 << 10;

/// The distances. In the first one the ceiling is all that the connections can bring. In the others it includes the round
/// trip that tells the size.
const DISTANCES: [(Distance, bool); 5] = [
    (Distance::new(60, 50, 10_000), false),
    (Distance::new(5, 0, 5_000), true),
    (Distance::new(5, 0, 20_000), true),
    (Distance::new(100, 0, 5_000), true),
    (Distance::new(100, 0, 20_000), true),
];

/// The rates of one distance, round by round.
#[derive(Debug, Default)]
struct Rates {
    ceiling: Vec<f64>,
    own: Vec<f64>,
}

/// Reads an object of `--count` MB cold, at each distance.
///
/// # Errors
/// If it could not be carried out, or a peer answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("ramp");
    let pattern = Pattern {
        seed: context.options.seed ^ 0x4a39,
        len: context.count(864) * 1_000_000,
    };
    context.bucket.put(KEY, pattern.all()).await?;
    let (mut rows, mut probes) = (vec![], vec![]);
    for (distance, with_size) in DISTANCES {
        let cloud = Cloud::at(context.dir(), context.origin().addr, distance).await?;
        let origin = context.origin_behind(cloud.addr());
        let mut plot = Plot::throughput(format!("{distance}: the last round"));
        let mut rates = Rates::default();
        for round in 1..=context.rounds(3) {
            let ceiling = ceiling(&origin, pattern, with_size).await?;
            let own = cold(context, &origin, pattern).await?;
            progress(format!(
                "{distance}, round {round}: ceiling {:.0}, tidegate {:.0} MB/s",
                ceiling.rate(),
                own.rate()
            ));
            rates.ceiling.push(ceiling.rate());
            rates.own.push(own.rate());
            plot.lines.clear();
            plot.line("ceiling: 16 bare GETs", ceiling.over_time());
            plot.line("tidegate", own.over_time());
        }
        report.plot(plot);
        rows.push(rates.row(distance));
        let ratio = median_ratio(&rates.own, &rates.ceiling).unwrap_or(f64::NAN);
        let over = format!("{distance}: MB/s over 16 bare GETs");
        report.aim(over, ratio, Target::AtLeast(0.97));
        report.series("tidegate", &format!("{distance}: MB/s"), &rates.own);
        report.series("ceiling", &format!("{distance}: MB/s"), &rates.ceiling);
        let (fetched, asked) = probe(context, &origin, pattern).await?;
        let for_probe = format!("{distance}: MiB fetched for a probe");
        report.aim(for_probe, fetched, Target::AtMost(1.0));
        let requests = asked.get + asked.head + asked.list;
        probes.push(vec![
            distance.to_string(),
            figure(fetched),
            requests.to_string(),
        ]);
    }
    let columns = ["distance", "16 bare GETs, MB/s", "tidegate, MB/s", "ratio"];
    report.table("a cold read at full speed", &columns, rows);
    let title = "a client that asks for bytes=0- and leaves after 64 KiB";
    report.table(title, &["distance", "MiB fetched", "requests"], probes);
    Ok(report)
}

impl Rates {
    fn row(&self, distance: Distance) -> Vec<String> {
        let of = |rates: &[f64]| figure(median(rates).unwrap_or(f64::NAN));
        let ratio = median_ratio(&self.own, &self.ceiling).unwrap_or(f64::NAN);
        vec![
            distance.to_string(),
            of(&self.ceiling),
            of(&self.own),
            figure(ratio),
        ]
    }
}

/// Reads over 16 connections at once; with `with_size`, after one byte that tells the size.
async fn ceiling(origin: &Origin, pattern: Pattern, with_size: bool) -> Result<Flow> {
    let direct = Peer::direct(origin);
    let path = direct.path(KEY);
    let mut flow = Flow::default();
    if with_size {
        let mut connection = Connection::open(direct.addr()).await?;
        flow = Reading::part(&path, pattern, 0..1)
            .run(&mut connection)
            .await?;
    }
    let flows = in_parallel(direct.addr(), &path, pattern, STREAMS).await?;
    let together = Flow::together(&flows);
    if with_size {
        flow.then(&together);
        return Ok(flow);
    }
    Ok(together)
}

/// Reads all of the object through a gateway that was just started.
async fn cold(context: &Context, origin: &Origin, pattern: Pattern) -> Result<Flow> {
    let peer = context.start("tidegate", origin, Settings::STREAM).await?;
    let mut connection = Connection::open(peer.addr()).await?;
    let path = peer.path(KEY);
    Reading::whole(&path, pattern).run(&mut connection).await
}

/// Returns the MiB fetched, and the requests, for a client that leaves after 64 KiB of an open range.
async fn probe(
    context: &Context,
    origin: &Origin,
    pattern: Pattern,
) -> Result<(f64, RequestCounts)> {
    let tally = Tally::start(origin.addr).await?;
    let behind = context.origin_behind(tally.addr());
    let peer = context.start("tidegate", &behind, Settings::STREAM).await?;
    let before = tally.asked();
    let mut connection = Connection::open(peer.addr()).await?;
    let (head, mut body) = connection
        .ask(&peer.path(KEY), &[("range", "bytes=0-")])
        .await?;
    ensure!(head.status == 206, "status {}", head.status);
    let mut taken = 0;
    while taken < PROBE {
        let piece = next_piece(&mut body).await?.context("it is longer")?;
        ensure!(pattern.matches(taken as u64, &piece), "wrong bytes");
        taken += piece.len();
    }
    drop((body, connection));
    let asked = tally
        .quiet_for(Duration::from_millis(500))
        .await
        .since(before);
    Ok((asked.bytes as f64 / f64::from(1 << 20), asked))
}
