//! The figures of a period, computed from the metrics at its begin and its end.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::exposition::{Samples, label};

/// The results of requests to the bucket that are failures; the others are answers, or readers that left.
const FAILURES: [&str; 12] = [
    "bad_answer",
    "damaged",
    "forbidden",
    "invalid_part",
    "no_such_bucket",
    "no_such_upload",
    "refused",
    "storage_full",
    "throttled",
    "timeout",
    "unavailable",
    "unsupported",
];

/// The causes of requests for bytes that readers take.
const READERS: [&str; 5] = ["demand", "ahead", "folder", "hedge", "revalidate"];

/// The figures of a period.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Figures {
    /// HTTP requests that ended, a second.
    pub requests_per_second: f64,
    /// Requests of the kernel to mounts that ended, a second.
    #[serde(default)]
    pub mount_operations_per_second: f64,
    /// Bytes that readers took, of HTTP and mounts, a second.
    pub bytes_per_second: f64,
    /// Bytes that the buckets sent, a second.
    pub fetched_bytes_per_second: f64,
    /// The share of each tier in the bytes that readers took in the hour before the end of the period, or since the start;
    /// `null` if they took none. It is an hour because read-ahead fetches long before readers take.
    pub hit_share: Option<HitShare>,
    /// Bytes fetched from the buckets over bytes that readers took; `null` if they took none.
    pub amplification: Option<f64>,
    /// The time from a request's head to the first byte of its answer; `null` if no request ended.
    pub first_byte: Option<Quantiles>,
    /// The time of each wait of a reader, of HTTP or a mount, for bytes that memory did not have; `null` if none waited.
    #[serde(default)]
    pub waits: Option<Quantiles>,
    /// Waits of streams that were longer than 100 ms.
    pub stalls: u64,
    /// Failures, all causes together.
    pub errors: u64,
    /// Requests that their clients ended before the last byte, as a player does that seeks or is closed. They are no
    /// failures.
    #[serde(default)]
    pub ended_by_client: u64,
}

/// The share of each tier, from 0 to 1; together they are 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HitShare {
    /// Bytes that neither a disk nor a bucket had to give again.
    pub memory: f64,
    /// Bytes that were read from a cache disk.
    pub disk: f64,
    /// Bytes that a bucket sent for readers, also ahead of them and in vain.
    pub origin: f64,
}

/// The bytes that readers took, and those that were brought into memory for them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Flow {
    delivered: f64,
    disk: f64,
    origin: f64,
}

impl Flow {
    /// Returns the flow between two times. What the bucket sent for an order to warm, or for a write, was for no reader.
    pub(crate) fn between(before: &Samples, after: &Samples) -> Self {
        let grown = |name: &str, having: &[(&str, &str)]| after.growth(before, name, having);
        let received = |cause| grown("origin_received_bytes_total", &[("cause", cause)]);
        Self {
            delivered: grown("delivered_bytes_total", &[]),
            disk: grown("store_hit_bytes_total", &[("tier", "disk")]),
            origin: READERS.map(received).iter().sum(),
        }
    }

    /// Returns both flows together.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            delivered: self.delivered + other.delivered,
            disk: self.disk + other.disk,
            origin: self.origin + other.origin,
        }
    }

    /// Returns the share of each tier in this flow without its beginning; `None` if readers took nothing.
    pub(crate) fn share(self, beginning: Self) -> Option<HitShare> {
        let delivered = self.delivered - beginning.delivered;
        if delivered <= 0.0 {
            return None;
        }
        let of = |all: f64, beginning: f64| ((all - beginning) / delivered).max(0.0);
        let origin = of(self.origin, beginning.origin).min(1.0);
        let disk = of(self.disk, beginning.disk).min(1.0 - origin);
        let memory = 1.0 - origin - disk;
        Some(HitShare {
            memory,
            disk,
            origin,
        })
    }
}

/// Three quantiles, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Quantiles {
    /// The median.
    pub p50: f64,
    /// The time that 9 of 10 stay below.
    pub p90: f64,
    /// The time that 99 of 100 stay below.
    pub p99: f64,
}

/// The number of failures of one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorCount {
    /// The cause, in words.
    pub cause: String,
    /// The failures in the period.
    pub count: u64,
}

/// The metrics at one time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) samples: Samples,
    /// Stalls of streams since the start.
    pub(crate) stalls: u64,
    /// The time, in seconds since the start of the sampler.
    pub(crate) at: f64,
}

impl Quantiles {
    /// Returns the quantiles of a histogram since `before`.
    pub(crate) fn of(
        samples: &Samples,
        name: &str,
        having: &[(&str, &str)],
        before: Option<&Samples>,
    ) -> Option<Self> {
        let of = |quantile| samples.quantile(name, having, quantile, before);
        Some(Self {
            p50: of(0.5)?,
            p90: of(0.9)?,
            p99: of(0.99)?,
        })
    }
}

