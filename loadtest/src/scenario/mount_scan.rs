//! A library's scan beside a playback. The scan reads the tags at the beginning of every file of a mount while a player
//! reads a film from the same bucket.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::context::{Context, progress};
use crate::file::{DD, Sequence, sequence};
use crate::pattern::Pattern;
use crate::peers::cloud::{self, Cloud};
use crate::peers::mounts::Mount;
use crate::peers::tidegate::{Home, Settings};
use crate::report::{Report, Target};
use crate::slow_disk::drop_file_cache;

/// The file length: more than comes whole with the request that opens it.
const LEN: u64 = 5 << 18;
/// The bytes read of each file.
const BEGINNING: usize = 64 << 10;
/// The bytes fetched for that: a chunk.
const CHUNK: u64 = 256 << 10;
/// The number of scanners side by side.
const SCANNERS: usize = 4;

const FILM: &str = "film.mkv";
/// The film's pace in bytes per second: 32 Mbit/s.
const PACE: f64 = 4e6;
/// Bytes of the film that take about as long as the scan of one file.
const FILM_FOR_ONE: u64 = 40_000;
/// The least length of the film: ten seconds, however few the files.
const FILM_LEAST: u64 = 40_000_000;
const SETTLED: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_millis(100);

/// Scans `--count` files.
///
/// # Errors
/// If it could not be carried out, or the mount gives wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("mount-scan");
    let count = context.count(10_000);
    let files: Vec<(String, Pattern)> = (0..count)
        .map(|seed| (format!("library/{seed:05}.m4b"), Pattern { seed, len: LEN }))
        .collect();
    progress(format!("{count} files of {} KiB", LEN >> 10));
    context.bucket.put_all(files.iter().cloned()).await?;
    let film = Pattern {
        seed: context.options.seed ^ 0xf11e,
        len: (count * FILM_FOR_ONE).max(FILM_LEAST),
    };
    context.bucket.put(FILM, film.all()).await?;
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    let dir = context.dir().join("mount-scan");
    std::fs::create_dir_all(&dir)?;
    let home = Home::new(dir, context.origin_behind(cloud.addr()), Settings::STREAM);
    drop_file_cache()?;
    let mount = Mount::tidegate(&home).await?;
    report.peer("tidegate", mount.config());

    let watching = tokio::spawn(sequence(
        mount.file(FILM),
        film,
        Sequence {
            pace: Some(PACE),
            ..DD
        },
    ));
    let took = scan_all(&files, &mount).await?;
    let flow = watching.await??;

    let rate = count as f64 / took.as_secs_f64();
    let waits = flow.waits().into_iter();
    let settled = waits.filter(|(at, _)| *at > SETTLED.as_secs_f64());
    let longest = settled.map(|(_, waited)| waited).fold(0.0, f64::max);
    report.notes.push(format!(
        "{count} files scanned in {:.0} s, {rate:.0} in a second; the film took {:.0} s, its longest wait \
         {longest:.0} ms",
        took.as_secs_f64(),
        film.len as f64 / PACE
    ));
    let waits = flow.gaps(LONG, SETTLED) as f64;
    let figure = "playback beside the scan: waits over 100 ms after the first 3 s";
    report.aim(figure, waits, Target::AtMost(0.0));
    let gateway = mount.gateway().context("it is ours")?;
    let fetched = gateway.metric("tidegate_fetched_bytes_total").await?;
    let wanted = (count * CHUNK + film.len) as f64;
    let figure = "bytes fetched over the film and a chunk of each file";
    report.aim(
        figure,
        fetched.unwrap_or(f64::NAN) / wanted,
        Target::AtMost(1.01),
    );
    Ok(report)
}

/// Scans all files with [`SCANNERS`] programs; returns the time that it took.
async fn scan_all(files: &[(String, Pattern)], mount: &Mount) -> Result<Duration> {
    let begun = Instant::now();
    let scanners: Vec<_> = files
        .chunks(files.len().div_ceil(SCANNERS))
        .map(|share| {
            let share: Vec<(PathBuf, Pattern)> = share
                .iter()
                .map(|(key, pattern)| (mount.file(key), *pattern))
                .collect();
            tokio::task::spawn_blocking(move || scan(&share))
        })
        .collect();
    for scanner in scanners {
        scanner.await??;
    }
    Ok(begun.elapsed())
}

/// Reads the beginnings of files, one after the other.
fn scan(files: &[(PathBuf, Pattern)]) -> Result<()> {
    let mut beginning = vec![0; BEGINNING];
    for (path, pattern) in files {
        File::open(path)?.read_exact(&mut beginning)?;
        let right = pattern.matches(0, &beginning);
        ensure!(right, "wrong bytes in {}", path.display());
    }
    Ok(())
}
