//! Many slow clients, each on an object of its own: the bytes that they pin must stay within the
//! budget.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::Settings;
use crate::progress::Bar;
use crate::reading::Reading;
use crate::report::terminal::figure;
use crate::report::{Report, Target};

const LEN: u64 = 2 << 20;
/// Bytes per second: 1 Mbit/s.
const PACE: f64 = 125_000.0;
const MIB: f64 = 1_048_576.0;
const SETTINGS: Settings = Settings {
    memory_mib: 256,
    budget_mib: 256,
    ..Settings::STREAM
};

/// Lets `--count` clients read from each peer at once.
///
/// # Errors
/// If it could not be carried out.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("slow-clients");
    let clients = context.count(2000);
    progress(format!("{clients} objects of {} MiB", LEN >> 20));
    context.bucket.put_all((0..clients).map(object)).await?;
    let mut rows = vec![];
    for name in context.peers(&["tidegate", "nginx-slice"]) {
        let origin = context.origin();
        let Some(peer) = context
            .start_if_there(name, &origin, SETTINGS, &mut report)
            .await?
        else {
            continue;
        };
        let (right, took) = all_at_once(&peer, clients).await?;
        let peak = peer.usage()?.peak_rss as f64 / MIB;
        let figures = [right as f64, peak, took.as_secs_f64()];
        rows.push(
            [name.to_owned()]
                .into_iter()
                .chain(figures.map(figure))
                .collect(),
        );
        if name == "tidegate" {
            report.must(
                "right bodies",
                right as f64,
                Target::AtLeast(clients as f64),
            );
            let bound = (SETTINGS.memory_mib + SETTINGS.budget_mib) as f64;
            let figure = "peak RSS, MiB over cache memory plus budget";
            report.must(figure, peak - bound, Target::AtMost(64.0));
        }
    }
    let title = format!("{clients} clients at 1 Mbit/s, each on an object of its own");
    report.table(
        title,
        &["peer", "right bodies", "peak RSS MiB", "seconds"],
        rows,
    );
    Ok(report)
}

fn object(n: u64) -> (String, Pattern) {
    (format!("slow/{n:05}"), Pattern { seed: n, len: LEN })
}

async fn all_at_once(peer: &Peer, clients: u64) -> Result<(u64, Duration)> {
    let mut tasks = JoinSet::new();
    let since = Instant::now();
    for n in 0..clients {
        let (addr, (key, pattern)) = (peer.addr(), object(n));
        let path = peer.path(&key);
        tasks.spawn(async move {
            let mut connection = Connection::open_thin(addr).await?;
            let mut reading = Reading::whole(&path, pattern);
            reading.pace = Some(PACE);
            reading.run(&mut connection).await
        });
    }
    let (mut right, mut complaints) = (0, 0);
    let mut bar = Bar::new(format!("slow clients of {}", peer.name()), clients);
    while let Some(outcome) = tasks.join_next().await {
        bar.add(1);
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
