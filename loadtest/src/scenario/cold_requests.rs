//! The requests to the origin for a cold object deep in a tree: one GET is needed, and nothing
//! else.

use anyhow::Result;

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::Settings;
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::tally::{RequestCounts, Tally};

const FOLDER: &str = "a/b/c/d/e/f/g/h/i/j";
const LEN: u64 = 35 * 1024;
/// The number of siblings that are read.
const READS: u64 = 20;

/// Puts `--count` siblings into one folder, ten deep, and reads some of them once.
///
/// # Errors
/// If it could not be carried out, or a peer answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("cold-requests");
    let siblings = context.count(10_000).max(READS);
    let object = |n: u64| {
        (
            format!("{FOLDER}/{n:06}.jpg"),
            Pattern { seed: n, len: LEN },
        )
    };
    progress(format!("{siblings} siblings"));
    context.bucket.put_all((0..siblings).map(object)).await?;
    let mut rows = vec![];
    for name in context.peers(&["tidegate", "nginx-slice", "rclone"]) {
        let tally = Tally::start(context.origin().addr).await?;
        let origin = context.origin_behind(tally.addr());
        let settings = Settings::default();
        let Some(peer) = context
            .start_if_there(name, &origin, settings, &mut report)
            .await?
        else {
            continue;
        };
        let mut connection = Connection::open(peer.addr()).await?;
        // The first read may cost more than the next ones: a peer that lists a folder then keeps
        // the list.
        let (mut read, mut hedges) = (vec![], vec![]);
        for n in 0..READS {
            let (key, pattern) = object(n * (siblings / READS));
            let (before, hedged) = (tally.asked(), hedges_of(&peer).await?);
            connection.verify(&peer.path(&key), pattern).await?;
            let hedged = hedges_of(&peer).await? - hedged;
            if hedged > 0 {
                // The second request may arrive after the answer.
                tally.settled().await;
            }
            read.push(tally.asked().since(before));
            hedges.push(hedged);
        }
        let (first, next) = read.split_at(1);
        rows.push(row(format!("{name}, first"), first));
        rows.push(row(format!("{name}, next {}", next.len()), next));
        if name == "tidegate" {
            hold(&mut report, &read, &hedges);
        }
    }
    let title = format!("requests at the origin for a cold object among {siblings} siblings");
    report.table(title, &["peer", "GET", "HEAD", "LIST"], rows);
    Ok(report)
}

const KINDS: [fn(&RequestCounts) -> u64; 3] =
    [|asked| asked.get, |asked| asked.head, |asked| asked.list];

/// Returns a row with the mean number of requests of each kind per read.
fn row(label: String, read: &[RequestCounts]) -> Vec<String> {
    let mean = |kind: fn(&RequestCounts) -> u64| {
        figure(read.iter().map(kind).sum::<u64>() as f64 / read.len() as f64)
    };
    [label].into_iter().chain(KINDS.map(mean)).collect()
}

/// Returns the requests that a gateway has sent once more because the first one was late, as on a busy machine.
async fn hedges_of(peer: &Peer) -> Result<u64> {
    let hedges = peer.metric("tidegate_hedges_total").await?;
    Ok(hedges.unwrap_or_default() as u64)
}

/// Judges the requests of each read, without those that were sent once more.
fn hold(report: &mut Report, read: &[RequestCounts], hedges: &[u64]) {
    let asked = read
        .iter()
        .zip(hedges)
        .map(|(asked, hedges)| RequestCounts {
            get: asked.get.saturating_sub(*hedges),
            ..*asked
        });
    let read: Vec<_> = asked.collect();
    let most = |kind: fn(&RequestCounts) -> u64| {
        read.iter().map(kind).max().map_or(f64::NAN, |n| n as f64)
    };
    for ((kind, name), target) in KINDS
        .iter()
        .zip(["GET", "HEAD", "LIST"])
        .zip([1.0, 0.0, 0.0])
    {
        report.must(
            format!("{name} for a cold object without hedges, most"),
            most(*kind),
            Target::AtMost(target),
        );
    }
}
