//! The first byte of a cold object through the simulated cloud, beside the same direct GET.

use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::{Latency, median};
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::cloud::{self, Cloud};
use crate::peers::tidegate::Settings;
use crate::report::terminal::figure;
use crate::report::{Report, Target};

/// Sizes of the first objects that a page and a player request.
const SIZES: [u64; 2] = [35 * 1024, 4 << 20];

#[derive(Debug)]
struct Reader {
    peer: Peer,
    connection: Connection,
    latency: Latency,
    millis: Vec<f64>,
}

/// Reads `--count` objects of each size, each once from each peer, one after the other.
///
/// # Errors
/// If it could not be carried out, or a peer answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("first-byte");
    let cloud = Cloud::start(context.dir(), context.origin().addr).await?;
    report.peer("cloud", cloud::CONFIG);
    let count = context.count(100);
    for len in SIZES {
        progress(format!("{count} objects of {len} bytes"));
        let objects: Vec<_> = (0..count)
            .map(|n| (format!("cold/{len}/{n:05}"), Pattern { seed: len ^ n, len }))
            .collect();
        context.bucket.put_all(objects.clone()).await?;
        let mut readers = readers(context, &cloud, &mut report).await?;
        for (turn, (key, pattern)) in objects.iter().enumerate() {
            // Each reader in turn is the first to make MinIO read the object.
            let first = turn % readers.len();
            readers.rotate_left(first);
            for reader in &mut readers {
                reader.read(key, *pattern).await?;
            }
            readers.rotate_right(first);
        }
        write(&mut report, &readers, len)?;
    }
    Ok(report)
}

async fn readers(context: &Context, cloud: &Cloud, report: &mut Report) -> Result<Vec<Reader>> {
    let origin = context.origin_behind(cloud.addr());
    let mut readers = vec![];
    for name in context.peers(&["direct", "tidegate", "nginx-slice", "rclone"]) {
        let settings = Settings::default();
        if let Some(peer) = context
            .start_if_there(name, &origin, settings, report)
            .await?
        {
            let connection = Connection::open(peer.addr()).await?;
            let latency = Latency::default();
            readers.push(Reader {
                peer,
                connection,
                latency,
                millis: vec![],
            });
        }
    }
    Ok(readers)
}

impl Reader {
    async fn read(&mut self, key: &str, pattern: Pattern) -> Result<()> {
        let timing = self.connection.verify(&self.peer.path(key), pattern).await;
        let first = timing.with_context(|| self.peer.name())?.first_byte;
        self.latency.record(first);
        self.millis.push(millis(first));
        Ok(())
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn write(report: &mut Report, readers: &[Reader], len: u64) -> Result<()> {
    let p50 = |reader: &Reader| median(&reader.millis).context("nothing was read");
    let direct = readers.iter().find(|reader| reader.peer.name() == "direct");
    let mut rows = vec![];
    for reader in readers {
        let name = reader.peer.name();
        let found = reader.latency.percentiles();
        let ratio = match direct {
            Some(direct) => p50(reader)? / p50(direct)?,
            None => f64::NAN,
        };
        let figures = [p50(reader)?, found.p90, found.p99, found.p100, ratio];
        rows.push(
            [name.to_owned()]
                .into_iter()
                .chain(figures.map(figure))
                .collect(),
        );
        report.series(name, &format!("first byte of {len} B, ms"), &reader.millis);
        if name == "tidegate" && direct.is_some() {
            let figure = format!("first byte, cold, {len} B, over the same GET made directly");
            report.aim(figure, ratio, Target::AtMost(1.05));
        }
    }
    let title = format!(
        "first byte of {} cold objects of {len} B, ms",
        readers[0].millis.len()
    );
    report.table(
        title,
        &["peer", "p50", "p90", "p99", "p100", "p50 over direct"],
        rows,
    );
    Ok(())
}
