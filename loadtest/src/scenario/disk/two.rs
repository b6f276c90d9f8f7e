//! One object on two disks, read nearly twice as fast as from one.

use anyhow::Result;

use super::{Rounds, STREAM, fill, long_object, room_mib};
use crate::context::{Context, progress};
use crate::line::Line;
use crate::peers::tidegate::{Home, StartState};
use crate::report::{Report, Target};
use crate::slow_disk::{Limit, Rates, Volume, drop_file_cache};

const ONE: &str = "one disk held to 100 MB/s";
const TWO: &str = "two disks, each held to 100 MB/s";

/// Reads an object of `--count` MB again after a restart, with the origin cut off.
///
/// # Errors
/// If it could not be carried out, or tidegate answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("disk-two");
    let limit = Limit::new()?;
    let pattern = long_object(context).await?;
    let mib = room_mib(pattern);
    let size = mib + mib / 4 + 128;
    let volumes = [
        Volume::new(context.dir(), size)?,
        Volume::new(context.dir(), size)?,
        Volume::new(context.dir(), size)?,
    ];
    let line = Line::start(context.origin().addr, None).await?;
    let home = || -> Result<Home> {
        let origin = context.origin_behind(line.addr());
        Ok(Home::new(context.new_dir("two-")?, origin, STREAM).within(&limit))
    };
    let one = home()?.with_disk(volumes[0].path().join("cache"), mib, 16);
    let two = home()?
        .with_disk(volumes[1].path().join("cache"), mib, 16)
        .with_disk(volumes[2].path().join("cache"), mib, 16);
    let object = [(super::KEY.to_owned(), pattern)];
    let mut least = f64::INFINITY;
    for home in [&one, &two] {
        least = least.min(fill(home, &object).await?);
    }
    for volume in &volumes {
        limit.hold(volume, Rates::mb(100))?;
    }
    line.cut();

    let mut ways = Rounds::default();
    let rounds = context.rounds(3);
    for round in 1..=rounds {
        progress(format!("round {round}/{rounds}"));
        for (way, home) in [(ONE, &one), (TWO, &two)] {
            drop_file_cache()?;
            let peer = home.start(StartState::Loaded).await?;
            report.peer(way, peer.config());
            ways.read(way, &peer, pattern).await?;
        }
    }
    ways.write(&mut report, "second read, origin cut off");
    let figure = "share of the chunks on disk after filling";
    report.must(figure, least, Target::AtLeast(1.0));
    report.aim("two over one", ways.ratio(TWO, ONE), Target::AtLeast(1.8));
    Ok(report)
}
