//! Many small chunks on disk: the time to the first answer and to the whole index, and the memory.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::{LONG, Object, fill_running};
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::ProcessTree;
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::home::chunks_on_disk;
use crate::peers::tidegate::{Home, Settings, StartState};
use crate::reading::Reading;
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::slow_disk::drop_file_cache;

/// The smallest chunk size, in bytes and in KiB.
const CHUNK: u64 = 4096;
const CHUNK_KIB: u64 = 4;
/// Chunks of one object.
const OF_OBJECT: u64 = 1000;
/// The time for a started process to calm down before its memory is read.
const CALM: Duration = Duration::from_secs(2);

/// The figures of one start.
#[derive(Debug, Clone, Copy)]
struct Start {
    answer: Duration,
    loaded: Duration,
    chunks: f64,
    resident: u64,
}

/// Starts with `--count` chunks on disk: after an orderly stop, and after a kill.
///
/// # Errors
/// If it could not be carried out, or tidegate answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("disk-start");
    let objects = objects(context).await?;
    let chunks = objects.len() as u64 * OF_OBJECT;
    let settings = Settings {
        memory_mib: 64,
        budget_mib: 256,
        profile: LONG,
        ..Settings::STREAM
    };
    let mib = chunks * CHUNK * 3 / 2 / (1 << 20) + 64;
    let home = |name: &str| -> Result<Home> {
        let dir = context.new_dir(name)?;
        let disk = dir.join("disk");
        let mut home = Home::new(dir, context.origin(), settings).with_disk(disk, mib, 64);
        home.chunk_kib = CHUNK_KIB;
        Ok(home)
    };
    let (full, empty) = (home("full-")?, home("empty-")?);
    let peer = full.start(StartState::Ready).await?;
    report.peer("tidegate", peer.config());
    fill_running(&full, &peer, &objects).await?;
    let filled = chunks_on_disk(&peer).await?;
    drop(peer);

    let nothing = start(&empty, &objects[0]).await?.1;
    let (peer, orderly) = start(&full, &objects[0]).await?;
    peer.kill()?;
    let (peer, killed) = start(&full, &objects[0]).await?;
    drop(peer);

    let wanted = filled / chunks as f64;
    let figure = "chunks on disk over those wanted";
    report.must(figure, wanted, Target::AtLeast(0.99));
    write(&mut report, filled, nothing, orderly, killed);
    Ok(report)
}

fn write(report: &mut Report, filled: f64, nothing: Start, orderly: Start, killed: Start) {
    let rows = [
        ("empty", nothing),
        ("after an orderly stop", orderly),
        ("after a kill", killed),
    ];
    let row = |(name, start): &(&str, Start)| {
        let figures = [
            start.answer.as_secs_f64() * 1e3,
            start.loaded.as_secs_f64() * 1e3,
            start.chunks,
            start.resident as f64 / 1e6,
        ];
        let name = [(*name).to_owned()].into_iter();
        name.chain(figures.map(figure)).collect()
    };
    let title = format!("starts with {filled:.0} chunks of 4 KiB on disk, file cache empty");
    let columns = [
        "start",
        "first answer, ms",
        "index complete, ms",
        "chunks",
        "resident, MB",
    ];
    report.table(title, &columns, rows.iter().map(row).collect());
    let found = orderly.chunks.min(killed.chunks) / filled;
    let figure = "chunks found again at a start";
    report.must(figure, found, Target::AtLeast(0.99));
    let answer = orderly.answer.max(killed.answer).as_secs_f64();
    report.aim("first answer after start, s", answer, Target::AtMost(1.0));
    let loaded = orderly.loaded.max(killed.loaded).as_secs_f64();
    let figure = "index complete after start, s";
    report.aim(figure, loaded, Target::AtMost(2.0));
    let resident = orderly.resident.max(killed.resident);
    let more = resident.saturating_sub(nothing.resident) as f64;
    let figure = "memory of the index, bytes a chunk";
    report.aim(figure, more / filled, Target::AtMost(112.0));
}

async fn objects(context: &Context) -> Result<Vec<Object>> {
    let count = context.count(1_000_000).div_ceil(OF_OBJECT);
    let pattern = |seed| Pattern {
        seed,
        len: OF_OBJECT * CHUNK,
    };
    let objects: Vec<Object> = (0..count)
        .map(|n| (format!("start/{n:05}"), pattern(n)))
        .collect();
    progress(format!("{count} objects of {OF_OBJECT} chunks"));
    context.bucket.put_all(objects.iter().cloned()).await?;
    Ok(objects)
}

/// Starts a gateway, requests a chunk of a known object at once, and waits until the index is
/// loaded.
async fn start(home: &Home, object: &Object) -> Result<(Peer, Start)> {
    drop_file_cache()?;
    let since = Instant::now();
    let peer = home.start(StartState::Listening).await?;
    let path = peer.path(&object.0);
    let mut connection = Connection::open(peer.addr()).await?;
    let reading = Reading::part(&path, object.1, 0..CHUNK);
    reading.run(&mut connection).await?;
    let answer = since.elapsed();
    home.wait_until_loaded(&peer).await?;
    let loaded = since.elapsed();
    tokio::time::sleep(CALM).await;
    let chunks = chunks_on_disk(&peer).await?;
    progress(format!(
        "   first answer after {answer:.0?}, {chunks:.0} chunks after {loaded:.0?}"
    ));
    let pid = peer.pid().context("no process")?;
    let resident = ProcessTree::new(pid).resident()?;
    let start = Start {
        answer,
        loaded,
        chunks,
        resident,
    };
    Ok((peer, start))
}
