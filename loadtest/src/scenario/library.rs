//! A library on a mount: its first scan, a scan after a restart, a renamed folder, copies, a backup, and a project under
//! version control. Beside a local folder and other mounts, over the simulated cloud.
//!
//! The library is 20 GB, of which MinIO's drive holds about 1.2: books are silent but for their ends, and the drive's
//! files are made sparse as soon as they are written.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use tokio::task::spawn_blocking;

use crate::context::Context;
use crate::peers::Origin;
use crate::peers::cloud::{self, Cloud};
use crate::peers::mounts::{Access, Mount};
use crate::peers::tidegate::{Home, MountWriteSettings, Settings};
use crate::report::Report;
use crate::slow_disk::drop_file_cache;

mod backup;
mod books;
mod copies;
mod project;
mod rename;
mod scan;

const OURS: &str = "tidegate";
const LOCAL: &str = "local";
/// The books of a full run.
const BOOKS: u64 = 1000;
const DISK_MIB: u64 = 8192;
const SPOOL_MIB: u64 = 8192;

/// The lines of `config/audiobookshelf-mount.toml` for the library's route.
const SETTINGS: Settings = Settings {
    profile: "read_ahead = \"64MiB\"\nttl = \"1h\"\nstale_while_revalidate = \"24h\"\n",
    ..Settings::STREAM
};

/// Does all of it, with `--count` books, a fifth as many files in the renamed folder, and a thousandth of 2 GB a book.
///
/// # Errors
/// If it could not be carried out, or any byte is wrong.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("library");
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    let count = context.count(BOOKS);
    scan::run(context, &cloud, count, &mut report).await?;
    rename::run(context, &cloud, count, &mut report).await?;
    copies::run(context, &cloud, count, &mut report).await?;
    backup::run(context, &cloud, count, &mut report).await?;
    project::run(context, &cloud, &mut report).await?;
    Ok(report)
}

/// Returns Tidegate with a cache disk, on a writable mount.
fn home(dir: PathBuf, origin: &Origin) -> Home {
    let writing = MountWriteSettings {
        commit: "background",
        spool_mib: SPOOL_MIB,
    };
    let disk = dir.join("disk");
    let home = Home::new(dir, origin.clone(), SETTINGS).writing(writing);
    home.with_disk(disk, DISK_MIB, 1024).patient()
}

/// A folder that programs write to: of a mount, or a local one.
struct Desk {
    folder: PathBuf,
    /// Unmounts when it is dropped.
    mount: Option<Mount>,
}

impl Desk {
    /// Makes a writable folder; `None` if the peer is not installed.
    async fn start(
        context: &Context,
        way: &str,
        origin: &Origin,
        report: &mut Report,
    ) -> Result<Option<Self>> {
        drop_file_cache()?;
        let dir = context.new_dir("library-")?;
        let mount = match way {
            LOCAL => None,
            OURS => Some(Mount::tidegate(&home(dir.clone(), origin)).await?),
            other => {
                let Some(mount) = Mount::other(other, Access::Writing, &dir, origin)? else {
                    report.left_out(other);
                    return Ok(None);
                };
                Some(mount)
            }
        };
        if let Some(mount) = &mount {
            report.peer(way, mount.config());
        }
        let folder = mount.as_ref().map_or(dir, |mount| mount.file(""));
        Ok(Some(Self { folder, mount }))
    }

    /// Returns the admin listener, if it is ours.
    fn admin(&self) -> Option<SocketAddr> {
        self.mount.as_ref()?.gateway()?.admin()
    }

    /// Runs a shell's script in the folder, which must succeed. Returns the seconds that it took.
    async fn timed(&self, script: &str, variables: &[(&str, &Path)]) -> Result<f64> {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(&self.folder);
        command.envs(variables.iter().copied());
        let begun = Instant::now();
        let ran = spawn_blocking(move || command.stdin(Stdio::null()).output()).await?;
        let ran = ran.context("sh")?;
        let said = String::from_utf8_lossy(&ran.stderr);
        ensure!(ran.status.success(), "{script}: {said}");
        Ok(begun.elapsed().as_secs_f64())
    }
}
