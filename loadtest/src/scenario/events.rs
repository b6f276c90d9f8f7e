//! Changes that a gateway is told of, in front of which it keeps every object for an hour: from the answer of a PUT in MinIO
//! to the first fresh read, by webhook and by NATS; and from a purge at one gateway of a fleet to fresh reads at all three.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::Latency;
use crate::report::terminal::figure;
use crate::report::{Report, Target};

mod fleet;
mod reported;

use reported::Way;

/// The profile of all gateways: nothing but a message makes them ask the bucket.
const PROFILE: &str = "ttl = \"1h\"\nnegative_ttl = \"1h\"\nstale_while_revalidate = \"0s\"\n";
/// The object that changes.
const KEY: &str = "object";
/// The targets' percentile at most, in milliseconds.
const MOST: f64 = 100.0;
/// A change that takes longer was not told of.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Measures `--count` changes by each way.
///
/// # Errors
/// If it could not be carried out, or a change is not read at all.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("events");
    let count = context.count(200);
    let mut rows = vec![];
    for way in [Way::Webhook, Way::Nats] {
        progress(format!("{count} PUTs, reported by {}", way.name()));
        let found = reported::measure(context, way, count, &mut report).await?;
        rows.push(judge(
            &mut report,
            &format!("PUT to fresh read, {}", way.name()),
            &found,
        ));
    }
    progress(format!("{count} purges of a fleet"));
    let found = fleet::measure(context, count, &mut report).await?;
    rows.push(judge(
        &mut report,
        "purge at one gateway to all of three",
        &found,
    ));
    let columns = ["from a change to fresh reads", "p50", "p90", "p99", "p100"];
    report.table(format!("{count} changes, ms"), &columns, rows);
    Ok(report)
}

fn judge(report: &mut Report, what: &str, latency: &Latency) -> Vec<String> {
    let found = latency.percentiles();
    report.aim(format!("{what}, p99, ms"), found.p99, Target::AtMost(MOST));
    let figures = [found.p50, found.p90, found.p99, found.p100].map(figure);
    [what.to_owned()].into_iter().chain(figures).collect()
}

/// Returns the bytes of a change: no two are alike.
fn body(nth: u64) -> Bytes {
    format!("change {nth}").into()
}

/// Reads the object until it has these bytes.
async fn reads(connection: &mut Connection, path: &str, body: &Bytes) -> Result<()> {
    let since = Instant::now();
    loop {
        let (answer, _) = connection.get(path, &[]).await?;
        if answer.body == *body {
            return Ok(());
        }
        ensure!(since.elapsed() < TIMEOUT, "{path} is not {body:?} in time");
    }
}
