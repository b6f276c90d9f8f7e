//! The files written by `cp -r`, until the last of them is in the bucket.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::{BACKGROUND, CLOSE, FOLDER, Files, GEESEFS, LEN, MOUNTPOINT, RCLONE, asked, mounted};
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::turns;
use crate::peers::mounts::{Access, Mount};
use crate::peers::{Origin, Peer};
use crate::report::{Report, Target};
use crate::ways::Ways;

/// The ways to write. The first two hold a close until the file is in the bucket; the others do
/// not.
const ALL: [&str; 5] = [CLOSE, MOUNTPOINT, BACKGROUND, RCLONE, GEESEFS];
/// The pairs to compare.
const PAIRS: [(&str, &str); 3] = [
    (CLOSE, MOUNTPOINT),
    (BACKGROUND, RCLONE),
    (BACKGROUND, GEESEFS),
];
/// Time limit for all files to be in the bucket, after the last close.
const TIMEOUT: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(100);

pub(super) async fn run(
    context: &Context,
    origin: &Origin,
    files: &Files,
    report: &mut Report,
) -> Result<()> {
    let folder = source(context, files)?;
    let (mut closed, mut there) = (Ways::new("s"), Ways::new("s"));
    let rounds = context.rounds(3);
    let all = asked(context, &ALL);
    for round in 0..rounds {
        progress(format!("written, round {}/{rounds}", round + 1));
        for way in turns(&all, round) {
            let Some(mount) = mounted(context, way, Access::Writing, origin, report).await? else {
                continue;
            };
            let begun = Instant::now();
            copy(&folder, &mount).await?;
            closed.add(way, begun.elapsed().as_secs_f64());
            all_there(context, files).await?;
            there.add(way, begun.elapsed().as_secs_f64());
            drop(mount);
            verified(context, files).await?;
            context.delete_all("").await?;
        }
    }
    for (ours, theirs) in PAIRS {
        if let Some(ratio) = there.ratio(ours, theirs) {
            let figure = format!("written, in the bucket: time of {ours} over {theirs}");
            report.aim(figure, ratio, Target::AtMost(1.0));
        }
    }
    let count = files.len();
    closed.write(report, &format!("{count} files of 8 KiB copied: cp ended"));
    let title = format!("{count} files of 8 KiB copied: all in the bucket");
    there.write(report, &title);
    Ok(())
}

/// Makes a folder that holds the files.
fn source(context: &Context, files: &Files) -> Result<PathBuf> {
    let folder = context.dir().join(FOLDER);
    std::fs::create_dir(&folder)?;
    for (key, pattern) in files {
        std::fs::write(context.dir().join(key), pattern.all())?;
    }
    Ok(folder)
}

async fn copy(folder: &Path, mount: &Mount) -> Result<()> {
    let mut cp = Command::new("cp");
    cp.arg("-r").arg(folder).arg(mount.file(FOLDER));
    cp.stdin(Stdio::null());
    let status = tokio::task::spawn_blocking(move || cp.status()).await??;
    ensure!(status.success(), "cp failed: {status}");
    Ok(())
}

/// Waits until the bucket itself lists all files with their sizes. Markers of folders are not
/// counted.
async fn all_there(context: &Context, files: &Files) -> Result<()> {
    let since = Instant::now();
    loop {
        let listed = context.bucket.list("").await?;
        let whole = |(key, len): &&(String, u64)| !key.ends_with('/') && *len == LEN;
        let whole = listed.iter().filter(whole).count();
        if whole >= files.len() {
            return Ok(());
        }
        if since.elapsed() > TIMEOUT {
            bail!("{whole} of {} files are in the bucket", files.len());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Reads and checks every file in the bucket itself.
async fn verified(context: &Context, files: &Files) -> Result<()> {
    let direct = Peer::direct(&context.origin());
    let mut connection = Connection::open(direct.addr()).await?;
    for (key, pattern) in files {
        connection.revive().await?;
        connection.verify(&direct.path(key), *pattern).await?;
    }
    Ok(())
}
