//! An origin that is down when the gateway starts: cached objects are served from the first second.

use std::time::Instant;

use anyhow::Result;

use super::{LONG, Object, fill_running, small_objects};
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::line::Line;
use crate::peers::Peer;
use crate::peers::tidegate::home::wait_for;
use crate::peers::tidegate::{Home, Settings, StartState};
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::slow_disk::drop_file_cache;

/// The largest object, in bytes: several chunks.
const MAX_LEN: u64 = 2_000_000;
/// Caches `--count` objects, and requests all of them after a restart and after a kill.
///
/// # Errors
/// If it could not be carried out.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("disk-down");
    let objects = small_objects(context, context.count(2000), MAX_LEN).await?;
    let line = Line::start(context.origin().addr, None).await?;
    let bytes: u64 = objects.iter().map(|(_, one)| one.len + 4096).sum();
    let settings = Settings {
        memory_mib: 64,
        profile: LONG,
        ..Settings::WEB
    };
    let mib = bytes * 5 / 4 / (1 << 20) + 64;
    let mut rows = vec![];
    for way in ["an orderly stop", "a kill"] {
        line.mend();
        // Nothing is known yet, so that what is found later was written down before this end.
        let dir = context.new_dir("down-")?;
        let disk = dir.join("disk");
        let origin = context.origin_behind(line.addr());
        let home = Home::new(dir, origin, settings)
            .with_disk(disk, mib, 64)
            .patient();
        let peer = home.start(StartState::Ready).await?;
        report.peer("tidegate", peer.config());
        let share = fill_running(&home, &peer, &objects).await?;
        let figure_ = "share of the chunks on disk before it";
        report.must(format!("{figure_} ({way})"), share, Target::AtLeast(1.0));
        if way == "a kill" {
            let waited = has_written_down(&peer, objects.len()).await?;
            report.aim("written down after, s", waited, Target::AtMost(6.0));
            peer.kill()?;
        } else {
            drop(peer);
        }
        line.cut();
        if rustix::process::geteuid().is_root() {
            drop_file_cache()?;
        }
        let since = Instant::now();
        let peer = home.start(StartState::Listening).await?;
        let (failed, first) = read_all(peer.addr(), &objects, since).await;
        let first = first.unwrap_or(f64::NAN);
        progress(format!(
            "   after {way}: {failed} of {} not served",
            objects.len()
        ));
        rows.push([way.to_owned(), figure(failed as f64), figure(first * 1e3)].to_vec());
        let figure = format!("objects not served with the origin down, after {way}");
        report.must(figure, failed as f64, Target::AtMost(0.0));
        let figure = format!("first of them served after a start, s ({way})");
        report.aim(figure, first, Target::AtMost(1.0));
    }
    let columns = ["started after", "objects not served", "first one, ms"];
    report.table(
        format!("{} cached objects, origin down", objects.len()),
        &columns,
        rows,
    );
    Ok(report)
}

/// Waits until the gateway has written down what it knows of each object: soon after it has learned of it, and on a slow
/// disk later. Returns the seconds.
async fn has_written_down(peer: &Peer, objects: usize) -> Result<f64> {
    let (since, all) = (Instant::now(), objects as f64);
    wait_for(peer, "tidegate_meta_writes_total", |written| written >= all).await?;
    Ok(since.elapsed().as_secs_f64())
}

/// Returns the number of objects not served right, and the seconds until the first right one.
async fn read_all(
    addr: std::net::SocketAddr,
    objects: &[Object],
    since: Instant,
) -> (usize, Option<f64>) {
    let (mut failed, mut first) = (0, None);
    let mut connection = None;
    for (key, pattern) in objects {
        let result = async {
            let mut open = match connection.take() {
                Some(open) => open,
                None => Connection::open(addr).await?,
            };
            open.revive().await?;
            open.verify(&format!("/{key}"), *pattern).await?;
            anyhow::Ok(open)
        };
        match result.await {
            Ok(open) => {
                first.get_or_insert_with(|| since.elapsed().as_secs_f64());
                connection = Some(open);
            }
            Err(error) => {
                failed += 1;
                if failed <= 5 {
                    progress(format!("   {error:#}"));
                }
            }
        }
    }
    (failed, first)
}
