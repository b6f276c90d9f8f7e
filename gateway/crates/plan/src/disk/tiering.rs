//! The choice of the source of a chunk that both a disk and the origin have.
//!
//! A disk may be much faster than the origin, much slower, or about as fast, and that changes with its other work. So
//! the rule prefers neither: a chunk goes to the source that brings it in time. In time means before the reader gets
//! there ([`ChunkOutlook::slack`]). A chunk that a reader already waits for goes to the sooner source. A reader that
//! takes all bytes at once is faster than its source. Then the slack is computed with the rate of both together, so
//! that each gets only its share and both are read at once. By the same comparison, a disk that is too slow for the
//! whole window is left out. A disk that answers irregularly is left out but for chunks far enough ahead.
//!
//! The origin's bytes cost money and its requests are counted. So it brings chunks of a disk only if the disk alone
//! cannot keep the reader fed.

use std::time::Duration;

use crate::meter::ReadEstimate;

/// The longest queue that read-ahead may build before a disk. A read that a reader waits for queues behind it.
const MAX_QUEUE_TIME: Duration = Duration::from_millis(250);

/// The assumed connection to an origin that was not measured yet. It is slow, because the origin should bring a disk's
/// chunks only if that helps.
const UNMEASURED_CONNECTION: ConnectionEstimate = ConnectionEstimate {
    first_byte: Duration::from_millis(50),
    rate: 10e6,
};

/// The smallest share of the disk's rate that an origin must add to be worth its requests.
const MIN_ORIGIN_SHARE: f64 = 0.25;

/// The smallest piece in bytes that is worth a read-ahead request; see `readahead`.
const MIN_PIECE: u64 = 256 << 10;

/// The smallest share of a reader's rate at which a disk helps it. A slower disk is asked for one chunk at a time,
/// which shows when it has become faster.
const MIN_DISK_SHARE: f64 = 0.125;

/// The multiple of its expected duration after which a disk's read is late.
const HEDGE_FACTOR: u32 = 3;

/// The shortest wait that makes a read late. Shorter ones come from the scheduler as often as from the disk, and are
/// not worth a request.
const MIN_HEDGE_DELAY: Duration = Duration::from_millis(50);

/// The time within which a disk is soon enough for an awaited chunk, whatever the origin's time.
const PROMPT_TIME: Duration = Duration::from_millis(50);

/// The multiple of the origin's time that a disk may take for an awaited chunk, because a request costs money.
const MAX_DISK_FACTOR: u32 = 2;

/// The expected yield of one more connection to the origin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConnectionEstimate {
    /// The time to the first byte.
    pub first_byte: Duration,
    /// The rate after it, in bytes a second.
    pub rate: f64,
}

impl ConnectionEstimate {
    /// Creates a connection from the measurements that exist; defaults stand for the others.
    #[must_use]
    pub fn new(first_byte: Option<Duration>, rate: Option<f64>) -> Self {
        Self {
            first_byte: first_byte.unwrap_or(UNMEASURED_CONNECTION.first_byte),
            rate: rate
                .filter(|rate| *rate > 0.0)
                .unwrap_or(UNMEASURED_CONNECTION.rate),
        }
    }

    /// Returns the time for `bytes`.
    #[must_use]
    pub fn time_for(&self, bytes: u64) -> Duration {
        self.first_byte + Duration::from_secs_f64(bytes as f64 / self.rate)
    }

    /// Returns the number of bytes that it brings before a disk would have brought them. The disk has the first `len`
    /// of them within `disk.takes`.
    fn bytes_before(&self, disk: DiskEstimate, len: u64) -> u64 {
        let behind = 1.0 / self.rate - 1.0 / disk.rate;
        if behind <= 0.0 {
            return u64::MAX;
        }
        let start = disk.read.takes.as_secs_f64() - len as f64 / disk.rate;
        let lead = start - self.first_byte.as_secs_f64();
        (lead.max(0.0) / behind) as u64
    }

    /// Returns the number of bytes that it brings within `time`.
    fn bytes_within(&self, time: Duration) -> u64 {
        let left = time.saturating_sub(self.first_byte);
        (left.as_secs_f64() * self.rate) as u64
    }
}

/// The expected behaviour of a disk for one more read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskEstimate {
    /// The estimate of that read.
    pub read: ReadEstimate,
    /// The disk's rate in bytes a second.
    pub rate: f64,
}

