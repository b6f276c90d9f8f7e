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
const COUNTED: [CountedFailure; 7] = [
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
    for (name, place, failure, [words, more]) in COUNTED {
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
mod tests {
    use super::*;

    fn snapshot(at: f64, text: &str) -> Snapshot {
        Snapshot {
            samples: Samples::parse(text),
            stalls: at as u64,
            at,
        }
    }

    /// Counters of several causes have one name here, and a reload takes some away.
    #[test]
    fn a_counter_is_compared_with_itself() {
        let counts = |ahead: u32, demand: u32, other: &str| {
            snapshot(
                0.0,
                &format!(
                    "tidegate_origin_requests_total{{origin=\"o\",kind=\"get\",result=\"timeout\",cause=\"ahead\"}} {ahead}\n\
                     tidegate_origin_requests_total{{origin=\"o\",kind=\"get\",result=\"timeout\",cause=\"demand\"}} {demand}\n\
                     tidegate_origin_received_bytes_total{{origin=\"o\",cause=\"demand\"}} {demand}\n{other}"
                ),
            )
        };
        let other = "tidegate_origin_received_bytes_total{origin=\"p\",cause=\"demand\"} 100000\n\
                     tidegate_origin_requests_total{origin=\"p\",kind=\"get\",result=\"timeout\",cause=\"ahead\"} 7\n";
        let before = counts(5, 100, other);
        assert_eq!(errors(&before, &before), []);
        let after = counts(6, 102, "");
        let told: Vec<_> = errors(&before, &after)
            .into_iter()
            .map(|one| (one.cause, one.count))
            .collect();
        assert_eq!(told, [("bucket o, get: timeout".to_owned(), 3)]);
        let flow = Flow::between(&before.samples, &after.samples);
        assert_eq!(
            flow.origin, 2.0,
            "the origin that is gone takes nothing away"
        );
        // The counter of an origin that is there again.
        let again = counts(6, 102, other);
        let flow = Flow::between(&after.samples, &again.samples);
        assert_eq!(flow.origin, 100_000.0);
    }

    #[test]
    fn shares_are_of_what_readers_took() {
        let flow = |delivered: f64, disk: f64, origin: f64| Flow {
            delivered,
            disk,
            origin,
        };
        let share = |now: Flow| {
            let share = now.share(flow(100.0, 10.0, 10.0));
            share.map(|share| (share.memory, share.disk, share.origin))
        };
        assert_eq!(share(flow(100.0, 10.0, 60.0)), None);
        assert_eq!(share(flow(200.0, 10.0, 10.0)), Some((1.0, 0.0, 0.0)));
        // One fetch served four readers.
        assert_eq!(share(flow(500.0, 10.0, 110.0)), Some((0.75, 0.0, 0.25)));
        // More was fetched ahead than was read.
        assert_eq!(share(flow(200.0, 110.0, 510.0)), Some((0.0, 0.0, 1.0)));
        assert_eq!(share(flow(200.0, 85.0, 60.0)), Some((0.0, 0.5, 0.5)));
    }

    #[test]
    fn failures_of_mounts_hooks_events_and_the_fleet_are_causes() {
        let after = snapshot(
            20.0,
            "tidegate_fuse_operations_total{operation=\"read\",result=\"failed\"} 9\n\
             tidegate_fuse_operations_total{operation=\"read\",result=\"error\"} 90\n\
             tidegate_hook_dropped_calls_total{hook=\"scan\",reason=\"failed\"} 8\n\
             tidegate_hook_dropped_calls_total{hook=\"scan\",reason=\"silent\"} 7\n\
             tidegate_hook_dropped_calls_total{hook=\"scan\",reason=\"stopped\"} 90\n\
             tidegate_bucket_events_gaps_total{subscription=\"s\",reason=\"unreadable\"} 6\n\
             tidegate_bucket_events_gaps_total{subscription=\"s\",reason=\"failed\"} 5\n\
             tidegate_bucket_events_gaps_total{subscription=\"s\",reason=\"connection\"} 90\n\
             tidegate_fleet_received_total{kind=\"purge\",result=\"failed\"} 4\n\
             tidegate_fleet_received_total{kind=\"unknown\",result=\"invalid\"} 3\n\
             tidegate_fleet_received_total{kind=\"purge\",result=\"applied\"} 90\n\
             tidegate_fleet_dropped_total 2\n",
        );
        let found: Vec<_> = errors(&snapshot(10.0, ""), &after)
            .into_iter()
            .map(|one| (one.cause, one.count))
            .collect();
        let words = [
            "mount: read",
            "hook scan: given up",
            "hook scan: no answer",
            "events s: unreadable",
            "events s: not applied",
            "fleet, purge: not applied",
            "fleet, unknown: unreadable",
            "fleet: message dropped",
        ];
        let words = words.map(str::to_owned).into_iter();
        assert_eq!(found, Vec::from_iter(words.zip((2..=9).rev())));
    }

    #[test]
    fn an_answer_that_its_client_ends_is_no_failure() {
        let before = snapshot(10.0, "");
        let after = snapshot(
            20.0,
            "tidegate_http_broken_answers_total{reason=\"client\"} 7\n\
             tidegate_http_broken_answers_total{reason=\"stopped\"} 4\n\
             tidegate_http_requests_total{method=\"GET\",status=\"gone\"} 2\n",
        );
        let figures = Figures::between(&before, &after, None);
        assert_eq!((figures.errors, figures.ended_by_client), (0, 9));
        let broken = "tidegate_http_broken_answers_total{reason=\"error\"} 3\n";
        let figures = Figures::between(&before, &snapshot(20.0, broken), None);
        assert_eq!((figures.errors, figures.ended_by_client), (3, 0));
    }

    #[test]
    fn a_period_is_the_difference_of_its_ends() {
        let before = snapshot(
            10.0,
            "tidegate_http_requests_total{method=\"GET\",status=\"2xx\"} 100\ntidegate_delivered_bytes_total 1000\n",
        );
        let after = snapshot(
            20.0,
            "tidegate_http_requests_total{method=\"GET\",status=\"2xx\"} 150\n\
             tidegate_http_requests_total{method=\"GET\",status=\"5xx\"} 2\n\
             tidegate_delivered_bytes_total 5000\ntidegate_fetched_bytes_total 1000\n\
             tidegate_origin_received_bytes_total{origin=\"o\",cause=\"ahead\"} 600\n\
             tidegate_origin_received_bytes_total{origin=\"o\",cause=\"demand\"} 400\n\
             tidegate_origin_received_bytes_total{origin=\"o\",cause=\"warm\"} 9000\n\
             tidegate_store_hit_bytes_total{tier=\"memory\",disk=\"\"} 9000\n\
             tidegate_store_hit_bytes_total{tier=\"disk\",disk=\"/a\"} 1000\n\
             tidegate_origin_requests_total{origin=\"o\",kind=\"get\",result=\"timeout\"} 3\n\
             tidegate_origin_requests_total{origin=\"o\",kind=\"get\",result=\"not_found\"} 9\n",
        );
        let figures = Figures::between(&before, &after, None);
        assert!((figures.requests_per_second - 5.2).abs() < 1e-9);
        assert!((figures.bytes_per_second - 400.0).abs() < 1e-9);
        assert_eq!(figures.amplification, Some(0.25));
        let share = Flow::between(&before.samples, &after.samples).share(Flow::default());
        let share = share.expect("readers took bytes");
        assert_eq!((share.memory, share.disk, share.origin), (0.5, 0.25, 0.25));
        assert_eq!((figures.stalls, figures.errors), (10, 5));
        assert_eq!(figures.first_byte, None);
        let causes: Vec<_> = errors(&before, &after)
            .into_iter()
            .map(|one| (one.cause, one.count))
            .collect();
        assert_eq!(
            causes,
            [
                ("bucket o, get: timeout".to_owned(), 3),
                ("HTTP answers of class 5xx".to_owned(), 2)
            ]
        );
    }
}
