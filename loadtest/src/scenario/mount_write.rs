//! Long files written through a mount: `cp` beside bare parts, `aws s3 cp` and mountpoint-s3, and
//! `qemu-img convert` beside `cp` of the same image. Every answer waits for 20 ms; rates are not
//! limited.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::context::{Context, progress};
use crate::peers::Origin;
use crate::peers::cloud::{self, Cloud};
use crate::peers::mounts::Mount;
use crate::peers::tidegate::{Home, MountWriteSettings, Settings};
use crate::report::{Report, Target};

mod image;
mod long;

const OURS: &str = "tidegate, mount";
/// Settings with a spool smaller than the file, so that a full spool is measured too.
const WRITING: MountWriteSettings = MountWriteSettings {
    commit: "close",
    spool_mib: 4096,
};
/// The memory of the process beside cache and budget, in MiB.
const ELSE_MIB: u64 = 64;

/// Writes a file of `--count` MB, and an image of a quarter of it.
///
/// # Errors
/// If it could not be carried out, or the bucket has wrong contents.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("mount-write");
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    let origin = context.origin_behind(cloud.addr());
    let len = context.count(8000) * 1_000_000;
    let mut peak = long::run(context, &origin, len, &mut report).await?;
    if !context.takes_part("tidegate") {
        return Ok(report);
    }
    peak = peak.max(image::run(context, &origin, len / 4, &mut report).await?);
    let mib = Settings::STREAM.memory_mib + Settings::STREAM.budget_mib + ELSE_MIB;
    let figure = format!("peak memory of tidegate, MiB (cache, budget and {ELSE_MIB} MiB)");
    let found = peak as f64 / f64::from(1 << 20);
    report.must(figure, found, Target::AtMost(mib as f64));
    Ok(report)
}

/// Mounts a gateway for writing, with nothing cached.
async fn mounted(context: &Context, origin: &Origin) -> Result<Mount> {
    let home = Home::new(context.new_dir("mount-")?, origin.clone(), Settings::STREAM);
    Mount::tidegate(&home.writing(WRITING)).await
}

/// Flushes earlier writes to disk, and reads the source into memory.
async fn made_ready(source: &Path) -> Result<()> {
    let source = source.to_owned();
    tokio::task::spawn_blocking(move || {
        rustix::fs::sync();
        let mut file = std::fs::File::open(source)?;
        std::io::copy(&mut file, &mut std::io::sink())?;
        Ok(())
    })
    .await?
}

/// Runs a program to its end and returns the seconds.
async fn timed(mut command: Command) -> Result<f64> {
    tokio::task::spawn_blocking(move || {
        let name = command.get_program().display().to_string();
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let begun = std::time::Instant::now();
        let out = command.stderr(Stdio::piped()).output();
        let out = out.with_context(|| format!("cannot start {name}"))?;
        let took = begun.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "{name} failed: {}", said.trim());
        Ok(took)
    })
    .await?
}

async fn copied(from: &Path, to: &Path) -> Result<f64> {
    let mut cp = Command::new("cp");
    cp.arg(from).arg(to);
    timed(cp).await
}

fn say(what: &str, round: u32, rounds: u32) {
    progress(format!("{what}, round {}/{rounds}", round + 1));
}
