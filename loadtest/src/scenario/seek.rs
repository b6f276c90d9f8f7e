//! Random seeks in a long object: the time to the first byte, and the bytes fetched in vain.

use anyhow::{Context as _, Result};

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::{Latency, median};
use crate::pattern::Pattern;
use crate::peers::cloud::{self, Cloud};
use crate::peers::tidegate::Settings;
use crate::peers::{Origin, Peer};
use crate::random::Random;
use crate::reading::Reading;
use crate::report::terminal::figure;
use crate::report::{Plot, Report, Target};
use crate::tally::Tally;

const KEY: &str = "seek.m4b";
const LEN: u64 = 864_000_000;
/// The bytes read after each seek.
const READ: u64 = 256 * 1024;
const MOST_MORE: f64 = 512.0;

#[derive(Debug)]
struct Reader {
    peer: Peer,
    connection: Connection,
    latency: Latency,
    millis: Vec<f64>,
}

/// Seeks `--count` times, to the same places with each peer.
///
/// # Errors
/// If it could not be carried out, or a peer answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("seek");
    let seed = context.options.seed;
    let pattern = Pattern {
        seed: seed ^ 0x5eec,
        len: LEN,
    };
    progress(format!("an object of {} MB", LEN / 1_000_000));
    context.bucket.put(KEY, pattern.all()).await?;
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    let origin = context.origin_behind(cloud.addr());
    let mut random = Random::new(seed);
    let places: Vec<u64> = (0..context.count(200))
        .map(|_| random.below(LEN - READ))
        .collect();

    let mut readers = vec![];
    for name in context.peers(&["direct", "tidegate", "nginx-slice", "rclone"]) {
        let settings = Settings::STREAM;
        if let Some(peer) = context
            .start_if_there(name, &origin, settings, &mut report)
            .await?
        {
            readers.push(Reader::open(peer).await?);
        }
    }
    for place in &places {
        for reader in &mut readers {
            reader.seek(pattern, *place).await?;
        }
    }
    write(&mut report, &readers)?;
    amplification(context, &origin, pattern, &places, &mut report).await?;
    Ok(report)
}

impl Reader {
    async fn open(peer: Peer) -> Result<Self> {
        let connection = Connection::open(peer.addr()).await?;
        Ok(Self {
            peer,
            connection,
            latency: Latency::default(),
            millis: vec![],
        })
    }

    async fn seek(&mut self, pattern: Pattern, place: u64) -> Result<()> {
        let path = self.peer.path(KEY);
        let reading = Reading::part(&path, pattern, place..place + READ);
        let flow = reading.run(&mut self.connection).await;
        let flow = flow.with_context(|| self.peer.name())?;
        self.latency.record(flow.first_byte);
        self.millis.push(flow.first_byte.as_secs_f64() * 1e3);
        Ok(())
    }
}

fn write(report: &mut Report, readers: &[Reader]) -> Result<()> {
    let p50 = |reader: &Reader| median(&reader.millis).context("no seek was made");
    let direct = readers.iter().find(|reader| reader.peer.name() == "direct");
    let mut plot = Plot::latency("First byte after a seek: which share came within how long");
    let mut rows = vec![];
    for reader in readers {
        let name = reader.peer.name();
        let found = reader.latency.percentiles();
        let ratio = direct.map_or(Ok(f64::NAN), |direct| {
            anyhow::Ok(p50(reader)? / p50(direct)?)
        })?;
        let figures = [p50(reader)?, found.p90, found.p99, found.p100, ratio].map(figure);
        rows.push([name.to_owned()].into_iter().chain(figures).collect());
        plot.line(name, reader.latency.curve());
        report.series(name, "first byte after a seek, ms", &reader.millis);
        if name == "tidegate" && direct.is_some() {
            let figure = "first byte after a seek, p50 over a bare ranged GET";
            report.aim(figure, ratio, Target::AtMost(1.15));
        }
    }
    let title = "first byte after a seek, through the simulated cloud, ms";
    let columns = ["peer", "p50", "p90", "p99", "p100", "p50 over direct"];
    report.table(title, &columns, rows);
    report.plot(plot);
    Ok(())
}

/// Repeats the seeks with a counting proxy between the peer and the origin.
async fn amplification(
    context: &Context,
    origin: &Origin,
    pattern: Pattern,
    places: &[u64],
    report: &mut Report,
) -> Result<()> {
    let mut rows = vec![];
    for name in context.peers(&["tidegate", "nginx-slice", "rclone"]) {
        let tally = Tally::start(origin.addr).await?;
        let behind = context.origin_behind(tally.addr());
        let settings = Settings::STREAM;
        let Some(peer) = context
            .start_if_there(name, &behind, settings, report)
            .await?
        else {
            continue;
        };
        let mut reader = Reader::open(peer).await?;
        let before = tally.asked();
        for place in places {
            reader.seek(pattern, *place).await?;
        }
        let asked = tally.settled().await.since(before);
        let reads = places.len() as f64;
        let more = (asked.bytes as f64 / reads - READ as f64) / 1024.0;
        let requests = (asked.get + asked.head + asked.list) as f64 / reads;
        rows.push(vec![name.to_owned(), figure(more), figure(requests)]);
        if name == "tidegate" {
            let figure = "fetched over asked, KiB a read of 256 KiB";
            report.aim(figure, more, Target::AtMost(MOST_MORE));
        }
    }
    let columns = ["peer", "KiB fetched over asked", "requests"];
    report.table("a random read of 256 KiB, in the mean", &columns, rows);
    Ok(())
}
