//! The engine's metrics.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::names::NameRequestCause;
use tidegate_telemetry::sharded::Durations;
use tidegate_telemetry::{names, sharded};

/// The end of the first bucket of waits: doubled eight times it is 100 ms, from which a wait counts as a gap.
const FIRST_WAIT: Duration = Duration::from_nanos(390_625);

/// A frontend and a profile.
type ReaderLabels = [(&'static str, &'static str); 2];

/// The histograms of waits.
#[derive(Debug, Clone)]
struct Waits(Family<ReaderLabels, Durations, fn() -> Durations>);

impl Default for Waits {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Durations::new(FIRST_WAIT)))
    }
}

/// The engine's metrics. Handles are plain atomics, so counting needs no look-up.
#[derive(Debug, Clone, Default)]
pub(super) struct Metrics {
    /// Bytes that the origin sent.
    pub(super) fetched: Counter<u64, AtomicU64>,
    /// Bytes of chunks stored because they were written here, by cause.
    filed: Family<[(&'static str, &'static str); 1], Counter>,
    reported: Family<[(&'static str, &'static str); 1], Counter>,
    /// Bytes that readers took.
    pub delivered: sharded::Counter,
    /// Requests that asked which version a key has.
    pub(super) resolves: Counter,
    /// Requests for further parts of a known version.
    pub(super) parts: Counter,
    /// Small objects fetched ahead of readers that go through a folder.
    pub(super) prefetched: Counter,
    /// Second requests for parts that were late.
    pub(super) hedges: Counter,
    /// Chunks read from a disk; those that were late and raced against the origin, by winner; and the races begun.
    pub(super) disk_reads: Counter,
    races: Family<[(&'static str, &'static str); 1], Counter>,
    pub(super) raced: Counter,
    /// The maximum cost of the hedges in bytes.
    pub(super) hedged: Counter<u64, AtomicU64>,
    /// Readers that joined a chunk already under way.
    pub(super) joined: Counter,
    /// Fetches stopped because no reader wanted them any more.
    pub(super) abandoned: Counter,
    /// Stale answers given because the origin failed.
    pub(super) stale_on_error: Counter,
    /// Times that readers waited for bytes, and the longer waits, by frontend and profile.
    waits: Waits,
    gaps: Family<ReaderLabels, Counter>,
    /// Requests about names, by cause.
    names: Family<[(&'static str, &'static str); 1], Counter>,
    /// Runs of encoders by coding and result, and variants that were not made, by reason.
    encoders: Family<[(&'static str, &'static str); 2], Counter>,
    encoders_refused: Family<[(&'static str, &'static str); 1], Counter>,
}

impl Metrics {
    /// Counts a race between a disk and the origin that `winner` has won.
    pub(super) fn race_won_by(&self, winner: &'static str) {
        self.races.get_or_create(&[("winner", winner)]).inc();
    }

    /// Counts a request to the bucket about a name, or the names of a folder.
    pub(super) fn asked_for_names(&self, cause: NameRequestCause) {
        self.names.get_or_create(&[("cause", cause.as_str())]).inc();
    }

    /// Counts a wait of a reader, by frontend and profile.
    pub(super) fn waited(&self, (frontend, profile): (&'static str, &'static str), time: Duration) {
        let labels = [("frontend", frontend), ("profile", profile)];
        self.waits.0.get_or_create(&labels).observe(time);
        // It begins at 0, so that the first gap counts as a rise.
        let _ = self.gaps.get_or_create(&labels);
    }

    /// Counts a wait that a player or a viewer may notice.
    pub(super) fn gap(&self, (frontend, profile): (&'static str, &'static str)) {
        let labels = [("frontend", frontend), ("profile", profile)];
        self.gaps.get_or_create(&labels).inc();
    }

    /// Removes the waits and gaps of a frontend and a profile.
    pub(super) fn forget_waits(&self, (frontend, profile): (&'static str, &'static str)) {
        let labels = [("frontend", frontend), ("profile", profile)];
        self.waits.0.remove(&labels);
        self.gaps.remove(&labels);
    }

    /// Counts a change that the bucket has reported, by its effect.
    pub(super) fn reported(&self, effect: &'static str) {
        self.reported.get_or_create(&[("effect", effect)]).inc();
    }

    /// Counts a stored chunk that a write brought.
    pub(super) fn filed(&self, cause: &'static str, bytes: u64) {
        self.filed.get_or_create(&[("cause", cause)]).inc_by(bytes);
    }

    /// Counts a run of an encoder.
    pub(super) fn encoded(&self, coding: &'static str, result: &'static str) {
        let labels = [("coding", coding), ("result", result)];
        self.encoders.get_or_create(&labels).inc();
    }

    /// Counts an identity answer for lack of an encoder.
    pub(super) fn encoder_refused(&self, reason: &'static str) {
        let labels = [("reason", reason)];
        self.encoders_refused.get_or_create(&labels).inc();
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        names::ENGINE_FETCHED.register(registry, self.fetched.clone());
        names::ENGINE_FILED.register(registry, self.filed.clone());
        names::ENGINE_REPORTED.register(registry, self.reported.clone());
        names::ENGINE_DELIVERED.register(registry, self.delivered.clone());
        names::ENGINE_RESOLVES.register(registry, self.resolves.clone());
        names::ENGINE_PARTS.register(registry, self.parts.clone());
        names::ENGINE_FOLDER_PREFETCHES.register(registry, self.prefetched.clone());
        names::ENGINE_HEDGES.register(registry, self.hedges.clone());
        names::ENGINE_DISK_READS.register(registry, self.disk_reads.clone());
        names::ENGINE_DISK_RACES.register(registry, self.races.clone());
        names::ENGINE_HEDGED.register(registry, self.hedged.clone());
        names::ENGINE_JOINED.register(registry, self.joined.clone());
        names::ENGINE_ABANDONED.register(registry, self.abandoned.clone());
        names::ENGINE_STALE_ON_ERROR.register(registry, self.stale_on_error.clone());
        names::READER_WAITS.register(registry, self.waits.0.clone());
        names::READER_GAPS.register(registry, self.gaps.clone());
        names::ENGINE_NAME_REQUESTS.register(registry, self.names.clone());
        names::ENGINE_ENCODER_RUNS.register(registry, self.encoders.clone());
        names::ENGINE_ENCODERS_REFUSED.register(registry, self.encoders_refused.clone());
    }
}
