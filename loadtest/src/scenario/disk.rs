//! The disk tier. It must never make reads slower, must survive faults of processes and disks, and
//! must be as fast as its disk.
//!
//! Each target of the disk tier is a scenario here, with its peer in the same run.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::{Flow, median, median_ratio};
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::home::settled;
use crate::peers::tidegate::{Home, Settings, StartState};
use crate::reading::Reading;
use crate::report::terminal::figure;
use crate::report::{Report, Target};

pub mod down;
pub mod faults;
pub mod first;
pub mod flips;
pub mod hit;
pub mod kill;
pub mod load;
pub mod published;
pub mod second;
pub mod start;
pub mod two;
pub mod zipf;

/// The object that is read in sequence.
pub const KEY: &str = "audiobook.m4b";
/// A time to live so long that no request to the origin comes from age alone.
const LONG: &str = "ttl = \"1h\"\n";
/// The most passes of a fill over all objects, for chunks that the disk had no time to take.
const PASSES: u32 = 8;

/// The settings for a player's server.
const STREAM: Settings = Settings {
    profile: LONG,
    ..Settings::STREAM
};

/// An object under its key.
type Object = (String, Pattern);

/// Rates of several ways to read an object, round by round.
#[derive(Debug, Default)]
struct Rounds {
    rates: BTreeMap<&'static str, Vec<f64>>,
    failed: u32,
}

impl Rounds {
    fn add(&mut self, way: &'static str, flow: &Flow) {
        self.add_rate(way, flow.rate());
    }

    fn add_rate(&mut self, way: &'static str, rate: f64) {
        progress(format!("   {way}: {rate:.1} MB/s"));
        self.rates.entry(way).or_default().push(rate);
    }

    /// Reads all of the long object. A failed answer is printed and counts as a rate of zero; wrong
    /// bytes are an error.
    async fn read(&mut self, way: &'static str, peer: &Peer, pattern: Pattern) -> Result<()> {
        match read(peer, pattern).await {
            Ok(flow) => self.add(way, &flow),
            Err(error) if error.to_string().contains("wrong bytes") => return Err(error),
            Err(error) => {
                progress(format!("   {way}: {error:#}\n{}", peer.log_tail()));
                self.failed += 1;
                self.add_rate(way, 0.0);
            }
        }
        Ok(())
    }

    /// Returns the median ratio of two ways, or NaN, which reaches no target, if one was not
    /// measured.
    fn ratio(&self, one: &str, other: &str) -> f64 {
        let pair = self.rates.get(one).zip(self.rates.get(other));
        pair.and_then(|(one, other)| median_ratio(one, other))
            .unwrap_or(f64::NAN)
    }

    fn median(&self, way: &str) -> f64 {
        let rates = self.rates.get(way);
        rates.and_then(|rates| median(rates)).unwrap_or(f64::NAN)
    }

    fn write(&self, report: &mut Report, title: &str) {
        let rows = self.rates.keys().map(|way| {
            let least = self.rates[way]
                .iter()
                .copied()
                .fold(f64::INFINITY, f64::min);
            vec![(*way).to_owned(), figure(self.median(way)), figure(least)]
        });
        report.table(title, &["way", "MB/s", "least"], rows.collect());
        let figure = "answers that failed";
        report.must(figure, f64::from(self.failed), Target::AtMost(0.0));
        for (way, rates) in &self.rates {
            report.series(way, "MB/s", rates);
        }
    }
}

/// Puts the long object of `--count` MB into the bucket.
async fn long_object(context: &Context) -> Result<Pattern> {
    let pattern = Pattern {
        seed: context.options.seed ^ 0xd15c,
        len: context.count(864) * 1_000_000,
    };
    progress(format!("an object of {} MB", pattern.len / 1_000_000));
    context.bucket.put(KEY, pattern.all()).await?;
    Ok(pattern)
}

/// Returns the MiB that a whole object takes on a disk, with room to spare.
const fn room_mib(pattern: Pattern) -> u64 {
    (pattern.len + pattern.len / 8) / (1 << 20) + 64
}

/// Reads all of the long object.
async fn read(peer: &Peer, pattern: Pattern) -> Result<Flow> {
    let mut connection = Connection::open(peer.addr()).await?;
    let path = peer.path(KEY);
    Reading::whole(&path, pattern).run(&mut connection).await
}

/// Reads all objects until their chunks are on disk, and stops the gateway in order; returns the
/// share of the chunks on disk.
async fn fill(home: &Home, objects: &[Object]) -> Result<f64> {
    let peer = home.start(StartState::Ready).await?;
    let share = fill_running(home, &peer, objects).await?;
    drop(peer);
    Ok(share)
}

/// Does the same as [`fill`] with a running gateway, and leaves it running.
async fn fill_running(home: &Home, peer: &Peer, objects: &[Object]) -> Result<f64> {
    fill_beside(0.0, home, peer, objects).await
}

/// Does the same as [`fill_running`] beside a number of chunks of other objects on the disk.
async fn fill_beside(others: f64, home: &Home, peer: &Peer, objects: &[Object]) -> Result<f64> {
    let wanted: u64 = objects.iter().map(|(_, one)| home.chunks(one.len)).sum();
    let mut share = 0.0;
    for pass in 1..=PASSES {
        let mut connection = Connection::open(peer.addr()).await?;
        for (key, pattern) in objects {
            connection.revive().await?;
            connection.verify(&peer.path(key), *pattern).await?;
        }
        share = (settled(peer).await? - others) / wanted as f64;
        progress(format!(
            "   fill, pass {pass}: {:.1} % on disk",
            share * 100.0
        ));
        if share >= 1.0 {
            break;
        }
    }
    Ok(share)
}

/// Puts small objects into the bucket, each with its own size of up to `most` bytes.
async fn small_objects(context: &Context, count: u64, most: u64) -> Result<Vec<Object>> {
    let mut random = crate::random::Random::new(context.options.seed ^ 0x0b7e);
    let objects: Vec<Object> = (0..count)
        .map(|n| {
            let (seed, len) = (random.next_u64(), random.magnitude(most));
            (format!("small/{n:05}"), Pattern { seed, len })
        })
        .collect();
    progress(format!("{count} objects of up to {most} B"));
    context.bucket.put_all(objects.iter().cloned()).await?;
    Ok(objects)
}
