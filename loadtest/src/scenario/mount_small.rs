//! Many small files: read by `tar` through a new mount, and written through one, timed until the
//! last of them is in the bucket. Every answer waits for 20 ms.

use anyhow::Result;

use crate::context::{Context, progress};
use crate::pattern::Pattern;
use crate::peers::Origin;
use crate::peers::cloud::{self, Cloud};
use crate::peers::mounts::{Access, Mount};
use crate::peers::tidegate::{Home, MountWriteSettings, Settings};
use crate::report::Report;
use crate::slow_disk::drop_file_cache;

mod archive;
mod read;
mod written;

/// The folder that is copied and read.
const FOLDER: &str = "files";
const LEN: u64 = 8 * 1024;
const SPOOL_MIB: u64 = 1024;
const CLOSE: &str = "tidegate, commit = close";
const BACKGROUND: &str = "tidegate, commit = background";
const READING: &str = "tidegate";
const MOUNTPOINT: &str = "mountpoint-s3";
const RCLONE: &str = "rclone-writes";
const GEESEFS: &str = "geesefs";

/// Keys in the bucket and their contents.
type Files = Vec<(String, Pattern)>;

/// Reads and writes `--count` files of 8 KiB.
///
/// # Errors
/// If it could not be carried out, or the bucket or an archive has wrong contents.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("mount-small");
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    let origin = context.origin_behind(cloud.addr());
    let files: Files = (0..context.count(6400))
        .map(|seed| {
            (
                format!("{FOLDER}/{seed:06}.bin"),
                Pattern { seed, len: LEN },
            )
        })
        .collect();
    progress(format!("{} files of 8 KiB", files.len()));
    read::run(context, &origin, &files, &mut report).await?;
    written::run(context, &origin, &files, &mut report).await?;
    Ok(report)
}

/// Returns the ways that the command line allows.
fn asked<'a>(context: &Context, ways: &[&'a str]) -> Vec<&'a str> {
    let part = |way: &&&str| context.takes_part(way.split(',').next().unwrap_or(way));
    ways.iter().filter(part).copied().collect()
}

/// Mounts a peer with nothing cached. If its program is missing, it is left out with a note.
async fn mounted(
    context: &Context,
    way: &str,
    access: Access,
    origin: &Origin,
    report: &mut Report,
) -> Result<Option<Mount>> {
    drop_file_cache()?;
    let dir = context.new_dir("mount-")?;
    let commit = match way {
        CLOSE => Some("close"),
        BACKGROUND => Some("background"),
        READING => None,
        _ => {
            let mount = Mount::other(way, access, &dir, origin)?;
            match &mount {
                Some(mount) => report.peer(way, mount.config()),
                None => report.left_out(way),
            }
            return Ok(mount);
        }
    };
    let mut home = Home::new(dir, origin.clone(), Settings::STREAM);
    home.writing = commit.map(|commit| MountWriteSettings {
        commit,
        spool_mib: SPOOL_MIB,
    });
    let mount = Mount::tidegate(&home).await?;
    report.peer(way, mount.config());
    Ok(Some(mount))
}
