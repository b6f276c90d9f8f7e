//! A backup with restic, and its restoration.

use std::path::Path;

use anyhow::Result;

use super::{Desk, LOCAL, OURS};
use crate::context::{Context, progress};
use crate::measure::turns;
use crate::pattern::Pattern;
use crate::peers::cloud::Cloud;
use crate::report::{Report, Target};
use crate::ways::Ways;

const RCLONE: &str = "rclone-writes";
const ALL: [&str; 3] = [OURS, LOCAL, RCLONE];
/// The bytes to back up for each book of the scan.
const FOR_ONE: u64 = 2_000_000;

const BACKUP: &str = "
    export RESTIC_PASSWORD=secret RESTIC_CACHE_DIR=$(mktemp -d) RESTIC_REPOSITORY=$PWD/repository
    restic init -q
    (cd \"$from\"; restic backup -q data)
    (cd \"$to\"; restic restore -q latest --target .)
    rm -r \"$RESTIC_CACHE_DIR\"";

pub(super) async fn run(
    context: &Context,
    cloud: &Cloud,
    count: u64,
    report: &mut Report,
) -> Result<()> {
    let (source, bytes) = (context.new_dir("library-")?, count * FOR_ONE);
    make(&source, bytes)?;
    let mut seconds = Ways::new("s");
    let rounds = context.rounds(2);
    for round in 0..rounds {
        progress(format!(
            "restic, {} MB, round {}/{rounds}",
            bytes / 1_000_000,
            round + 1
        ));
        for way in turns(&ALL, round) {
            if !context.takes_part(way) {
                continue;
            }
            let origin = context.origin_behind(cloud.addr());
            let Some(desk) = Desk::start(context, way, &origin, report).await? else {
                continue;
            };
            let back = context.new_dir("library-")?;
            let took = desk
                .timed(
                    BACKUP,
                    &[("from", source.as_path()), ("to", back.as_path())],
                )
                .await?;
            seconds.add(way, took);
            let compare = "diff -r \"$from/data\" \"$to/data\"; rm -r \"$to/data\" repository";
            desk.timed(
                compare,
                &[("from", source.as_path()), ("to", back.as_path())],
            )
            .await?;
            drop(desk);
            context.delete_all("").await?;
        }
    }
    for (theirs, most) in [(LOCAL, 1.5), (RCLONE, 1.0)] {
        if let Some(ratio) = seconds.ratio(OURS, theirs) {
            let figure = format!("restic backup and restore: time over {theirs}");
            report.aim(figure, ratio, Target::AtMost(most));
        }
    }
    let title = format!("restic backup and restore of {} MB", bytes / 1_000_000);
    seconds.write(report, &title);
    Ok(())
}

/// Makes the folder `data` with files of 5 KB to 8 MB.
fn make(folder: &Path, bytes: u64) -> Result<()> {
    let mut left = bytes;
    for seed in 0_u64.. {
        let len = [8_000_000, 5_000, 900_000, 60_000][(seed % 4) as usize].min(left);
        let folder = folder.join(format!("data/{:02}", seed % 30));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(
            folder.join(format!("{seed}.bin")),
            Pattern { seed, len }.all(),
        )?;
        left -= len;
        if left == 0 {
            break;
        }
    }
    Ok(())
}
