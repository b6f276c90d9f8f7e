//! Every metric with its type and its labels: the source of `docs/METRICS.md`.

use super::names::{self, Metric};

/// A metric as listed in [`ALL`], and as registered under its name.
#[derive(Debug, Clone, Copy)]
pub struct Listed {
    /// Its declaration.
    pub metric: Metric,
    /// Its type.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

/// The type of a metric, as the exposition format names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value that only rises; scraped with the suffix `_total`.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// A distribution, scraped as `_bucket`, `_sum` and `_count`.
    Histogram,
    /// A constant 1 whose labels carry the information. Scraped with the suffix `_info`.
    Info,
}

impl Kind {
    /// Returns the word behind `# TYPE`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

const fn counter(metric: Metric, labels: &'static [&'static str]) -> Listed {
    listed(metric, Kind::Counter, labels)
}

const fn gauge(metric: Metric, labels: &'static [&'static str]) -> Listed {
    listed(metric, Kind::Gauge, labels)
}

const fn histogram(metric: Metric, labels: &'static [&'static str]) -> Listed {
    listed(metric, Kind::Histogram, labels)
}

const fn listed(metric: Metric, kind: Kind, labels: &'static [&'static str]) -> Listed {
    Listed {
        metric,
        kind,
        labels,
    }
}