/// A chunk ahead of a reader, and its possible sources.
#[derive(Debug, Clone, Copy)]
pub struct ChunkOutlook {
    /// The number of bytes between the reader and the chunk.
    pub distance: u64,
    /// The rate in bytes a second at which the reader comes nearer; see [`approach_rate`].
    pub speed: f64,
    /// The estimate of its disk; `None` if no disk has it or that disk cannot be asked.
    pub disk: Option<DiskEstimate>,
    /// The estimate of a further connection; `None` if none is free.
    pub origin: Option<ConnectionEstimate>,
}

/// The source of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkSource {
    /// Its disk.
    Disk,
    /// The origin, with the following chunks, up to `most` bytes in one request.
    Origin {
        /// The number of bytes that come in time.
        most: u64,
    },
    /// No source yet: its source is busy, and still sooner than the other.
    Later,
}

impl ChunkOutlook {
    /// Returns the time until the reader gets there, at most an hour.
    #[must_use]
    pub fn slack(&self) -> Duration {
        let seconds = self.distance as f64 / self.speed.max(1.0);
        Duration::from_secs_f64(seconds.min(3600.0))
    }

    /// Chooses the source of the chunk, which has `len` bytes.
    #[must_use]
    pub fn choose(&self, len: u64) -> ChunkSource {
        let slack = self.slack();
        let Some(disk) = self.disk else {
            return match self.origin {
                Some(_) => ChunkSource::Origin { most: u64::MAX },
                None => ChunkSource::Later,
            };
        };
        let ReadEstimate {
            takes,
            scatter,
            is_idle,
        } = disk.read;
        let helps = disk.rate >= MIN_DISK_SHARE * self.speed;
        // A reader's rate shows after its first bytes: until then the disk's queue stays short.
        let queue = if self.speed > 0.0 {
            MAX_QUEUE_TIME
        } else {
            PROMPT_TIME
        };
        let has_room = takes <= queue && (helps || is_idle);
        if has_room && (takes + scatter <= slack || self.speed <= disk.rate) {
            return ChunkSource::Disk;
        }
        match self.origin {
            Some(origin) if self.speed > disk.rate => {
                let soonest = origin.time_for(len);
                if !helps {
                    // The chunk is nearer than either brings it: the following chunks must not wait for that disk.
                    ChunkSource::Origin { most: u64::MAX }
                } else if soonest < takes || soonest <= slack {
                    let most = origin
                        .bytes_within(slack)
                        .max(origin.bytes_before(disk, len));
                    ChunkSource::Origin {
                        most: most.max(MIN_PIECE),
                    }
                } else if has_room {
                    ChunkSource::Disk
                } else {
                    ChunkSource::Later
                }
            }
            _ if has_room => ChunkSource::Disk,
            _ => ChunkSource::Later,
        }
    }
}

/// Chooses the source of a chunk of `len` bytes that a reader waits for and reads on from. The origin is chosen only if
/// it brings all of `span` in less than half the disk's time.
#[must_use]
pub fn choose_awaited(
    disk: DiskEstimate,
    origin: ConnectionEstimate,
    len: u64,
    span: u64,
) -> ChunkSource {
    let behind = span.saturating_sub(len) as f64 / disk.rate.max(1.0);
    let by_disk = disk.read.takes + Duration::from_secs_f64(behind);
    let by_origin = origin.time_for(span.max(len));
    if by_disk <= (by_origin * MAX_DISK_FACTOR).max(PROMPT_TIME) {
        ChunkSource::Disk
    } else {
        ChunkSource::Origin { most: u64::MAX }
    }
}

/// Returns the time after which a read with the duration `expected` is late, and the origin is asked as well.
#[must_use]
pub fn hedge_delay(expected: Duration) -> Duration {
    (expected * HEDGE_FACTOR).max(MIN_HEDGE_DELAY)
}

/// Returns the rate in bytes a second at which a reader comes nearer: its own rate and a quarter more. If it takes all
/// bytes at once, that is at least the rate of disk and origin together, or the disk's if the origin adds too little.
/// `None` is an unknown rate.
#[must_use]
pub fn approach_rate(
    reader: Option<f64>,
    takes_at_once: bool,
    disk: Option<f64>,
    origin: Option<f64>,
) -> f64 {
    let taken = reader.unwrap_or(0.0) * 1.25;
    let (Some(disk), true) = (disk, takes_at_once) else {
        return taken;
    };
    match origin {
        Some(origin) if origin >= MIN_ORIGIN_SHARE * disk => taken.max(disk + origin),
        _ => disk,
    }
}

#[cfg(test)]
mod tests;
