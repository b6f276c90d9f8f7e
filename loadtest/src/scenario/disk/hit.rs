//! Disk hits: second reads with nothing in memory, beside nginx with `sendfile` from the same disk, its file cache empty
//! and full.

use anyhow::Result;
use futures_util::future::try_join_all;

use super::{Object, Rounds, STREAM, fill, room_mib};
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::{Flow, median};
use crate::pattern::Pattern;
use crate::peers::tidegate::{Home, StartState};
use crate::peers::{Peer, nginx};
use crate::reading::Reading;
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::slow_disk::drop_file_cache;

/// Readers of small objects at a time.
const READERS: usize = 8;

/// Objects of one size, and the names of the ways to read them.
struct Case {
    objects: Vec<Object>,
    readers: usize,
    tidegate: &'static str,
    cold: &'static str,
    warm: &'static str,
}

impl Case {
    fn new(len: u64, count: u64, seed: u64, readers: usize, ways: [&'static str; 3]) -> Self {
        let object = |n: u64| {
            let seed = seed ^ (len << 8) ^ n;
            (format!("hit/{len}-{n}.bin"), Pattern { seed, len })
        };
        let [tidegate, cold, warm] = ways;
        Self {
            objects: (0..count).map(object).collect(),
            readers,
            tidegate,
            cold,
            warm,
        }
    }

    /// Reads each object once; returns the rate of all readers together, and the milliseconds of processor time for a GB.
    async fn read(&self, peer: &Peer) -> Result<(f64, f64)> {
        let before = peer.usage()?;
        let began = std::time::Instant::now();
        let shares = (0..self.readers).map(|reader| async move {
            let mut connection = Connection::open(peer.addr()).await?;
            let mut flow = Flow::default();
            for (key, pattern) in self.objects.iter().skip(reader).step_by(self.readers) {
                let path = peer.path(key);
                let own = Reading::whole(&path, *pattern).run(&mut connection).await?;
                flow.then(&own);
            }
            anyhow::Ok(flow.bytes)
        });
        let bytes: u64 = try_join_all(shares).await?.into_iter().sum();
        let took = began.elapsed().as_secs_f64();
        let cpu = peer.usage()?.cpu.saturating_sub(before.cpu);
        Ok((
            bytes as f64 / 1e6 / took,
            cpu.as_secs_f64() * 1e3 / (bytes as f64 / 1e9),
        ))
    }
}

/// The figures of all rounds.
#[derive(Default)]
struct HitFigures {
    rates: Rounds,
    cpu: Rounds,
}

impl HitFigures {
    fn add(&mut self, way: &'static str, (rate, millis): (f64, f64)) {
        progress(format!("   {way}: {rate:.0} MB/s, {millis:.0} ms/GB"));
        self.rates.add_rate(way, rate);
        self.cpu.add_rate(way, millis);
    }

    fn write(&self, report: &mut Report, cases: &[Case]) {
        self.rates.write(report, "second read, nothing in memory");
        let row = |(way, found): (&&str, &Vec<f64>)| {
            let middle = median(found).unwrap_or(f64::NAN);
            vec![(*way).to_owned(), figure(middle)]
        };
        let rows = self.cpu.rates.iter().map(row).collect();
        report.table("processor time", &["way", "CPU, ms/GB"], rows);
        for case in cases {
            let over = format!("{}, over nginx with an empty file cache", case.tidegate);
            let ratio = self.rates.ratio(case.tidegate, case.cold);
            report.aim(over, ratio, Target::AtLeast(1.0));
        }
    }
}

/// Reads objects of 64 MB and of 468 KB, `--count` MB of each size.
///
/// # Errors
/// If it could not be carried out, or a peer answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("disk-hit");
    let cases = cases(context.count(512) * 1_000_000, context.options.seed);
    let objects: Vec<Object> = cases.iter().flat_map(|case| case.objects.clone()).collect();
    let files = context.files()?;
    std::fs::create_dir_all(files.join("hit"))?;
    for (key, pattern) in &objects {
        std::fs::write(files.join(key), pattern.all())?;
    }
    context.bucket.put_all(objects.clone()).await?;
    let len = objects.iter().map(|(_, pattern)| pattern.len).sum();
    let room = room_mib(Pattern { seed: 0, len });
    let dir = context.new_dir("hit-")?;
    let home =
        Home::new(dir.join("home"), context.origin(), STREAM).with_disk(dir.join("disk"), room, 64);
    let share = fill(&home, &objects).await?;
    let on_disk = "share of the chunks on disk after filling";
    report.must(on_disk, share, Target::AtLeast(1.0));
    let nginx = nginx::static_files(&dir, &files)?;
    report.peer("nginx", nginx.config());
    let mut found = HitFigures::default();
    for round in 1..=context.rounds(5) {
        progress(format!("round {round}"));
        for case in &cases {
            drop_file_cache()?;
            let peer = home.start(StartState::Ready).await?;
            report.peer("tidegate", peer.config());
            found.add(case.tidegate, case.read(&peer).await?);
            drop(peer);
            drop_file_cache()?;
            found.add(case.cold, case.read(&nginx).await?);
            found.add(case.warm, case.read(&nginx).await?);
        }
    }
    found.write(&mut report, &cases);
    Ok(report)
}

fn cases(bytes: u64, seed: u64) -> [Case; 2] {
    const LONG: u64 = 64_000_000;
    const SHORT: u64 = 479_232;
    let long = [
        "64 MB, tidegate",
        "64 MB, nginx, file cache empty",
        "64 MB, nginx, file cache full",
    ];
    let short = [
        "468 KB, tidegate",
        "468 KB, nginx, file cache empty",
        "468 KB, nginx, file cache full",
    ];
    [
        Case::new(LONG, (bytes / LONG).max(1), seed, 1, long),
        Case::new(SHORT, (bytes / SHORT).max(1), seed, READERS, short),
    ]
}
