//! The effect of a scan on a cache of popular objects. A scan reads objects of three times the
//! cache's size once; the hit ratio is taken before and after.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};

use super::Object;
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::home::settled;
use crate::peers::tidegate::{Home, Settings, StartState};
use crate::random::Random;
use crate::report::terminal::figure;
use crate::report::{Report, Target};

/// Sizes of the popular objects: each takes two pages of a disk.
const SIZES: (u64, u64) = (6000, 8192);
const PAGES: u64 = 8192;
/// The size of each scanned object.
const SCANNED: u64 = 1 << 20;
const READERS: usize = 16;

/// The treatments of scanned objects, and their configuration lines; popular objects have the
/// profile `web`.
const SCANS: [(&str, &str); 3] = [
    (
        "backup",
        "ttl = \"1h\"\n[[route]]\npath = \"/scan/\"\norigin = \"media\"\nkey_prefix = \"scan/\"\nprofile = \"backup\"\n",
    ),
    (
        "disk = second",
        "ttl = \"1h\"\n[[route]]\npath = \"/scan/\"\norigin = \"media\"\nkey_prefix = \"scan/\"\nprofile = \"scan\"\n\
         [profile.scan]\nextends = \"web\"\ndisk = \"second\"\n",
    ),
    ("disk = first", "ttl = \"1h\"\n"),
];

/// Requests `--count` objects by popularity, before and after a scan.
///
/// # Errors
/// If it could not be carried out, or tidegate answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("disk-zipf");
    let mut random = Random::new(context.options.seed);
    let objects: Vec<Object> = (0..context.count(20_000))
        .map(|seed| {
            let len = SIZES.0 + random.below(SIZES.1 - SIZES.0 + 1);
            (format!("zipf/{seed:06}"), Pattern { seed, len })
        })
        .collect();
    let objects = Arc::new(objects);
    let disk_mib = (objects.len() as u64 * PAGES / 4) >> 20;
    let memory_mib = (disk_mib / 5).max(4);
    ensure!(disk_mib >= 8, "too few objects for a disk of 8 MiB");
    let scanned = 3 * (disk_mib + memory_mib);
    progress(format!(
        "{} objects, a disk of {disk_mib} MiB, memory of {memory_mib} MiB, a scan of {scanned} MiB",
        objects.len()
    ));
    context.bucket.put_all(objects.iter().cloned()).await?;
    let scan: Vec<Object> = (0..scanned)
        .map(|n| {
            let pattern = Pattern {
                seed: n ^ 0x5ca0,
                len: SCANNED,
            };
            (format!("scan/{n:05}"), pattern)
        })
        .collect();
    context.bucket.put_all(scan.iter().cloned()).await?;
    let mut rows = vec![];
    for (name, lines) in SCANS {
        let settings = Settings {
            memory_mib,
            profile: lines,
            ..Settings::WEB
        };
        let dir = context.new_dir("zipf-")?;
        let disk = dir.join("disk");
        let home = Home::new(dir, context.origin(), settings).with_disk(disk, disk_mib, 64);
        let peer = home.start(StartState::Ready).await?;
        report.peer(name, peer.config());
        let (before, after) = around(&peer, &objects, &scan, &mut random).await?;
        progress(format!(
            "   scan as {name}: {before:.1} % before, {after:.1} % after"
        ));
        rows.push([name.to_owned(), figure(before), figure(after)].to_vec());
        let figure = format!("hit ratio lost by a scan as {name}, points");
        report.aim(figure, before - after, Target::AtMost(5.0));
    }
    let title = format!("a scan of three times the cache, {scanned} MiB, beside the profile web");
    report.table(
        title,
        &["the scan's profile", "before, %", "after, %"],
        rows,
    );
    Ok(report)
}

async fn around(
    peer: &Peer,
    objects: &Arc<Vec<Object>>,
    scan: &[Object],
    random: &mut Random,
) -> Result<(f64, f64)> {
    ask(peer, objects, 2 * objects.len(), random).await?;
    settled(peer).await?;
    let before = ask(peer, objects, objects.len(), random).await?;
    let mut connection = Connection::open(peer.addr()).await?;
    for (key, pattern) in scan {
        connection.revive().await?;
        connection.verify(&peer.path(key), *pattern).await?;
    }
    settled(peer).await?;
    let after = ask(peer, objects, objects.len(), random).await?;
    Ok((before, after))
}

/// Makes `requests` requests, the `n`th most popular object `1/n` as often as the first. Returns
/// the hits in percent.
async fn ask(
    peer: &Peer,
    objects: &Arc<Vec<Object>>,
    requests: usize,
    random: &mut Random,
) -> Result<f64> {
    let asked = Arc::new(draw(objects.len(), requests, random));
    let (next, hits) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..READERS {
        let (objects, asked) = (Arc::clone(objects), Arc::clone(&asked));
        let (next, hits) = (Arc::clone(&next), Arc::clone(&hits));
        let (addr, prefix) = (peer.addr(), peer.path(""));
        tasks.spawn(async move {
            let mut connection = Connection::open(addr).await?;
            while let Some(&object) = asked.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (key, pattern) = &objects[object];
                let path = format!("{prefix}{key}");
                let (answer, _) = connection.get(&path, &[]).await?;
                let right = answer.body.len() as u64 == pattern.len;
                ensure!(
                    right && pattern.matches(0, &answer.body),
                    "{path}: wrong bytes"
                );
                let status = answer.head.headers.get("cache-status");
                let status = status.context("no Cache-Status")?.to_str()?;
                let hit = status.split(';').any(|part| part.trim() == "hit");
                hits.fetch_add(u64::from(hit), Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    for reader in tasks.join_all().await {
        reader?;
    }
    Ok(hits.load(Ordering::Relaxed) as f64 / requests as f64 * 100.0)
}

fn draw(objects: usize, requests: usize, random: &mut Random) -> Vec<usize> {
    let mut sum = 0.0;
    let weights: Vec<f64> = (1..=objects)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    let one = |_| {
        let drawn = random.next_u64() as f64 / u64::MAX as f64 * sum;
        weights
            .partition_point(|weight| *weight < drawn)
            .min(objects - 1)
    };
    (0..requests).map(one).collect()
}
