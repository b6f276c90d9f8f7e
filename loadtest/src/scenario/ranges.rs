//! Random ranges over objects of 0 B to 50 MB, with each answer compared with the slice.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::Settings;
use crate::random::{Random, mix};
use crate::report::{Report, Target};

pub mod ask;
pub mod verdict;

use ask::Ask;

const READERS: u64 = 16;
const KIB: u64 = 1024;
/// Object sizes around each boundary: zero, a chunk, a part, the largest.
const SIZES: [u64; 16] = [
    0,
    1,
    2,
    4095,
    35 * KIB,
    256 * KIB - 1,
    256 * KIB,
    256 * KIB + 1,
    512 * KIB,
    1024 * KIB - 1,
    1024 * KIB + 1,
    3_000_000,
    8192 * KIB,
    8192 * KIB + 1,
    20_000_000,
    50_000_000,
];

/// Sends `--count` requests to each peer.
///
/// # Errors
/// If it could not be carried out.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("ranges");
    let count = context.count(100_000);
    let names = context.peers(&["tidegate"]);
    let objects = objects(context.options.seed);
    context.bucket.put_all(objects.iter().cloned()).await?;
    if names.contains(&"nginx") {
        std::fs::create_dir_all(context.files()?.join("ranges"))?;
        for (key, pattern) in &objects {
            std::fs::write(context.files()?.join(key), pattern.all())?;
        }
    }
    let mut rows = vec![];
    for name in names {
        let (origin, settings) = (context.origin(), Settings::default());
        let Some(peer) = context
            .start_if_there(name, &origin, settings, &mut report)
            .await?
        else {
            continue;
        };
        let differ = all_readers(&peer, &objects, count, context.options.seed).await?;
        for complaint in differ.iter().take(10) {
            progress(format!("{name}: {complaint}"));
        }
        rows.push(vec![
            name.to_owned(),
            count.to_string(),
            differ.len().to_string(),
        ]);
        if name == "tidegate" {
            let figure = format!("answers of {count} that differ from the slice");
            report.must(figure, differ.len() as f64, Target::AtMost(0.0));
        }
    }
    report.table(
        "ranges against the slice",
        &["peer", "tried", "differ"],
        rows,
    );
    Ok(report)
}

fn objects(seed: u64) -> Vec<(String, Pattern)> {
    let object = |len: u64| {
        (
            format!("ranges/{len}.bin"),
            Pattern {
                seed: mix(seed ^ len),
                len,
            },
        )
    };
    SIZES.into_iter().map(object).collect()
}

/// Returns the complaints about `count` answers.
async fn all_readers(
    peer: &Peer,
    objects: &[(String, Pattern)],
    count: u64,
    seed: u64,
) -> Result<Vec<String>> {
    let targets: Arc<[(String, Pattern)]> = objects
        .iter()
        .map(|(key, pattern)| (peer.path(key), *pattern))
        .collect();
    let left = Arc::new(AtomicU64::new(count));
    let mut tasks = JoinSet::new();
    for reader in 0..READERS {
        let random = Random::new(mix(seed ^ mix(reader)));
        tasks.spawn(read(
            peer.addr(),
            Arc::clone(&targets),
            Arc::clone(&left),
            random,
        ));
    }
    let mut complaints = vec![];
    while let Some(one) = tasks.join_next().await {
        complaints.extend(one?.with_context(|| peer.name())?);
    }
    peer.usage()?;
    Ok(complaints)
}

async fn read(
    addr: SocketAddr,
    targets: Arc<[(String, Pattern)]>,
    left: Arc<AtomicU64>,
    mut random: Random,
) -> Result<Vec<String>> {
    let mut complaints = vec![];
    let mut connection = Connection::open(addr).await?;
    while take_one(&left) {
        let (path, pattern) = random.pick(&targets);
        let ask = Ask::draw(&mut random, pattern.len);
        let wanted = ask.to_string();
        let outcome = match connection.get(path, &[("range", &wanted)]).await {
            Ok((answer, _)) => verdict::check(&ask, *pattern, &answer),
            Err(error) => {
                connection = Connection::open(addr).await?;
                Err(error)
            }
        };
        if let Err(error) = outcome {
            complaints.push(format!("{path} {wanted}: {error:#}"));
        }
    }
    Ok(complaints)
}

fn take_one(left: &AtomicU64) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        left.checked_sub(1)
    })
    .is_ok()
}
