//! Who brings a chunk that both a disk and the origin have.
//!
//! A disk may be much faster than the origin, much slower, or about as fast, and which of these it is
//! changes with what else it does. So nobody is preferred by name: a piece goes to whom it comes from
//! in time. In time is before the reader gets there ([`Outlook::slack`]); what a reader already waits
//! for goes to whoever is sooner. A reader that takes what it gets at once is faster than whoever
//! serves it: then the slack is reckoned with the rate of both together, so that neither is given more
//! than its share, and both are read at once. A disk too slow to be in time anywhere within the window
//! is left aside by the same comparison, and so is one that answers in fits and starts but for what is
//! far enough ahead.
//!
//! The origin's bytes cost money and its requests are counted, so it is asked for what a disk has only
//! where the disk alone cannot keep the reader fed.

use std::time::Duration;

use super::meter::Estimate;

/// The longest queue that reads ahead may build before a disk: who comes with a read that somebody
/// waits for stands behind it.
const QUEUE: Duration = Duration::from_millis(250);

/// What is assumed of an origin that was not measured yet: little, for what a disk has is to be asked
/// of it only where that helps.
const UNKNOWN: Connection = Connection {
    first_byte: Duration::from_millis(50),
    rate: 10e6,
};

/// An origin that adds less than this share to what the disk brings is not worth its requests.
const WORTH: f64 = 0.25;

/// The smallest piece that is worth a request ahead; see `readahead`.
const LEAST: u64 = 256 << 10;

/// A disk that gives less than this share of what a reader takes does not help it: it is asked for
/// one chunk at a time, which shows when it has become faster.
const HELPS: f64 = 0.125;

/// How much later than expected a disk's read is late.
const LATE: u32 = 3;

/// Waits shorter than this are the scheduler's as often as the disk's, and not worth a request.
const AT_LEAST: Duration = Duration::from_millis(50);

/// What is waited for and comes from a disk within this time is soon enough, whatever the origin could
/// do.
const SOON: Duration = Duration::from_millis(50);

/// How much longer than the origin a disk may take over what a reader waits for: a request costs money.
const MUCH: u32 = 2;

/// What one more connection to the origin yields.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Connection {
    /// Time to the first byte.
    pub first_byte: Duration,
    /// Bytes a second after it.
    pub rate: f64,
}

impl Connection {
    /// From what was measured, where something was.
    #[must_use]
    pub fn new(first_byte: Option<Duration>, rate: Option<f64>) -> Self {
        Self {
            first_byte: first_byte.unwrap_or(UNKNOWN.first_byte),
            rate: rate.filter(|rate| *rate > 0.0).unwrap_or(UNKNOWN.rate),
        }
    }

    /// How long `bytes` take.
    #[must_use]
    pub fn takes(&self, bytes: u64) -> Duration {
        self.first_byte + Duration::from_secs_f64(bytes as f64 / self.rate)
    }

    /// How many bytes it brings before a disk would have brought them, the first `len` of which the
    /// disk has within `disk.takes`.
    fn brings_before(&self, disk: Disk, len: u64) -> u64 {
        let behind = 1.0 / self.rate - 1.0 / disk.rate;
        if behind <= 0.0 {
            return u64::MAX;
        }
        let start = disk.read.takes.as_secs_f64() - len as f64 / disk.rate;
        let lead = start - self.first_byte.as_secs_f64();
        (lead.max(0.0) / behind) as u64
    }

    /// How many bytes it brings within `time`.
    fn brings(&self, time: Duration) -> u64 {
        let left = time.saturating_sub(self.first_byte);
        (left.as_secs_f64() * self.rate) as u64
    }
}

/// What a disk would do with one more read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Disk {
    /// What that read is expected to do.
    pub read: Estimate,
    /// Bytes a second that the disk yields.
    pub rate: f64,
}

/// A chunk ahead of a reader, and who could bring it.
#[derive(Debug, Clone, Copy)]
pub struct Outlook {
    /// Bytes between the reader and the chunk.
    pub distance: u64,
    /// Bytes a second by which the reader comes nearer; see [`speed`].
    pub speed: f64,
    /// What its disk would do; `None` if no disk has it or that disk cannot be asked.
    pub disk: Option<Disk>,
    /// What a further connection yields; `None` if none is free.
    pub origin: Option<Connection>,
}

/// Who is to bring a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Its disk.
    Disk,
    /// The origin, with what follows it, up to so many bytes in one request.
    Origin {
        /// More than that would not come in time.
        most: u64,
    },
    /// Nobody yet: who has it is busy, and will be sooner than who has not.
    Later,
}

impl Outlook {
    /// The time until the reader gets there.
    #[must_use]
    pub fn slack(&self) -> Duration {
        let seconds = self.distance as f64 / self.speed.max(1.0);
        Duration::from_secs_f64(seconds.min(3600.0))
    }

    /// Who is to bring it, `len` bytes long.
    #[must_use]
    pub fn choose(&self, len: u64) -> Choice {
        let slack = self.slack();
        let Some(disk) = self.disk else {
            return match self.origin {
                Some(_) => Choice::Origin { most: u64::MAX },
                None => Choice::Later,
            };
        };
        let Estimate {
            takes,
            scatter,
            is_idle,
        } = disk.read;
        let helps = disk.rate >= HELPS * self.speed;
        // How fast a reader is shows after its first bytes: until then little is put off.
        let queue = if self.speed > 0.0 { QUEUE } else { SOON };
        let has_room = takes <= queue && (helps || is_idle);
        if has_room && (takes + scatter <= slack || self.speed <= disk.rate) {
            return Choice::Disk;
        }
        match self.origin {
            Some(origin) if self.speed > disk.rate => {
                let soonest = origin.takes(len);
                if !helps {
                    // Nearer than either brings it: what follows must not wait for that disk.
                    Choice::Origin { most: u64::MAX }
                } else if soonest < takes || soonest <= slack {
                    let most = origin.brings(slack).max(origin.brings_before(disk, len));
                    Choice::Origin {
                        most: most.max(LEAST),
                    }
                } else if has_room {
                    Choice::Disk
                } else {
                    Choice::Later
                }
            }
            _ if has_room => Choice::Disk,
            _ => Choice::Later,
        }
    }
}

/// Who is to bring a chunk of `len` bytes that a reader waits for who goes on from there: the origin
/// only where it brings all of `span` in half the time.
#[must_use]
pub fn awaited(disk: Disk, origin: Connection, len: u64, span: u64) -> Choice {
    let behind = span.saturating_sub(len) as f64 / disk.rate.max(1.0);
    let by_disk = disk.read.takes + Duration::from_secs_f64(behind);
    let by_origin = origin.takes(span.max(len));
    if by_disk <= (by_origin * MUCH).max(SOON) {
        Choice::Disk
    } else {
        Choice::Origin { most: u64::MAX }
    }
}

/// After how long a read that was expected to take `expected` is late, and the origin asked as well.
#[must_use]
pub fn late(expected: Duration) -> Duration {
    (expected * LATE).max(AT_LEAST)
}

/// How fast a reader comes nearer: as it does, with something to spare; or, where it takes what it
/// gets at once, as fast as disk and origin together could serve it (bytes a second; `None` is
/// unknown).
#[must_use]
pub fn speed(
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
        Some(origin) if origin >= WORTH * disk => taken.max(disk + origin),
        _ => disk,
    }
}

#[cfg(test)]
mod tests;
