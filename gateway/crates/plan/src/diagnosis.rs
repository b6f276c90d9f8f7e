//! The judgement of measurements of the way from a bucket to a client: the bottleneck, whether the
//! disk tier helps, and the settings to use. `tidegate doctor` measures; this module judges.
//!
//! The rules, for one disk in front of one origin:
//!
//! - A reader never waits for a write to the disk tier. So a disk makes cold reads neither slower
//!   nor faster: they run at the rate of the origin.
//! - A warm read that memory does not hold runs at the rate of the disk. If that is faster than
//!   another fetch, the disk [helps](DiskHelp). If it is a little slower, the disk spares the origin.
//!   If it is much slower, the disk serves small objects only, if any.
//! - A disk that is busy writing streamed bytes has no time for reads. So it takes every chunk only
//!   if it writes [`MIN_WRITE_FACTOR`] times as fast as the origin delivers; otherwise it takes chunks at their
//!   second use.

use std::fmt;
use std::time::Duration;

use super::ByteSize;
use super::profile::DiskUse;

mod efficiency;
mod stages;
#[cfg(test)]
mod tests;
mod text;
mod toml;

pub use efficiency::{Efficiency, buckets};
pub use stages::{Stage, stages};

/// The share by which two measurements of one thing may differ. A smaller gain does not count as
/// faster.
const MEASUREMENT_ERROR: f64 = 0.2;

/// The multiple of the origin's rate at which a disk must write to have time left for reading.
const MIN_WRITE_FACTOR: f64 = 2.0;

/// The share of the best rate that the recommended number of connections must reach.
const NEARLY_BEST_SHARE: f64 = 0.9;

/// The multiple of the first byte's time that a request should take, so that the first byte is a
/// small part of it.
const MIN_REQUEST_FACTOR: f64 = 20.0;

/// The bounds, in bytes, of the size of a stream's request (see `readahead`).
const PART_BOUNDS: (u64, u64) = (1 << 20, 8 << 20);

/// The widest window that is recommended, in bytes: that of the built-in profile `stream`.
const MAX_WINDOW: u64 = 128 << 20;

/// The chunk size in bytes for disks that seek slowly.
const SEEKING_DISK_CHUNK: u64 = 1 << 20;

/// A rate in bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Rate(pub f64);

impl Rate {
    /// Returns `bytes` in `time`; 0 if the time is zero.
    #[must_use]
    pub fn new(bytes: u64, time: Duration) -> Self {
        let secs = time.as_secs_f64();
        Self(if secs > 0.0 { bytes as f64 / secs } else { 0.0 })
    }

    /// Returns the time for `bytes`, in seconds.
    fn time(self, bytes: u64) -> f64 {
        bytes as f64 / self.0.max(1.0)
    }

    /// Returns how many times `other` this is.
    fn over(self, other: Self) -> f64 {
        self.0 / other.0.max(1.0)
    }
}

/// All measurements, and the present configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurements {
    /// The rate of copying in memory.
    pub memory: Rate,
    /// Each disk that could be measured.
    pub disks: Vec<MeasuredDisk>,
    /// Each origin that could be measured.
    pub origins: Vec<MeasuredOrigin>,
    /// The network to each origin that answered a connection.
    pub networks: Vec<MeasuredNetwork>,
    /// The rate at which a client took bytes from the gateway, if one was measured.
    pub client: Option<Rate>,
    /// The present `[cache]` section.
    pub cache: CacheSizes,
}

impl Measurements {
    /// Returns the network to the origin of this name.
    #[must_use]
    pub fn network(&self, origin: &str) -> Option<&MeasuredNetwork> {
        self.networks
            .iter()
            .find(|network| network.origin == origin)
    }
}

/// The part of `[cache]` that the judgement uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSizes {
    /// Chunks kept in memory.
    pub memory: ByteSize,
    /// The budget of bytes under way.
    pub budget: ByteSize,
    /// Size of a chunk.
    pub chunk: ByteSize,
}

/// One disk, with the file cache out of the way.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredDisk {
    /// The folder.
    pub path: String,
    /// The largest size of the cache there.
    pub capacity: ByteSize,
    /// The free space that the file system keeps.
    pub min_free: ByteSize,
    /// The rate of sequential writes.
    pub write: Rate,
    /// The rate of sequential reads.
    pub read: Rate,
    /// The rate of chunk writes at random places.
    pub chunk_write: Rate,
    /// The rate of chunk reads at random places, several at once.
    pub chunk_read: Rate,
    /// The median time to read one chunk at a random place on an idle disk.
    pub chunk_time: Duration,
}

