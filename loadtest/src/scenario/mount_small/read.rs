//! The files read by `tar`, each for the first time.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::{FOLDER, Files, GEESEFS, MOUNTPOINT, RCLONE, READING, archive, asked, mounted};
use crate::context::{Context, progress};
use crate::measure::turns;
use crate::peers::Origin;
use crate::peers::mounts::Access;
use crate::report::{Report, Target};
use crate::ways::Ways;

const OTHERS: [&str; 3] = [MOUNTPOINT, RCLONE, GEESEFS];
const ALL: [&str; 4] = [READING, MOUNTPOINT, RCLONE, GEESEFS];

pub(super) async fn run(
    context: &Context,
    origin: &Origin,
    files: &Files,
    report: &mut Report,
) -> Result<()> {
    context.bucket.put_all(files.iter().cloned()).await?;
    let mut ways = Ways::new("s");
    let rounds = context.rounds(3);
    let all = asked(context, &ALL);
    for round in 0..rounds {
        progress(format!("read by tar, round {}/{rounds}", round + 1));
        for way in turns(&all, round) {
            let Some(mount) = mounted(context, way, Access::Reading, origin, report).await? else {
                continue;
            };
            let root = mount.file("");
            let begun = Instant::now();
            let read = tokio::task::spawn_blocking(move || archive::read(&root, FOLDER));
            let found = read.await??;
            ways.add(way, begun.elapsed().as_secs_f64());
            let count = files.len() as u64;
            ensure!(found == count, "tar found {found} of {count} files");
        }
    }
    context.delete_all("").await?;
    for theirs in OTHERS {
        if let Some(ratio) = ways.ratio(READING, theirs) {
            let figure = format!("read by tar: time over {theirs}");
            report.aim(figure, ratio, Target::AtMost(1.0));
        }
    }
    let title = format!("{} files of 8 KiB read by tar, cold", files.len());
    ways.write(report, &title);
    Ok(())
}
