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
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHUNK: u64 = 256 << 10;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn nothing_measured_is_nothing_known() {
        let meter = DiskMeter::default();
        assert_eq!(meter.rate(), None);
        assert_eq!(meter.estimate(0, CHUNK), None);
    }

    /// Models a disk of 80 MB/s: sixteen reads at once take sixteen times as long as one.
    #[test]
    fn the_rate_is_that_of_the_disk_at_any_depth() {
        for depth in [1, 4, 16] {
            let mut meter = DiskMeter::default();
            let took = Duration::from_secs_f64((depth * CHUNK) as f64 / 80e6);
            for _ in 0..50 {
                meter.record_read(CHUNK, depth * CHUNK, took);
            }
            let rate = meter.rate().expect("measured");
            assert!((79e6..81e6).contains(&rate), "{depth}: {rate}");
        }
    }

    #[test]
    fn an_estimate_grows_with_what_is_under_way_and_not_below_the_latency() {
        let mut meter = DiskMeter::default();
        meter.record_read(CHUNK, CHUNK, millis(10));
        let estimate = |under_way, len| {
            let estimate = meter.estimate(under_way, len).expect("measured");
            estimate.as_secs_f64() * 1e3
        };
        assert!((estimate(0, 1) - 10.0).abs() < 0.01);
        assert!((estimate(0, CHUNK) - 10.0).abs() < 0.01);
        assert!((estimate(3 * CHUNK, CHUNK) - 40.0).abs() < 0.01);
    }

    #[test]
    fn reads_in_company_raise_the_rate_and_leave_the_latency() {
        let mut meter = DiskMeter::default();
        meter.record_read(CHUNK, CHUNK, millis(4));
        for _ in 0..200 {
            meter.record_read(CHUNK, 8 * CHUNK, millis(8));
        }
        let eight = meter.estimate(7 * CHUNK, CHUNK).expect("measured");
        assert!((millis(8)..millis(9)).contains(&eight), "{eight:?}");
        assert_eq!(meter.estimate(0, CHUNK), Some(millis(4)));
    }

    #[test]
    fn fits_and_starts_are_remembered_for_a_while_and_a_hang_is_not_believed() {
        let mut meter = DiskMeter::default();
        let steady = |meter: &mut DiskMeter, reads| {
            for _ in 0..reads {
                meter.record_read(CHUNK, CHUNK, millis(4));
            }
        };
        steady(&mut meter, 20);
        assert!(meter.scatter() < millis(1), "{:?}", meter.scatter());
        meter.record_read(CHUNK, CHUNK, millis(104));
        assert!((millis(95)..millis(105)).contains(&meter.scatter()));
        steady(&mut meter, 30);
        assert!((millis(40)..millis(60)).contains(&meter.scatter()));
        meter.record_read(CHUNK, CHUNK, millis(30_000));
        assert_eq!(meter.scatter(), millis(400));
        assert_eq!(meter.after_idle(SCATTER_HALF_LIFE).scatter(), millis(200));
    }

    #[test]
    fn a_read_that_takes_as_long_as_its_queue_does_not_scatter() {
        let mut meter = DiskMeter::default();
        meter.record_read(CHUNK, CHUNK, millis(10));
        meter.record_read(CHUNK, 4 * CHUNK, millis(40));
        assert!(meter.scatter() < Duration::from_micros(1));
    }

    #[test]
    fn what_was_measured_can_be_written_down() {
        let mut meter = DiskMeter::default();
        assert_eq!(meter.to_line(), None);
        meter.record_read(CHUNK, CHUNK, millis(10));
        meter.record_read(CHUNK, 4 * CHUNK, millis(90));
        let line = meter.to_line().expect("measured");
        assert_eq!(DiskMeter::parse_line(&line), Some(meter));
        for bad in [
            "",
            "1 2",
            "a b c",
            "1e-9 0.1 0 0",
            "NaN 0.1 0",
            "1e-9 -1 0",
            "1e-9 inf 0",
        ] {
            assert_eq!(DiskMeter::parse_line(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_disk_that_begins_to_lag_is_noticed_within_twenty_reads() {
        let mut meter = DiskMeter::default();
        for _ in 0..100 {
            meter.record_read(CHUNK, 8 * CHUNK, millis(2));
        }
        for _ in 0..20 {
            meter.record_read(CHUNK, 8 * CHUNK, millis(200));
        }
        let now = meter.estimate(7 * CHUNK, CHUNK).expect("measured");
        assert!(now > millis(20), "{now:?}");
    }

    #[test]
    fn what_the_file_cache_answers_does_not_hide_a_slow_disk() {
        let mut meter = DiskMeter::default();
        for round in 0..100 {
            let took = if round % 2 == 0 {
                millis(200)
            } else {
                Duration::from_micros(50)
            };
            meter.record_read(CHUNK, 8 * CHUNK, took);
        }
        let rate = meter.rate().expect("measured");
        assert!(
            (10e6..30e6).contains(&rate),
            "half of it at 10 MB/s: {rate}"
        );
    }

    /// A first read alone takes 10 ms. The second's share of the disk's time is `sample` for a chunk.
    #[test]
    fn a_sample_weighs_an_eighth_if_slower_less_if_alone_and_a_thirty_second_if_faster() {
        for (depth, sample, pace, latency) in [
            (1u32, 74.0, 11.0, 18.0),
            (2, 18.0, 11.0, 10.0),
            (1, 10.0, 10.0, 10.0),
            (1, 6.8, 9.9, 9.6),
            (2, 6.8, 9.9, 10.0),
            (4, 1.7, 9.740_625, 9.6),
        ] {
            let mut meter = DiskMeter::default();
            meter.record_read(CHUNK, CHUNK, millis(10));
            let took = f64::from(depth) * sample / 1e3;
            let under_way = u64::from(depth) * CHUNK;
            meter.record_read(CHUNK, under_way, Duration::from_secs_f64(took));
            let found = [meter.pace, meter.latency].map(|figure| figure.expect("measured") * 1e3);
            let found = [found[0] * CHUNK as f64, found[1]];
            for (found, expected) in found.into_iter().zip([pace, latency]) {
                assert!(
                    (found - expected).abs() < 1e-9,
                    "{depth}, {sample}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn a_read_counts_at_least_its_own_bytes_and_takes_a_microsecond() {
        for (len, under_way, took, rate) in [
            (1000, 0, millis(1), 1e6),
            (1000, 4000, millis(1), 4e6),
            (0, 0, millis(1), 1e3),
            (1000, 1000, Duration::ZERO, 1e9),
        ] {
            let mut meter = DiskMeter::default();
            meter.record_read(len, under_way, took);
            let found = meter.rate().expect("measured");
            assert!((found / rate - 1.0).abs() < 1e-9, "{found} for {rate}");
        }
    }

    #[test]
    fn scatter_is_the_worst_excess_and_fades_by_a_fiftieth_with_each_read() {
        let mut meter = DiskMeter::default();
        meter.record_read(CHUNK, CHUNK, millis(10));
        assert_eq!(meter.scatter(), Duration::ZERO, "nothing was expected");
        meter.record_read(CHUNK, CHUNK, millis(110));
        assert_eq!(meter.scatter(), millis(100));
        // It was expected to take 22.5 ms.
        meter.record_read(CHUNK, CHUNK, Duration::from_micros(22_500));
        assert_eq!(meter.scatter(), millis(98));
        assert_eq!(meter.after_idle(Duration::ZERO).scatter(), millis(98));
        assert_eq!(
            meter.after_idle(2 * SCATTER_HALF_LIFE).scatter(),
            Duration::from_micros(24_500)
        );
    }

    #[test]
    fn no_estimate_is_longer_than_an_hour() {
        let mut meter = DiskMeter::default();
        meter.record_read(1, 1, Duration::from_secs(1));
        for (under_way, expected) in [(3598, 3599), (3599, 3600), (3600, 3600), (u64::MAX, 3600)] {
            assert_eq!(
                meter.estimate(under_way, 1),
                Some(Duration::from_secs(expected))
            );
        }
    }

    #[test]
    fn a_line_holds_figures_that_a_disk_can_have() {
        for (line, sound) in [
            ("1e-12 1e-6 0", true),
            ("1 3600 0.4", true),
            ("9e-13 0.1 0", false),
            ("1.01 0.1 0", false),
            ("1e-9 9e-7 0", false),
            ("1e-9 3601 0", false),
            ("1e-9 0.1 -0.01", false),
            ("1e-9 0.1 0.41", false),
        ] {
            assert_eq!(DiskMeter::parse_line(line).is_some(), sound, "{line}");
        }
    }

    proptest! {
        #[test]
        fn figures_stay_within_what_was_seen(
            reads in proptest::collection::vec((1u64..1 << 24, 0u64..1 << 30, 0u64..60_000_000), 1..100)
        ) {
            let mut meter = DiskMeter::default();
            let (mut least, mut most) = (f64::MAX, 0f64);
            for (len, others, micros) in reads {
                let took = Duration::from_micros(micros);
                meter.record_read(len, len + others, took);
                let sample = (len + others) as f64 / took.as_secs_f64().max(1e-6);
                (least, most) = (least.min(sample), most.max(sample));
            }
            let rate = meter.rate().expect("measured");
            prop_assert!(rate >= least * 0.999 && rate <= most * 1.001);
            prop_assert!(meter.estimate(u64::MAX, 1).expect("measured") <= Duration::from_secs(3600));
        }
    }
}
