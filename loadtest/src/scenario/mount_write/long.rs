//! One long file, and one of a quarter of its length, to extrapolate to a longer one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;

use super::{OURS, copied, made_ready, mounted, say, timed};
use crate::bucket::parts::Parts;
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::{median, turns};
use crate::pattern::Pattern;
use crate::peers::aws;
use crate::peers::mounts::{Access, Mount};
use crate::peers::{Origin, Peer};
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::ways::Ways;

const KEY: &str = "backup.img";
const BARE: &str = "bare UploadPart, 16 streams of 32 MiB";
const AWS: &str = "aws s3 cp, parts of 32 MiB";
const MOUNTPOINT: &str = "mountpoint-s3";
const OTHERS: [&str; 3] = [BARE, AWS, MOUNTPOINT];
/// The name of each way in `--peers`.
const PEERS: [(&str, &str); 4] = [
    (OURS, "tidegate"),
    (BARE, "direct"),
    (AWS, "aws"),
    (MOUNTPOINT, MOUNTPOINT),
];
const PARTS: Parts = Parts {
    size: 32 << 20,
    streams: 16,
};
/// The length of the extrapolated file, in bytes.
const FAR: f64 = 100e9;
const PIECE: u64 = 16 << 20;

/// The file to copy.
struct Source {
    path: PathBuf,
    pattern: Pattern,
}

/// Returns the gateway's peak memory, in bytes.
pub(super) async fn run(
    context: &Context,
    origin: &Origin,
    len: u64,
    report: &mut Report,
) -> Result<u64> {
    let seed = context.options.seed ^ 0x817e;
    let sources = [
        source(context, "quarter", Pattern { seed, len: len / 4 })?,
        source(context, "whole", Pattern { seed, len })?,
    ];
    let asked = PEERS.iter().filter(|(_, peer)| context.takes_part(peer));
    let all: Vec<&str> = asked.map(|(way, _)| *way).collect();
    let (mut times, mut peak) = ([Ways::new("s"), Ways::new("s")], 0);
    let (mut over_bare, mut over_all) = (vec![], vec![]);
    warm_up(context, &sources[1]).await?;
    let rounds = context.rounds(3);
    for round in 0..rounds {
        say("a long file", round, rounds);
        for (source, ways) in sources.iter().zip(&mut times) {
            let mut took = BTreeMap::new();
            for way in turns(&all, round) {
                made_ready(&source.path).await?;
                let Some((seconds, memory)) = write(context, way, origin, source, report).await?
                else {
                    continue;
                };
                ways.add(way, seconds);
                took.insert(way, seconds);
                peak = peak.max(memory);
                verified(context, source.pattern).await?;
            }
            if source.pattern.len == len {
                over_bare.extend(over_best(&[BARE], &took));
                over_all.extend(over_best(&OTHERS, &took));
            }
        }
    }
    for source in &sources {
        std::fs::remove_file(&source.path)?;
    }
    let mb = len / 1_000_000;
    for (over, what, most) in [
        (over_bare, "the same by bare parts", 0.9),
        (over_all, "the best of the others", 1.05),
    ] {
        if let Some(ratio) = median(&over) {
            let figure = format!("{mb} MB written with cp: time over {what}");
            report.aim(figure, ratio, Target::AtMost(most));
        }
    }
    let [quarter, whole] = &times;
    quarter.write(report, &format!("{} MB written", mb / 4));
    whole.write(report, &format!("{mb} MB written"));
    extrapolate(len as f64, quarter, whole, report);
    Ok(peak)
}

/// Writes the file once before anything is measured. On a virtual machine the first writer pays for
/// memory that the host has yet to provide: the store then took three times as long.
async fn warm_up(context: &Context, source: &Source) -> Result<()> {
    progress("a long file, not measured");
    context.bucket.upload(KEY, &source.path, PARTS).await?;
    verified(context, source.pattern).await
}

/// Returns our time over the shortest of the others in one round.
fn over_best(others: &[&str], took: &BTreeMap<&str, f64>) -> Option<f64> {
    let others = others.iter().filter_map(|way| took.get(way).copied());
    Some(took.get(OURS)? / others.reduce(f64::min)?)
}

