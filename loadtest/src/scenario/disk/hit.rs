//! Disk hits: second reads with nothing in memory, beside nginx with `sendfile` from the same disk, its file cache empty
//! and full, and beside bare servers.

use anyhow::Result;
use futures_util::future::try_join_all;

use super::{Object, STREAM, fill, room_mib};
use crate::bare::disk::SendMethod;
use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::{Flow, turns};
use crate::pattern::Pattern;
use crate::peers::tidegate::{Home, StartState};
use crate::peers::{Peer, bare, nginx};
use crate::reading::Reading;
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::slow_disk::drop_file_cache;
use crate::ways::Ways;

/// Readers of small objects at a time.
const READERS: usize = 8;

/// The ways to read the same bytes from the same disk. The file cache is empty but for the last one.
const TIDEGATE: &str = "tidegate";
const NGINX: &str = "nginx";
const NGINX_WARM: &str = "nginx, file cache full";

/// A bare server, which reads files in order: the floor of an answer by each way to send it.
const FLOORS: [(&str, SendMethod); 3] = [
    ("bare", SendMethod::Unverified),
    ("bare, verified", SendMethod::Verified),
    ("bare, verified, sendfile", SendMethod::VerifiedSendfile),
];

/// Objects of one size.
struct Case {
    name: &'static str,
    objects: Vec<Object>,
    readers: usize,
}

impl Case {
    fn new(name: &'static str, len: u64, count: u64, seed: u64, readers: usize) -> Self {
        let object = |n: u64| {
            let seed = seed ^ (len << 8) ^ n;
            (format!("hit/{len}-{n}.bin"), Pattern { seed, len })
        };
        Self {
            name,
            objects: (0..count).map(object).collect(),
            readers,
        }
    }

    fn way(&self, peer: &str) -> String {
        format!("{}, {peer}", self.name)
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
struct HitFigures {
    rates: Ways,
    cpu: Ways,
}

impl HitFigures {
    fn new() -> Self {
        Self {
            rates: Ways::new("MB/s"),
            cpu: Ways::new("ms of processor time a GB"),
        }
    }

    async fn add(&mut self, case: &Case, way: &str, peer: &Peer) -> Result<()> {
        let (rate, millis) = case.read(peer).await?;
        self.rates.add(&case.way(way), rate);
        self.cpu.add(&case.way(way), millis);
        Ok(())
    }

    fn write(&self, report: &mut Report, cases: &[Case]) {
        self.rates.write(report, "second read, nothing in memory");
        self.cpu.write(report, "processor time");
        for case in cases {
            let over = format!("{} over nginx with an empty file cache", case.way(TIDEGATE));
            let ratio = self.rates.ratio(&case.way(TIDEGATE), &case.way(NGINX));
            report.aim(over, ratio.unwrap_or(f64::NAN), Target::AtLeast(1.0));
        }
        let others = [NGINX_WARM].into_iter().chain(FLOORS.map(|(way, _)| way));
        let rows = others.flat_map(|other| {
            cases.iter().map(move |case| {
                let ratio = self.rates.ratio(&case.way(TIDEGATE), &case.way(other));
                vec![case.way(other), figure(ratio.unwrap_or(f64::NAN))]
            })
        });
        report.table(
            "tidegate over the others",
            &["other", "MB/s"],
            rows.collect(),
        );
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
    let mut found = HitFigures::new();
    let peers: Vec<&str> = [TIDEGATE, NGINX]
        .into_iter()
        .chain(FLOORS.map(|(way, _)| way))
        .collect();
    for round in 0..context.rounds(5) {
        progress(format!("round {}", round + 1));
        for case in &cases {
            // The order changes: what is left of the file beneath the system's cache falls on all alike.
            for way in turns(&peers, round) {
                let floor = FLOORS.iter().find(|(floor, _)| *floor == way);
                let peer = match floor {
                    Some((_, method)) => Some(bare::on_disk(&dir, &files, *method)?),
                    None if way == TIDEGATE => Some(home.start(StartState::Ready).await?),
                    None => None,
                };
                let peer = peer.as_ref().unwrap_or(&nginx);
                report.peer(way, peer.config());
                drop_file_cache()?;
                found.add(case, way, peer).await?;
                if way == NGINX {
                    found.add(case, NGINX_WARM, peer).await?;
                }
            }
        }
    }
    found.write(&mut report, &cases);
    Ok(report)
}

fn cases(bytes: u64, seed: u64) -> [Case; 2] {
    const LONG: u64 = 64_000_000;
    const SHORT: u64 = 479_232;
    [
        Case::new("64 MB", LONG, (bytes / LONG).max(1), seed, 1),
        Case::new("468 KB", SHORT, (bytes / SHORT).max(1), seed, READERS),
    ]
}
