//! A folder of small files through a mount, by the programs that walk one: `find`, `ls -lR`, `tar` and
//! `grep -r`, each through a new mount and once more through the same one. Every answer of the bucket
//! waits for 20 ms.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use tokio::task::spawn_blocking;

use crate::context::{Context, progress};
use crate::measure::turns;
use crate::pattern::Pattern;
use crate::peers::Origin;
use crate::peers::cloud::{self, Cloud};
use crate::peers::mounts::{Access, Mount};
use crate::peers::tidegate::{Home, Settings};
use crate::random::Random;
use crate::report::{Report, Target};
use crate::slow_disk::drop_file_cache;
use crate::ways::Ways;

/// File sizes in bytes.
const SIZES: (u64, u64) = (4 << 10, 64 << 10);
/// Folders that the files lie in.
const FOLDERS: u64 = 100;
const OURS: &str = "tidegate";
/// The mounts, others with their caches and with what makes a walk cheap for them.
const ALL: [&str; 4] = [OURS, "mountpoint-s3-folder", "geesefs", "rclone-folder"];

/// A program that walks the folder, as a shell's line in it that prints a number.
struct Program {
    name: &'static str,
    line: &'static str,
    /// The least that it prints if it saw all: files, or bytes.
    counts: Counts,
}

#[derive(Clone, Copy)]
enum Counts {
    Files,
    Bytes,
}

const PROGRAMS: [Program; 4] = [
    Program {
        name: "find",
        line: "find . -type f | wc -l",
        counts: Counts::Files,
    },
    Program {
        name: "ls -lR",
        line: "ls -lR . | grep -c '^-'",
        counts: Counts::Files,
    },
    Program {
        name: "tar",
        line: "tar cf - . | wc -c",
        counts: Counts::Bytes,
    },
    Program {
        name: "grep -r",
        line: "grep -rLF no-such-text-in-any-of-them . | wc -l",
        counts: Counts::Files,
    },
];

/// Walks a folder of `--count` files.
///
/// # Errors
/// If it could not be carried out, or a program does not see all files.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("mount-folder");
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    let origin = context.origin_behind(cloud.addr());
    let mut random = Random::new(context.options.seed ^ 0xf01d);
    let files: Vec<_> = (0..context.count(10_000))
        .map(|seed| {
            let len = SIZES.0 + random.below(SIZES.1 - SIZES.0);
            let key = format!("folder/{:02}/{seed:06}.bin", seed % FOLDERS);
            (key, Pattern { seed, len })
        })
        .collect();
    progress(format!("{} files of 4 to 64 KiB", files.len()));
    context.bucket.put_all(files.clone()).await?;
    let bytes: u64 = files.iter().map(|(_, one)| one.len).sum();
    for program in &PROGRAMS {
        let least = match program.counts {
            Counts::Files => files.len() as u64,
            Counts::Bytes => bytes,
        };
        walk(context, &origin, (program, least), &mut report).await?;
    }
    Ok(report)
}

/// Runs one program through all mounts, and writes its times down.
async fn walk(
    context: &Context,
    origin: &Origin,
    (program, least): (&Program, u64),
    report: &mut Report,
) -> Result<()> {
    let rounds = context.rounds(3);
    let (mut cold, mut warm) = (Ways::new("s"), Ways::new("s"));
    let all = context.peers(&ALL);
    for round in 0..rounds {
        progress(format!("{}, round {}/{rounds}", program.name, round + 1));
        for way in turns(&all, round) {
            let Some(mount) = mounted(context, way, origin, report).await? else {
                continue;
            };
            let folder = mount.file("folder");
            for times in [&mut cold, &mut warm] {
                times.add(way, timed(program, &folder, least).await?);
            }
        }
    }
    for (times, when) in [(cold, "cold"), (warm, "again")] {
        for theirs in &ALL[1..] {
            if let Some(ratio) = times.ratio(OURS, theirs) {
                let figure = format!("{}, {when}: time over {theirs}", program.name);
                report.aim(figure, ratio, Target::AtMost(1.0));
            }
        }
        times.write(report, &format!("{}, {when}", program.name));
    }
    Ok(())
}

/// Returns the seconds that a program takes in a folder.
async fn timed(program: &Program, folder: &Path, least: u64) -> Result<f64> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(program.line).current_dir(folder);
    let begun = Instant::now();
    let ran = spawn_blocking(move || command.stdin(Stdio::null()).output()).await??;
    let took = begun.elapsed().as_secs_f64();
    let told = String::from_utf8_lossy(&ran.stdout);
    let found: u64 = told.trim().parse().context(program.name)?;
    let name = program.name;
    ensure!(found >= least, "{name} found {found} of {least}");
    Ok(took)
}

/// Mounts a peer with nothing cached. If its program is missing, it is left out with a note.
async fn mounted(
    context: &Context,
    way: &str,
    origin: &Origin,
    report: &mut Report,
) -> Result<Option<Mount>> {
    drop_file_cache()?;
    let dir = context.new_dir("mount-")?;
    let mount = match way {
        OURS => Some(Mount::tidegate(&Home::new(dir, origin.clone(), Settings::STREAM)).await?),
        _ => Mount::other(way, Access::Reading, &dir, origin)?,
    };
    match &mount {
        Some(mount) => report.peer(way, mount.config()),
        None => report.left_out(way),
    }
    Ok(mount)
}
