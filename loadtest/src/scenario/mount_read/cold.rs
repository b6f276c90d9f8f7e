//! The first read of a long object: over HTTP, through the mount, and through other mounts.

use anyhow::Result;

use super::{KEY, OURS, home, mounted};
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::file::{DD, sequence};
use crate::measure::turns;
use crate::pattern::Pattern;
use crate::peers::Origin;
use crate::peers::tidegate::StartState;
use crate::reading::Reading;
use crate::report::{Report, Target};
use crate::slow_disk::drop_file_cache;
use crate::ways::Ways;

const HTTP: &str = "tidegate, HTTP";
const ALL: [&str; 5] = [HTTP, OURS, "mountpoint-s3", "geesefs", "rclone"];
/// The mount's least rate over each of them.
const TARGETS: [(&str, f64); 4] = [
    (HTTP, 0.97),
    ("mountpoint-s3", 1.4),
    ("geesefs", 1.5),
    ("rclone", 1.5),
];

pub(super) async fn run(
    context: &Context,
    origin: &Origin,
    pattern: Pattern,
    report: &mut Report,
) -> Result<()> {
    let rounds = context.rounds(3);
    let mut ways = Ways::new("MB/s");
    for round in 0..rounds {
        progress(format!("cold, round {}/{rounds}", round + 1));
        for name in turns(&ALL, round) {
            if name == HTTP {
                ways.add(HTTP, over_http(context, origin, pattern).await?);
            } else if let Some(mount) = mounted(context, name, origin, report).await? {
                let flow = sequence(mount.file(KEY), pattern, DD).await?;
                ways.add(name, flow.rate());
            }
        }
    }
    for (name, least) in TARGETS {
        if let Some(ratio) = ways.ratio(OURS, name) {
            let figure = format!("864 MB cold, mount over {name}");
            report.aim(figure, ratio, Target::AtLeast(least));
        }
    }
    ways.write(report, "a long object, cold");
    Ok(())
}

async fn over_http(context: &Context, origin: &Origin, pattern: Pattern) -> Result<f64> {
    drop_file_cache()?;
    let peer = home(context, origin)?.start(StartState::Ready).await?;
    let mut connection = Connection::open(peer.addr()).await?;
    let path = peer.path(KEY);
    let flow = Reading::whole(&path, pattern).run(&mut connection).await?;
    Ok(flow.rate())
}
