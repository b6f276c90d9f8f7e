//! The flow of bytes to one reader: times, rate, and the reader's waits.

use std::time::Duration;

/// Waits from this length on are recorded; shorter ones come from the timer and the scheduler.
const NOTABLE: Duration = Duration::from_millis(1);
/// Waits from this length on are plotted; shorter ones are normal on any network.
const SHOWN: Duration = Duration::from_millis(20);

/// The flow of one body, or of several read one after the other.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    /// Arrival of the first byte, counted from the request.
    pub first_byte: Duration,
    /// Arrival of the last byte.
    pub total: Duration,
    /// Bytes received.
    pub bytes: u64,
    /// Bytes in each tenth of a second.
    tenths: Vec<u64>,
    /// The end and the length of each notable wait.
    waits: Vec<(Duration, Duration)>,
}

impl Flow {
    /// Adds `len` bytes that arrived at `at`, after the reader had waited for them for `waited`.
    pub fn came(&mut self, at: Duration, waited: Duration, len: usize) {
        if self.bytes == 0 {
            self.first_byte = at;
        } else if waited >= NOTABLE {
            self.waits.push((at, waited));
        }
        self.bytes += len as u64;
        self.total = at;
        let tenth = usize::try_from(at.as_millis() / 100).unwrap_or(usize::MAX);
        if self.tenths.len() <= tenth {
            self.tenths.resize(tenth + 1, 0);
        }
        self.tenths[tenth] += len as u64;
    }

    /// Appends the flow of the same reader's next request, which began at `self.total`.
    pub fn then(&mut self, next: &Self) {
        let shift = self.total;
        if self.bytes == 0 {
            self.first_byte = next.first_byte;
        }
        // The tenths of both overlap at the seam by less than one tenth.
        let offset = usize::try_from(shift.as_millis() / 100).unwrap_or(usize::MAX);
        if self.tenths.len() < offset + next.tenths.len() {
            self.tenths.resize(offset + next.tenths.len(), 0);
        }
        for (tenth, bytes) in next.tenths.iter().enumerate() {
            self.tenths[offset + tenth] += bytes;
        }
        let waits = next.waits.iter();
        self.waits
            .extend(waits.map(|(at, waited)| (shift + *at, *waited)));
        self.total += next.total;
        self.bytes += next.bytes;
    }

    /// Sums the flows of several readers that began at once. Their waits are left out, because the
    /// other readers went on.
    #[must_use]
    pub fn together(flows: &[Self]) -> Self {
        let mut all = Self::default();
        for flow in flows {
            if all.tenths.len() < flow.tenths.len() {
                all.tenths.resize(flow.tenths.len(), 0);
            }
            for (sum, bytes) in all.tenths.iter_mut().zip(&flow.tenths) {
                *sum += bytes;
            }
            all.bytes += flow.bytes;
            all.total = all.total.max(flow.total);
        }
        all.first_byte = flows
            .iter()
            .map(|flow| flow.first_byte)
            .min()
            .unwrap_or_default();
        all
    }

    /// Returns the rate over the whole time, in megabytes (10⁶ bytes) per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.total.as_secs_f64()
    }

    /// Counts the waits of at least a millisecond that ended after `settled` and were longer than
    /// `limit`.
    #[must_use]
    pub fn gaps(&self, limit: Duration, settled: Duration) -> usize {
        let late = |(at, waited): &&(Duration, Duration)| *at > settled && *waited > limit;
        self.waits.iter().filter(late).count()
    }

    /// Returns the share of the time after `settled` that passed in waits of at least a
    /// millisecond. A reader without a pace always waits; for a paced reader it is the lost time.
    #[must_use]
    pub fn stalled_share(&self, settled: Duration) -> f64 {
        let waited: Duration = self
            .waits
            .iter()
            .filter(|(at, _)| *at > settled)
            .map(|(_, waited)| *waited)
            .sum();
        let watched = self.total.saturating_sub(settled);
        waited.as_secs_f64() / watched.as_secs_f64().max(1e-9)
    }

    /// Returns points of a plot: seconds, and MB/s in the half second that ended there.
    #[must_use]
    pub fn over_time(&self) -> Vec<(f64, f64)> {
        let halves = self.tenths.chunks(5).enumerate();
        halves
            .map(|(half, tenths)| {
                let seconds = tenths.len() as f64 / 10.0;
                let rate = tenths.iter().sum::<u64>() as f64 / 1e6 / seconds;
                (half as f64 / 2.0 + seconds, rate)
            })
            .collect()
    }

    /// Returns points of a plot: seconds, and the length in ms of the notable wait that ended
    /// there.
    #[must_use]
    pub fn waits(&self) -> Vec<(f64, f64)> {
        let points = self.waits.iter().filter(|(_, waited)| *waited >= SHOWN);
        points
            .map(|(at, waited)| (at.as_secs_f64(), waited.as_secs_f64() * 1e3))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn flow(pieces: &[(u64, u64, usize)]) -> Flow {
        let mut flow = Flow::default();
        for (at, waited, len) in pieces {
            flow.came(ms(*at), ms(*waited), *len);
        }
        flow
    }

    #[test]
    fn gaps_count_after_the_start_has_settled_and_the_first_byte_is_none() {
        let flow = flow(&[(500, 500, 1), (700, 200, 1), (3500, 150, 1), (4000, 30, 1)]);
        assert_eq!(flow.gaps(ms(100), ms(3000)), 1);
        assert_eq!(flow.gaps(ms(20), ms(3000)), 2);
        assert_eq!(flow.gaps(ms(100), ms(0)), 2);
        assert!((flow.stalled_share(ms(3000)) - 0.18).abs() < 1e-9);
    }

    #[test]
    fn two_flows_in_a_row_are_one() {
        let mut first = flow(&[(1000, 0, 1_000_000)]);
        first.then(&flow(&[(1000, 300, 1_000_000), (2000, 400, 1_000_000)]));
        assert_eq!(first.bytes, 3_000_000);
        assert!((first.rate() - 1.0).abs() < 1e-9);
        assert_eq!(first.waits(), vec![(3.0, 400.0)]);
        let plotted: f64 = first.over_time().iter().map(|(_, rate)| rate / 2.0).sum();
        assert!((2.9..=15.0).contains(&plotted), "{plotted}");
    }
}
