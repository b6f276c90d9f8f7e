//! The first scan of a library, and one after a restart.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, ensure};

use super::books::{self, BookFile};
use super::{LOCAL, OURS, home};
use crate::context::{Context, progress};
use crate::peers::Origin;
use crate::peers::cloud::Cloud;
use crate::peers::mounts::{Access, Mount};
use crate::report::{Report, Target};
use crate::slow_disk::drop_file_cache;
use crate::tally::Tally;
use crate::ways::Ways;

/// The mounts, others as users set them for folders.
const ALL: [&str; 4] = [OURS, LOCAL, "rclone-folder", "mountpoint-s3-folder"];
/// The probes at once.
const SCANNERS: usize = 4;

pub(super) async fn run(
    context: &Context,
    cloud: &Cloud,
    count: u64,
    report: &mut Report,
) -> Result<()> {
    let files = books::all(count);
    books::put(context, &files).await?;
    let (mut seconds, mut fetched) = (Ways::new("s"), Ways::new("MB"));
    let mut rows = vec![];
    for way in context
        .peers(&ALL)
        .into_iter()
        .filter(|way| ALL.contains(way))
    {
        progress(format!("scan: {way}"));
        let tally = Tally::start(cloud.addr()).await?;
        drop_file_cache()?;
        let dir = context.new_dir("library-")?;
        let origin = context.origin_behind(tally.addr());
        let Some(mount) = mounted(way, &dir, &origin).await? else {
            report.left_out(way);
            continue;
        };
        let root = mount
            .as_ref()
            .map_or_else(|| dir.clone(), |mount| mount.file(""));
        if mount.is_none() {
            files.iter().try_for_each(|file| file.write(&root))?;
            drop_file_cache()?;
        }
        let before = tally.asked();
        seconds.add(way, scan(&root, &files).await?);
        let asked = tally.settled().await.since(before);
        if let Some(mount) = &mount {
            report.peer(way, mount.config());
            fetched.add(way, asked.bytes as f64 / 1e6);
        }
        rows.push(row(way, "first", &asked));
        if way == OURS {
            drop(mount);
            let again = again(context, cloud, dir, files.len(), report, count).await?;
            rows.push(row(way, "after a restart", &again));
        }
    }
    judge((&seconds, &fetched), count, report);
    seconds.write(report, &format!("scan of {count} books, cold"));
    fetched.write(
        report,
        &format!("scan of {count} books, cold: bytes fetched"),
    );
    let columns = ["way", "scan", "GET", "HEAD", "LIST", "MB"];
    report.table("scan: requests", &columns, rows);
    context.delete_all("books/").await
}

/// Mounts a peer that reads, or nothing for the local folder. `None`: it is not installed.
async fn mounted(way: &str, dir: &Path, origin: &Origin) -> Result<Option<Option<Mount>>> {
    Ok(match way {
        LOCAL => Some(None),
        OURS => Some(Some(Mount::tidegate(&home(dir.to_owned(), origin)).await?)),
        other => Mount::other(other, Access::Reading, dir, origin)?.map(Some),
    })
}

/// Compares seconds and bytes with those of the other mounts.
fn judge((seconds, fetched): (&Ways, &Ways), count: u64, report: &mut Report) {
    for theirs in &ALL[2..] {
        for (ways, what) in [(seconds, "time"), (fetched, "bytes fetched")] {
            if let Some(ratio) = ways.ratio(OURS, theirs) {
                let figure = format!("scan of {count} books, cold: {what} over {theirs}");
                report.aim(figure, ratio, Target::AtMost(1.0));
            }
        }
    }
}

fn row(way: &str, when: &str, asked: &crate::tally::Asked) -> Vec<String> {
    let counts = [asked.get, asked.head, asked.list];
    let texts = [way.to_owned(), when.to_owned()].into_iter();
    let megabytes = format!("{:.1}", asked.bytes as f64 / 1e6);
    let texts = texts.chain(counts.map(|count| count.to_string()));
    texts.chain([megabytes]).collect()
}

/// Restarts the gateway in `dir` and walks through the library, of which nothing has changed: no file is read.
async fn again(
    context: &Context,
    cloud: &Cloud,
    dir: PathBuf,
    files: usize,
    report: &mut Report,
    count: u64,
) -> Result<crate::tally::Asked> {
    let tally = Tally::start(cloud.addr()).await?;
    let mount = Mount::tidegate(&home(dir, &context.origin_behind(tally.addr()))).await?;
    let before = tally.settled().await;
    let begun = Instant::now();
    let root = mount.file("");
    let found = tokio::task::spawn_blocking(move || walk(&root.join("books"))).await??;
    ensure!(found == files, "{found} of {files} files found");
    let took = begun.elapsed().as_secs_f64();
    progress(format!("   after a restart: {took:.2} s"));
    let asked = tally.settled().await.since(before);
    let figure = "scan after a restart, nothing changed: LIST a folder";
    let lists = asked.list as f64 / books::folders(count) as f64;
    report.must(figure, lists, Target::AtMost(1.0));
    // The name of the library's folder costs a HEAD.
    for (what, count, most) in [("GET", asked.get, 0.0), ("HEAD", asked.head, 1.0)] {
        let figure = format!("scan after a restart, nothing changed: {what}");
        report.must(figure, count as f64, Target::AtMost(most));
    }
    Ok(asked)
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
