//! A folder that is renamed, over as many bare copies on the server.

use std::time::Instant;

use anyhow::{Result, ensure};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::home;
use crate::context::{Context, progress};
use crate::peers::cloud::Cloud;
use crate::peers::mounts::Mount;
use crate::report::{Report, Target};
use crate::tally::{RequestCounts, Tally};
use crate::ways::Ways;

const LEN: usize = 10_000_000;
/// The bare copies at once.
const CONNECTIONS: usize = 16;
const BARE: &str = "bare copies";
const MOUNT: &str = "mv";

pub(super) async fn run(
    context: &Context,
    cloud: &Cloud,
    count: u64,
    report: &mut Report,
) -> Result<()> {
    let (count, rounds) = ((count / 5).max(1), context.rounds(3));
    let mut seconds = Ways::new("s");
    let (mut through, mut wrong) = (0, 0);
    for round in 0..rounds {
        progress(format!(
            "rename of {count} files, round {}/{rounds}",
            round + 1
        ));
        put(context, count).await?;
        seconds.add(BARE, copied(context, cloud, count).await?);
        context.delete_all("bare/").await?;
        let (took, asked) = renamed(context, cloud).await?;
        seconds.add(MOUNT, took);
        through += asked.bytes + asked.sent;
        let listed = context.bucket.list("").await?;
        let is_right =
            |(key, len): &&(String, u64)| key.starts_with("renamed/") && *len == LEN as u64;
        wrong += listed.len() - listed.iter().filter(is_right).count();
        ensure!(listed.len() as u64 == count, "{} objects", listed.len());
        context.delete_all("").await?;
    }
    report.must(
        "rename: objects that are elsewhere or cut",
        wrong as f64,
        Target::AtMost(0.0),
    );
    report.must(
        "rename: bytes through us",
        through as f64,
        Target::AtMost(0.0),
    );
    if let Some(ratio) = seconds.ratio(MOUNT, BARE) {
        let figure = format!("rename of a folder of {count} files: time over bare copies");
        report.aim(figure, ratio, Target::AtMost(1.2));
    }
    let title = format!("rename of a folder of {count} files of 10 MB");
    seconds.write(report, &title);
    Ok(())
}

/// Puts the folder that is renamed.
async fn put(context: &Context, count: u64) -> Result<()> {
    let content = Bytes::from(vec![0; LEN]);
    stream::iter(0..count)
        .map(|n| {
            let content = content.clone();
            async move { context.bucket.put(&key("author", n), content).await }
        })
        .buffer_unordered(4)
        .try_for_each(async |_| Ok(()))
        .await
}

/// Copies each file on the server, and returns the seconds that it took.
async fn copied(context: &Context, cloud: &Cloud, count: u64) -> Result<f64> {
    let bare = context.bucket.behind(cloud.addr());
    let begun = Instant::now();
    stream::iter(0..count)
        .map(|n| {
            let bare = &bare;
            async move { bare.copy(&key("author", n), &key("bare", n)).await }
        })
        .buffer_unordered(CONNECTIONS)
        .try_for_each(async |()| Ok(()))
        .await?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Renames the folder in a new mount, and returns the seconds and the requests that it took.
async fn renamed(context: &Context, cloud: &Cloud) -> Result<(f64, RequestCounts)> {
    let tally = Tally::start(cloud.addr()).await?;
    let origin = context.origin_behind(tally.addr());
    let mount = Mount::tidegate(&home(context.new_dir("library-")?, &origin)).await?;
    let (from, to) = (mount.file("author"), mount.file("renamed"));
    let before = tally.settled().await;
    let begun = Instant::now();
    tokio::task::spawn_blocking(move || std::fs::rename(from, to)).await??;
    let took = begun.elapsed().as_secs_f64();
    Ok((took, tally.settled().await.since(before)))
}

fn key(folder: &str, n: u64) -> String {
    format!("{folder}/{n:04}.mp3")
}
