//! SIGKILL at random moments under load: no wrong byte afterwards, and the chunks on disk are found
//! again. After a SIGKILL some seconds after a read, a start without a bucket serves next to all of the bytes.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::load::{Habit, Load, ReadResults};
use super::{LONG, Object, fill_beside};
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::line::Line;
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::home::{LOOKS, chunks_on_disk, settled};
use crate::peers::tidegate::{Home, Settings, StartState};
use crate::progress::Bar;
use crate::random::Random;
use crate::reading::Reading;
use crate::report::terminal::figure;
use crate::report::{Report, Target};

const OBJECTS: u64 = 400;
/// Object sizes in bytes: from one chunk to twenty.
const SIZES: (u64, u64) = (100_000, 5_000_000);
/// The time under load before a kill, in ms.
const RUN_MS: (u64, u64) = (50, 2500);
/// The most time before one kill in five, which comes without a load, in ms.
const EARLY_MS: u64 = 200;
/// The time between a read and the kill, the objects of each read, and the number of rounds.
const AFTER: Duration = Duration::from_secs(5);
const READ: usize = 14;
const ROUNDS: usize = 5;
const HABIT: Habit = Habit {
    readers: 8,
    ranges: true,
    rest: Duration::ZERO,
};

/// The metrics that tell why chunks were not on disk at the kill, and whether they were found after it.
const BEFORE: [(&str, &str); 3] = [
    ("tidegate_store_inserts_total", "tier=\"disk\""),
    ("tidegate_store_refusals_total", ""),
    ("tidegate_store_queued_bytes", ""),
];
const AGAIN: [(&str, &str); 2] = [
    ("tidegate_store_hits_total", "tier=\"disk\""),
    ("tidegate_store_misses_total", "tier=\"disk\""),
];

/// The results of the kills so far.
#[derive(Debug)]
struct KillResults {
    found: ReadResults,
    /// Chunks that were on disk before the last kill.
    before: f64,
    /// The least share of those that the next start found.
    least: f64,
}

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
    let dir = context.new_dir("kill-")?;
    let disk = dir.join("disk");
    let home = Home::new(dir, context.origin(), settings)
        .with_disk(disk, 4096, 64)
        .patient();
    let mut shown = KillResults {
        found: ReadResults::default(),
        before: 0.0,
        least: 1.0,
    };
    let kills = context.count(50);
    let mut bar = Bar::new("kills", kills);
    for kill in 0..kills {
        if kill % 5 == 4 {
            // While the gateway loads the index, or just after.
            let peer = home.start(StartState::Listening).await?;
            tokio::time::sleep(Duration::from_millis(random.below(EARLY_MS))).await;
            peer.kill().context("cannot kill")?;
        } else {
            shown.kill_under_load(&home, &objects, &mut random).await?;
        }
        bar.add(1);
    }
    drop(bar);
    let peer = shown.start(&home).await?;
    report.peer("tidegate", peer.config());
    shown.found.merge(&verify(&peer, &objects).await);
    drop(peer);
    shown.write(&mut report, kills);
    let dir = context.new_dir("kill-after-")?;
    let disk = dir.join("disk");
    let line = Line::start(context.origin().addr, None).await?;
    let origin = context.origin_behind(line.addr());
    let home = Home::new(dir, origin, settings)
        .with_disk(disk, 4096, 64)
        .patient();
    let mut least = 1.0_f64;
    for objects in objects.chunks(READ).take(ROUNDS) {
        let share = served_again(&home, &line, objects).await?;
        progress(format!(
            "   {:.2} % of the bytes served without a bucket",
            share * 100.0
        ));
        least = least.min(share);
    }
    let figure =
        "least share of the bytes read that are served without a bucket after a kill 5 s later";
    report.must(figure, least, Target::AtLeast(0.99));
    Ok(report)
}

/// Writes down what a gateway tells of `metrics`, each a name and a part of the labels.
async fn told(peer: &Peer, metrics: &[(&str, &str)]) -> Result<String> {
    let mut told = Vec::new();
    for (name, label) in metrics {
        let value = peer.metric_where(name, label).await?;
        told.push(format!("{name} {}", value.unwrap_or_default()));
    }
    Ok(told.join(", "))
}

