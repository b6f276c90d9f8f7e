//! Copies: of a large file within the mount, and of a folder onto it, by requests, and once more by rsync.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};

use super::{Desk, LOCAL, OURS};
use crate::context::{Context, progress};
use crate::late::{LateCounts, sends_all};
use crate::measure::turns;
use crate::pattern::Pattern;
use crate::peers::cloud::Cloud;
use crate::report::{Report, Target};
use crate::tally::{RequestCounts, Tally};
use crate::ways::Ways;

const RCLONE: &str = "rclone-writes";
const ALL: [&str; 3] = [OURS, LOCAL, RCLONE];
/// The bytes of the large file for each book of the scan, and the fewest.
const FOR_ONE: u64 = 256_000;
const LEAST: u64 = 16_000_000;

/// The most requests for a folder's attributes: rsync sets them when it makes the folder, and before and behind its files,
/// and each change is sent by itself if the machine takes more than 2 s from one to the next.
const MAX_FOLDER_PUTS: u64 = 3;

/// The folder that is copied: so many files, in so many folders below it.
const FILES: u64 = 50;
const FOLDERS: u64 = 5;
/// The time after which a missing name is looked for again, and its folder listed: `negative_ttl` in seconds, as built in. One
/// folder of each level is in use at a time: the mount's, the copy, and one in it.
const NEGATIVE_TTL: f64 = 5.0;
const LEVELS: u64 = 3;
/// The seconds after which a file with a temporary name is sent although it is to be renamed, and the requests that this costs.
const TEMPORARY_DELAY: f64 = 2.0;
const LATE_RENAME_COST: u64 = 5;
/// The requests to find out that the copy's name is new, besides its LIST.
const SEARCHED: f64 = 1.0;
/// The age of its files: that of a copy shows whether times are kept.
const AGE: Duration = Duration::from_secs(90 * 86_400);

/// The programs that copy a folder onto the mount; each has its own destination. A sync returns once the folders in one
/// are in the bucket, which else wait until they are quiet.
const COPIERS: [(&str, &str); 3] = [
    ("cp -a", "cp -a \"$from\" copied; sync copied ."),
    (
        "tar x",
        "tar -C \"$from\" --format=posix -cf - . | (mkdir taken; tar -C taken -xpf -); sync taken .",
    ),
    ("rsync -a", "rsync -a \"$from/\" synced; sync synced ."),
];

