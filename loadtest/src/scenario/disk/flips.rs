//! Bit flips and truncations in the cache's files, under a running gateway and between two starts:
//! no answer is wrong, and none fails.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::load::{Habit, Load, ReadResults};
use super::{LONG, Object, fill_running};
use crate::context::{Context, progress};
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::{Home, Settings, StartState};
use crate::progress::Bar;
use crate::random::Random;
use crate::report::terminal::figure;
use crate::report::{Report, Target};

const OBJECTS: u64 = 100;
/// Object sizes in bytes.
const SIZES: (u64, u64) = (10_000, 2_000_000);
/// The number of damages under one process; `BETWEEN` more follow while no process runs.
const RUN: u64 = 40;
const BETWEEN: u64 = 10;
/// One damage in this many is a truncation.
const TRUNCATIONS: u64 = 10;
/// The number of right answers to wait for after each damage under a running gateway.
const ANSWERS: u64 = 10;
const HABIT: Habit = Habit {
    readers: 4,
    ranges: true,
    rest: Duration::ZERO,
};

/// Damages the files of a cache `--count` times.
///
/// # Errors
/// If it could not be carried out.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("disk-flips");
    let mut random = Random::new(context.options.seed ^ 0xf115);
    let objects = objects(context, &mut random).await?;
    // Hardly any memory, so that reads come from the files.
    let settings = Settings {
        memory_mib: 4,
        budget_mib: 64,
        profile: LONG,
        ..Settings::WEB
    };
    let dir = context.new_dir("flips-")?;
    let disk = dir.join("disk");
    let home = Home::new(dir, context.origin(), settings)
        .with_disk(disk.clone(), 1024, 64)
        .patient();
    let (mut all, mut noticed, mut done) = (ReadResults::default(), 0.0, DamageCounts::default());
    let damages = context.count(1000);
    let mut bar = Bar::new("damages", damages);
    while done.sum() < damages {
        let peer = home.start(StartState::Ready).await?;
        report.peer("tidegate", peer.config());
        if done.sum() == 0 {
            fill_running(&home, &peer, &objects).await?;
        }
        let load = Load::start(&peer, &objects, HABIT, random.next_u64());
        for _ in 0..RUN.min(damages - done.sum()) {
            let seen = load.right();
            done.damage(&disk, &mut random)?;
            bar.add(1);
            wait_for_answers(&load, seen).await?;
        }
        all.merge(&load.end().await);
        noticed += faults(&peer).await?;
        drop(peer);
        for _ in 0..BETWEEN.min(damages - done.sum()) {
            done.damage(&disk, &mut random)?;
            bar.add(1);
        }
    }
    drop(bar);
    let (flips, truncations) = (done.flips, done.truncations);
    let title = format!("{flips} bits flipped and {truncations} files truncated");
    let columns = ["right answers", "failed", "wrong", "damaged chunks noticed"];
    let [right, failed, wrong] = [all.right, all.failed, all.wrong].map(|count| count as f64);
    let row = [right, failed, wrong, noticed].map(figure).to_vec();
    report.table(title, &columns, vec![row]);
    report.must("answers with wrong bytes", wrong, Target::AtMost(0.0));
    report.must("failed requests", failed, Target::AtMost(0.0));
    // If none was noticed, the scenario tested nothing.
    let figure = "damaged chunks noticed";
    report.must(figure, noticed, Target::AtLeast(damages as f64 / 100.0));
    Ok(report)
}

async fn objects(context: &Context, random: &mut Random) -> Result<Arc<Vec<Object>>> {
    let objects: Vec<Object> = (0..OBJECTS)
        .map(|n| {
            let (seed, len) = (random.next_u64(), SIZES.0 + random.below(SIZES.1 - SIZES.0));
            (format!("flips/{n:04}"), Pattern { seed, len })
        })
        .collect();
    progress(format!("{OBJECTS} objects"));
    context.bucket.put_all(objects.iter().cloned()).await?;
    Ok(Arc::new(objects))
}

async fn wait_for_answers(load: &Load, seen: u64) -> Result<()> {
    // Five minutes, which is also a client's time limit.
    for _ in 0..30_000 {
        if load.right() >= seen + ANSWERS {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    anyhow::bail!("no {ANSWERS} right answers within five minutes")
}

/// Returns the number of reads without a sound chunk, and of unsound chunks found at a start.
async fn faults(peer: &Peer) -> Result<f64> {
    let faults = peer.metric("tidegate_store_faults_total").await?;
    faults.context("only tidegate tells of faults")
}

/// The damages done so far.
#[derive(Debug, Default)]
struct DamageCounts {
    flips: u64,
    truncations: u64,
}

impl DamageCounts {
    const fn sum(&self) -> u64 {
        self.flips + self.truncations
    }

    /// Flips a bit or truncates a file at a random place; a file's chance grows with its length. The gateway may delete the
    /// drawn file meanwhile: then another one is drawn.
    fn damage(&mut self, disk: &Path, random: &mut Random) -> Result<()> {
        while !self.damage_drawn(disk, random)? {}
        Ok(())
    }

    /// Damages a file unless it is gone; returns whether it was there.
    fn damage_drawn(&mut self, disk: &Path, random: &mut Random) -> Result<bool> {
        let files = files(disk)?;
        let sum: u64 = files.iter().map(|(_, len)| len).sum();
        ensure!(sum > 0, "there is nothing to damage in {}", disk.display());
        let mut at = random.below(sum);
        // One in four hits an index, because indices are small.
        let indices: Vec<_> = files.iter().filter(|(path, _)| is_index(path)).collect();
        let (path, len) = if random.below(4) == 0 && !indices.is_empty() {
            let &&(ref path, len) = random.pick(&indices);
            at = random.below(len);
            (path, len)
        } else {
            let mut found = &files[0];
            for file in &files {
                found = file;
                if at < file.1 {
                    break;
                }
                at -= file.1;
            }
            (&found.0, found.1)
        };
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            opened => opened?,
        };
        if random.below(TRUNCATIONS) == 0 {
            self.truncations += 1;
            file.set_len(at.min(len))?;
            return Ok(true);
        }
        self.flips += 1;
        let mut byte = [0];
        if file.read_at(&mut byte, at)? == 1 {
            file.write_all_at(&[byte[0] ^ (1 << random.below(8))], at)?;
        }
        Ok(true)
    }
}

fn is_index(path: &Path) -> bool {
    path.extension().is_some_and(|name| name == "index")
}

/// Returns the files of chunks and indices that are not empty, by name, with their lengths.
fn files(disk: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut found = vec![];
    for log in std::fs::read_dir(disk)? {
        let log = log?;
        if !log.file_name().to_string_lossy().starts_with("log-") {
            continue;
        }
        for file in std::fs::read_dir(log.path())? {
            let path = file?.path();
            // The gateway may have deleted this segment meanwhile.
            if let Ok(meta) = path.metadata()
                && meta.is_file()
                && meta.len() > 0
            {
                found.push((path, meta.len()));
            }
        }
    }
    found.sort();
    Ok(found)
}
