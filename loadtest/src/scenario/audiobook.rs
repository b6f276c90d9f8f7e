//! A long object read in sequence. Through the simulated cloud, latency and the rate of a
//! connection are the limit; on plain MinIO, the machine is.

use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::process::Machine;
use crate::measure::{Flow, median, median_ratio};
use crate::pattern::Pattern;
use crate::peers::cloud::{self, Cloud};
use crate::peers::tidegate::Settings;
use crate::peers::{Origin, Peer};
use crate::reading::{Reading, by_ranges, in_parallel};
use crate::report::terminal::figure;
use crate::report::{Plot, Report, Target};

mod amplification;

const CLOUD: &str = "through the simulated cloud";
const PLAIN: &str = "on plain MinIO";
const KEY: &str = "audiobook.m4b";
/// The least idle share of the processors at the ceiling for a valid comparison.
const IDLE_NEEDED: f64 = 0.25;
/// The number of connections that the profile `stream` may use.
const CEILING: u64 = 16;
const STEP: u64 = 1 << 20;
/// The bytes of the object that each slice size is tried on.
const TRIAL: u64 = 64_000_000;

/// One way to read the object, over all rounds.
#[derive(Debug)]
struct Way {
    name: String,
    rates: Vec<f64>,
    last: Flow,
}

/// All ways over one origin.
#[derive(Debug, Default)]
struct Ways(Vec<Way>);

/// Reads an object of `--count` MB in each way.
///
/// # Errors
/// If it could not be carried out, or a peer answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("audiobook");
    let len = context.count(864) * 1_000_000;
    let pattern = Pattern {
        seed: context.options.seed ^ 0xa0d1,
        len,
    };
    progress(format!("an object of {} MB", len / 1_000_000));
    context.bucket.put(KEY, pattern.all()).await?;
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);

    let origin = context.origin_behind(cloud.addr());
    let through_cloud = all_ways(context, CLOUD, &origin, pattern, &mut report).await?;
    through_cloud.write(&mut report, CLOUD);
    through_cloud.judge(&mut report);
    amplification::measure(context, &origin, pattern, &mut report).await?;
    drop(cloud);

    let plain = all_ways(context, PLAIN, &context.origin(), pattern, &mut report).await?;
    plain.write(&mut report, PLAIN);
    Ok(report)
}

async fn all_ways(
    context: &Context,
    place: &str,
    origin: &Origin,
    pattern: Pattern,
    report: &mut Report,
) -> Result<Ways> {
    let mut ways = Ways::default();
    let rounds = context.rounds(3);
    let mut idle = vec![];
    for round in 1..=rounds {
        progress(format!(
            "round {round}/{rounds}: the ceiling, then tidegate"
        ));
        idle.push(ceiling(origin, pattern, &mut ways).await?);
        tidegate(context, origin, pattern, round, report, &mut ways).await?;
    }
    let idle = median(&idle).context("no round")?;
    note_idle(report, place, idle);
    for name in ["rclone-8", "rclone-16"] {
        if context.takes_part(name) {
            once(context, name, origin, pattern, report, &mut ways).await?;
        }
    }
    if context.takes_part("nginx-slice") {
        let best = best_slice(context, origin, pattern, report).await?;
        report
            .notes
            .push(format!("best slice size {place}: {best}"));
        once(context, best, origin, pattern, report, &mut ways).await?;
    }
    Ok(ways)
}

/// Notes the idle share. Through the cloud the origin should be the limit; on plain MinIO the
/// machine is.
fn note_idle(report: &mut Report, place: &str, idle: f64) {
    let percent = idle * 100.0;
    report
        .notes
        .push(format!("{percent:.0} % idle at the ceiling {place}"));
    if place == CLOUD {
        let figure = "share of the processors idle at the ceiling (less voids the run)";
        report.aim(figure, idle, Target::AtLeast(IDLE_NEEDED));
    }
}

/// Adds the rate of bare GETs; returns the share of the processors that they left idle.
async fn ceiling(origin: &Origin, pattern: Pattern, ways: &mut Ways) -> Result<f64> {
    let direct = Peer::direct(origin);
    let before = Machine::now()?;
    let flows = in_parallel(direct.addr(), &direct.path(KEY), pattern, CEILING).await?;
    let idle = Machine::now()?.idle_share_since(before);
    ways.add("ceiling: 16 bare GETs", Flow::together(&flows));
    Ok(idle)
}

/// Measures the ways through tidegate, each in a new process. The order changes each round, so that
/// after-effects of the ceiling in the origin and the machine fall on all alike.
async fn tidegate(
    context: &Context,
    origin: &Origin,
    pattern: Pattern,
    round: u32,
    report: &mut Report,
    ways: &mut Ways,
) -> Result<()> {
    if !context.takes_part("tidegate") {
        return Ok(());
    }
    let with_disk = Settings {
        disk_mib: 4096,
        ..Settings::STREAM
    };
    for turn in 0..3 {
        match (round + turn) % 3 {
            0 => {
                let peer = context.start("tidegate", origin, with_disk).await?;
                report.peer("tidegate, with disk", peer.config());
                ways.add("tidegate, disk, first read", whole(&peer, pattern).await?);
                ways.add("tidegate, disk, second read", whole(&peer, pattern).await?);
            }
            1 => {
                let peer = context.start("tidegate", origin, Settings::STREAM).await?;
                report.peer("tidegate, no disk", peer.config());
                ways.add("tidegate, no disk", whole(&peer, pattern).await?);
            }
            _ => {
                let peer = context.start("tidegate", origin, Settings::STREAM).await?;
                let mut connection = Connection::open(peer.addr()).await?;
                let flow = by_ranges(&mut connection, &peer.path(KEY), pattern, STEP).await?;
                ways.add("tidegate, no disk, 1 MiB ranges", flow);
            }
        }
    }
    Ok(())
}

