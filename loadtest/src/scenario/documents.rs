//! An archive of small documents that several readers read at random, cold and warm.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::{Latency, median, median_ratio};
use crate::pattern::Pattern;
use crate::peers::cloud::{self, Cloud};
use crate::peers::tidegate::Settings;
use crate::peers::{Origin, Peer};
use crate::random::Random;
use crate::report::terminal::figure;
use crate::report::{Plot, Report, Target};

const READERS: usize = 8;
const SIZES: (u64, u64) = (40_000, 500_000);
/// Settings with room for all of the archive in memory, as rclone's cache has on disk.
const SETTINGS: Settings = Settings {
    memory_mib: 1024,
    base: "documents",
    ..Settings::WEB
};

type Objects = Arc<Vec<(String, Pattern)>>;

#[derive(Debug)]
struct Pass {
    /// Documents per second.
    rate: f64,
    latency: Latency,
}

#[derive(Debug, Default)]
struct Passes {
    rates: Vec<f64>,
    latency: Latency,
}

/// Reads `--count` documents, each once cold and once warm, from each peer.
///
/// # Errors
/// If it could not be carried out, or a peer answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("documents");
    let mut random = Random::new(context.options.seed);
    let objects = upload(context, &mut random).await?;
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    let origin = context.origin_behind(cloud.addr());
    let objects = Arc::new(shuffled(objects, &mut random));

    let (bare, cold, warm) = tidegate(context, &origin, &objects, &mut random, &mut report).await?;
    let mut rows = vec![
        row("8 bare GETs", &bare),
        row("tidegate, cold", &cold),
        row("tidegate, warm", &warm),
    ];
    let mut plot = Plot::latency("A document: which share came whole within how long");
    for (name, passes) in [
        ("8 bare GETs", &bare),
        ("tidegate, cold", &cold),
        ("tidegate, warm", &warm),
    ] {
        plot.line(name, passes.latency.curve());
        report.series(name, "documents/s", &passes.rates);
    }
    let ratio = median_ratio(&cold.rates, &bare.rates).unwrap_or(f64::NAN);
    let over_bare = "cold, documents/s over 8 bare parallel GETs";
    report.aim(over_bare, ratio, Target::AtLeast(0.95));
    for name in ["rclone-full", "rclone", "nginx-cache"] {
        if !context.takes_part(name) {
            continue;
        }
        let Some(peer) = context
            .start_if_there(name, &origin, SETTINGS, &mut report)
            .await?
        else {
            continue;
        };
        for state in ["cold", "warm"] {
            let mut passes = Passes::default();
            passes.add(pass(&peer, &objects).await.with_context(|| peer.name())?);
            rows.push(row(&format!("{name}, {state}"), &passes));
            plot.line(format!("{name}, {state}"), passes.latency.curve());
            if name == "rclone-full" && state == "warm" {
                let ratio = median(&warm.rates).unwrap_or(f64::NAN) / passes.rates[0];
                report.aim(
                    "warm, documents/s over rclone full",
                    ratio,
                    Target::AtLeast(5.0),
                );
            }
        }
    }
    report.table(
        "8 readers, documents of 40 to 500 KB, through the simulated cloud",
        &COLUMNS,
        rows,
    );
    report.plot(plot);
    Ok(report)
}

const COLUMNS: [&str; 7] = [
    "reader",
    "documents/s",
    "avg ms",
    "p50",
    "p90",
    "p99",
    "p100",
];

/// Puts the documents into the bucket.
async fn upload(context: &Context, random: &mut Random) -> Result<Vec<(String, Pattern)>> {
    let objects: Vec<_> = (0..context.count(2000))
        .map(|n| {
            let len = SIZES.0 + random.below(SIZES.1 - SIZES.0 + 1);
            (format!("archive/{n:06}.pdf"), Pattern { seed: n, len })
        })
        .collect();
    progress(format!("{} documents", objects.len()));
    context.bucket.put_all(objects.clone()).await?;
    Ok(objects)
}

/// Measures bare, cold and warm passes in alternating rounds, each with a gateway that has nothing
/// cached.
async fn tidegate(
    context: &Context,
    origin: &Origin,
    objects: &Objects,
    random: &mut Random,
    report: &mut Report,
) -> Result<(Passes, Passes, Passes)> {
    let direct = Peer::direct(origin);
    let (mut bare, mut cold, mut warm) = (Passes::default(), Passes::default(), Passes::default());
    let rounds = context.rounds(3);
    for round in 1..=rounds {
        bare.add(pass(&direct, objects).await?);
        let peer = context.start("tidegate", origin, SETTINGS).await?;
        report.peer("tidegate", peer.config());
        cold.add(pass(&peer, objects).await?);
        let again = Arc::new(shuffled(objects.to_vec(), random));
        warm.add(pass(&peer, &again).await?);
        let last = |passes: &Passes| passes.rates.last().copied().unwrap_or_default();
        progress(format!(
            "round {round}/{rounds}: bare {:.0}/s, cold {:.0}/s, warm {:.0}/s",
            last(&bare),
            last(&cold),
            last(&warm)
        ));
    }
    Ok((bare, cold, warm))
}

impl Passes {
    fn add(&mut self, pass: Pass) {
        self.rates.push(pass.rate);
        self.latency.merge(&pass.latency);
    }
}

fn row(name: &str, passes: &Passes) -> Vec<String> {
    let found = passes.latency.percentiles();
    let rate = median(&passes.rates).unwrap_or(f64::NAN);
    let figures = [rate, found.avg, found.p50, found.p90, found.p99, found.p100];
    [name.to_owned()]
        .into_iter()
        .chain(figures.map(figure))
        .collect()
}

fn shuffled(mut objects: Vec<(String, Pattern)>, random: &mut Random) -> Vec<(String, Pattern)> {
    for last in (1..objects.len()).rev() {
        let other = random.below(last as u64 + 1) as usize;
        objects.swap(last, other);
    }
    objects
}

/// Reads all documents once; each reader takes the next one from a common list.
async fn pass(peer: &Peer, objects: &Objects) -> Result<Pass> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    let since = Instant::now();
    for _ in 0..READERS {
        let (addr, prefix) = (peer.addr(), peer.path(""));
        let (next, objects) = (Arc::clone(&next), Arc::clone(objects));
        tasks.spawn(async move {
            let mut connection = Connection::open(addr).await?;
            let mut latency = Latency::default();
            while let Some((key, pattern)) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                let timing = connection
                    .verify(&format!("{prefix}{key}"), *pattern)
                    .await?;
                latency.record(timing.total);
            }
            anyhow::Ok(latency)
        });
    }
    let mut latency = Latency::default();
    for reader in tasks.join_all().await {
        latency.merge(&reader?);
    }
    let rate = objects.len() as f64 / since.elapsed().as_secs_f64();
    Ok(Pass { rate, latency })
}
