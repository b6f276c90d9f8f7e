//! Kill -9 at random moments under load: no wrong byte afterwards, and what was on disk is found.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::load::{Found, Habit, Load};
use super::{LONG, Object, new_dir};
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::pattern::Pattern;
use crate::peers::tidegate::home::chunks_on_disk;
use crate::peers::tidegate::{Home, Settings, Until};
use crate::progress::Bar;
use crate::random::Random;
use crate::report::terminal::figure;
use crate::report::{Report, Target};

const OBJECTS: u64 = 400;
/// Sizes in bytes: from one chunk to twenty.
const SIZES: (u64, u64) = (100_000, 5_000_000);
/// How long it runs under load before it is killed, in ms.
const RUN_MS: (u64, u64) = (100, 2000);
const HABIT: Habit = Habit {
    readers: 8,
    ranges: true,
    rest: Duration::ZERO,
};

/// Kills a gateway `--count` times.
///
/// # Errors
/// If it could not be carried out.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("disk-kill");
    let mut random = Random::new(context.options.seed ^ 0x6b11);
    let objects = objects(context, &mut random).await?;
    let settings = Settings {
        memory_mib: 16,
        budget_mib: 64,
        profile: LONG,
        ..Settings::WEB
    };
    let dir = new_dir(context, "kill-")?;
    let disk = dir.join("disk");
    let home = Home::new(dir, context.origin(), settings).with_disk(disk, 4096, 64);
    let (mut all, mut least, mut before) = (Found::default(), 1.0_f64, 0.0);
    let kills = context.count(50);
    let mut bar = Bar::new("kills", kills);
    for kill in 0..=kills {
        let peer = home.start(Until::Loaded).await?;
        report.peer("tidegate", peer.config());
        let loaded = chunks_on_disk(&peer).await?;
        if before > 0.0 {
            if loaded < before {
                progress(format!(
                    "   kill {kill}: {loaded:.0} of {before:.0} chunks found"
                ));
            }
            least = least.min(loaded / before);
        }
        if kill == kills {
            all.merge(&verify(&peer, &objects).await);
            break;
        }
        let load = Load::start(&peer, &objects, HABIT, random.next_u64());
        let run = RUN_MS.0 + random.below(RUN_MS.1 - RUN_MS.0 + 1);
        tokio::time::sleep(Duration::from_millis(run)).await;
        // What the index names has been written: a kill takes it from nobody.
        before = chunks_on_disk(&peer).await?;
        // A moment of its own, wherever the writer is by then.
        tokio::time::sleep(Duration::from_micros(random.below(20_000))).await;
        load.forgive();
        peer.kill().context("cannot kill")?;
        all.merge(&load.end().await);
        bar.add(1);
    }
    drop(bar);
    report.table(
        format!("{kills} kills under the load of {} readers", HABIT.readers),
        &[
            "right answers",
            "failed",
            "wrong",
            "least share found again",
            "chunks at the end",
        ],
        vec![
            [
                all.right as f64,
                all.failed as f64,
                all.wrong as f64,
                least,
                before,
            ]
            .map(figure)
            .to_vec(),
        ],
    );
    report.must(
        "answers with wrong bytes",
        all.wrong as f64,
        Target::AtMost(0.0),
    );
    report.must(
        "failed requests while it ran",
        all.failed as f64,
        Target::AtMost(0.0),
    );
    let figure = "least share of the chunks on disk that a start found again";
    report.must(figure, least, Target::AtLeast(0.99));
    report.must(
        "chunks on disk at the last kill",
        before,
        Target::AtLeast(1.0),
    );
    Ok(report)
}

async fn objects(context: &Context, random: &mut Random) -> Result<Arc<Vec<Object>>> {
    let objects: Vec<Object> = (0..OBJECTS)
        .map(|n| {
            let (seed, len) = (random.next_u64(), SIZES.0 + random.below(SIZES.1 - SIZES.0));
            (format!("kill/{n:04}"), Pattern { seed, len })
        })
        .collect();
    progress(format!("{OBJECTS} objects"));
    context.bucket.put_all(objects.iter().cloned()).await?;
    Ok(Arc::new(objects))
}

/// Everything once more, from its first byte to its last.
async fn verify(peer: &crate::peers::Peer, objects: &[Object]) -> Found {
    let mut found = Found::default();
    for (key, pattern) in objects {
        let result = async {
            let mut connection = Connection::open(peer.addr()).await?;
            connection.verify(&peer.path(key), *pattern).await
        };
        match result.await {
            Ok(timing) => {
                found.right += 1;
                found.took.record(timing.total);
            }
            Err(error) if error.to_string().contains("wrong bytes") => found.wrong += 1,
            Err(error) => {
                progress(format!("   {error:#}"));
                found.failed += 1;
            }
        }
    }
    found
}
