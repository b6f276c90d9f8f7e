//! The images of a page, as a browser loads them through each site's nginx: 100 pages by 20 users.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;

use super::served::{self, Served};
use super::sites::{Kind, Stage};
use crate::bucket::Bucket;
use crate::client::Connection;
use crate::context::progress;
use crate::measure::Latency;
use crate::pattern::Pattern;
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::scenario::page::{FOURTEEN, THREE};

/// The users at once, and the page loads of each.
const USERS: u64 = 20;
const LOADS: u64 = 5;
/// Connections of a browser to one server.
const BROWSER: usize = 6;
/// A user's pause before the next page, so that the load stays far below the capacity of two cores.
const READS: Duration = Duration::from_millis(500);

type Images = [(&'static str, u64)];

/// A server of the images.
struct Place {
    name: &'static str,
    kind: Option<Kind>,
    addr: SocketAddr,
}

/// A way to load the pages.
struct Way {
    name: &'static str,
    /// The connections of a user.
    connections: usize,
    /// The number of pages: one for each load, so that none was seen before; or one for all.
    pages: u64,
}

/// The ways, in turn.
const WAYS: [Way; 3] = [
    Way {
        name: "cold",
        connections: BROWSER,
        pages: USERS * LOADS,
    },
    Way {
        name: "warm",
        connections: BROWSER,
        pages: 1,
    },
    Way {
        name: "warm, one connection",
        connections: 1,
        pages: 1,
    },
];

/// Loads both pages, cold and warm, from each site, and from rclone behind nginx.
pub(super) async fn run(
    stages: &[Stage],
    served: Option<&Served>,
    report: &mut Report,
) -> Result<()> {
    let others = stages.iter().filter(|stage| stage.kind != Kind::Close);
    let mut places: Vec<_> = others
        .map(|stage| Place {
            name: stage.kind.name(),
            kind: Some(stage.kind),
            addr: stage.site.places.addr,
        })
        .collect();
    if let Some(served) = served {
        report.peer(served::NAME, &served.config);
        places.push(Place {
            name: served::NAME,
            kind: None,
            addr: served.addr,
        });
    }
    for images in [THREE, FOURTEEN] {
        let mut rows = vec![];
        let mut warm = vec![];
        for place in &places {
            progress(format!("pages of {} images, {}", images.len(), place.name));
            for way in &WAYS {
                let loads = load(place.addr, images, way).await;
                let found = loads.context(place.name)?.percentiles();
                let figures = [found.avg, found.p50, found.p90, found.p99, found.p100];
                let mut row = vec![place.name.to_owned(), way.name.to_owned()];
                row.extend(figures.map(figure));
                rows.push(row);
                // The targets are about the last way, in which images of a page do not compete.
                if way.connections == 1 {
                    warm.push((place.kind, found));
                }
            }
        }
        let columns = ["uploads", "", "avg", "p50", "p90", "p99", "p100"];
        let title = format!(
            "a page's {} images, {} loads by {USERS} users, ms",
            images.len(),
            USERS * LOADS
        );
        report.table(title, &columns, rows);
        let of = |kind| {
            warm.iter()
                .find(|(one, _)| *one == Some(kind))
                .map(|(_, found)| found)
        };
        if let (Some(ours), Some(local)) = (of(Kind::Background), of(Kind::Local)) {
            let count = images.len();
            let figure =
                |what: &str| format!("{count} images, warm, {what} over nginx on a local folder");
            report.aim(figure("p50"), ours.p50 / local.p50, Target::AtMost(1.2));
            report.aim(figure("p99"), ours.p99 / local.p99, Target::AtMost(1.3));
            let micros = (ours.p50 - local.p50) * 1e3;
            report.notes.push(format!(
                "{count} images, warm: p50 {micros:.0} µs above a local folder"
            ));
        }
    }
    Ok(())
}

fn object(page: u64, image: usize, images: &Images) -> (String, Pattern) {
    let (name, len) = images[image];
    let seed = page << 16 | (images.len() as u64) << 8 | image as u64;
    (
        format!("2019/{}/{page}/{name}", images.len()),
        Pattern { seed, len },
    )
}

/// Puts the images of both pages into the bucket, below `prefix`, before any look-up there.
pub(super) async fn put(bucket: &Bucket, prefix: &str) -> Result<()> {
    let keyed = all().map(|(key, pattern)| (format!("{prefix}{key}"), pattern));
    bucket.put_all(keyed.collect::<Vec<_>>()).await
}

/// Puts the images of both pages into a local folder.
pub(super) fn write(uploads: &Path) -> Result<()> {
    for (key, pattern) in all() {
        let file = uploads.join(key);
        std::fs::create_dir_all(file.parent().context("it has a folder")?)?;
        std::fs::write(file, pattern.all())?;
    }
    Ok(())
}

fn all() -> impl Iterator<Item = (String, Pattern)> {
    let pages = [THREE, FOURTEEN].into_iter();
    let pages = pages.flat_map(|images| (0..USERS * LOADS).map(move |page| (page, images)));
    pages.flat_map(|(page, images)| (0..images.len()).map(move |image| object(page, image, images)))
}

/// Returns latencies of the images. Each connection of a user takes the page's next image from a common list.
async fn load(addr: SocketAddr, images: &'static Images, way: &Way) -> Result<Latency> {
    let users = (0..USERS).map(|user| async move {
        let mut latency = Latency::default();
        let opened = (0..way.connections).map(|_| Connection::open(addr));
        let mut browser = try_join_all(opened).await?;
        tokio::time::sleep(READS * u32::try_from(user)? / u32::try_from(USERS)?).await;
        for load in 0..LOADS {
            let page = (user * LOADS + load) % way.pages;
            let next = AtomicUsize::new(0);
            let loading = browser
                .iter_mut()
                .map(|connection| fetch(connection, &next, (page, images)));
            for took in try_join_all(loading).await?.into_iter().flatten() {
                latency.record(took);
            }
            tokio::time::sleep(READS).await;
        }
        anyhow::Ok(latency)
    });
    let mut all = Latency::default();
    for one in try_join_all(users).await? {
        all.merge(&one);
    }
    ensure!(all.percentiles().count > 0, "nothing was loaded");
    Ok(all)
}

async fn fetch(
    connection: &mut Connection,
    next: &AtomicUsize,
    (page, images): (u64, &Images),
) -> Result<Vec<Duration>> {
    connection.revive().await?;
    let mut took = vec![];
    loop {
        let image = next.fetch_add(1, Ordering::Relaxed);
        if image >= images.len() {
            return Ok(took);
        }
        let (key, pattern) = object(page, image, images);
        let path = format!("/wp-content/uploads/{key}");
        took.push(connection.verify(&path, pattern).await?.total);
    }
}