async fn whole(peer: &Peer, pattern: Pattern) -> Result<Flow> {
    let mut connection = Connection::open(peer.addr()).await?;
    let path = peer.path(KEY);
    let reading = Reading::whole(&path, pattern);
    reading
        .run(&mut connection)
        .await
        .with_context(|| peer.name())
}

async fn once(
    context: &Context,
    name: &str,
    origin: &Origin,
    pattern: Pattern,
    report: &mut Report,
    ways: &mut Ways,
) -> Result<()> {
    progress(name);
    let settings = Settings::STREAM;
    let Some(peer) = context
        .start_if_there(name, origin, settings, report)
        .await?
    else {
        return Ok(());
    };
    ways.add(name, whole(&peer, pattern).await?);
    if name.starts_with("nginx") {
        ways.add(
            &format!("{name}, second read"),
            whole(&peer, pattern).await?,
        );
    }
    Ok(())
}

/// Returns the slice size that reads the start of the object fastest.
async fn best_slice(
    context: &Context,
    origin: &Origin,
    pattern: Pattern,
    report: &mut Report,
) -> Result<&'static str> {
    let mut best = ("nginx-slice", 0.0);
    for name in [
        "nginx-slice",
        "nginx-slice-2m",
        "nginx-slice-4m",
        "nginx-slice-8m",
    ] {
        let settings = Settings::STREAM;
        let Some(peer) = context
            .start_if_there(name, origin, settings, report)
            .await?
        else {
            break;
        };
        let mut connection = Connection::open(peer.addr()).await?;
        let path = peer.path(KEY);
        let mut reading = Reading::whole(&path, pattern);
        reading.leave_after = Some(TRIAL.min(pattern.len));
        let rate = reading.run(&mut connection).await?.rate();
        if rate > best.1 {
            best = (name, rate);
        }
    }
    Ok(best.0)
}

impl Ways {
    fn add(&mut self, name: &str, flow: Flow) {
        progress(format!("   {name}: {:.0} MB/s", flow.rate()));
        if let Some(way) = self.0.iter_mut().find(|way| way.name == name) {
            way.rates.push(flow.rate());
            way.last = flow;
        } else {
            self.0.push(Way {
                name: name.to_owned(),
                rates: vec![flow.rate()],
                last: flow,
            });
        }
    }

    fn get(&self, name: &str) -> Option<&Way> {
        self.0.iter().find(|way| way.name.starts_with(name))
    }

    fn write(&self, report: &mut Report, place: &str) {
        let ceiling = self.get("ceiling");
        let settled = Duration::ZERO;
        let rows = self.0.iter().map(|way| {
            let rate = median(&way.rates).unwrap_or(f64::NAN);
            let over = ceiling.and_then(|ceiling| over(way, ceiling));
            let gaps = way.last.gaps(Duration::from_millis(100), settled) as f64;
            let first = way.last.first_byte.as_secs_f64() * 1e3;
            let figures = [rate, over.unwrap_or(f64::NAN), first, gaps];
            let name = [way.name.clone()].into_iter();
            name.chain(figures.map(figure)).collect()
        });
        let columns = [
            "way",
            "MB/s",
            "over the ceiling",
            "first byte, ms",
            "waits over 100 ms",
        ];
        report.table(
            format!("read in sequence {place}"),
            &columns,
            rows.collect(),
        );
        let mut plot = Plot::throughput(format!("Throughput while it is read, {place}"));
        for way in &self.0 {
            plot.line(&way.name, way.last.over_time());
        }
        report.plot(plot);
        for way in &self.0 {
            report.series(&way.name, &format!("MB/s {place}"), &way.rates);
        }
    }

    fn judge(&self, report: &mut Report) {
        let Some(cold) = self.get("tidegate, no disk") else {
            return;
        };
        for (name, least) in [
            ("ceiling", 1.0),
            ("rclone-8", 1.7),
            ("rclone-16", 1.1),
            ("nginx-slice", 5.0),
        ] {
            if let Some(ratio) = self.get(name).and_then(|peer| over(cold, peer)) {
                let figure = format!("cold, MB/s over {name}");
                report.aim(figure, ratio, Target::AtLeast(least));
            }
        }
        let ranges = self.get("tidegate, no disk, 1 MiB ranges");
        if let Some(ratio) = ranges.and_then(|ranges| over(ranges, cold)) {
            report.aim(
                "1 MiB ranges over one long GET",
                ratio,
                Target::AtLeast(0.9),
            );
        }
        let disk = self.get("tidegate, disk, first read");
        if let Some(ratio) = disk.and_then(|disk| over(disk, cold)) {
            report.aim(
                "first read with a disk tier over none",
                ratio,
                Target::AtLeast(0.95),
            );
        }
    }
}

/// Compares within rounds if both ways have as many rounds, else by medians.
fn over(one: &Way, other: &Way) -> Option<f64> {
    if one.rates.len() == other.rates.len() {
        return median_ratio(&one.rates, &other.rates);
    }
    Some(median(&one.rates)? / median(&other.rates)?)
}
