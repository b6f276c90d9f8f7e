//! Tidegate's own counts of its requests to the bucket that it sent because something was late, as on a busy machine: bounds
//! on requests and bytes are judged without them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::peers::{metric_sum, told};
use crate::report::{Report, Target};

/// The bytes of a chunk, as built in: as much as a read of a disk brings.
const CHUNK: u64 = 256 << 10;
/// The most bytes that a connection holds, sent and not received: they are lost with a request that is given up.
const SOCKET_BYTES: u64 = 4 << 20;
/// Time limit for all that is written to be in the bucket, and the interval between two looks.
const TIMEOUT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The requests so far, or between two points in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LateCounts {
    /// GETs sent beside one, or a read of a cache disk, that was late.
    gets: u64,
    /// The most bytes that these brought.
    bytes: u64,
    /// Reads that a cache disk did not answer in time. Nothing is read from it for a while then, and the gateway does not count
    /// what the bucket is asked for in its place.
    pub disk_reads: u64,
    /// Requests sent again after a failure that passes.
    pub retries: u64,
}

impl LateCounts {
    /// Reads them from metrics in Prometheus' format.
    #[must_use]
    pub fn read(metrics: &str) -> Self {
        let count = |name, label| metric_sum(metrics, name, label) as u64;
        let hedges = count("tidegate_hedges_total", "");
        let races = count("tidegate_disk_races_total", "");
        let retries = count("tidegate_origin_retries_total", "");
        let lost = (hedges + retries) * SOCKET_BYTES;
        Self {
            gets: hedges + races,
            bytes: count("tidegate_hedged_bytes_total", "") + races * CHUNK + lost,
            disk_reads: count("tidegate_store_faults_total", "reason=\"late\""),
            retries,
        }
    }

    /// Returns the counts of the gateway with this admin listener; none of another peer, which has none.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn of(admin: Option<SocketAddr>) -> Result<Self> {
        Ok(match admin {
            Some(admin) => Self::read(&told(admin, "/metrics").await?),
            None => Self::default(),
        })
    }

    /// Returns the GETs that lateness does not explain: none if a disk was left alone.
    #[must_use]
    pub const fn gets_beyond(self, gets: u64) -> u64 {
        match self.disk_reads {
            0 => gets.saturating_sub(self.gets + self.retries),
            _ => 0,
        }
    }

    /// Returns the bytes from the bucket that lateness does not explain: none if a disk was left alone.
    #[must_use]
    pub const fn bytes_beyond(self, bytes: u64) -> u64 {
        match self.disk_reads {
            0 => bytes.saturating_sub(self.bytes),
            _ => 0,
        }
    }

    /// Adds the lateness that excuses most: a quiet machine has none.
    pub fn aim(self, report: &mut Report, place: &str) {
        for (what, count) in [
            ("requests sent beside late ones", self.gets),
            ("reads of a cache disk that were late", self.disk_reads),
            ("requests sent again", self.retries),
        ] {
            let figure = format!("{place}: {what}");
            report.aim(figure, count as f64, Target::AtMost(0.0));
        }
    }

    /// Returns the counts since `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            gets: self.gets.saturating_sub(earlier.gets),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            disk_reads: self.disk_reads.saturating_sub(earlier.disk_reads),
            retries: self.retries.saturating_sub(earlier.retries),
        }
    }
}

/// Waits until the gateway with this admin listener has nothing left to send to the bucket; another peer does not tell.
///
/// # Errors
/// If something waits for five minutes.
pub async fn sends_all(admin: Option<SocketAddr>) -> Result<()> {
    let Some(admin) = admin else { return Ok(()) };
    let since = Instant::now();
    loop {
        let pending = told(admin, "/pending").await?;
        if pending.contains("\"pending\":[]") {
            return Ok(());
        }
        ensure!(since.elapsed() < TIMEOUT, "something waits: {pending}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# TYPE tidegate_hedges_total counter\n\
        tidegate_hedges_total 1\n\
        tidegate_hedged_bytes_total 1000\n\
        tidegate_disk_races_total{winner=\"disk\"} 2\n";
    const AFTER: &str = "tidegate_hedges_total 2\n\
        tidegate_hedged_bytes_total 1500\n\
        tidegate_disk_reads_total 99\n\
        tidegate_disk_races_total{winner=\"disk\"} 3\n\
        tidegate_disk_races_total{winner=\"origin\"} 1\n\
        tidegate_store_faults_total{disk=\"/d\",reason=\"corrupt\"} 7\n\
        tidegate_store_faults_total{disk=\"/d\",reason=\"late\"} 2\n\
        tidegate_origin_retries_total{origin=\"a\"} 5\n\
        tidegate_origin_retries_total{origin=\"b\"} 1\n";

    #[test]
    fn what_was_late_is_counted_and_faults_of_other_kinds_are_not() {
        let late = LateCounts::read(AFTER).since(LateCounts::read(BEFORE));
        let expected = LateCounts {
            gets: 1 + 2,
            bytes: 500 + 2 * CHUNK + 7 * SOCKET_BYTES,
            disk_reads: 2,
            retries: 6,
        };
        assert_eq!(late, expected);
        assert_eq!((late.gets_beyond(99), late.bytes_beyond(1 << 30)), (0, 0));
        let late = LateCounts {
            disk_reads: 0,
            ..late
        };
        let bytes = late.bytes;
        assert_eq!((late.gets_beyond(9), late.bytes_beyond(bytes)), (0, 0));
        assert_eq!((late.gets_beyond(10), late.bytes_beyond(bytes + 1)), (1, 1));
        assert_eq!(LateCounts::read(""), LateCounts::default());
    }
}
