//! The images of a page, as a browser loads them through each site's nginx: 100 pages by 20 users.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;

use super::sites::{Kind, Stage};
use crate::bucket::Bucket;
use crate::client::Connection;
use crate::context::progress;
use crate::measure::Latency;
use crate::pattern::Pattern;
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::scenario::page::{FOURTEEN, THREE};

/// Users at once, and how many pages each loads.
const USERS: u64 = 20;
const LOADS: u64 = 5;
/// A user reads before the next page: far below what two cores can serve.
const READS: Duration = Duration::from_millis(500);

type Images = [(&'static str, u64)];

/// Loads both pages, cold and warm, from each site.
pub(super) async fn run(stages: &[Stage], report: &mut Report) -> Result<()> {
    for images in [THREE, FOURTEEN] {
        let mut rows = vec![];
        let mut warm = vec![];
        for stage in stages.iter().filter(|stage| stage.kind != Kind::Close) {
            progress(format!(
                "pages of {} images, {}",
                images.len(),
                stage.kind.name()
            ));
            for again in [false, true] {
                let loads = load(stage, images).await?;
                let found = loads.percentiles();
                let how = if again { "warm" } else { "cold" };
                let figures = [found.avg, found.p50, found.p90, found.p99, found.p100];
                let mut row = vec![stage.kind.name().to_owned(), how.to_owned()];
                row.extend(figures.map(figure));
                rows.push(row);
                if again {
                    warm.push((stage.kind, found));
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
                .find(|(one, _)| *one == kind)
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

fn object(image: usize, images: &Images) -> (String, Pattern) {
    let (name, len) = images[image];
    let seed = (images.len() as u64) << 8 | image as u64;
    (
        format!("2019/{}/{name}", images.len()),
        Pattern { seed, len },
    )
}

/// Puts the images of both pages into the bucket, below `prefix`, before anything has looked there.
pub(super) async fn put(bucket: &Bucket, prefix: &str) -> Result<()> {
    let keyed = all().map(|(key, pattern)| (format!("{prefix}{key}"), pattern));
    bucket.put_all(keyed.collect::<Vec<_>>()).await
}

/// Puts them into a local folder.
pub(super) fn write(uploads: &Path) -> Result<()> {
    for (key, pattern) in all() {
        let file = uploads.join(key);
        std::fs::create_dir_all(file.parent().context("it has a folder")?)?;
        std::fs::write(file, pattern.all())?;
    }
    Ok(())
}

fn all() -> impl Iterator<Item = (String, Pattern)> {
    [THREE, FOURTEEN]
        .into_iter()
        .flat_map(|images| (0..images.len()).map(move |image| object(image, images)))
}

async fn load(stage: &Stage, images: &'static Images) -> Result<Latency> {
    let addr = stage.site.places.addr;
    let users = (0..USERS).map(|user| async move {
        let mut latency = Latency::default();
        let mut connection = Connection::open(addr).await?;
        tokio::time::sleep(READS * u32::try_from(user)? / u32::try_from(USERS)?).await;
        for _ in 0..LOADS {
            connection.revive().await?;
            for image in 0..images.len() {
                let (key, pattern) = object(image, images);
                let path = format!("/wp-content/uploads/{key}");
                let timing = connection.verify(&path, pattern).await?;
                latency.record(timing.total);
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
