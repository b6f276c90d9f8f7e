//! Disk faults under load: no request fails, none waits longer than one deadline, and a mended disk
//! is used again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::load::{Habit, Load, ReadResults};
use super::{LONG, Object, fill_running};
use crate::context::{Context, progress};
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::{Home, Settings, StartState};
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::slow_disk::{Limit, Volume};

mod strike;

use strike::{Fault, FaultyDisk};

/// The size of every object: equal sizes take equal times.
const SIZE: u64 = 256 << 10;
/// The number of objects. Half of them are on disk before the fault; the gateway would write the
/// others to it.
const OBJECTS: u64 = 800;
const VOLUME_MIB: u64 = 640;
const CAPACITY_MIB: u64 = 320;
/// The time within which the gateway uses a mended disk again: its probes are at most 30 s apart.
const MENDED: Duration = Duration::from_secs(60);
/// The default length of a fault, and of a measurement without one; `--seconds` overrides it.
const SECONDS: u64 = 5;
/// The longest wait beyond the norm, in ms.
const DEADLINE_MS: f64 = 100.0;
const HABIT: Habit = Habit {
    readers: 4,
    ranges: false,
    rest: Duration::from_millis(5),
};

/// The conditions shared by all faults.
#[derive(Debug)]
struct Ground<'a> {
    context: &'a Context,
    objects: Arc<Vec<Object>>,
    limit: Option<Limit>,
    lasts: Duration,
}

/// The outcome of one fault.
#[derive(Debug)]
struct Outcome {
    found: ReadResults,
    /// The answer of `/readyz` during the fault.
    said: String,
    /// The time from the mend until the disk was used again; `None` if it never was.
    back: Option<Duration>,
}

/// Strikes a disk in every way, with its metadata on it and apart from it.
///
/// # Errors
/// If it could not be carried out.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("disk-faults");
    // First, check that this machine allows loop devices.
    drop(Volume::new(context.dir(), 64)?);
    let limit = Limit::new();
    if let Err(error) = &limit {
        report
            .notes
            .push(format!("reads that hang: not tried: {error:#}"));
    }
    let ground = Ground {
        context,
        objects: objects(context).await?,
        limit: limit.ok(),
        lasts: Duration::from_secs(context.options.seconds.unwrap_or(SECONDS)),
    };
    let norm = ground.norm(&mut report).await?;
    let longest = norm.took.percentiles().p100;
    let mut said = vec![];
    let mut rows = vec![row("none, no disk", &norm, f64::NAN)];
    for fault in Fault::ALL {
        if fault == Fault::HungReads && ground.limit.is_none() {
            continue;
        }
        for apart in [true, false] {
            let place = if apart { "apart" } else { "on it" };
            let name = format!("{}, metadata {place}", fault.name());
            progress(&name);
            let outcome = ground.strike(fault, apart, &mut report).await?;
            let found = &outcome.found;
            let back = outcome.back.map_or(f64::NAN, |back| back.as_secs_f64());
            rows.push(row(&name, found, back));
            said.push(vec![name.clone(), outcome.said.clone()]);
            let bad = (found.failed + found.wrong) as f64;
            report.must(format!("{name}: failed requests"), bad, Target::AtMost(0.0));
            let added = found.took.percentiles().p100 - longest;
            let figure = format!("{name}: longest added wait, ms");
            report.aim(figure, added, Target::AtMost(DEADLINE_MS));
            if fault.can_be_mended() {
                let figure = format!("{name}: used again, s after it was mended");
                report.must(figure, back, Target::AtMost(MENDED.as_secs_f64()));
            }
        }
    }
    let readers = HABIT.readers;
    let title = format!("{readers} readers of {SIZE} B objects while a disk fails");
    report.table(title, &COLUMNS, rows);
    report.table("what /readyz said", &["fault", "answer"], said);
    Ok(report)
}

const COLUMNS: [&str; 8] = [
    "fault",
    "right answers",
    "failed",
    "wrong",
    "p50 ms",
    "p99 ms",
    "p100 ms",
    "back after, s",
];