/// The network between the gateway and the endpoint of an origin.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredNetwork {
    /// The origin's name.
    pub origin: String,
    /// The interface of this machine that leads to it.
    pub interface: String,
    /// The rate of the interface. `None` if it does not say its rate, as wireless and virtual ones.
    pub rate: Option<Rate>,
    /// The median time in which a TCP connection stands.
    pub round_trip: Duration,
}

/// One origin.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredOrigin {
    /// Its name.
    pub name: String,
    /// The median time from a request to the first byte of its answer on an open connection.
    pub first_byte: Duration,
    /// The total rate by number of connections, the fewest first. Not empty.
    pub rates: Vec<(u32, Rate)>,
}

impl MeasuredOrigin {
    /// Returns the rate of one connection.
    #[must_use]
    pub fn single(&self) -> Rate {
        self.rates.first().map_or(Rate(0.0), |(_, rate)| *rate)
    }

    /// Returns the best rate of all numbers of connections.
    #[must_use]
    pub fn best(&self) -> Rate {
        let rates = self.rates.iter().map(|(_, rate)| rate.0);
        Rate(rates.fold(0.0, f64::max))
    }

    /// Returns the fewest connections that bring nearly the best rate. At least two, so that bytes
    /// of one arrive while the other waits for its first byte.
    #[must_use]
    pub fn streams(&self) -> u32 {
        let enough = |(_, rate): &&(u32, Rate)| rate.over(self.best()) >= NEARLY_BEST_SHARE;
        let fewest = self.rates.iter().find(enough);
        fewest.map_or(2, |(connections, _)| *connections).max(2)
    }

    /// Returns the window in bytes: one part for each stream, large enough to be worth its first
    /// byte. It has at least the bytes of one second, so that a reader does not notice a shorter pause.
    fn window(&self) -> u64 {
        let worth = self.single().0 * self.first_byte.as_secs_f64() * MIN_REQUEST_FACTOR;
        let part = (worth as u64)
            .clamp(PART_BOUNDS.0, PART_BOUNDS.1)
            .next_power_of_two();
        let window = (part * u64::from(self.streams())).max(self.best().0 as u64);
        window.min(MAX_WINDOW).next_power_of_two()
    }
}

/// The result of the judgement.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// The slowest part of all, and its rate.
    pub bottleneck: (Stage, Rate),
    /// Each origin, without and with each disk.
    pub origins: Vec<OriginVerdict>,
    /// The recommended settings; `None` if no origin was measured.
    pub settings: Option<RecommendedSettings>,
}

/// The judgement of one origin.
#[derive(Debug, Clone, PartialEq)]
pub struct OriginVerdict {
    /// The measurement.
    pub origin: MeasuredOrigin,
    /// The network to it, if that was measured.
    pub network: Option<MeasuredNetwork>,
    /// The number of connections that bring nearly its best rate.
    pub streams: u32,
    /// Each disk in front of it.
    pub disks: Vec<(MeasuredDisk, DiskHelp)>,
}

/// Whether a disk helps warm reads, which are reads of chunks that are on it and not in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskHelp {
    /// It is slower than the origin in every respect.
    Slower,
    /// Long reads are slower than from the origin; a single chunk is there sooner.
    SmallOnly,
    /// About as fast: it spares the origin's requests, but saves readers no time.
    Spares,
    /// It is faster.
    Faster,
}

/// The recommended settings.
#[derive(Debug, Clone, PartialEq)]
pub struct RecommendedSettings {
    /// `[cache]`.
    pub cache: CacheSizes,
    /// `[[cache.disk]]`: the disks that are worth having, or none.
    pub disks: Vec<MeasuredDisk>,
    /// A `[profile.…]` for long reads from each origin.
    pub profiles: Vec<RecommendedProfile>,
}

/// The recommended settings for one origin.
#[derive(Debug, Clone, PartialEq)]
pub struct RecommendedProfile {
    /// The profile's name.
    pub name: String,
    /// The origin that it is for.
    pub origin: String,
    /// Ceiling of the window.
    pub read_ahead: ByteSize,
    /// Ceiling of parallel requests.
    pub streams: u32,
    /// When a chunk is offered to disk.
    pub disk: DiskUse,
}

