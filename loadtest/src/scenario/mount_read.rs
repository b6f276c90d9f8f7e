//! A mount read as people read files: in sequence, in small steps, here and there; cold, again, and
//! from the kernel's own pages.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::{median, median_ratio};
use crate::pattern::Pattern;
use crate::pausing::{self, Pausing};
use crate::peers::Origin;
use crate::peers::cloud::{self, Cloud};
use crate::peers::mounts::Mount;
use crate::peers::tidegate::home::settled;
use crate::peers::tidegate::{Home, Settings, Until};
use crate::reading::Reading;
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::slow_disk::drop_file_cache;

mod file;

use file::{DD, Sequence, at_random, sequence};

const KEY: &str = "audiobook.m4b";
const HTTP: &str = "tidegate, HTTP";
const OURS: &str = "tidegate, mount";
const OTHERS: [(&str, f64); 3] = [("mountpoint-s3", 1.1), ("geesefs", 1.5), ("rclone", 1.5)];
/// What is read in small steps.
const SMALL: u64 = 512 * 1024;
/// What is read here and there.
const MEDIUM: u64 = 256_000_000;
const READS: u64 = 20_000;
/// A film in its best quality, copied.
const PACE: f64 = 90e6;
const SETTLED: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_millis(100);

/// Nothing is to be asked of the origin only because time has passed.
const STREAM: Settings = Settings {
    profile: "ttl = \"1h\"\n",
    ..Settings::STREAM
};

/// Reads an object of `--count` MB, and smaller ones.
///
/// # Errors
/// If it could not be carried out, or a mount gives wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("mount-read");
    let pattern = Pattern {
        seed: context.options.seed ^ 0x3047,
        len: context.count(864) * 1_000_000,
    };
    progress(format!("an object of {} MB", pattern.len / 1_000_000));
    context.bucket.put(KEY, pattern.all()).await?;
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    let origin = context.origin_behind(cloud.addr());
    cold(context, &origin, pattern, &mut report).await?;
    small(context, &origin, &mut report).await?;
    again(context, &origin, pattern, &mut report).await?;
    here_and_there(context, &origin, &mut report).await?;
    drop(cloud);
    paced(context, pattern, &mut report).await?;
    Ok(report)
}

/// The first read: over HTTP, through the mount, through others.
async fn cold(
    context: &Context,
    origin: &Origin,
    pattern: Pattern,
    report: &mut Report,
) -> Result<()> {
    let rounds = context.options.rounds.unwrap_or(3);
    let (mut http, mut ours) = (vec![], vec![]);
    let mut others = OTHERS.map(|_| vec![]);
    for round in 1..=rounds {
        progress(format!("cold, round {round}/{rounds}"));
        let home = home(context, origin)?;
        let peer = home.start(Until::Ready).await?;
        let mut connection = Connection::open(peer.addr()).await?;
        let path = peer.path(KEY);
        let flow = Reading::whole(&path, pattern).run(&mut connection).await?;
        add(&mut http, HTTP, flow.rate());
        drop((connection, peer));

        drop_file_cache()?;
        let mount = Mount::tidegate(&self::home(context, origin)?).await?;
        report.peer(OURS, mount.config());
        let flow = sequence(mount.file(KEY), pattern, DD).await?;
        add(&mut ours, OURS, flow.rate());
        drop(mount);
        for ((name, _), rates) in OTHERS.iter().zip(&mut others) {
            let Some(mount) = other(context, name, origin, report)? else {
                continue;
            };
            let flow = sequence(mount.file(KEY), pattern, DD).await?;
            add(rates, name, flow.rate());
        }
    }
    let ratio = median_ratio(&ours, &http).unwrap_or(f64::NAN);
    let figure = "864 MB cold, mount over HTTP";
    report.aim(figure, ratio, Target::AtLeast(0.97));
    for ((name, least), rates) in OTHERS.iter().zip(&others) {
        if let Some(ratio) = median_ratio(&ours, rates) {
            let figure = format!("864 MB cold, mount over {name}");
            report.aim(figure, ratio, Target::AtLeast(*least));
        }
        report.series(name, "cold, MB/s", rates);
    }
    report.series(HTTP, "cold, MB/s", &http);
    report.series(OURS, "cold, MB/s", &ours);
    Ok(())
}

/// 512 KiB in reads of 4 KiB, the first and the second time, without the kernel's pages.
async fn small(context: &Context, origin: &Origin, report: &mut Report) -> Result<()> {
    let objects: Vec<_> = (0..10)
        .map(|seed| (format!("small/{seed:04}"), Pattern { seed, len: SMALL }))
        .collect();
    context.bucket.put_all(objects.clone()).await?;
    let mount = Mount::tidegate(&home(context, origin)?).await?;
    let how = Sequence {
        step: 4096,
        pace: None,
    };
    let mut times = [vec![], vec![]];
    for (pass, times) in ["first", "second"].iter().zip(&mut times) {
        drop_file_cache()?;
        for (key, pattern) in &objects {
            let flow = sequence(mount.file(key), *pattern, how).await?;
            times.push(flow.total.as_secs_f64() * 1e3);
        }
        report.series(
            OURS,
            &format!("512 KiB in steps of 4 KiB, {pass}, ms"),
            times,
        );
    }
    let ratio = median_ratio(&times[0], &times[1]).unwrap_or(f64::NAN);
    let figure = "512 KiB in steps of 4 KiB: first time over second";
    report.aim(figure, ratio, Target::AtLeast(14.0));
    Ok(())
}

