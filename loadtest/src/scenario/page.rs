//! Pages with images, loaded as a browser does: over 6 connections, all images of a page at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::Latency;
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::cloud::{self, Cloud};
use crate::peers::tidegate::Settings;
use crate::progress::Bar;
use crate::report::terminal::figure;
use crate::report::{Plot, Report, Target};

/// The number of connections that browsers open to one server.
const CONNECTIONS: usize = 6;
/// The published number of cold page loads, each of a new page.
const COLD: u64 = 100;
/// The warm page loads of a peer in a row: peers alternate, so that a disturbance affects all of
/// them.
const TURN: u64 = 250;
/// Time limit for a peer's warm loads; the table shows how many it managed.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The published images: 35 KB and 51 KB JPEG, 468 KB WebP.
pub const THREE: &[(&str, u64)] = &[
    ("image1.jpg", 35 * 1024),
    ("image2.jpg", 51 * 1024),
    ("image3.webp", 468 * 1024),
];

/// 14 images of mixed sizes: thumbnails, illustrations, and photographs.
pub const FOURTEEN: &[(&str, u64)] = &[
    ("image01.jpg", 35 * 1024),
    ("image02.jpg", 51 * 1024),
    ("image03.webp", 468 * 1024),
    ("image04.png", 4 * 1024),
    ("image05.jpg", 8 * 1024),
    ("image06.jpg", 12 * 1024),
    ("image07.webp", 18 * 1024),
    ("image08.jpg", 27 * 1024),
    ("image09.jpg", 64 * 1024),
    ("image10.webp", 90 * 1024),
    ("image11.jpg", 128 * 1024),
    ("image12.jpg", 180 * 1024),
    ("image13.jpg", 256 * 1024),
    ("image14.jpg", 1024 * 1024),
];

