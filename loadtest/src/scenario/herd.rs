//! Many clients at once on one cold 64 MB object: one fetch must serve them all, in bounded memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::late::LateCounts;
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::Settings;
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::tally::Tally;

const KEY: &str = "herd.bin";
const LEN: u64 = 64 << 20;
const MIB: f64 = 1_048_576.0;

const SETTINGS: Settings = Settings {
    memory_mib: 256,
    budget_mib: 128,
    ..Settings::WEB
};

/// Lets `--count` clients request the object from each peer at once.
///
/// # Errors
/// If it could not be carried out.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("herd");
    let pattern = Pattern {
        seed: context.options.seed ^ 0x4e4d,
        len: LEN,
    };
    context.bucket.put(KEY, pattern.all()).await?;
    let clients = usize::try_from(context.count(500))?;
    let mut rows = vec![];
    for name in context.peers(&["tidegate"]) {
        let tally = Tally::start(context.origin().addr).await?;
        let origin = context.origin_behind(tally.addr());
        let Some(peer) = context
            .start_if_there(name, &origin, SETTINGS, &mut report)
            .await?
        else {
            continue;
        };
        let before = tally.asked();
        let (right, took) = all_at_once(&peer, pattern, clients).await?;
        let bytes = tally.asked().since(before).bytes;
        let fetched = bytes as f64 / LEN as f64;
        let peak = peer.usage()?.peak_rss as f64 / MIB;
        let figures = [right as f64, fetched, peak, took.as_secs_f64()];
        rows.push(
            [name.to_owned()]
                .into_iter()
                .chain(figures.map(figure))
                .collect(),
        );
        if name == "tidegate" {
            // A part that a busy machine makes late is asked for once more; that is counted.
            let late = LateCounts::of(peer.admin()).await?;
            let beyond = late.bytes_beyond(bytes) as f64 / LEN as f64;
            hold(&mut report, (clients, right), (fetched, beyond), peak);
            late.aim(&mut report, name);
        }
    }
    let title = format!("{clients} clients at once on a cold object of {LEN} B");
    let columns = [
        "peer",
        "right bodies",
        "fetched / size",
        "peak RSS MiB",
        "seconds",
    ];
    report.table(title, &columns, rows);
    Ok(report)
}

/// Judges the bodies, and the bytes fetched over the object's size: in all, and without those that lateness explains.
fn hold(
    report: &mut Report,
    (clients, right): (usize, usize),
    (fetched, beyond): (f64, f64),
    peak: f64,
) {
    let bound = (SETTINGS.memory_mib + SETTINGS.budget_mib + 64) as f64;
    report.must(
        "right bodies",
        right as f64,
        Target::AtLeast(clients as f64),
    );
    report.must(
        "bytes fetched over object size, without those for lateness",
        beyond,
        Target::AtMost(1.02),
    );
    report.aim("the same in all", fetched, Target::AtMost(1.005));
    let figure = "peak RSS, MiB (cache memory + budget + 64)";
    report.must(figure, peak, Target::AtMost(bound));
}

/// Returns the number of clients that got every byte right, and the time until the last was done.
async fn all_at_once(peer: &Peer, pattern: Pattern, clients: usize) -> Result<(usize, Duration)> {
    let start = Arc::new(Barrier::new(clients));
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let mut connection = Connection::open(peer.addr()).await?;
        let (path, start) = (peer.path(KEY), Arc::clone(&start));
        tasks.spawn(async move {
            start.wait().await;
            connection.verify(&path, pattern).await
        });
    }
    let since = Instant::now();
    let (mut right, mut complaints) = (0, 0);
    while let Some(outcome) = tasks.join_next().await {
        match outcome? {
            Ok(_) => right += 1,
            Err(error) => {
                complaints += 1;
                if complaints <= 5 {
                    progress(format!("{}: {error:#}", peer.name()));
                }
            }
        }
    }
    Ok((right, since.elapsed()))
}
