//! A 512 KB object read in steps of 4 KB, as a file system reads. The first read shows the cost of
//! an empty cache, the second the gain of a full one.

use anyhow::{Context as _, Result};

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::median;
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::cloud::{self, Cloud};
use crate::peers::tidegate::Settings;
use crate::reading::by_ranges;
use crate::report::terminal::figure;
use crate::report::{Report, Target};

const LEN: u64 = 512 * 1024;
const STEP: u64 = 4096;

/// Reads `--count` objects twice from each peer, through the simulated cloud.
///
/// # Errors
/// If it could not be carried out, or a peer answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("first-second");
    let objects: Vec<_> = (0..context.count(10))
        .map(|n| (format!("small/{n:04}"), Pattern { seed: n, len: LEN }))
        .collect();
    context.bucket.put_all(objects.clone()).await?;
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    let origin = context.origin_behind(cloud.addr());
    let (mut rows, mut direct) = (vec![], None);
    for name in context.peers(&["direct", "tidegate", "nginx-slice", "rclone", "rclone-full"]) {
        let settings = Settings::WEB;
        let Some(peer) = context
            .start_if_there(name, &origin, settings, &mut report)
            .await?
        else {
            continue;
        };
        progress(name);
        let first = read_all(&peer, &objects).await?;
        let second = read_all(&peer, &objects).await?;
        report.series(name, "first read, MB/s", &first);
        report.series(name, "second read, MB/s", &second);
        let median = |rates: &[f64]| median(rates).context("nothing was read");
        let (first, second) = (median(&first)?, median(&second)?);
        let took = |rate: f64| LEN as f64 / 1e3 / rate;
        let figures = [first, second, took(first), took(second)].map(figure);
        rows.push([name.to_owned()].into_iter().chain(figures).collect());
        match name {
            "direct" => direct = Some(first),
            "tidegate" => {
                if let Some(direct) = direct {
                    let over = "first read over the same reads made directly";
                    report.aim(over, first / direct, Target::AtLeast(1.0));
                }
            }
            _ => {}
        }
    }
    let columns = [
        "peer",
        "first, MB/s",
        "second, MB/s",
        "first, ms",
        "second, ms",
    ];
    report.table(
        "512 KiB in reads of 4 KiB, through the simulated cloud",
        &columns,
        rows,
    );
    report.notes.push(
        "published, EFS without and with FS-Cache, another machine: first 29 MB/s (27 ms), \
         second 402 MB/s (8 ms)"
            .to_owned(),
    );
    Ok(report)
}

/// Returns the rate of each object, in MB/s.
async fn read_all(peer: &Peer, objects: &[(String, Pattern)]) -> Result<Vec<f64>> {
    let mut connection = Connection::open(peer.addr()).await?;
    let mut rates = vec![];
    for (key, pattern) in objects {
        let flow = by_ranges(&mut connection, &peer.path(key), *pattern, STEP).await;
        rates.push(flow.with_context(|| peer.name())?.rate());
    }
    Ok(rates)
}