type Images = [(&'static str, u64)];

/// Durations of page loads, by image and for the whole page.
#[derive(Debug, Clone, Default)]
struct Loads {
    images: Vec<Latency>,
    page: Latency,
}

/// A peer with its browser.
struct VisitedPeer {
    peer: Peer,
    browser: Vec<Connection>,
    cold: Loads,
    warm: Loads,
    took: Duration,
}

/// Loads pages of `images`: 100 cold ones, and one `--count` times.
///
/// # Errors
/// If it could not be carried out, or a peer answers wrong bytes.
pub async fn run(context: &Context, name: &str, images: &'static Images) -> Result<Report> {
    let mut report = Report::new(name);
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    put(context, images).await?;
    let mut all = visit(context, &cloud, &mut report).await?;
    for visited in &mut all {
        progress(format!("cold, {}", visited.peer.name()));
        visited.revive().await?;
        for page in 0..COLD {
            visited
                .cold
                .load(&visited.peer, &mut visited.browser, page, images)
                .await?;
        }
    }
    warm(&mut all, images, context.count(10_000)).await?;
    tables(&mut report, &all, images);
    judge(&mut report, &all);
    Ok(report)
}

fn object(page: u64, image: usize, images: &Images) -> (String, Pattern) {
    let (name, len) = images[image];
    let seed = page << 8 | image as u64;
    (
        format!("wp-content/uploads/2019/{page:03}/{name}"),
        Pattern { seed, len },
    )
}

/// Puts the images into the bucket, and into the folder that nginx serves.
async fn put(context: &Context, images: &Images) -> Result<()> {
    let files = context.files()?;
    let objects: Vec<_> = (0..COLD)
        .flat_map(|page| (0..images.len()).map(move |image| (page, image)))
        .map(|(page, image)| object(page, image, images))
        .collect();
    for (key, pattern) in &objects {
        let file = files.join(key);
        std::fs::create_dir_all(file.parent().context("keys have folders")?)?;
        std::fs::write(file, pattern.all())?;
    }
    context.bucket.put_all(objects).await
}

async fn visit(context: &Context, cloud: &Cloud, report: &mut Report) -> Result<Vec<VisitedPeer>> {
    let origin = context.origin_behind(cloud.addr());
    let mut all = vec![];
    let usual = [
        "nginx",
        "tidegate",
        "nginx-cache",
        "varnish",
        "rclone",
        "rclone-full",
        "direct",
    ];
    for name in context.peers(&usual) {
        let settings = Settings::WEB;
        let Some(peer) = context
            .start_if_there(name, &origin, settings, report)
            .await?
        else {
            continue;
        };
        let mut browser = vec![];
        for _ in 0..CONNECTIONS {
            browser.push(Connection::open(peer.addr()).await?);
        }
        all.push(VisitedPeer {
            peer,
            browser,
            cold: Loads::default(),
            warm: Loads::default(),
            took: Duration::ZERO,
        });
    }
    Ok(all)
}

async fn warm(all: &mut [VisitedPeer], images: &'static Images, loads: u64) -> Result<()> {
    let mut bar = Bar::new("warm page loads", loads * all.len() as u64);
    let mut done = 0;
    while done < loads {
        let turn = TURN.min(loads - done);
        for visited in all.iter_mut() {
            visited.revive().await?;
            let since = Instant::now();
            for _ in 0..turn {
                bar.add(1);
                if visited.took + since.elapsed() > TIMEOUT {
                    continue;
                }
                visited
                    .warm
                    .load(&visited.peer, &mut visited.browser, 0, images)
                    .await?;
            }
            visited.took += since.elapsed();
        }
        done += turn;
    }
    Ok(())
}

impl VisitedPeer {
    /// Connects again if the server closed connections during the others' turns.
    async fn revive(&mut self) -> Result<()> {
        for connection in &mut self.browser {
            connection.revive().await?;
        }
        Ok(())
    }
}

impl Loads {
    /// Loads one page: each connection takes the next image from a common list.
    async fn load(
        &mut self,
        peer: &Peer,
        browser: &mut [Connection],
        page: u64,
        images: &Images,
    ) -> Result<()> {
        self.images.resize_with(images.len(), Latency::default);
        let next = AtomicUsize::new(0);
        let since = Instant::now();
        let loading = browser.iter_mut().map(|connection| async {
            let mut took = vec![];
            loop {
                let image = next.fetch_add(1, Ordering::Relaxed);
                if image >= images.len() {
                    return anyhow::Ok(took);
                }
                let (key, pattern) = object(page, image, images);
                let timing = connection.verify(&peer.path(&key), pattern).await;
                let timing = timing.with_context(|| peer.name())?;
                took.push((image, timing.total));
            }
        });
        let loaded = try_join_all(loading).await?;
        self.page.record(since.elapsed());
        for (image, took) in loaded.into_iter().flatten() {
            self.images[image].record(took);
        }
        Ok(())
    }
}

const COLUMNS: [&str; 8] = ["image", "peer", "loads", "avg", "p50", "p90", "p99", "p100"];

fn tables(report: &mut Report, all: &[VisitedPeer], images: &Images) {
    for (title, loads) in [
        (
            "cold, each page for the first time, ms",
            (|one: &VisitedPeer| &one.cold) as fn(&VisitedPeer) -> &Loads,
        ),
        ("warm, the same page again and again, ms", |one| &one.warm),
    ] {
        let mut rows = vec![];
        for (image, (name, _)) in images.iter().enumerate() {
            rows.extend(all.iter().filter_map(|one| {
                let latency = loads(one).images.get(image)?;
                Some(row(name, one, latency))
            }));
        }
        rows.extend(all.iter().map(|one| row("the page", one, &loads(one).page)));
        report.table(title, &COLUMNS, rows);
        let mut plot = Plot::latency(format!("Page loads, {title}"));
        for one in all {
            // The last hundredth would flatten the rest of the curve.
            let mut curve = loads(one).page.curve();
            curve.retain(|(percentile, _)| *percentile <= 99.0);
            plot.line(one.peer.name(), curve);
        }
        report.plot(plot);
    }
}

fn row(image: &str, one: &VisitedPeer, latency: &Latency) -> Vec<String> {
    let found = latency.percentiles();
    let figures = [found.avg, found.p50, found.p90, found.p99, found.p100].map(figure);
    let names = [
        image.to_owned(),
        one.peer.name().to_owned(),
        found.count.to_string(),
    ];
    names.into_iter().chain(figures).collect()
}

fn judge(report: &mut Report, all: &[VisitedPeer]) {
    let warm = |name: &str| {
        let one = all.iter().find(|one| one.peer.name() == name)?;
        Some(one.warm.page.percentiles())
    };
    let Some(tidegate) = warm("tidegate") else {
        return;
    };
    if let Some(nginx) = warm("nginx") {
        let avg = "warm page, average over nginx local files";
        report.aim(avg, tidegate.avg / nginx.avg, Target::AtMost(1.05));
        let p99 = "warm page, P99 over nginx local files";
        report.aim(p99, tidegate.p99 / nginx.p99, Target::AtMost(1.15));
    }
    if let Some(rclone) = warm("rclone") {
        let figure = "warm page, times faster than rclone, cache off";
        report.aim(figure, rclone.avg / tidegate.avg, Target::AtLeast(30.0));
    }
}