/// Judges the measurements.
#[must_use]
pub fn judge(measured: &Measurements) -> Diagnosis {
    let verdict = |origin: &MeasuredOrigin| OriginVerdict {
        network: measured.network(&origin.name).cloned(),
        streams: origin.streams(),
        disks: helps(measured, origin),
        origin: origin.clone(),
    };
    let origins: Vec<_> = measured.origins.iter().map(verdict).collect();
    Diagnosis {
        bottleneck: stages::bottleneck(measured),
        settings: (!origins.is_empty()).then(|| settings(measured, &origins)),
        origins,
    }
}

fn helps(measured: &Measurements, origin: &MeasuredOrigin) -> Vec<(MeasuredDisk, DiskHelp)> {
    let disks = measured.disks.iter();
    disks
        .map(|disk| (disk.clone(), help(disk, origin, measured.cache.chunk)))
        .collect()
}

fn help(disk: &MeasuredDisk, origin: &MeasuredOrigin, chunk: ByteSize) -> DiskHelp {
    let faster = disk.read.over(origin.best());
    let fetched = origin.first_byte.as_secs_f64() + origin.single().time(chunk.0);
    if faster >= 1.0 + MEASUREMENT_ERROR {
        DiskHelp::Faster
    } else if faster >= 1.0 - MEASUREMENT_ERROR {
        DiskHelp::Spares
    } else if disk.chunk_time.as_secs_f64() * 2.0 < fetched {
        DiskHelp::SmallOnly
    } else {
        DiskHelp::Slower
    }
}

/// Returns when a long read's chunks are offered to this disk.
fn disk_use(disk: &MeasuredDisk, help: DiskHelp, origin: &MeasuredOrigin) -> DiskUse {
    match help {
        DiskHelp::Slower | DiskHelp::SmallOnly => DiskUse::Off,
        _ if disk.write.over(origin.best()) >= MIN_WRITE_FACTOR => DiskUse::First,
        _ => DiskUse::Second,
    }
}

fn settings(measured: &Measurements, origins: &[OriginVerdict]) -> RecommendedSettings {
    let helps = |disk: &MeasuredDisk| {
        let of = |verdict: &OriginVerdict| help(disk, &verdict.origin, measured.cache.chunk);
        origins.iter().any(|verdict| of(verdict) > DiskHelp::Slower)
    };
    let disks: Vec<MeasuredDisk> = measured
        .disks
        .iter()
        .filter(|d| helps(d))
        .cloned()
        .collect();
    let several = origins.len() > 1;
    let profile = |verdict: &OriginVerdict| RecommendedProfile {
        name: match several {
            true => format!("measured-{}", verdict.origin.name),
            false => "measured".to_owned(),
        },
        origin: verdict.origin.name.clone(),
        read_ahead: ByteSize(verdict.origin.window()),
        streams: verdict.streams,
        disk: tier_use(&disks, verdict),
    };
    let profiles: Vec<_> = origins.iter().map(profile).collect();
    let widest = profiles
        .iter()
        .map(|one| one.read_ahead.0)
        .max()
        .unwrap_or(0);
    // A disk seeks if chunks at random places take it far longer than the same bytes in sequence.
    let seeks = |disk: &MeasuredDisk| disk.chunk_read.over(disk.read) < 0.5;
    let cache = CacheSizes {
        // Two readers at full width fit before one has to give way.
        budget: measured.cache.budget.max(ByteSize(widest * 2)),
        chunk: match disks.iter().any(seeks) {
            true => measured.cache.chunk.max(ByteSize(SEEKING_DISK_CHUNK)),
            false => measured.cache.chunk,
        },
        ..measured.cache
    };
    RecommendedSettings {
        cache,
        disks,
        profiles,
    }
}

/// Returns the use of the disk tier. Each disk gets a share of every object's chunks, so the
/// weakest disk decides.
fn tier_use(kept: &[MeasuredDisk], verdict: &OriginVerdict) -> DiskUse {
    let kept = verdict.disks.iter().filter(|(disk, _)| kept.contains(disk));
    let uses: Vec<_> = kept
        .map(|(disk, help)| disk_use(disk, *help, &verdict.origin))
        .collect();
    match &uses[..] {
        [] => DiskUse::Off,
        uses if uses.contains(&DiskUse::Off) => DiskUse::Off,
        uses if uses.contains(&DiskUse::Second) => DiskUse::Second,
        _ => DiskUse::First,
    }
}

impl fmt::Display for Rate {
    /// Writes the rate in powers of 1,000: `56 MB/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            rate if rate >= 9.95e8 => write!(f, "{:.1} GB/s", rate / 1e9),
            rate if rate >= 9.95e6 => write!(f, "{:.0} MB/s", rate / 1e6),
            rate => write!(f, "{:.1} MB/s", rate / 1e6),
        }
    }
}
