//! First reads with a disk tier over those without: the reader must not wait for the disk.

use std::time::Duration;

use anyhow::Result;

use super::{Rounds, STREAM, long_object, room_mib};
use crate::context::{Context, progress};
use crate::peers::cloud::{self, Cloud};
use crate::peers::tidegate::home::chunks_on_disk;
use crate::peers::tidegate::{Home, StartState};
use crate::report::{Report, Target};
use crate::slow_disk::{Limit, Rates, Volume};

const NONE: &str = "no disk";
const ORDINARY: &str = "disk";
const SLOW: &str = "disk held to 10 MB/s";

/// Reads an object of `--count` MB for the first time: with no disk, an ordinary disk, and a slow
/// disk.
///
/// # Errors
/// If it could not be carried out, or tidegate answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("disk-first");
    let limit = Limit::new()?;
    let pattern = long_object(context).await?;
    let mib = room_mib(pattern);
    let volume = Volume::new(context.dir(), mib + mib / 4 + 128)?;
    limit.hold(&volume, Rates::mb(10))?;
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    let origin = context.origin_behind(cloud.addr());

    let (mut ways, mut shares) = (Rounds::default(), vec![]);
    let rounds = context.rounds(3);
    for round in 1..=rounds {
        progress(format!("round {round}/{rounds}"));
        let mut order = [NONE, ORDINARY, SLOW];
        order.rotate_left(round as usize % 3);
        for way in order {
            let dir = context.new_dir("first-")?;
            let home = Home::new(dir.clone(), origin.clone(), STREAM);
            let on_volume = volume.path().join(format!("cache-{round}"));
            let home = match way {
                NONE => home,
                ORDINARY => home.with_disk(dir.join("disk"), mib, 64),
                _ => home.with_disk(on_volume.clone(), mib, 16).within(&limit),
            };
            let peer = home.start(StartState::Ready).await?;
            report.peer(way, peer.config());
            ways.read(way, &peer, pattern).await?;
            if way != NONE {
                tokio::time::sleep(Duration::from_secs(5)).await;
                let share = chunks_on_disk(&peer).await? / home.chunks(pattern.len) as f64;
                progress(format!("   {:.1} % on disk 5 s later", share * 100.0));
                if way == ORDINARY {
                    shares.push(share);
                }
            }
            drop(peer);
            std::fs::remove_dir_all(dir)?;
            if way == SLOW {
                std::fs::remove_dir_all(on_volume)?;
            }
        }
    }
    ways.write(&mut report, "first read through the simulated cloud");
    for way in [ORDINARY, SLOW] {
        let figure = format!("first read, {way}, over no disk");
        report.aim(figure, ways.ratio(way, NONE), Target::AtLeast(0.98));
    }
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let figure = "share of the chunks on disk 5 s after a first read";
    report.aim(figure, least, Target::AtLeast(0.97));
    report.series(ORDINARY, "share on disk after 5 s", &shares);
    Ok(report)
}
