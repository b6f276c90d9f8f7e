//! Random 4 KiB reads of an object that was read before, without the kernel's pages.

use std::time::Duration;

use anyhow::Result;

use super::{KEY, OURS, mounted};
use crate::context::{Context, progress};
use crate::file::{DD, at_random, sequence};
use crate::measure::turns;
use crate::pattern::Pattern;
use crate::peers::Origin;
use crate::report::{Report, Target};
use crate::slow_disk::drop_file_cache;
use crate::ways::Ways;

const LEN: u64 = 256_000_000;
const READS: u64 = 20_000;
/// Time limit for mounts without a cache, or with a slow one.
const WITHIN: Duration = Duration::from_secs(5);
/// All mounts, with and without their caches.
const ALL: [&str; 6] = [
    OURS,
    "mountpoint-s3-cache",
    "mountpoint-s3",
    "geesefs",
    "rclone-full",
    "rclone",
];
/// Mounts with a cache for bytes that were read before.
const CACHES: [&str; 3] = ["mountpoint-s3-cache", "geesefs", "rclone-full"];

pub(super) async fn run(context: &Context, origin: &Origin, report: &mut Report) -> Result<()> {
    let pattern = Pattern { seed: 7, len: LEN };
    context.bucket.put(KEY, pattern.all()).await?;
    let mut ways = Ways::new("reads/s");
    let rounds = context.rounds(3);
    for round in 0..rounds {
        progress(format!("random reads, round {}/{rounds}", round + 1));
        for name in turns(&ALL, round) {
            let Some(mount) = mounted(context, name, origin, report).await? else {
                continue;
            };
            sequence(mount.file(KEY), pattern, DD).await?;
            drop_file_cache()?;
            let rate = at_random(mount.file(KEY), pattern, READS, WITHIN).await?;
            ways.add(name, rate);
        }
    }
    for name in CACHES {
        if let Some(ratio) = ways.ratio(OURS, name) {
            let figure = format!("random 4 KiB reads a second over {name}");
            report.aim(figure, ratio, Target::AtLeast(1.5));
        }
    }
    let title = "random 4 KiB reads of an object that was read before, pages dropped";
    ways.write(report, title);
    Ok(())
}
