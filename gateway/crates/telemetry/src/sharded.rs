//! Metrics that every request counts, without two processors meeting at one cache line.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric, counter, gauge};

/// Parts of a number: a thread adds to one of them.
const PARTS: usize = 16;

/// The part of the calling thread.
fn own_part() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Relaxed) % PARTS;
    }
    OWN.with(|own| *own)
}

/// A value for each part of the threads. A few threads may share one.
#[derive(Debug, Default)]
pub struct ThreadShards<T>([T; PARTS]);

impl<T> ThreadShards<T> {
    /// Returns the value of the calling thread's part.
    pub fn own(&self) -> &T {
        &self.0[own_part()]
    }
}

/// A counter that many threads add to.
pub type Counter = counter::Counter<u64, ShardedNumber>;

/// A gauge that many threads raise and lower. [`gauge::Gauge::set`] is for tests: it may undo what another thread adds.
pub type Gauge = gauge::Gauge<i64, ShardedNumber>;

/// A number in parts on cache lines of their own. Reading it adds them up, which is no snapshot.
#[derive(Debug, Default)]
pub struct ShardedNumber([Part; PARTS]);

#[derive(Debug, Default)]
#[repr(align(64))]
struct Part(AtomicU64);

impl ShardedNumber {
    /// Adds `value`, and returns what the thread's part was before.
    fn add(&self, value: u64) -> u64 {
        self.0[own_part()].0.fetch_add(value, Relaxed)
    }

    fn sum(&self) -> u64 {
        let parts = self.0.iter().map(|part| part.0.load(Relaxed));
        parts.fold(0, u64::wrapping_add)
    }
}

impl counter::Atomic<u64> for ShardedNumber {
    fn inc(&self) -> u64 {
        self.add(1)
    }

    fn inc_by(&self, value: u64) -> u64 {
        self.add(value)
    }

    fn get(&self) -> u64 {
        self.sum()
    }
}

impl gauge::Atomic<i64> for ShardedNumber {
    fn inc(&self) -> i64 {
        gauge::Atomic::inc_by(self, 1)
    }

    fn inc_by(&self, value: i64) -> i64 {
        self.add(value.cast_unsigned()).cast_signed()
    }

    fn dec(&self) -> i64 {
        gauge::Atomic::inc_by(self, -1)
    }

    fn dec_by(&self, value: i64) -> i64 {
        gauge::Atomic::inc_by(self, -value)
    }

    fn set(&self, value: i64) -> i64 {
        let before = gauge::Atomic::get(self);
        gauge::Atomic::inc_by(self, value.wrapping_sub(before));
        before
    }

    fn get(&self) -> i64 {
        self.sum().cast_signed()
    }
}

/// Buckets of [`Durations`].
const BUCKETS: usize = 20;

/// A histogram of durations, whose bounds double from bucket to bucket.
#[derive(Clone)]
pub struct Durations(Arc<Buckets>);

struct Buckets {
    /// The bound of the first bucket, in nanoseconds.
    first: u64,
    /// The last one has no bound.
    counts: [ShardedNumber; BUCKETS + 1],
    /// Nanoseconds.
    sum: ShardedNumber,
}

impl Durations {
    /// Returns a histogram whose first bucket ends at `first`, which is at least 1 ns.
    #[must_use]
    pub fn new(first: Duration) -> Self {
        Self(Arc::new(Buckets {
            first: nanos(first).max(1),
            counts: Default::default(),
            sum: ShardedNumber::default(),
        }))
    }

    /// Counts one duration.
    pub fn observe(&self, time: Duration) {
        self.observe_many(time, 1);
    }

    /// Counts `count` equal durations.
    pub fn observe_many(&self, time: Duration, count: u64) {
        let time = nanos(time);
        // The first bucket whose bound, `first` doubled so many times, is no less than the time.
        let doublings = u64::BITS - (time.saturating_sub(1) / self.0.first).leading_zeros();
        self.0.counts[BUCKETS.min(doublings as usize)].add(count);
        self.0.sum.add(time.saturating_mul(count));
    }

    /// Returns the bounds in seconds, each with the number of durations between the one before and it.
    fn buckets(&self) -> Vec<(f64, u64)> {
        let bound = |index: usize| match index {
            BUCKETS => f64::MAX,
            _ => seconds(self.0.first << index),
        };
        let counts = self.0.counts.iter().enumerate();
        counts
            .map(|(index, count)| (bound(index), count.sum()))
            .collect()
    }
}

impl fmt::Debug for Durations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Durations").field(&self.buckets()).finish()
    }
}

impl TypedMetric for Durations {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let buckets = self.buckets();
        let count = buckets.iter().map(|(_, count)| count).sum();
        encoder.encode_histogram::<NoLabelSet>(seconds(self.0.sum.sum()), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests;
