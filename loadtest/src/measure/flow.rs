//! How bytes flowed to one reader: when, how fast, and where the reader had to wait.

use std::time::Duration;

/// Waits from this length on are kept one by one; shorter ones are the timer's and the scheduler's.
const NOTABLE: Duration = Duration::from_millis(1);
/// Waits from this length on are shown one by one; shorter ones are how any network delivers.
const SHOWN: Duration = Duration::from_millis(20);

/// The flow of one body, or of several read one after the other.
#[derive(Debug, Clone, Default)]
pub struct Flow {
    /// When the first byte came, counted from the question.
    pub first_byte: Duration,
    /// When the last did.
    pub total: Duration,
    /// Bytes that came.
    pub bytes: u64,
    /// Bytes in each tenth of a second.
    tenths: Vec<u64>,
    /// Each notable wait: when it ended, and how long it was.
    waits: Vec<(Duration, Duration)>,
}

impl Flow {
    /// Adds `len` bytes that came at `at`, after the reader had waited for them for `waited`.
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

    /// Adds what a reader received that went on, with a new request, after `self.total`.
    pub fn then(&mut self, next: &Self) {
        let shift = self.total;
        if self.bytes == 0 {
            self.first_byte = next.first_byte;
        }
        // Tenths of both overlap at the seam by less than one of them.
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

    /// What several readers received that began at once, as the flow of one; their waits are
    /// nobody's, as the others went on, and are left out.
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

    /// Megabytes (of 10⁶ bytes) in a second, over all of it.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.total.as_secs_f64()
    }

    /// How many waits that ended after `settled` were longer than `limit`, of at least a
    /// millisecond.
    #[must_use]
    pub fn gaps(&self, limit: Duration, settled: Duration) -> usize {
        let late = |(at, waited): &&(Duration, Duration)| *at > settled && *waited > limit;
        self.waits.iter().filter(late).count()
    }

    /// The share of the time after `settled` that passed in waits of at least a millisecond. A
    /// reader without a pace always waits; of one with a pace, it is what it lost.
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

    /// Points of a plot: seconds, and MB/s in the half second that ended there.
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

    /// Points of a plot: seconds, and the length in ms of the notable wait that ended there.
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