/// The second read, from the disk tier after a restart; the third, from the kernel's pages.
async fn again(
    context: &Context,
    origin: &Origin,
    pattern: Pattern,
    report: &mut Report,
) -> Result<()> {
    let home = home(context, origin)?;
    let mib = (pattern.len + pattern.len / 8) / (1 << 20) + 64;
    let disk = home.dir.join("disk");
    let home = home.with_disk(disk, mib, 64);
    let mount = Mount::tidegate(&home).await?;
    sequence(mount.file(KEY), pattern, DD).await?;
    settled(mount.gateway().context("it is ours")?).await?;
    drop(mount);
    let local = context.dir().join("local");
    std::fs::write(&local, pattern.all())?;
    sequence(local.clone(), pattern, DD).await?;
    let (mut second, mut third, mut file) = (vec![], vec![], vec![]);
    for _ in 0..context.options.rounds.unwrap_or(3) {
        drop_file_cache()?;
        let mount = Mount::tidegate(&home).await?;
        let flow = sequence(mount.file(KEY), pattern, DD).await?;
        add(&mut second, "from disk, restarted", flow.rate());
        let flow = sequence(mount.file(KEY), pattern, DD).await?;
        add(&mut third, "from the kernel's pages", flow.rate());
        drop(mount);
        sequence(local.clone(), pattern, DD).await?;
        let flow = sequence(local.clone(), pattern, DD).await?;
        add(&mut file, "local file, from pages", flow.rate());
    }
    std::fs::remove_file(local)?;
    report.series(OURS, "second read, restarted, from disk, MB/s", &second);
    report.series(OURS, "third read, from pages, MB/s", &third);
    report.series("local file", "from pages, MB/s", &file);
    let ratio = median_ratio(&third, &file).unwrap_or(f64::NAN);
    let figure = "third read, from pages, over a local file's";
    report.aim(figure, ratio, Target::AtLeast(0.9));
    Ok(())
}

/// 4 KiB at random places of what is cached, without the kernel's pages.
async fn here_and_there(context: &Context, origin: &Origin, report: &mut Report) -> Result<()> {
    let pattern = Pattern {
        seed: 7,
        len: MEDIUM,
    };
    context.bucket.put(KEY, pattern.all()).await?;
    let mount = Mount::tidegate(&home(context, origin)?).await?;
    let ours = random_reads(&mount, pattern).await?;
    report.series(OURS, "random 4 KiB reads a second", &ours);
    let mut rows = vec![vec![OURS.to_owned(), shown(&ours)]];
    drop(mount);
    // Each with its cache, where it has one.
    for name in ["mountpoint-s3", "geesefs", "rclone-full"] {
        let Some(mount) = other(context, name, origin, report)? else {
            continue;
        };
        let theirs = random_reads_of(&mount, pattern, READS / 20).await?;
        rows.push(vec![name.to_owned(), shown(&theirs)]);
        let ratio = median_ratio(&ours, &theirs).unwrap_or(f64::NAN);
        let figure = format!("random 4 KiB reads a second over {name}");
        report.aim(figure, ratio, Target::AtLeast(1.5));
    }
    let title = "random 4 KiB reads of a cached object, pages dropped";
    report.table(title, &["mount", "reads a second"], rows);
    Ok(())
}

async fn random_reads(mount: &Mount, pattern: Pattern) -> Result<Vec<f64>> {
    random_reads_of(mount, pattern, READS).await
}

async fn random_reads_of(mount: &Mount, pattern: Pattern, reads: u64) -> Result<Vec<f64>> {
    sequence(mount.file(KEY), pattern, DD).await?;
    let mut rates = vec![];
    for _ in 0..3 {
        drop_file_cache()?;
        rates.push(at_random(mount.file(KEY), pattern, reads).await?);
    }
    Ok(rates)
}

/// A reader at 90 MB/s while connections to the origin pause in turn.
async fn paced(context: &Context, pattern: Pattern, report: &mut Report) -> Result<()> {
    context.bucket.put(KEY, pattern.all()).await?;
    let pausing = Pausing::start(context.origin().addr, context.options.seed).await?;
    report.peer("pausing origin", pausing::CONFIG);
    let origin = context.origin_behind(pausing.addr());
    let mount = Mount::tidegate(&home(context, &origin)?).await?;
    let how = Sequence {
        pace: Some(PACE),
        ..DD
    };
    let flow = sequence(mount.file(KEY), pattern, how).await?;
    let gaps = flow.gaps(LONG, SETTLED);
    progress(format!("paced: {:.0} MB/s, {gaps} waits", flow.rate()));
    let figure = "paced at 90 MB/s: waits over 100 ms after the first 3 s";
    report.aim(figure, gaps as f64, Target::AtMost(0.0));
    Ok(())
}

fn home(context: &Context, origin: &Origin) -> Result<Home> {
    Ok(Home::new(dir(context)?, origin.clone(), STREAM))
}

fn dir(context: &Context) -> Result<PathBuf> {
    let dir = tempfile::Builder::new()
        .prefix("mount-")
        .tempdir_in(context.dir())?;
    Ok(dir.keep())
}

/// A peer's mount, left out with a note where its program is missing.
fn other(
    context: &Context,
    name: &str,
    origin: &Origin,
    report: &mut Report,
) -> Result<Option<Mount>> {
    if !context.takes_part(name) {
        return Ok(None);
    }
    drop_file_cache()?;
    let mount = Mount::other(name, &dir(context)?, origin, KEY)?;
    match &mount {
        Some(mount) => report.peer(name, mount.config()),
        None => {
            let note = format!("{name} left out: it is not installed");
            if !report.notes.contains(&note) {
                report.notes.push(note);
            }
        }
    }
    Ok(mount)
}

fn add(rates: &mut Vec<f64>, way: &str, rate: f64) {
    progress(format!("   {way}: {rate:.1} MB/s"));
    rates.push(rate);
}

fn shown(rates: &[f64]) -> String {
    figure(median(rates).unwrap_or(f64::NAN))
}