/// Reads objects for the first time, kills the gateway and cuts the line to the bucket, and reads them again. Returns
/// the share of their bytes that are served then.
///
/// The bucket is gone, not slow: a gateway leaves a disk that is slower than its bucket alone, and on a busy machine the
/// disk is. What the kill lost is all that is measured.
async fn served_again(home: &Home, line: &Line, objects: &[Object]) -> Result<f64> {
    line.mend();
    let peer = home.start(StartState::Loaded).await?;
    // A disk that is behind takes what is read again.
    let others = settled(&peer).await?;
    let share = fill_beside(others, home, &peer, objects).await?;
    ensure!(share >= 1.0, "{share} of the chunks are on disk");
    tokio::time::sleep(AFTER).await;
    let before = told(&peer, &BEFORE).await?;
    peer.kill().context("cannot kill")?;
    line.cut();
    let peer = home.start(StartState::Loaded).await?;
    let (mut served, mut all) = (0, 0);
    for (key, pattern) in objects {
        let path = peer.path(key);
        served += served_of(&peer, &path, *pattern, home.chunk_kib << 10).await?;
        all += pattern.len;
    }
    if served < all {
        let again = told(&peer, &AGAIN).await?;
        progress(format!("   before the kill: {before}; after it: {again}"));
    }
    Ok(served as f64 / all as f64)
}

/// Asks for an object a chunk at a time, and returns the number of bytes that are served.
async fn served_of(peer: &Peer, path: &str, pattern: Pattern, chunk: u64) -> Result<u64> {
    let (mut served, mut open) = (0, None);
    for start in (0..pattern.len).step_by(usize::try_from(chunk)?) {
        let mut connection = match open.take() {
            Some(connection) => connection,
            None => Connection::open(peer.addr()).await?,
        };
        let range = start..pattern.len.min(start + chunk);
        match Reading::part(path, pattern, range)
            .run(&mut connection)
            .await
        {
            Ok(flow) => {
                served += flow.bytes;
                connection.revive().await?;
                open = Some(connection);
            }
            Err(error) if error.to_string().contains("wrong bytes") => return Err(error),
            Err(error) => progress(format!("   {error:#}")),
        }
    }
    Ok(served)
}

impl KillResults {
    /// Starts the gateway, and counts the chunks that it finds.
    async fn start(&mut self, home: &Home) -> Result<Peer> {
        let peer = home.start(StartState::Loaded).await?;
        tokio::time::sleep(LOOKS).await;
        let loaded = chunks_on_disk(&peer).await?;
        if self.before > 0.0 {
            if loaded < self.before {
                progress(format!("   {loaded:.0} of {:.0} chunks found", self.before));
            }
            self.least = self.least.min(loaded / self.before);
        }
        self.before = loaded;
        Ok(peer)
    }

    async fn kill_under_load(
        &mut self,
        home: &Home,
        objects: &Arc<Vec<Object>>,
        random: &mut Random,
    ) -> Result<()> {
        let peer = self.start(home).await?;
        let load = Load::start(&peer, objects, HABIT, random.next_u64());
        let run = RUN_MS.0 + random.below(RUN_MS.1 - RUN_MS.0 + 1);
        tokio::time::sleep(Duration::from_millis(run)).await;
        // Chunks that the index named a second ago are written: a kill does not lose them.
        self.before = chunks_on_disk(&peer).await?.max(self.before);
        // A random moment, at any point of the writer's work.
        tokio::time::sleep(Duration::from_micros(random.below(20_000))).await;
        load.forgive();
        peer.kill().context("cannot kill")?;
        self.found.merge(&load.end().await);
        Ok(())
    }

    fn write(&self, report: &mut Report, kills: u64) {
        let counts = [self.found.right, self.found.failed, self.found.wrong];
        let [right, failed, wrong] = counts.map(|count| count as f64);
        let columns = [
            "right answers",
            "failed",
            "wrong",
            "least share found again",
            "chunks at the end",
        ];
        let row = [right, failed, wrong, self.least, self.before].map(figure);
        let title = format!("{kills} kills under the load of {} readers", HABIT.readers);
        report.table(title, &columns, vec![row.to_vec()]);
        let none = Target::AtMost(0.0);
        report.must("answers with wrong bytes", wrong, none);
        report.must("failed requests while it ran", failed, none);
        let figure = "least share of the chunks on disk that a start found again";
        report.must(figure, self.least, Target::AtLeast(0.99));
        let figure = "chunks on disk at the last start";
        report.must(figure, self.before, Target::AtLeast(1.0));
    }
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

/// Reads every object once more as a whole.
async fn verify(peer: &Peer, objects: &[Object]) -> ReadResults {
    let mut found = ReadResults::default();
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