/// Each copy is the same as the source: names, content, modes and times.
const SAME: &str = "
    told() { (cd \"$1\"; find . -type f -printf '%P %m %s %T@\\n' | sort); }
    for copy in copied taken synced; do
        diff -r \"$from\" $copy
        [ \"$(told \"$from\")\" = \"$(told $copy)\" ]
    done";

/// One line for each file that is sent, or whose attributes differ.
const AGAIN: &str = "rsync -ai \"$from/\" synced >told; lines=$(grep -c . told) || true; rm told; [ \"$lines\" = 0 ]";

pub(super) async fn run(
    context: &Context,
    cloud: &Cloud,
    count: u64,
    report: &mut Report,
) -> Result<()> {
    let len = (count * FOR_ONE).max(LEAST);
    for source in [Source::Cold, Source::Warm] {
        large(context, cloud, (source, len), report).await?;
    }
    if context.takes_part(OURS) {
        folder(context, cloud, report).await?;
    }
    Ok(())
}

/// The place of a file that is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// It is in the bucket, and in no cache.
    Cold,
    /// A program has read all of it on this mount.
    Warm,
}

impl Source {
    const fn name(self) -> &'static str {
        match self {
            Self::Cold => "cp big big2",
            Self::Warm => "cp big big2, read before",
        }
    }
}

/// Copies a large file within the mount.
async fn large(
    context: &Context,
    cloud: &Cloud,
    (source, len): (Source, u64),
    report: &mut Report,
) -> Result<()> {
    let name = source.name();
    let pattern = Pattern { seed: 1, len };
    let mut seconds = Ways::new("s");
    let rounds = context.rounds(3);
    for round in 0..rounds {
        progress(format!("{name}, round {}/{rounds}", round + 1));
        for way in turns(&ALL, round) {
            if !context.takes_part(way) {
                continue;
            }
            context.bucket.put("big", pattern.all()).await?;
            let origin = context.origin_behind(cloud.addr());
            let Some(desk) = Desk::start(context, way, &origin, report).await? else {
                continue;
            };
            if way == LOCAL {
                std::fs::write(desk.folder.join("big"), pattern.all())?;
            }
            if source == Source::Warm {
                desk.timed("cat big > /dev/null", &[]).await?;
            }
            seconds.add(way, desk.timed("cp big big2", &[]).await?);
            desk.timed("cmp big big2", &[]).await?;
            drop(desk);
            context.delete_all("").await?;
        }
    }
    if let Some(ratio) = seconds.ratio(OURS, RCLONE) {
        let figure = format!("{name}: time over {RCLONE}");
        report.aim(figure, ratio, Target::AtMost(0.3));
    }
    let title = format!("{name} within a mount, {} MB", len / 1_000_000);
    seconds.write(report, &title);
    Ok(())
}

/// Copies a folder onto the mount, and counts what the bucket is asked.
async fn folder(context: &Context, cloud: &Cloud, report: &mut Report) -> Result<()> {
    progress(format!("{FILES} files onto the mount"));
    let source = context.new_dir("library-")?;
    make(&source)?;
    let from = [("from", source.as_path())];
    let tally = Tally::start(cloud.addr()).await?;
    let origin = context.origin_behind(tally.addr());
    let Some(desk) = Desk::start(context, OURS, &origin, report).await? else {
        return Ok(());
    };
    let admin = desk.admin().context("it is ours")?;
    let title = format!("{FILES} files in {FOLDERS} folders onto the mount: requests");
    let columns = ["program", "PUT", "LIST", "HEAD", "GET", "others"];
    let mut rows = Vec::new();
    for (name, script) in COPIERS {
        let (before, late) = (tally.settled().await, LateCounts::of(Some(admin)).await?);
        let seconds = desk.timed(script, &from).await?;
        sends_all(Some(admin)).await?;
        let asked = tally.settled().await.since(before);
        let late = LateCounts::of(Some(admin)).await?.since(late);
        let others = asked.requests() - asked.put - asked.list - asked.head - asked.get;
        let counts = [asked.put, asked.list, asked.head, asked.get, others];
        let counts = counts.map(|count| count.to_string()).into_iter();
        rows.push([name.to_owned()].into_iter().chain(counts).collect());
        // The folder itself, and its parent.
        let listed = asked.list.min(FOLDERS + 2);
        let beyond = asked.requests().saturating_sub(FILES + listed);
        let figure = format!(
            "{name} of {FILES} files: requests beyond one PUT a file and one LIST a folder"
        );
        report.aim(figure, beyond as f64, Target::AtMost(0.0));
        let figure = format!(
            "{name} of {FILES} files: requests beyond one PUT a file, {MAX_FOLDER_PUTS} PUTs and one LIST a folder, and lateness"
        );
        let lately = explained_by_time(&asked, asked.list - listed, seconds);
        let explained = MAX_FOLDER_PUTS * (FOLDERS + 1) + lately + late.retries;
        let beyond = beyond.saturating_sub(explained);
        report.must(figure, beyond as f64, Target::AtMost(SEARCHED));
        ensure!(asked.put >= FILES, "{name}: {asked:?}");
    }
    report.table(title, &columns, rows);
    let is_same = desk.timed(SAME, &from).await.is_ok();
    report.must(
        "copies that differ in content, mode or time",
        f64::from(u8::from(!is_same)),
        Target::AtMost(0.0),
    );
    let is_quiet = desk.timed(AGAIN, &from).await.is_ok();
    report.must(
        "rsync -a again: files sent, or attributes changed",
        f64::from(u8::from(!is_quiet)),
        Target::AtMost(0.0),
    );
    drop(desk);
    context.delete_all("").await
}

/// Returns how many of the requests of a copy that took so many seconds are explained by that: a folder that is listed again
/// after its time, and a file that is copied on the server because it was renamed after its time. A program copies one file
/// after the other, so that each takes that time of the whole.
fn explained_by_time(asked: &RequestCounts, listed_again: u64, seconds: f64) -> u64 {
    let times = |wait: f64| (seconds / wait) as u64;
    let listed = listed_again.min(LEVELS * times(NEGATIVE_TTL));
    listed + LATE_RENAME_COST * asked.copy.min(times(TEMPORARY_DELAY))
}

/// Makes the folder that is copied; a third of its files are programs.
fn make(folder: &Path) -> Result<()> {
    for seed in 0..FILES {
        let inner = folder.join(format!("{:02}", seed % FOLDERS));
        std::fs::create_dir_all(&inner)?;
        let path = inner.join(format!("{seed}.bin"));
        let len = 1_000 + seed * 3_000;
        std::fs::write(&path, Pattern { seed, len }.all())?;
        let mode = if seed % 3 == 0 { 0o755 } else { 0o640 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
        let file = std::fs::File::options().write(true).open(&path)?;
        file.set_modified(SystemTime::now() - AGE)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_explains_no_more_than_it_took() {
        let copied = |copy| RequestCounts {
            copy,
            ..RequestCounts::default()
        };
        assert_eq!(explained_by_time(&copied(9), 9, 1.9), 0, "a fast machine");
        assert_eq!(
            explained_by_time(&copied(0), 0, 100.0),
            0,
            "nothing more was asked"
        );
        assert_eq!(
            explained_by_time(&copied(9), 9, 5.0),
            LEVELS + 2 * LATE_RENAME_COST
        );
        assert_eq!(
            explained_by_time(&copied(1), 1, 100.0),
            1 + LATE_RENAME_COST
        );
    }
}
