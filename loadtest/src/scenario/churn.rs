//! An object that is replaced again and again under readers that retry. No body may mix two
//! versions, and soon after the last change every reader must get the last version.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;

use crate::context::{Context, progress};
use crate::peers::tidegate::Settings;
use crate::report::terminal::figure;
use crate::report::{Report, Target};

pub mod reader;

use reader::{ChurnState, Observations, Reader};

const KEY: &str = "churn.bin";
const READERS: u64 = 32;
/// The least time between two replacements, so that versions expire during a run.
const PACE: Duration = Duration::from_millis(20);
/// Time limit for the readers to get the last version, from the last change on.
const TIMEOUT: Duration = Duration::from_secs(300);
const SETTINGS: Settings = Settings {
    profile: "ttl = \"1s\"\nstale_while_revalidate = \"0s\"\n",
    ..Settings::WEB
};

/// Replaces the object `--count` times, anew for each peer.
///
/// # Errors
/// If it could not be carried out.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("churn");
    let replacements = context.count(1000);
    let mut rows = vec![];
    for name in context.peers(&["tidegate"]) {
        let shared = Arc::new(ChurnState::new(context.options.seed, replacements));
        context.bucket.put(KEY, shared.version(0).all()).await?;
        let origin = context.origin();
        let Some(peer) = context
            .start_if_there(name, &origin, SETTINGS, &mut report)
            .await?
        else {
            continue;
        };
        let mut readers = JoinSet::new();
        for number in 0..READERS {
            let reader = Reader::new(number, peer.addr(), peer.path(KEY), Arc::clone(&shared));
            readers.spawn(reader.read_until_stopped());
        }
        replace(context, &shared, replacements).await?;
        wait_for_all(&shared).await;
        let mut seen = Observations::default();
        while let Some(one) = readers.join_next().await {
            seen.add(one?);
        }
        for complaint in seen.complaints.iter().take(5) {
            progress(format!("{name}: {complaint}"));
        }
        rows.push(row(name, &seen));
        if name == "tidegate" {
            hold(&mut report, &seen);
        }
    }
    let title = format!("an object replaced {replacements} times under {READERS} readers, ttl 1 s");
    let columns = [
        "peer",
        "bodies",
        "versions",
        "wrong",
        "cut off",
        "refused",
        "last after s",
    ];
    report.table(title, &columns, rows);
    Ok(report)
}

async fn replace(context: &Context, shared: &ChurnState, replacements: u64) -> Result<()> {
    for version in 1..=replacements {
        let next = tokio::time::sleep(PACE);
        context
            .bucket
            .put(KEY, shared.version(version).all())
            .await?;
        next.await;
        if version % 100 == 0 {
            progress(format!("{version}/{replacements} replacements"));
        }
    }
    shared.last_change.get_or_init(Instant::now);
    Ok(())
}

/// Waits until each reader has the last version, or the time limit passes; then stops the readers.
async fn wait_for_all(shared: &ChurnState) {
    let since = Instant::now();
    while shared.arrived.load(Ordering::Relaxed) < READERS && since.elapsed() < TIMEOUT {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop(&shared.stop);
}

fn stop(flag: &AtomicBool) {
    flag.store(true, Ordering::Relaxed);
}

fn row(name: &str, seen: &Observations) -> Vec<String> {
    let counts = [
        seen.bodies,
        seen.versions.len() as u64,
        seen.complaints.len() as u64,
        seen.cut_off,
        seen.refused,
    ];
    let last = seen
        .slowest()
        .map_or_else(|| "never".to_owned(), |took| figure(took.as_secs_f64()));
    let cells = counts.iter().map(u64::to_string);
    [name.to_owned()]
        .into_iter()
        .chain(cells)
        .chain([last])
        .collect()
}

fn hold(report: &mut Report, seen: &Observations) {
    report.must(
        "bodies that are no version's",
        seen.complaints.len() as f64,
        Target::AtMost(0.0),
    );
    report.must(
        "bodies read whole",
        seen.bodies as f64,
        Target::AtLeast(READERS as f64),
    );
    let last = seen.slowest().map_or(f64::NAN, |took| took.as_secs_f64());
    let arrived = seen.last_after.len() as f64;
    report.must(
        "readers that saw the last version",
        arrived,
        Target::AtLeast(READERS as f64),
    );
    report.aim(
        "seconds until all had the last version",
        last,
        Target::AtMost(5.0),
    );
}
