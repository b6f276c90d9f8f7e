//! The metrics of the chunk tiers.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::disk::{Fault, Refusal};
use super::memory::MemoryMetrics;
use super::tiering::DiskState;
use tidegate_telemetry::sharded::Durations;
use tidegate_telemetry::{names, sharded};

/// The end of the first bucket of eviction ages; the last one ends after six days.
const FIRST_EVICTION_AGE: Duration = Duration::from_secs(1);

/// The tier, and the path of its disk (empty for memory).
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TierLabel {
    tier: &'static str,
    disk: String,
}

/// A disk and a reason.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    disk: String,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DiskLabel {
    disk: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    disk: String,
    state: &'static str,
}

/// All families; each tier takes its own metrics out of them once.
#[derive(Debug, Clone)]
pub(super) struct StoreMetrics {
    hits: Family<TierLabel, sharded::Counter>,
    misses: Family<TierLabel, Counter>,
    hit_bytes: Family<TierLabel, sharded::Counter>,
    inserts: Family<TierLabel, Counter>,
    used: Family<TierLabel, Gauge>,
    capacity: Family<TierLabel, Gauge>,
    evictions: Counter,
    eviction_age: Family<TierLabel, Durations, fn() -> Durations>,
    refusals: Family<ReasonLabel, Counter>,
    faults: Family<ReasonLabel, Counter>,
    free: Family<DiskLabel, Gauge>,
    queued: Family<DiskLabel, Gauge>,
    pinned: Family<DiskLabel, Gauge>,
    up: Family<DiskLabel, Gauge>,
    state: Family<StateLabel, Gauge>,
    chunks: Family<DiskLabel, Gauge>,
    hung: Family<DiskLabel, Gauge>,
    disk_evictions: Family<DiskLabel, Counter>,
    written: Family<DiskLabel, Counter>,
    admitted: Family<DiskLabel, Counter>,
    rewritten: Family<DiskLabel, Counter>,
    read_seconds: Family<DiskLabel, Histogram>,
}

/// The metrics of every tier.
#[derive(Debug, Clone)]
pub(super) struct TierMetrics {
    pub(super) hits: sharded::Counter,
    pub(super) misses: Counter,
    pub(super) hit_bytes: sharded::Counter,
    pub(super) inserts: Counter,
    pub(super) used: Gauge,
    pub(super) capacity: Gauge,
    /// The time that evicted chunks had been there.
    pub(super) eviction_age: Durations,
}

impl TierMetrics {
    /// Counts the outcome of a look-up.
    pub(super) fn count_lookup(&self, found: Option<usize>) {
        match found {
            Some(len) => {
                self.hits.inc();
                self.hit_bytes.inc_by(u64::try_from(len).unwrap_or(0));
            }
            None => {
                self.misses.inc();
            }
        }
    }
}

/// The metrics of a disk, including those of every tier.
#[derive(Debug, Clone)]
pub(super) struct DiskMetrics {
    pub(super) tier: TierMetrics,
    pub(super) free: Gauge,
    pub(super) queued: Gauge,
    /// Bytes that pins keep from eviction.
    pub(super) pinned: Gauge,
    /// Chunks in the index.
    pub(super) chunks: Gauge,
    /// Abandoned reads that did not return yet.
    pub(super) hung: Gauge,
    pub(super) evictions: Counter,
    /// Bytes written to the device, whole pages and index entries.
    pub(super) written: Counter,
    /// Bytes of chunks written for the first time.
    pub(super) admitted: Counter,
    /// Bytes of chunks written again, to remove nearly empty segments.
    pub(super) rewritten: Counter,
    pub(super) read_seconds: Histogram,
    /// 1 while its index is complete and it is read.
    pub(super) up: Gauge,
    states: [Gauge; DiskState::SWITCHED_ON.len()],
    refusals: Family<ReasonLabel, Counter>,
    faults: Family<ReasonLabel, Counter>,
    disk: String,
}

impl DiskMetrics {
    /// Counts a chunk that was not taken.
    pub(super) fn count_refusal(&self, refusal: Refusal) {
        self.refusals
            .get_or_create(&self.reason(refusal.name()))
            .inc();
    }

