//! Many small files written through a mount, timed until the last of them is in the bucket, and read
//! back by `tar` through a mount that knows nothing. Every answer waits for 20 ms.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::turns;
use crate::pattern::Pattern;
use crate::peers::cloud::{self, Cloud};
use crate::peers::mounts::{Access, Mount};
use crate::peers::tidegate::{Home, Settings, Writing};
use crate::peers::{Origin, Peer};
use crate::report::{Report, Target};
use crate::slow_disk::drop_file_cache;
use crate::ways::Ways;

mod archive;

/// The folder that is copied, and read back.
const FOLDER: &str = "files";
const LEN: u64 = 8 * 1024;
const SPOOL_MIB: u64 = 1024;
const CLOSE: &str = "tidegate, commit = close";
const BACKGROUND: &str = "tidegate, commit = background";
const MOUNTPOINT: &str = "mountpoint-s3";
/// Those that hold a close until the file is in the bucket, and those that do not.
const ALL: [&str; 5] = [CLOSE, MOUNTPOINT, BACKGROUND, "rclone-writes", "geesefs"];
/// Who is held against whom.
const WRITTEN: [(&str, &str); 3] = [
    (CLOSE, MOUNTPOINT),
    (BACKGROUND, "rclone-writes"),
    (BACKGROUND, "geesefs"),
];
/// How long may pass before everything is in the bucket, after the last close.
const PATIENCE: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(100);

/// Writes `--count` files of 8 KiB, and reads them back.
///
/// # Errors
/// If it could not be carried out, or what is in the bucket or an archive is not what was written.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("mount-small");
    let files = files(context)?;
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    let origin = context.origin_behind(cloud.addr());
    let (mut closed, mut written) = (Ways::new("s"), Ways::new("s"));
    let mut read = Ways::new("s");
    let part = |way: &&&str| context.takes_part(way.split(',').next().unwrap_or(way));
    let all: Vec<&str> = ALL.iter().filter(part).copied().collect();
    let rounds = context.options.rounds.unwrap_or(3);
    for round in 0..rounds {
        progress(format!("round {}/{rounds}", round + 1));
        for way in turns(&all, round) {
            let Some(mount) = mounted(context, way, Access::Writing, &origin, &mut report).await?
            else {
                continue;
            };
            let begun = Instant::now();
            copy(context, &mount).await?;
            closed.add(&format!("{way}, until the last close"), seconds(begun));
            all_there(context, &files).await?;
            written.add(&format!("{way}, until all are there"), seconds(begun));
            drop(mount);
            verified(context, &files).await?;
            if way != BACKGROUND {
                read.add(way, archived(context, way, &origin, &mut report).await?);
            }
            context.bucket.delete_all("").await?;
        }
    }
    judge(&mut report, &written, &read);
    let count = files.len();
    closed.write(&mut report, &format!("{count} files of 8 KiB closed"));
    let title = format!("{count} files of 8 KiB in the bucket");
    written.write(&mut report, &title);
    let title = format!("{count} files of 8 KiB read back by tar, cold");
    read.write(&mut report, &title);
    Ok(report)
}

fn judge(report: &mut Report, written: &Ways, read: &Ways) {
    for (ours, theirs) in WRITTEN {
        let there = |way| format!("{way}, until all are there");
        if let Some(ratio) = written.ratio(&there(ours), &there(theirs)) {
            let figure = format!("written: time of {ours} over {theirs}");
            report.aim(figure, ratio, Target::AtMost(1.0));
        }
    }
    for theirs in [MOUNTPOINT, "rclone-writes", "geesefs"] {
        if let Some(ratio) = read.ratio(CLOSE, theirs) {
            let figure = format!("read back by tar: time over {theirs}");
            report.aim(figure, ratio, Target::AtMost(1.0));
        }
    }
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// Makes the files; gives their keys in the bucket, and what each holds.
fn files(context: &Context) -> Result<Vec<(String, Pattern)>> {
    let folder = context.dir().join(FOLDER);
    std::fs::create_dir(&folder)?;
    (0..context.count(6400))
        .map(|n| {
            let (name, pattern) = (format!("{n:06}.bin"), Pattern { seed: n, len: LEN });
            std::fs::write(folder.join(&name), pattern.all())?;
            Ok((format!("{FOLDER}/{name}"), pattern))
        })
        .collect()
}

/// A mount with nothing cached; a peer is left out, with a note, where its program is missing.
async fn mounted(
    context: &Context,
    way: &str,
    access: Access,
    origin: &Origin,
    report: &mut Report,
) -> Result<Option<Mount>> {
    drop_file_cache()?;
    let dir = new_dir(context)?;
    let commit = match way {
        CLOSE => "close",
        BACKGROUND => "background",
        _ => {
            let mount = Mount::other(way, access, &dir, origin)?;
            match &mount {
                Some(mount) => report.peer(way, mount.config()),
                None => report
                    .notes
                    .push(format!("{way} left out: it is not installed")),
            }
            return Ok(mount);
        }
    };
    let mut home = Home::new(dir, origin.clone(), Settings::STREAM);
    if access == Access::Writing {
        home = home.writing(Writing {
            commit,
            spool_mib: SPOOL_MIB,
        });
    }
    let mount = Mount::tidegate(&home).await?;
    report.peer(way, mount.config());
    Ok(Some(mount))
}

fn new_dir(context: &Context) -> Result<PathBuf> {
    let dir = tempfile::Builder::new()
        .prefix("mount-")
        .tempdir_in(context.dir())?;
    Ok(dir.keep())
}

async fn copy(context: &Context, mount: &Mount) -> Result<()> {
    let mut cp = Command::new("cp");
    cp.arg("-r").arg(context.dir().join(FOLDER));
    cp.arg(mount.file(FOLDER)).stdin(Stdio::null());
    let status = tokio::task::spawn_blocking(move || cp.status()).await??;
    ensure!(status.success(), "cp failed: {status}");
    Ok(())
}

/// Waits until the bucket, asked with nothing in between, lists all files in their size. Markers of
/// folders are not counted.
async fn all_there(context: &Context, files: &[(String, Pattern)]) -> Result<()> {
    let since = Instant::now();
    loop {
        let listed = context.bucket.list("").await?;
        let whole = listed
            .iter()
            .filter(|(key, len)| !key.ends_with('/') && *len == LEN);
        let whole = whole.count();
        if whole >= files.len() {
            return Ok(());
        }
        if since.elapsed() > PATIENCE {
            bail!("{whole} of {} files are in the bucket", files.len());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Reads every file from the bucket itself.
async fn verified(context: &Context, files: &[(String, Pattern)]) -> Result<()> {
    let direct = Peer::direct(&context.origin());
    let mut connection = Connection::open(direct.addr()).await?;
    for (key, pattern) in files {
        connection.revive().await?;
        connection.verify(&direct.path(key), *pattern).await?;
    }
    Ok(())
}

/// Reads all of them by `tar` through a mount that has nothing; seconds.
async fn archived(
    context: &Context,
    way: &str,
    origin: &Origin,
    report: &mut Report,
) -> Result<f64> {
    let count = context.count(6400);
    let Some(mount) = mounted(context, way, Access::Reading, origin, report).await? else {
        bail!("{way} was there a moment ago");
    };
    let folder = mount.file("");
    let begun = Instant::now();
    let found = tokio::task::spawn_blocking(move || archive::read(&folder, FOLDER)).await??;
    ensure!(found == count, "tar found {found} of {count} files");
    Ok(seconds(begun))
}
