//! The present speed of a disk, estimated from the reads that are made anyway.
//!
//! The meter keeps two moving averages and a third figure that fades. The *pace* follows Little's law: while a read
//! ran, about as many bytes passed as were under way when it began (its own included). So its duration over these bytes
//! is the time that the whole disk took for each. Paces are averaged and not rates, because reads from the file cache
//! are a hundred times as fast and must not hide a slow disk. The *latency* is that of a read that had the disk to
//! itself: no read is faster, whatever the pace. The *scatter* is the worst excess of recent reads over their
//! estimates: a disk that is throttled or shared answers irregularly.

use std::time::Duration;

/// The weight of a sample that makes the disk slower. About the last eight decide, so a disk that begins to lag is
/// noticed within a fraction of a second.
const SLOWER_WEIGHT: f64 = 1.0 / 8.0;

/// The weight of a slower sample from a read alone. Such a read cannot show the disk's rate under many reads.
const ALONE_SLOWER_WEIGHT: f64 = 1.0 / 64.0;

/// The weight of a sample that makes the disk faster. A throttled disk answers a handful of reads at once after each
/// pause; a reader that trusts those must queue.
const FASTER_WEIGHT: f64 = 1.0 / 32.0;

/// The share of the scatter that remains after each read: about half of it after thirty.
const SCATTER_DECAY: f64 = 0.98;

/// The largest scatter, in seconds. A disk that exceeds it has hung, and a hang does not predict its next read.
const MAX_SCATTER: f64 = 0.4;

/// The time in which the scatter halves while the disk is not read. So a disk that was avoided for its scatter is tried
/// again, and a few reads show whether it still scatters.
const SCATTER_HALF_LIFE: Duration = Duration::from_secs(10);

/// The expected behaviour of one more read of a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadEstimate {
    /// The expected duration, including the wait for the reads that the disk already has.
    pub takes: Duration,
    /// The possible excess over `takes`, from the excess of recent reads.
    pub scatter: Duration,
    /// Whether no other read is under way.
    pub is_idle: bool,
}

/// The measurements of one disk.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DiskMeter {
    /// Seconds per byte.
    pace: Option<f64>,
    /// Seconds.
    latency: Option<f64>,
    /// Seconds.
    scatter: f64,
}

impl DiskMeter {
    /// Adds a read of `len` bytes that took `took`. `under_way` are the bytes of all reads that were under way when it
    /// began, its own included. `took` includes the time that the read waited for its turn.
    pub fn record_read(&mut self, len: u64, under_way: u64, took: Duration) {
        // A clock that stands still gives no pace; no read takes less than a microsecond.
        let seconds = took.as_secs_f64().max(1e-6);
        let under_way = under_way.max(len).max(1);
        let sample = seconds / float(under_way);
        let alone = under_way == len;
        if let Some(expected) = self.estimate(under_way - len, len) {
            let beyond = seconds - expected.as_secs_f64();
            self.scatter = (self.scatter * SCATTER_DECAY).max(beyond.min(MAX_SCATTER));
        }
        self.pace = Some(self.pace.map_or(sample, |pace| {
            let weight = match sample > pace {
                true if alone => ALONE_SLOWER_WEIGHT,
                true => SLOWER_WEIGHT,
                false => FASTER_WEIGHT,
            };
            pace + (sample - pace) * weight
        }));
        self.latency = Some(self.latency.map_or(seconds, |latency| {
            // Beside other reads a read takes longer because of them; the pace covers that.
            let seconds = if alone { seconds } else { seconds.min(latency) };
            latency + (seconds - latency) * SLOWER_WEIGHT
        }));
    }

    /// Estimates the duration of a read of `len` bytes that begins now behind `under_way` bytes. `None` before the
    /// first measurement.
    #[must_use]
    pub fn estimate(&self, under_way: u64, len: u64) -> Option<Duration> {
        let (pace, latency) = (self.pace?, self.latency?);
        let queued = float(under_way.saturating_add(len)) * pace;
        // An hour is the upper bound.
        Some(Duration::from_secs_f64(latency.max(queued).min(3600.0)))
    }

    /// Returns the possible excess of a read over its estimate, from the excess of recent reads.
    #[must_use]
    pub fn scatter(&self) -> Duration {
        Duration::from_secs_f64(self.scatter.max(0.0))
    }

    /// Returns the meter after a time without reads.
    #[must_use]
    pub fn after_idle(mut self, idle: Duration) -> Self {
        self.scatter *= 0.5f64.powf(idle.as_secs_f64() / SCATTER_HALF_LIFE.as_secs_f64());
        self
    }

    /// Returns a line of text for the next process on the same disk; `None` before the first measurement.
    #[must_use]
    pub fn to_line(&self) -> Option<String> {
        let (pace, latency) = (self.pace?, self.latency?);
        Some(format!("{pace:e} {latency:e} {:e}\n", self.scatter))
    }

    /// Parses such a line; `None` if it is malformed or its figures are impossible for a disk.
    #[must_use]
    pub fn parse_line(line: &str) -> Option<Self> {
        let figures = line.split_ascii_whitespace().map(str::parse::<f64>);
        let figures: Result<Vec<_>, _> = figures.collect();
        let [pace, latency, scatter] = figures.ok()?[..] else {
            return None;
        };
        // From a terabyte a second to a byte, and within an hour.
        let sound = (1e-12..=1.0).contains(&pace)
            && (1e-6..=3600.0).contains(&latency)
            && (0.0..=MAX_SCATTER).contains(&scatter);
        sound.then_some(Self {
            pace: Some(pace),
            latency: Some(latency),
            scatter,
        })
    }

    /// Returns the disk's rate in bytes per second; `None` before the first measurement.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        self.pace.map(f64::recip)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate needs no last digit")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests;