    /// Counts a read that gave no sound chunk.
    pub(super) fn count_fault(&self, fault: Fault) {
        self.faults.get_or_create(&self.reason(fault.name())).inc();
    }

    /// Shows the state, 1 for this one and 0 for all others, and whether a disk whose index is complete is read.
    pub(super) fn set_state(&self, state: DiskState, is_read: bool) {
        for (one, gauge) in DiskState::SWITCHED_ON.iter().zip(&self.states) {
            gauge.set(i64::from(*one == state));
        }
        self.up.set(i64::from(is_read));
    }

    fn reason(&self, reason: &'static str) -> ReasonLabel {
        ReasonLabel {
            disk: self.disk.clone(),
            reason,
        }
    }
}

impl Default for StoreMetrics {
    fn default() -> Self {
        Self {
            hits: Family::default(),
            misses: Family::default(),
            hit_bytes: Family::default(),
            inserts: Family::default(),
            used: Family::default(),
            capacity: Family::default(),
            evictions: Counter::default(),
            eviction_age: Family::new_with_constructor(|| Durations::new(FIRST_EVICTION_AGE)),
            refusals: Family::default(),
            faults: Family::default(),
            free: Family::default(),
            queued: Family::default(),
            pinned: Family::default(),
            up: Family::default(),
            state: Family::default(),
            chunks: Family::default(),
            hung: Family::default(),
            disk_evictions: Family::default(),
            written: Family::default(),
            admitted: Family::default(),
            rewritten: Family::default(),
            // 20 µs to 10 s: from the page cache to a disk that is about to fail.
            read_seconds: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.000_02, 2.0, 20))
            }),
        }
    }
}

