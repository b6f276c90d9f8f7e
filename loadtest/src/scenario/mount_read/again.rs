//! Second reads from a cache on disk after a restart, and third reads from the kernel's pages.

use std::path::Path;

use anyhow::{Context as _, Result};

use super::{KEY, OURS, home, mounted};
use crate::context::{Context, progress};
use crate::file::{DD, sequence};
use crate::measure::{median, turns};
use crate::pattern::Pattern;
use crate::peers::Origin;
use crate::peers::mounts::Mount;
use crate::peers::tidegate::Home;
use crate::peers::tidegate::home::settled;
use crate::report::{Report, Target};
use crate::slow_disk::drop_file_cache;
use crate::ways::Ways;

const SECOND: &str = "tidegate, restarted, second read from disk";
const THIRD: &str = "tidegate, third read from the kernel's pages";
const CACHE: &str = "mountpoint-s3-cache";
const THEIRS: &str = "mountpoint-s3 --cache, second read";
const THEIRS_AGAIN: &str = "mountpoint-s3 --cache, third read from the kernel's pages";
const LOCAL: &str = "local file, from the kernel's pages";

/// The number of reads from the kernel's pages in a round.
const PASSES: u32 = 5;
/// The folder of the cache.
const DISK: &str = "disk";

/// The readers of a round; tidegate reads from disk and then from pages.
const TURNS: [&str; 3] = [OURS, CACHE, LOCAL];

pub(super) async fn run(
    context: &Context,
    origin: &Origin,
    pattern: Pattern,
    report: &mut Report,
) -> Result<()> {
    progress("again");
    let home = filled(context, origin, pattern).await?;
    // It empties its cache when it starts: its second read must follow in the same process.
    let other = mounted(context, CACHE, origin, report).await?;
    if let Some(mount) = &other {
        sequence(mount.file(KEY), pattern, DD).await?;
    }
    let local = context.dir().join("local");
    std::fs::write(&local, pattern.all())?;
    let mut ways = Ways::new("MB/s");
    for round in 0..context.rounds(3) {
        for name in turns(&TURNS, round) {
            match (name, &other) {
                (OURS, _) => ours(&home, pattern, &mut ways).await?,
                (LOCAL, _) => {
                    sequence(local.clone(), pattern, DD).await?;
                    ways.add(LOCAL, from_pages(&local, pattern).await?);
                }
                (_, Some(mount)) => {
                    drop_file_cache()?;
                    let flow = sequence(mount.file(KEY), pattern, DD).await?;
                    ways.add(THEIRS, flow.rate());
                    let again = from_pages(&mount.file(KEY), pattern).await?;
                    ways.add(THEIRS_AGAIN, again);
                }
                (_, None) => {}
            }
        }
    }
    std::fs::remove_file(local)?;
    std::fs::remove_dir_all(home.dir.join(DISK))?;
    if let Some(ratio) = ways.ratio(SECOND, THEIRS) {
        let figure = "second read from disk, restarted, over mountpoint-s3 --cache";
        report.aim(figure, ratio, Target::AtLeast(1.0));
    }
    // The kernel's own rate for a mount's pages, independent of the program behind the mount.
    let ratio = ways.ratio(THIRD, LOCAL).unwrap_or(f64::NAN);
    let note = format!("the third read over a local file's: {ratio:.3}");
    report.notes.push(note);
    if let Some(ratio) = ways.ratio(THEIRS_AGAIN, LOCAL) {
        let note = format!("mountpoint-s3's third read over a local file's: {ratio:.3}");
        report.notes.push(note);
    }
    ways.write(report, "a long object, again");
    Ok(())
}

/// Returns a stopped gateway whose disk holds the object.
async fn filled(context: &Context, origin: &Origin, pattern: Pattern) -> Result<Home> {
    let home = home(context, origin)?;
    let mib = (pattern.len + pattern.len / 8) / (1 << 20) + 64;
    let disk = home.dir.join(DISK);
    let home = home.with_disk(disk, mib, 64);
    let mount = Mount::tidegate(&home).await?;
    sequence(mount.file(KEY), pattern, DD).await?;
    settled(mount.gateway().context("it is ours")?).await?;
    Ok(home)
}

async fn ours(home: &Home, pattern: Pattern, ways: &mut Ways) -> Result<()> {
    drop_file_cache()?;
    let mount = Mount::tidegate(home).await?;
    let flow = sequence(mount.file(KEY), pattern, DD).await?;
    ways.add(SECOND, flow.rate());
    ways.add(THIRD, from_pages(&mount.file(KEY), pattern).await?);
    Ok(())
}

/// Returns the rate of a file that has just been read: the median of several reads, as each ends
/// within a quarter of a second.
async fn from_pages(path: &Path, pattern: Pattern) -> Result<f64> {
    let mut rates = vec![];
    for _ in 0..PASSES {
        let flow = sequence(path.to_owned(), pattern, DD).await?;
        rates.push(flow.rate());
    }
    Ok(median(&rates).unwrap_or(f64::NAN))
}
