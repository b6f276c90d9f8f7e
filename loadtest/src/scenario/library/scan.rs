//! The first scan of a library, and one after a restart with the cache disk kept.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use super::books::{self, BookFile};
use super::{LOCAL, OURS, home};
use crate::context::{Context, progress};
use crate::late::LateCounts;
use crate::measure::turns;
use crate::peers::cloud::Cloud;
use crate::peers::mounts::{Access, Mount};
use crate::peers::tidegate::Home;
use crate::peers::{Origin, Peer};
use crate::report::{Report, Target};
use crate::slow_disk::drop_file_cache;
use crate::tally::{RequestCounts, Tally};
use crate::ways::Ways;

/// The mounts, others as users set them for folders.
const ALL: [&str; 4] = [OURS, LOCAL, "rclone-folder", "mountpoint-s3-folder"];
/// The probes at once.
const SCANNERS: usize = 4;
/// The most scans after a restart in a round, until the disk is late in none.
const MAX_SCANS: u64 = 5;

/// The name of the scans after a restart in the table.
const SECOND_SCAN: &str = "after a restart";

/// The figures of all rounds.
struct ScanFigures {
    /// Of the first scans.
    seconds: Ways,
    fetched: Ways,
    /// Of our scan after a restart.
    again: Ways,
    /// The most requests of a scan after a restart, of each kind, without those for lateness.
    most: RequestCounts,
    /// The rounds in which the disk was late in each scan after a restart.
    unjudged: u64,
    /// The requests of the last round.
    rows: Vec<Vec<String>>,
}

pub(super) async fn run(
    context: &Context,
    cloud: &Cloud,
    count: u64,
    report: &mut Report,
) -> Result<()> {
    let files = books::all(count);
    books::put(context, &files).await?;
    let local = context.new_dir("library-")?;
    if context.takes_part(LOCAL) {
        files.iter().try_for_each(|file| file.write(&local))?;
    }
    let mut found = ScanFigures {
        seconds: Ways::new("s"),
        fetched: Ways::new("MB"),
        again: Ways::new("s"),
        most: RequestCounts::default(),
        unjudged: 0,
        rows: vec![],
    };
    let rounds = context.rounds(3);
    for round in 0..rounds {
        found.rows.clear();
        for way in turns(&ALL, round) {
            if context.takes_part(way) {
                progress(format!("scan: {way}, round {}/{rounds}", round + 1));
                let dir = match way {
                    LOCAL => local.clone(),
                    _ => context.new_dir("library-")?,
                };
                scans(
                    context,
                    cloud,
                    (way, dir),
                    &files,
                    (&mut found, &mut *report),
                )
                .await?;
            }
        }
    }
    judge(&found, count, report);
    let cold = format!("scan of {count} books, cold");
    found.seconds.write(report, &cold);
    found
        .fetched
        .write(report, &format!("{cold}: bytes fetched"));
    found
        .again
        .write(report, &format!("scan of {count} books after a restart"));
    let columns = ["way", "scan", "GET", "HEAD", "LIST", "MB"];
    report.table("scan: requests of the last round", &columns, found.rows);
    context.delete_all("books/").await
}