impl StoreMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        names::STORE_HITS.register(registry, self.hits.clone());
        names::STORE_MISSES.register(registry, self.misses.clone());
        names::STORE_HIT_BYTES.register(registry, self.hit_bytes.clone());
        names::STORE_INSERTS.register(registry, self.inserts.clone());
        names::STORE_USED_BYTES.register(registry, self.used.clone());
        names::STORE_CAPACITY_BYTES.register(registry, self.capacity.clone());
        names::STORE_EVICTION_AGE.register(registry, self.eviction_age.clone());
        names::STORE_EVICTIONS.register(registry, self.evictions.clone());
        names::STORE_REFUSALS.register(registry, self.refusals.clone());
        names::STORE_FAULTS.register(registry, self.faults.clone());
        names::STORE_FREE_BYTES.register(registry, self.free.clone());
        names::STORE_QUEUED_BYTES.register(registry, self.queued.clone());
        names::STORE_PINNED_BYTES.register(registry, self.pinned.clone());
        names::STORE_DISK_UP.register(registry, self.up.clone());
        names::STORE_DISK_STATE.register(registry, self.state.clone());
        names::STORE_DISK_CHUNKS.register(registry, self.chunks.clone());
        names::STORE_HUNG_READS.register(registry, self.hung.clone());
        names::STORE_DISK_EVICTIONS.register(registry, self.disk_evictions.clone());
        names::STORE_WRITTEN_BYTES.register(registry, self.written.clone());
        names::STORE_ADMITTED_BYTES.register(registry, self.admitted.clone());
        names::STORE_REWRITTEN_BYTES.register(registry, self.rewritten.clone());
        names::STORE_READ_SECONDS.register(registry, self.read_seconds.clone());
    }

    /// Returns the metrics of the memory tier: those of every tier, and its own.
    pub(super) fn memory(&self) -> (TierMetrics, MemoryMetrics) {
        let tier = self.tier("memory", "");
        let own = MemoryMetrics {
            evictions: self.evictions.clone(),
            used: tier.used.clone(),
            capacity: tier.capacity.clone(),
            eviction_age: tier.eviction_age.clone(),
        };
        (tier, own)
    }

    /// Returns the metrics of the disk at `path`.
    pub(super) fn disk(&self, path: &str) -> DiskMetrics {
        let label = DiskLabel {
            disk: path.to_owned(),
        };
        // They begin at 0, so that the first one counts as a rise.
        for reason in Refusal::ALL {
            let (disk, reason) = (path.to_owned(), reason.name());
            let _ = self.refusals.get_or_create(&ReasonLabel { disk, reason });
        }
        for reason in Fault::ALL {
            let (disk, reason) = (path.to_owned(), reason.name());
            let _ = self.faults.get_or_create(&ReasonLabel { disk, reason });
        }
        DiskMetrics {
            tier: self.tier("disk", path),
            free: self.free.get_or_create_owned(&label),
            queued: self.queued.get_or_create_owned(&label),
            pinned: self.pinned.get_or_create_owned(&label),
            up: self.up.get_or_create_owned(&label),
            states: DiskState::SWITCHED_ON.map(|state| {
                self.state.get_or_create_owned(&StateLabel {
                    disk: path.to_owned(),
                    state: state.name(),
                })
            }),
            chunks: self.chunks.get_or_create_owned(&label),
            hung: self.hung.get_or_create_owned(&label),
            evictions: self.disk_evictions.get_or_create_owned(&label),
            written: self.written.get_or_create_owned(&label),
            admitted: self.admitted.get_or_create_owned(&label),
            rewritten: self.rewritten.get_or_create_owned(&label),
            read_seconds: self.read_seconds.get_or_create_owned(&label),
            refusals: self.refusals.clone(),
            faults: self.faults.clone(),
            disk: path.to_owned(),
        }
    }

    /// Removes the metrics of the disk at `path`, which is not used any more.
    pub(super) fn forget_disk(&self, path: &str) {
        let label = DiskLabel {
            disk: path.to_owned(),
        };
        let tier = TierLabel {
            tier: "disk",
            disk: path.to_owned(),
        };
        for reason in Refusal::ALL.map(Refusal::name) {
            let disk = path.to_owned();
            self.refusals.remove(&ReasonLabel { disk, reason });
        }
        for reason in Fault::ALL.map(Fault::name) {
            let disk = path.to_owned();
            self.faults.remove(&ReasonLabel { disk, reason });
        }
        for state in DiskState::SWITCHED_ON.map(DiskState::name) {
            let disk = path.to_owned();
            self.state.remove(&StateLabel { disk, state });
        }
        for counter in [&self.hits, &self.hit_bytes] {
            counter.remove(&tier);
        }
        for counter in [&self.misses, &self.inserts] {
            counter.remove(&tier);
        }
        for gauge in [&self.used, &self.capacity] {
            gauge.remove(&tier);
        }
        self.eviction_age.remove(&tier);
        let gauges = [&self.free, &self.queued, &self.pinned, &self.up];
        for gauge in gauges.into_iter().chain([&self.chunks, &self.hung]) {
            gauge.remove(&label);
        }
        let counters = [&self.disk_evictions, &self.written, &self.admitted];
        for counter in counters.into_iter().chain([&self.rewritten]) {
            counter.remove(&label);
        }
        self.read_seconds.remove(&label);
    }

    fn tier(&self, tier: &'static str, disk: &str) -> TierMetrics {
        let label = TierLabel {
            tier,
            disk: disk.to_owned(),
        };
        TierMetrics {
            hits: self.hits.get_or_create_owned(&label),
            misses: self.misses.get_or_create_owned(&label),
            hit_bytes: self.hit_bytes.get_or_create_owned(&label),
            inserts: self.inserts.get_or_create_owned(&label),
            used: self.used.get_or_create_owned(&label),
            capacity: self.capacity.get_or_create_owned(&label),
            eviction_age: self.eviction_age.get_or_create_owned(&label),
        }
    }
}

/// Returns the number of durations that a histogram has counted.
#[cfg(test)]
pub(super) fn count_of(durations: &Durations) -> u64 {
    let mut registry = Registry::default();
    registry.register("times", "", durations.clone());
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
    let mut lines = text.lines();
    let count = lines.find_map(|line| line.strip_prefix("times_count ")?.parse().ok());
    count.expect("a histogram has a count")
}
