//! All metrics, the source of `docs/METRICS.md`.

use super::metric::Metric;
use super::names;

/// Every metric, in the order of the documentation. A test checks that none is left out.
pub const ALL: &[Metric] = &[
    names::AMPLIFICATION,
    names::BUILD,
    names::PROCESS_START_TIME,
    names::PROCESS_CPU,
    names::PROCESS_RESIDENT_MEMORY,
    names::PROCESS_THREADS,
    names::PROCESS_OPEN_FDS,
    names::PROCESS_MAX_FDS,
    names::ENGINE_FETCHED,
    names::ENGINE_FILED,
    names::ENGINE_DELIVERED,
    names::ENGINE_RESOLVES,
    names::ENGINE_PARTS,
    names::ENGINE_FOLDER_PREFETCHES,
    names::ENGINE_HEDGES,
    names::ENGINE_DISK_READS,
    names::ENGINE_DISK_RACES,
    names::ENGINE_HEDGED,
    names::ENGINE_JOINED,
    names::ENGINE_ABANDONED,
    names::ENGINE_STALE_ON_ERROR,
    names::ENGINE_NAME_REQUESTS,
    names::ENGINE_ENCODER_RUNS,
    names::ENGINE_ENCODERS_REFUSED,
    names::WRITE_COMMITS,
    names::WRITE_BYTES,
    names::WRITE_RESENT,
    names::WRITE_HIDDEN,
    names::WRITE_PENDING,
    names::SPOOL_USED,
    names::SPOOL_SIZE,
    names::SPOOL_EVICTED,
    names::SPOOL_WAITS,
    names::ORIGIN_REQUESTS,
    names::ORIGIN_BYTES,
    names::ORIGIN_SENT,
    names::ORIGIN_FIRST_BYTE,
    names::ORIGIN_RETRIES,
    names::ORIGIN_BROKEN_BODIES,
    names::ORIGIN_BREAKER_OPEN,
    names::ORIGIN_RUNNING,
    names::ORIGIN_QUEUED,
    names::STORE_HITS,
    names::STORE_MISSES,
    names::STORE_HIT_BYTES,
    names::STORE_INSERTS,
    names::STORE_REFUSALS,
    names::STORE_EVICTIONS,
    names::STORE_USED_BYTES,
    names::STORE_FREE_BYTES,
    names::STORE_QUEUED_BYTES,
    names::STORE_PINNED_BYTES,
    names::STORE_FAULTS,
    names::STORE_DISK_UP,
    names::STORE_DISK_STATE,
    names::STORE_DISK_CHUNKS,
    names::STORE_HUNG_READS,
    names::STORE_DISK_EVICTIONS,
    names::STORE_WRITTEN_BYTES,
    names::STORE_ADMITTED_BYTES,
    names::STORE_REWRITTEN_BYTES,
    names::STORE_READ_SECONDS,
    names::META_LOOKUPS,
    names::META_UNKNOWN,
    names::META_READS_UP,
    names::META_HUNG_READS,
    names::META_CORRUPT,
    names::META_PURGED,
    names::META_ERRORS,
    names::META_LOST,
    names::META_WRITES,
    names::META_COMMITS,
    names::META_PURGES,
    names::META_COALESCED,
    names::META_SWEPT,
    names::FUSE_OPERATIONS,
    names::FUSE_HANDLES,
    names::HTTP_REQUESTS,
    names::HTTP_CACHE_RESULTS,
    names::HTTP_SENT_BYTES,
    names::HTTP_BROKEN_ANSWERS,
    names::HTTP_REQUESTS_IN_FLIGHT,
    names::HTTP_FIRST_BYTE_SECONDS,
    names::HTTP_CONNECTIONS,
    names::HTTP_CONNECTIONS_ACCEPTED,
    names::HTTP_CONNECTIONS_EXPIRED,
    names::HTTP_STREAMS,
    names::HTTP_STREAMS_RESET,
    names::HTTP_STREAMS_REFUSED,
    names::MEMORY_PINNED,
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_declared_metric_is_listed_once() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/names");
        let files = fs::read_dir(folder).expect("the folder of names");
        let sources: Vec<_> = files
            .map(|file| fs::read_to_string(file.expect("a file").path()).expect("a source"))
            .collect();
        let declared = sources
            .iter()
            .flat_map(|source| source.lines())
            .filter(|line| line.starts_with("pub const ") && line.contains(": Metric ="))
            .count();
        let names: HashSet<_> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), ALL.len(), "a name twice in ALL");
        assert_eq!(declared, ALL.len(), "a metric is missing from ALL");
    }

    #[test]
    fn names_and_help_keep_to_the_rules() {
        for Metric {
            name, labels, help, ..
        } in ALL
        {
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
