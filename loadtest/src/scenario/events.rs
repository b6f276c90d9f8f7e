//! Changes that a gateway is told of, in front of which it keeps everything for an hour: from the answer of a PUT or a DELETE in
//! MinIO until readers and programs at a mount see it, by webhook, by webhook with a queue and by NATS; and from a purge at
//! one gateway of a fleet to fresh reads at all three.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;

use crate::client::{Answer, Connection};
use crate::context::{Context, progress};
use crate::measure::Latency;
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::slow_disk::need_root;

mod fleet;
mod mounted;
mod reported;
mod requested;

use reported::{ReportingStore, Way};

/// The profile of all gateways: nothing but a message makes them ask the bucket.
const PROFILE: &str = "ttl = \"1h\"\nnegative_ttl = \"1h\"\nstale_while_revalidate = \"0s\"\n";
/// The object that changes.
const KEY: &str = "object";
/// The targets' percentile at most, in milliseconds.
const MOST: f64 = 100.0;
/// A change that takes longer was not told of.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The times of one kind of change, and what they are from and to.
type Measured = (&'static str, Latency);

/// Measures `--count` changes of each kind by each way.
///
/// # Errors
/// If it could not be carried out, or a change is not seen at all.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("events");
    let count = context.count(200);
    if let Err(error) = need_root("mounting") {
        report.notes.push(format!("mounts are left out: {error:#}"));
    }
    let mut rows = vec![];
    for way in [Way::Webhook, Way::Nats, Way::Queue] {
        let rounds = way.rounds(count);
        progress(format!("rounds of changes by {}: {rounds}", way.name()));
        for (what, found) in reported(context, (way, rounds), &mut report).await? {
            let what = format!("{what}, {}", way.name());
            rows.push(judge(&mut report, (&what, way.most()), &found));
        }
    }
    progress(format!("{count} purges of a fleet"));
    let found = fleet::measure(context, count, &mut report).await?;
    let what = "purge at one gateway to all of three";
    rows.push(judge(&mut report, (what, MOST), &found));
    let columns = [
        "from a change until it is seen",
        "p50",
        "p90",
        "p99",
        "p100",
    ];
    let title = format!("{count} changes of each kind, fewer with a queue, ms");
    report.table(title, &columns, rows);
    Ok(report)
}

/// Measures changes of all kinds, which a store reports in one way.
async fn reported(
    context: &Context,
    (way, rounds): (Way, u64),
    report: &mut Report,
) -> Result<Vec<Measured>> {
    let store = ReportingStore::start(context, way).await?;
    let name = format!("tidegate, {}", way.name());
    report.peer(&name, store.peer()?.config());
    let mut measured = requested::measure(&store, rounds).await?;
    let mut changes = requested::CHANGES * rounds;
    if let Some(mount) = store.mount() {
        measured.extend(mounted::measure(&store, mount, rounds).await?);
        changes += mounted::CHANGES * rounds;
    }
    store.ensure_reported(changes).await?;
    Ok(measured)
}

/// Adds the figure and its target in milliseconds to the report; returns its row.
fn judge(report: &mut Report, (what, most): (&str, f64), latency: &Latency) -> Vec<String> {
    let found = latency.percentiles();
    report.aim(format!("{what}, p99, ms"), found.p99, Target::AtMost(most));
    let figures = [found.p50, found.p90, found.p99, found.p100].map(figure);
    [what.to_owned()].into_iter().chain(figures).collect()
}

/// Returns the bytes of a change: no two are alike.
fn body(nth: u64) -> Bytes {
    format!("change {nth}").into()
}

/// Reads the object until it has these bytes.
async fn reads(connection: &mut Connection, path: &str, body: &Bytes) -> Result<()> {
    answers(connection, path, |answer| answer.body == *body).await
}

/// Requests a path until the answer is the right one.
async fn answers(
    connection: &mut Connection,
    path: &str,
    is_right: impl Fn(&Answer) -> bool,
) -> Result<()> {
    let since = Instant::now();
    loop {
        let (answer, _) = connection.get(path, &[]).await?;
        if is_right(&answer) {
            return Ok(());
        }
        let status = answer.head.status;
        ensure!(since.elapsed() < TIMEOUT, "{path}: {status} for too long");
    }
}