fn source(context: &Context, name: &str, pattern: Pattern) -> Result<Source> {
    progress(format!("a file of {} MB", pattern.len / 1_000_000));
    let path = context.dir().join(name);
    let mut file = std::fs::File::create(&path)?;
    let mut at = 0;
    while at < pattern.len {
        let len = PIECE.min(pattern.len - at);
        std::io::Write::write_all(&mut file, &pattern.bytes(at, usize::try_from(len)?))?;
        at += len;
    }
    Ok(Source { path, pattern })
}

/// Writes the file in one way. Returns the seconds, and the peak memory if the way is ours. If its
/// program is missing, returns `None` and adds a note.
async fn write(
    context: &Context,
    way: &str,
    origin: &Origin,
    source: &Source,
    report: &mut Report,
) -> Result<Option<(f64, u64)>> {
    let path = &source.path;
    if way == OURS {
        let mount = mounted(context, origin).await?;
        report.peer(OURS, mount.config());
        let seconds = copied(path, &mount.file(KEY)).await?;
        return Ok(Some((seconds, mount.usage()?.peak_rss)));
    }
    let seconds = match way {
        BARE => {
            let (begun, bucket) = (Instant::now(), context.bucket.behind(origin.addr));
            bucket.upload(KEY, path, PARTS).await?;
            Some(begun.elapsed().as_secs_f64())
        }
        AWS => with_aws(context, origin, path, report).await?,
        _ => with_mountpoint(context, origin, path, report).await?,
    };
    if seconds.is_none() {
        report.left_out(way);
    }
    Ok(seconds.map(|seconds| (seconds, 0)))
}

async fn with_aws(
    context: &Context,
    origin: &Origin,
    path: &Path,
    report: &mut Report,
) -> Result<Option<f64>> {
    let Some(command) = aws::copy(&context.new_dir("mount-")?, origin, path, KEY)? else {
        return Ok(None);
    };
    report.peer(AWS, aws::CONFIG);
    Ok(Some(timed(command).await?))
}

async fn with_mountpoint(
    context: &Context,
    origin: &Origin,
    path: &Path,
    report: &mut Report,
) -> Result<Option<f64>> {
    let dir = context.new_dir("mount-")?;
    let Some(mount) = Mount::other(MOUNTPOINT, Access::Writing, &dir, origin)? else {
        return Ok(None);
    };
    report.peer(MOUNTPOINT, mount.config());
    Ok(Some(copied(path, &mount.file(KEY)).await?))
}

/// Reads the object back from the bucket itself, checks every byte, and deletes it.
async fn verified(context: &Context, pattern: Pattern) -> Result<()> {
    let direct = Peer::direct(&context.origin());
    let mut connection = Connection::open(direct.addr()).await?;
    connection.verify(&direct.path(KEY), pattern).await?;
    context.delete_all(KEY).await
}

/// Extrapolates a straight line through the two measured lengths.
fn extrapolate(len: f64, quarter: &Ways, whole: &Ways, report: &mut Report) {
    let rows = whole.names().filter_map(|way| {
        let seconds = line(len, quarter.median(way)?, whole.median(way)?);
        let cells = [seconds, FAR / 1e6 / seconds].map(figure);
        Some([way.to_owned()].into_iter().chain(cells).collect())
    });
    let title = "100 GB, extrapolated: a straight line through the two lengths above";
    report.table(title, &["way", "s", "MB/s"], rows.collect());
}

/// Returns the seconds for [`FAR`], if a quarter of `len` took `short` and all of it `long`.
fn line(len: f64, short: f64, long: f64) -> f64 {
    (long - short).mul_add((FAR - len) / (len * 0.75), long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_on_as_it_came() {
        // One second to start, then a gigabyte per second.
        assert!((line(8e9, 3.0, 9.0) - 101.0).abs() < 1e-6);
    }

    #[test]
    fn we_are_held_against_the_best_that_took_part() {
        let mut took = BTreeMap::from([(BARE, 4.0), (MOUNTPOINT, 5.0)]);
        assert_eq!(over_best(&OTHERS, &took), None);
        took.insert(OURS, 6.0);
        assert_eq!(over_best(&OTHERS, &took), Some(1.5));
        assert_eq!(over_best(&OTHERS, &BTreeMap::from([(OURS, 6.0)])), None);
    }
}