fn row(name: &str, found: &ReadResults, back: f64) -> Vec<String> {
    let took = found.took.percentiles();
    let counts = [found.right, found.failed, found.wrong].map(|count| count.to_string());
    let times = [took.p50, took.p99, took.p100, back].map(figure);
    let cells = [name.to_owned()].into_iter().chain(counts).chain(times);
    cells.collect()
}

async fn objects(context: &Context) -> Result<Arc<Vec<Object>>> {
    let pattern = |seed| Pattern { seed, len: SIZE };
    let objects: Vec<Object> = (0..OBJECTS)
        .map(|n| (format!("faults/{n:04}"), pattern(n)))
        .collect();
    context.bucket.put_all(objects.iter().cloned()).await?;
    Ok(Arc::new(objects))
}

impl Ground<'_> {
    fn home(&self) -> Result<Home> {
        let settings = Settings {
            memory_mib: 16,
            budget_mib: 64,
            profile: LONG,
            ..Settings::WEB
        };
        let dir = self.context.new_dir("faults-")?;
        let home = Home::new(dir, self.context.origin(), settings);
        Ok(match &self.limit {
            Some(limit) => home.within(limit),
            None => home,
        })
    }

    /// Measures the norm: requests without any disk, answered by the origin.
    async fn norm(&self, report: &mut Report) -> Result<ReadResults> {
        let peer = self.home()?.start(StartState::Ready).await?;
        report.peer("no disk", peer.config());
        self.load(&peer, 1, self.lasts)
            .await
            .map(|(_, found)| found)
    }

    async fn load(&self, peer: &Peer, seed: u64, lasts: Duration) -> Result<(f64, ReadResults)> {
        let load = Load::start(peer, &self.objects, HABIT, seed);
        tokio::time::sleep(lasts).await;
        let found = load.end().await;
        let rate = found.right as f64 / lasts.as_secs_f64();
        Ok((rate, found))
    }

    async fn strike(&self, fault: Fault, apart: bool, report: &mut Report) -> Result<Outcome> {
        let mut volume = Volume::new(self.context.dir(), VOLUME_MIB)?;
        let cache = volume.path().join("cache");
        let mut home = self.home()?.with_disk(cache.clone(), CAPACITY_MIB, 0);
        if apart {
            home.state = Some(home.dir.join("state"));
        }
        let peer = home.start(StartState::Ready).await?;
        report.peer("tidegate", peer.config());
        fill_running(&home, &peer, &self.objects[..self.objects.len() / 2]).await?;
        let load = Load::start(&peer, &self.objects, HABIT, 2);
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut struck = FaultyDisk::now(fault, &mut volume, &cache, self.limit.as_ref())?;
        tokio::time::sleep(self.lasts.max(fault.is_noticed_within())).await;
        let said = peer.tells("/readyz").await?.unwrap_or_default();
        let shown = cache.display().to_string();
        let said = said.trim().replace('\n', "; ").replace(&shown, "PATH");
        struck.mend(&volume, self.limit.as_ref())?;
        let since = Instant::now();
        let hits = disk_hits(&peer).await?;
        let mut back = None;
        while fault.can_be_mended() && since.elapsed() < MENDED {
            if is_up(&peer).await? && disk_hits(&peer).await? > hits {
                back = Some(since.elapsed());
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let found = load.end().await;
        // Undo the rest of the fault before the gateway is told to stop.
        drop(struck);
        drop(peer);
        Ok(Outcome { found, said, back })
    }
}

async fn disk_hits(peer: &Peer) -> Result<f64> {
    let hits = peer.metric_where("tidegate_store_hits_total", "tier=\"disk\"");
    Ok(hits.await?.unwrap_or_default())
}

async fn is_up(peer: &Peer) -> Result<bool> {
    let name = "tidegate_store_disk_state";
    let up = peer.metric_where(name, "state=\"up\"").await?;
    Ok(up == Some(1.0))
}
