//! Many readers at once: cold streams side by side over one line to the origin, listeners at the pace of audio from
//! a disk, and connections that are idle.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::line::Line;
use crate::measure::Flow;
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::{Settings, home};
use crate::reading::Reading;
use crate::report::terminal::figure;
use crate::report::{Report, Target};

mod idle;

/// Streams side by side.
const STREAMS: [u64; 3] = [1, 16, 200];
/// MB a second of the line to the origin, for all connections together.
const LINE: f64 = 100.0;
/// Bytes of all streams together.
const TOTAL: u64 = 400_000_000;
/// Listeners, and idle connections for each.
const LISTENERS: u64 = 2000;
const IDLE: u64 = 5;
/// Bytes a second of a listener: 256 kbit/s.
const PACE: f64 = 32_000.0;
/// Bytes of a listener's object: 30 s.
const SONG: u64 = 960_000;
/// The most passes over the songs until all are on disk.
const PASSES: u32 = 8;
/// The longest wait that a listener may have.
const MAX_WAIT: Duration = Duration::from_millis(100);
const MIB: f64 = 1_048_576.0;

/// Measures all three.
///
/// # Errors
/// If it could not be carried out, or a peer answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("many");
    cold(context, &mut report).await?;
    listeners(context, &mut report).await?;
    idle::connections(context, &mut report, IDLE * context.count(LISTENERS)).await?;
    Ok(report)
}

fn object(streams: u64, n: u64) -> (String, Pattern) {
    let (seed, len) = (streams << 32 | n, TOTAL / streams);
    (format!("many/{streams}/{n:03}"), Pattern { seed, len })
}

fn song(n: u64) -> (String, Pattern) {
    let (seed, len) = (0x5096 << 32 | n, SONG);
    (format!("songs/{n:05}"), Pattern { seed, len })
}

/// Reads cold objects side by side, directly and through the gateway.
async fn cold(context: &Context, report: &mut Report) -> Result<()> {
    let line = Line::start(context.origin().addr, Some(LINE)).await?;
    let origin = context.origin_behind(line.addr());
    let mut rows = vec![];
    for streams in STREAMS {
        let objects: Vec<_> = (0..streams).map(|n| object(streams, n)).collect();
        context.bucket.put_all(objects.clone()).await?;
        let ceiling = side_by_side(&Peer::direct(&origin), &objects, None).await?;
        let peer = context.start("tidegate", &origin, Settings::STREAM).await?;
        let own = side_by_side(&peer, &objects, None).await?;
        let peak = peer.usage()?.peak_rss as f64 / MIB;
        let over = own.rate / ceiling.rate;
        progress(format!(
            "{streams} cold streams: {:.0} MB/s, bare {:.0}",
            own.rate, ceiling.rate
        ));
        rows.push(
            [
                streams as f64,
                ceiling.rate,
                own.rate,
                over,
                own.slowest,
                ceiling.slowest,
                peak,
            ]
            .map(figure)
            .to_vec(),
        );
        report.aim(
            format!("{streams} cold streams: MB/s over as many bare GETs"),
            over,
            Target::AtLeast(0.97),
        );
        let bound = (Settings::STREAM.memory_mib + Settings::STREAM.budget_mib) as f64;
        let memory = format!("{streams} cold streams: peak RSS, MiB over cache memory plus budget");
        report.must(memory, peak - bound, Target::AtMost(64.0));
    }
    let columns = [
        "streams",
        "bare GETs, MB/s",
        "tidegate, MB/s",
        "ratio",
        "slowest over mean",
        "of bare GETs",
        "peak RSS, MiB",
    ];
    report.table("cold, over a line of 100 MB/s", &columns, rows);
    Ok(())
}

/// Lets `--count` listeners play objects that lie on disk, and not in memory.
async fn listeners(context: &Context, report: &mut Report) -> Result<()> {
    let count = context.count(LISTENERS);
    let songs: Vec<_> = (0..count).map(song).collect();
    context.bucket.put_all(songs.clone()).await?;
    let settings = Settings {
        memory_mib: 64,
        disk_mib: 8192,
        profile: "ttl = \"1h\"\n",
        ..Settings::STREAM
    };
    let peer = context
        .start("tidegate", &context.origin(), settings)
        .await?;
    report.peer("tidegate", peer.config());
    let fetched = fill(&peer, &songs).await?;
    let before = peer.usage()?;
    let heard = side_by_side(&peer, &songs, Some(PACE)).await?;
    let cpu = peer.usage()?.cpu.saturating_sub(before.cpu);
    let again = fetched_bytes(&peer).await? - fetched;
    let share = cpu.as_secs_f64() * 1e3 / heard.took.as_secs_f64() / count as f64;
    report.table(
        format!("{count} listeners at 256 kbit/s, from disk"),
        &[
            "waits over 100 ms",
            "CPU ms a second and stream",
            "peak RSS, MiB",
            "MB fetched",
        ],
        vec![
            [
                heard.waits as f64,
                share,
                peer.usage()?.peak_rss as f64 / MIB,
                again / 1e6,
            ]
            .map(figure)
            .to_vec(),
        ],
    );
    let from_bucket = "MB fetched from the bucket while they listen";
    report.aim(from_bucket, again / 1e6, Target::AtMost(0.0));
    let waits = "waits over 100 ms of all listeners";
    report.aim(waits, heard.waits as f64, Target::AtMost(0.0));
    Ok(())
}

/// Reads all objects until the disk has them; returns the bytes fetched until then.
async fn fill(peer: &Peer, songs: &[(String, Pattern)]) -> Result<f64> {
    let mut fetched = fetched_bytes(peer).await?;
    for _ in 0..PASSES {
        for some in songs.chunks(200) {
            side_by_side(peer, some, None).await?;
        }
        home::settled(peer).await?;
        let before = std::mem::replace(&mut fetched, fetched_bytes(peer).await?);
        if before == fetched {
            break;
        }
    }
    Ok(fetched)
}

async fn fetched_bytes(peer: &Peer) -> Result<f64> {
    let bytes = peer.metric("tidegate_fetched_bytes_total").await?;
    bytes.context("only tidegate tells of itself")
}

/// The figures of readers side by side.
struct GroupFigures {
    /// MB a second of all together.
    rate: f64,
    /// The time of the slowest over the mean.
    slowest: f64,
    took: Duration,
    waits: usize,
}

async fn side_by_side(
    peer: &Peer,
    objects: &[(String, Pattern)],
    pace: Option<f64>,
) -> Result<GroupFigures> {
    let mut tasks = JoinSet::new();
    let since = Instant::now();
    for (key, pattern) in objects {
        let (addr, path, pattern) = (peer.addr(), peer.path(key), *pattern);
        tasks.spawn(async move {
            let mut connection = Connection::open(addr).await?;
            let mut reading = Reading::whole(&path, pattern);
            reading.pace = pace;
            reading.run(&mut connection).await
        });
    }
    let flows: Vec<Flow> = tasks.join_all().await.into_iter().collect::<Result<_>>()?;
    let took = since.elapsed();
    let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
    let times = || flows.iter().map(|flow| flow.total.as_secs_f64());
    let mean = times().sum::<f64>() / flows.len() as f64;
    let most = times().reduce(f64::max).context("no reader")?;
    Ok(GroupFigures {
        rate: bytes as f64 / 1e6 / took.as_secs_f64(),
        slowest: most / mean,
        took,
        waits: flows
            .iter()
            .map(|flow| flow.gaps(MAX_WAIT, Duration::ZERO))
            .sum(),
    })
}