impl Figures {
    /// Returns the figures between two times. The shares are those of the last hour.
    pub(crate) fn between(
        before: &Snapshot,
        after: &Snapshot,
        hit_share: Option<HitShare>,
    ) -> Self {
        let time = (after.at - before.at).max(0.001);
        let grown = |name: &str, having: &[(&str, &str)]| {
            after.samples.growth(&before.samples, name, having)
        };
        let quantiles =
            |name: &str| Quantiles::of(&after.samples, name, &[], Some(&before.samples));
        let delivered = grown("delivered_bytes_total", &[]);
        let fetched = grown("fetched_bytes_total", &[]);
        Self {
            requests_per_second: grown("http_requests_total", &[]) / time,
            mount_operations_per_second: grown("fuse_operations_total", &[]) / time,
            bytes_per_second: delivered / time,
            fetched_bytes_per_second: fetched / time,
            hit_share,
            amplification: (delivered > 0.0).then(|| fetched / delivered),
            first_byte: quantiles("http_first_byte_seconds"),
            waits: quantiles("reader_wait_seconds"),
            stalls: after.stalls.saturating_sub(before.stalls),
            errors: errors(before, after).iter().map(|one| one.count).sum(),
            ended_by_client: (grown("http_broken_answers_total", &[("reason", "client")])
                + grown("http_requests_total", &[("status", "gone")]))
                as u64,
        }
    }
}

/// Returns the failures between two times by cause, the most frequent first.
pub(crate) fn errors(before: &Snapshot, after: &Snapshot) -> Vec<ErrorCount> {
    let mut grown = Vec::new();
    for (cause, growth) in causes(&before.samples, &after.samples) {
        let count = growth as u64;
        if count > 0 {
            grown.push(ErrorCount { cause, count });
        }
    }
    grown.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.cause.cmp(&b.cause)));
    grown
}

/// A counter of failures: the metric, the label that names the place, the label and the value that tell a failure, and the
/// words before and after the place.
type CountedFailure = (
    &'static str,
    &'static str,
    (&'static str, &'static str),
    [&'static str; 2],
);

/// The counters of failures of mounts, hooks, events and the fleet.
const COUNTED_FAILURES: [CountedFailure; 7] = [
    (
        "fuse_operations_total",
        "operation",
        ("result", "failed"),
        ["mount: ", ""],
    ),
    (
        "hook_dropped_calls_total",
        "hook",
        ("reason", "failed"),
        ["hook ", ": given up"],
    ),
    (
        "hook_dropped_calls_total",
        "hook",
        ("reason", "silent"),
        ["hook ", ": no answer"],
    ),
    (
        "bucket_events_gaps_total",
        "subscription",
        ("reason", "unreadable"),
        ["events ", ": unreadable"],
    ),
    (
        "bucket_events_gaps_total",
        "subscription",
        ("reason", "failed"),
        ["events ", ": not applied"],
    ),
    (
        "fleet_received_total",
        "kind",
        ("result", "invalid"),
        ["fleet, ", ": unreadable"],
    ),
    (
        "fleet_received_total",
        "kind",
        ("result", "failed"),
        ["fleet, ", ": not applied"],
    ),
];

/// Returns the growth of each cause of failures. Several counters may have one cause.
fn causes(before: &Samples, after: &Samples) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    let mut add = |cause: String, growth: f64| *all.entry(cause).or_insert(0.0) += growth;
    let sum = |name: &str, having: &[(&str, &str)]| after.growth(before, name, having);
    let status = sum("http_requests_total", &[("status", "5xx")]);
    add("HTTP answers of class 5xx".to_owned(), status);
    let broken = sum("http_broken_answers_total", &[("reason", "error")]);
    add("answers cut off".to_owned(), broken);
    for (labels, growth) in after.grown(before, "origin_requests_total", &[]) {
        let result = label(labels, "result");
        if FAILURES.contains(&result) {
            let (origin, kind) = (label(labels, "origin"), label(labels, "kind"));
            let result = result.replace('_', " ");
            add(format!("bucket {origin}, {kind}: {result}"), growth);
        }
    }
    for (labels, growth) in after.grown(before, "origin_broken_bodies_total", &[]) {
        let (origin, reason) = (label(labels, "origin"), label(labels, "reason"));
        add(format!("bucket {origin}, body: {reason}"), growth);
    }
    for (labels, growth) in after.grown(before, "store_faults_total", &[]) {
        let (disk, reason) = (label(labels, "disk"), label(labels, "reason"));
        add(format!("disk {disk}: {reason}"), growth);
    }
    for (labels, growth) in after.grown(before, "write_commits_total", &[]) {
        if label(labels, "result") != "committed" {
            add(format!("writes: {}", label(labels, "result")), growth);
        }
    }
    for (name, place, failure, [words, more]) in COUNTED_FAILURES {
        for (labels, growth) in after.grown(before, name, &[failure]) {
            add(format!("{words}{}{more}", label(labels, place)), growth);
        }
    }
    add(
        "fleet: message dropped".to_owned(),
        sum("fleet_dropped_total", &[]),
    );
    add(
        "metadata database".to_owned(),
        sum("meta_errors_total", &[]),
    );
    all
}

#[cfg(test)]
mod tests;