/// Scans once in one way with nothing cached, and ours again after a restart, of which nothing has changed.
async fn scans(
    context: &Context,
    cloud: &Cloud,
    (way, dir): (&'static str, PathBuf),
    files: &[BookFile],
    (found, report): (&mut ScanFigures, &mut Report),
) -> Result<()> {
    let tally = Tally::start(cloud.addr()).await?;
    let origin = context.origin_behind(tally.addr());
    drop_file_cache()?;
    let Some(mount) = mounted(way, &dir, &origin).await? else {
        report.left_out(way);
        return Ok(());
    };
    let root = mount
        .as_ref()
        .map_or_else(|| dir.clone(), |mount| mount.file(""));
    let before = tally.asked();
    found.seconds.add(way, scan(&root, files).await?);
    let asked = tally.settled().await.since(before);
    if let Some(mount) = &mount {
        report.peer(way, mount.config());
        found.fetched.add(way, asked.bytes as f64 / 1e6);
    }
    found.rows.push(row(way, "first", &asked));
    // An orderly end.
    drop(mount);
    if way == OURS {
        scan_again(&home(dir.clone(), &origin), &tally, files, found).await?;
        // The next rounds need the room.
        std::fs::remove_dir_all(dir.join("disk"))?;
    }
    Ok(())
}

/// Scans after a restart. If the disk has not answered in time the gateway leaves it alone for a while, and the scan tells
/// nothing of what is on it: another one follows.
async fn scan_again(
    home: &Home,
    tally: &Tally,
    files: &[BookFile],
    found: &mut ScanFigures,
) -> Result<()> {
    for _ in 0..MAX_SCANS {
        let mount = Mount::tidegate(home).await?;
        let admin = mount.gateway().and_then(Peer::admin);
        let admin = admin.context("it is ours")?;
        let (before, late) = (tally.settled().await, LateCounts::of(Some(admin)).await?);
        let seconds = scan(&mount.file(""), files).await?;
        let asked = tally.settled().await.since(before);
        let late = LateCounts::of(Some(admin)).await?.since(late);
        progress(format!("   again: {} GETs, and {late:?}", asked.get));
        found.rows.push(row(OURS, SECOND_SCAN, &asked));
        found.most.head = found.most.head.max(asked.head);
        found.most.list = found.most.list.max(asked.list);
        if late.disk_reads == 0 {
            found.again.add(OURS, seconds);
            found.most.get = found.most.get.max(late.gets_beyond(asked.get));
            return Ok(());
        }
    }
    found.unjudged += 1;
    Ok(())
}

/// Mounts a peer that reads, or nothing for the local folder. `None`: it is not installed.
async fn mounted(way: &str, dir: &Path, origin: &Origin) -> Result<Option<Option<Mount>>> {
    Ok(match way {
        LOCAL => Some(None),
        OURS => Some(Some(Mount::tidegate(&home(dir.to_owned(), origin)).await?)),
        other => Mount::other(other, Access::Reading, dir, origin)?.map(Some),
    })
}

/// Compares seconds and bytes with those of the other mounts, and judges the requests after a restart.
fn judge(found: &ScanFigures, count: u64, report: &mut Report) {
    for theirs in &ALL[2..] {
        for (ways, what) in [(&found.seconds, "time"), (&found.fetched, "bytes fetched")] {
            if let Some(ratio) = ways.ratio(OURS, theirs) {
                let figure = format!("scan of {count} books, cold: {what} over {theirs}");
                report.aim(figure, ratio, Target::AtMost(1.0));
            }
        }
    }
    let figure = "scans after a restart that were not judged";
    report.aim(figure, found.unjudged as f64, Target::AtMost(0.0));
    if found.unjudged > 0 {
        report.notes.push(format!(
            "scan after a restart: the disk was late in each of {MAX_SCANS} scans of {} rounds, whose GETs are not judged",
            found.unjudged
        ));
    }
    if found.rows.iter().all(|row| row[1] != SECOND_SCAN) {
        return;
    }
    let lists = found.most.list as f64 / books::folders(count) as f64;
    // The name of the library's folder costs a HEAD.
    for (what, most, target) in [
        ("LIST a folder", lists, 1.0),
        (
            "GET, without those for lateness",
            found.most.get as f64,
            0.0,
        ),
        ("HEAD", found.most.head as f64, 1.0),
    ] {
        let figure = format!("scan after a restart, nothing changed: {what}");
        report.must(figure, most, Target::AtMost(target));
    }
}

fn row(way: &str, when: &str, asked: &RequestCounts) -> Vec<String> {
    let counts = [asked.get, asked.head, asked.list];
    let texts = [way.to_owned(), when.to_owned()].into_iter();
    let megabytes = format!("{:.1}", asked.bytes as f64 / 1e6);
    let texts = texts.chain(counts.map(|count| count.to_string()));
    texts.chain([megabytes]).collect()
}

/// Walks through the library, then probes each file. Returns the seconds that it took.
async fn scan(root: &Path, files: &[BookFile]) -> Result<f64> {
    let begun = Instant::now();
    let place = root.join("books");
    let found = tokio::task::spawn_blocking(move || walk(&place)).await??;
    ensure!(
        found == files.len(),
        "{found} of {} files found",
        files.len()
    );
    let scanners: Vec<_> = files
        .chunks(files.len().div_ceil(SCANNERS))
        .map(|share| {
            let (share, root) = (share.to_vec(), root.to_owned());
            tokio::task::spawn_blocking(move || share.iter().try_for_each(|file| file.probe(&root)))
        })
        .collect();
    for scanner in scanners {
        scanner.await??;
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// Returns the number of files below a folder, after a `stat` of each.
fn walk(folder: &Path) -> Result<usize> {
    let mut found = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        found += match std::fs::metadata(&path)?.is_dir() {
            true => walk(&path)?,
            false => 1,
        };
    }
    Ok(found)
}
