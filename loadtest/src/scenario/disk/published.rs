//! The published case: a bucket with 56 MB/s in all, behind a disk of 80 MB/s.

use anyhow::Result;

use super::{Rounds, STREAM, long_object, room_mib};
use crate::context::{Context, progress};
use crate::line::Line;
use crate::peers::tidegate::home::settled;
use crate::peers::tidegate::{Home, StartState};
use crate::report::{Report, Target};
use crate::slow_disk::{Limit, Rates, Volume, drop_file_cache};

const NONE: &str = "first read, no cache";
const FIRST_READ: &str = "first read, disk held to 80 MB/s";
const SECOND: &str = "second read, disk held to 80 MB/s";

/// Reads an object of `--count` MB without a disk, with one, and again after a restart.
///
/// # Errors
/// If it could not be carried out, or tidegate answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("disk-published");
    let limit = Limit::new()?;
    let pattern = long_object(context).await?;
    let mib = room_mib(pattern);
    let volume = Volume::new(context.dir(), mib + mib / 4 + 128)?;
    limit.hold(&volume, Rates::mb(80))?;
    let line = Line::start(context.origin().addr, Some(56.0)).await?;
    report.peer("origin", "MinIO behind a TCP proxy held to 56 MB/s in all");
    let origin = context.origin_behind(line.addr());

    let (mut ways, mut shares) = (Rounds::default(), vec![]);
    let rounds = context.rounds(3);
    for round in 1..=rounds {
        progress(format!("round {round}/{rounds}"));
        let dir = context.new_dir("published-")?;
        let home = Home::new(dir.join("none"), origin.clone(), STREAM);
        let peer = home.start(StartState::Ready).await?;
        ways.read(NONE, &peer, pattern).await?;
        drop(peer);

        let cache = volume.path().join(format!("cache-{round}"));
        let home = Home::new(dir.join("disk"), origin.clone(), STREAM)
            .with_disk(cache.clone(), mib, 16)
            .within(&limit);
        let peer = home.start(StartState::Ready).await?;
        report.peer("tidegate", peer.config());
        ways.read(FIRST_READ, &peer, pattern).await?;
        shares.push(settled(&peer).await? / home.chunks(pattern.len) as f64);
        drop(peer);
        drop_file_cache()?;
        let peer = home.start(StartState::Ready).await?;
        ways.read(SECOND, &peer, pattern).await?;
        drop(peer);
        std::fs::remove_dir_all(cache)?;
        std::fs::remove_dir_all(dir)?;
    }
    ways.write(&mut report, "an origin of 56 MB/s in all");
    report.series("tidegate", "share on disk after the first read", &shares);
    let figure = "first read over no cache";
    report.aim(figure, ways.ratio(FIRST_READ, NONE), Target::AtLeast(0.98));
    let figure = "second read, MB/s";
    report.aim(figure, ways.median(SECOND), Target::AtLeast(96.0));
    Ok(report)
}