/// Every metric, in the order of the documentation. A test checks that none is left out.
pub const ALL: &[Listed] = &[
    gauge(names::AMPLIFICATION, &[]),
    listed(names::BUILD, Kind::Info, &["version"]),
    gauge(names::PROCESS_START_TIME, &[]),
    counter(names::PROCESS_CPU, &[]),
    gauge(names::PROCESS_RESIDENT_MEMORY, &[]),
    gauge(names::PROCESS_THREADS, &[]),
    gauge(names::PROCESS_OPEN_FDS, &[]),
    gauge(names::PROCESS_MAX_FDS, &[]),
    counter(names::ENGINE_FETCHED, &[]),
    counter(names::ENGINE_FILED, &["cause"]),
    counter(names::ENGINE_DELIVERED, &[]),
    counter(names::ENGINE_RESOLVES, &[]),
    counter(names::ENGINE_PARTS, &[]),
    counter(names::ENGINE_FOLDER_PREFETCHES, &[]),
    counter(names::ENGINE_HEDGES, &[]),
    counter(names::ENGINE_DISK_READS, &[]),
    counter(names::ENGINE_DISK_RACES, &["winner"]),
    counter(names::ENGINE_HEDGED, &[]),
    counter(names::ENGINE_JOINED, &[]),
    counter(names::ENGINE_ABANDONED, &[]),
    counter(names::ENGINE_STALE_ON_ERROR, &[]),
    counter(names::ENGINE_NAME_REQUESTS, &["cause"]),
    counter(names::ENGINE_ENCODER_RUNS, &["coding", "result"]),
    counter(names::ENGINE_ENCODERS_REFUSED, &["reason"]),
    counter(names::WRITE_COMMITS, &["result"]),
    counter(names::WRITE_BYTES, &[]),
    counter(names::WRITE_RESENT, &[]),
    counter(names::WRITE_HIDDEN, &[]),
    gauge(names::WRITE_PENDING, &[]),
    gauge(names::SPOOL_USED, &[]),
    gauge(names::SPOOL_SIZE, &[]),
    counter(names::SPOOL_EVICTED, &[]),
    counter(names::SPOOL_WAITS, &[]),
    counter(names::ORIGIN_REQUESTS, &["origin", "kind", "result"]),
    counter(names::ORIGIN_BYTES, &["origin"]),
    counter(names::ORIGIN_SENT, &["origin"]),
    histogram(names::ORIGIN_FIRST_BYTE, &["origin"]),
    counter(names::ORIGIN_RETRIES, &["origin"]),
    counter(names::ORIGIN_BROKEN_BODIES, &["origin", "reason"]),
    gauge(names::ORIGIN_BREAKER_OPEN, &["origin"]),
    gauge(names::ORIGIN_RUNNING, &["origin", "priority"]),
    gauge(names::ORIGIN_QUEUED, &["origin", "priority"]),
    counter(names::STORE_HITS, &["tier", "disk"]),
    counter(names::STORE_MISSES, &["tier", "disk"]),
    counter(names::STORE_HIT_BYTES, &["tier", "disk"]),
    counter(names::STORE_INSERTS, &["tier", "disk"]),
    counter(names::STORE_REFUSALS, &["disk", "reason"]),
    counter(names::STORE_EVICTIONS, &[]),
    gauge(names::STORE_USED_BYTES, &["tier", "disk"]),
    gauge(names::STORE_FREE_BYTES, &["disk"]),
    gauge(names::STORE_QUEUED_BYTES, &["disk"]),
    gauge(names::STORE_PINNED_BYTES, &["disk"]),
    counter(names::STORE_FAULTS, &["disk", "reason"]),
    gauge(names::STORE_DISK_UP, &["disk"]),
    gauge(names::STORE_DISK_STATE, &["disk", "state"]),
    gauge(names::STORE_DISK_CHUNKS, &["disk"]),
    gauge(names::STORE_HUNG_READS, &["disk"]),
    counter(names::STORE_DISK_EVICTIONS, &["disk"]),
    counter(names::STORE_WRITTEN_BYTES, &["disk"]),
    counter(names::STORE_ADMITTED_BYTES, &["disk"]),
    counter(names::STORE_REWRITTEN_BYTES, &["disk"]),
    histogram(names::STORE_READ_SECONDS, &["disk"]),
    counter(names::META_LOOKUPS, &["found"]),
    counter(names::META_UNKNOWN, &[]),
    gauge(names::META_READS_UP, &[]),
    gauge(names::META_HUNG_READS, &[]),
    counter(names::META_CORRUPT, &[]),
    counter(names::META_PURGED, &[]),
    counter(names::META_ERRORS, &[]),
    counter(names::META_LOST, &[]),
    counter(names::META_WRITES, &[]),
    counter(names::META_COMMITS, &[]),
    gauge(names::META_PURGES, &[]),
    counter(names::META_COALESCED, &[]),
    counter(names::META_SWEPT, &[]),
    counter(names::FUSE_OPERATIONS, &["operation", "result"]),
    gauge(names::FUSE_HANDLES, &[]),
    counter(names::HTTP_REQUESTS, &["method", "status"]),
    counter(names::HTTP_CACHE_RESULTS, &["result"]),
    counter(names::HTTP_SENT_BYTES, &[]),
    counter(names::HTTP_BROKEN_ANSWERS, &[]),
    gauge(names::HTTP_REQUESTS_IN_FLIGHT, &[]),
    histogram(names::HTTP_FIRST_BYTE_SECONDS, &[]),
    gauge(names::HTTP_CONNECTIONS, &[]),
    counter(names::HTTP_CONNECTIONS_ACCEPTED, &[]),
    counter(names::HTTP_CONNECTIONS_EXPIRED, &[]),
    gauge(names::HTTP_STREAMS, &[]),
    counter(names::HTTP_STREAMS_RESET, &[]),
    counter(names::HTTP_STREAMS_REFUSED, &[]),
    gauge(names::MEMORY_PINNED, &[]),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_declared_metric_is_listed_once() {
        let source = include_str!("names.rs");
        let declared = source
            .lines()
            .filter(|line| line.starts_with("pub const ") && line.contains(": Metric ="))
            .count();
        let names: HashSet<_> = ALL.iter().map(|listed| listed.metric.name).collect();
        assert_eq!(names.len(), ALL.len(), "a name twice in ALL");
        assert_eq!(declared, ALL.len(), "a metric is missing from ALL");
    }

    #[test]
    fn names_and_help_keep_to_the_rules() {
        for Listed { metric, labels, .. } in ALL {
            let Metric { name, help } = metric;
            let word = |text: &str| {
                text.starts_with(|c: char| c.is_ascii_lowercase())
                    && text
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            };
            assert!(
                word(name) && labels.iter().all(|label| word(label)),
                "{name}"
            );
            for wrong in [
                "tidegate_",
                "_total",
                "_info",
                "_ms",
                "_milliseconds",
                "_kib",
            ] {
                assert!(!name.contains(wrong), "{name} has {wrong}");
            }
            assert!(!help.is_empty() && !help.ends_with('.'), "{name}: {help}");
            for secret in ["key", "etag"] {
                assert!(!labels.contains(&secret), "{name}: no {secret} as a label");
            }
        }
    }
}
