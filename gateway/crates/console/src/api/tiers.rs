//! `GET /api/v1/tiers`.

use std::path::Path;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::Console;
use crate::sampler::CurrentFigures;
use tidegate_admin::cache::Disk;
use tidegate_plan::DiskState;

/// The tiers of the cache. Values that are unknown are `null`.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Tiers {
    /// The memory tier.
    pub memory: MemoryTier,
    /// The budget of fetches and read-ahead.
    pub budget: BudgetState,
    /// Every configured disk, in the order of the configuration.
    pub disks: Vec<DiskTier>,
}

/// The memory tier.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct MemoryTier {
    /// The bytes that it may hold.
    pub capacity: u64,
    /// The bytes that it holds, overhead included.
    pub used: u64,
    /// The share of chunks that it had, of those asked of it in the period; `null` if none were.
    pub hit_share: Option<f64>,
    /// Chunks pushed out by others, a second.
    pub evictions_per_second: f64,
    /// The median age of evicted chunks since the start, in seconds; `null` if none was evicted.
    pub eviction_age: Option<f64>,
}

/// The budget of fetches and read-ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct BudgetState {
    /// The bytes for fetches and read-ahead.
    pub capacity: u64,
    /// The part of them that is reserved.
    pub lent: u64,
}

/// A cache disk.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct DiskTier {
    /// Its directory, as the configuration writes it.
    pub path: String,
    /// The state in one word: `loading`, `up`, `slow`, `demoted`, `full`, `closed` or `off`.
    #[schema(value_type = String)]
    pub state: DiskState,
    /// The state in a sentence.
    pub words: String,
    /// The reason why it is not `up`.
    pub why: Option<String>,
    /// The time since which it is in this state, in seconds since 1970, to 10 s.
    pub since: Option<f64>,
    /// The bytes that its files may take up.
    pub capacity: u64,
    /// The bytes that they take up, at most.
    pub used: Option<u64>,
    /// The free bytes on its file system, also for others.
    pub free: Option<u64>,
    /// The bytes that pins keep from eviction.
    pub pinned: Option<u64>,
    /// The bytes that wait to be written.
    pub queued: Option<u64>,
    /// Chunks in its index.
    pub chunks: Option<u64>,
    /// The share of chunks that it had, of those asked of it in the period; `null` if none were.
    pub hit_share: Option<f64>,
    /// Bytes written to it, a second.
    pub written_per_second: f64,
    /// Bytes written to it since the start.
    pub written: u64,
    /// Bytes written for each byte of chunks that was stored, since the start; `null` while none was.
    pub write_amplification: Option<f64>,
    /// Chunks pushed off it, a second.
    pub evictions_per_second: f64,
    /// The median age of evicted chunks since the start, in seconds; `null` if none was evicted.
    pub eviction_age: Option<f64>,
    /// The median time of a read in the period, in seconds.
    pub read_time: Option<f64>,
    /// Reads that gave no sound chunk, since the start.
    pub faults: u64,
}

/// Returns the state of the tiers.
pub(crate) fn collect(console: &Console) -> Tiers {
    let present = console.sampler.present();
    let report = console.admin.tiers.report();
    let memory = [("tier", "memory")];
    Tiers {
        memory: MemoryTier {
            capacity: report.memory.capacity,
            used: report.memory.used,
            hit_share: hit_share(&present, &memory),
            evictions_per_second: rate(&present, "store_evictions_total", &[]),
            eviction_age: present.after.samples.quantile(
                "store_eviction_age_seconds",
                &memory,
                0.5,
                None,
            ),
        },
        budget: BudgetState {
            capacity: report.budget.capacity,
            lent: report.budget.lent,
        },
        disks: report
            .disks
            .into_iter()
            .map(|disk| {
                let since = console.sampler.disk_since(&disk.path, disk.state);
                disk_tier(&present, disk, since)
            })
            .collect(),
    }
}

fn disk_tier(present: &CurrentFigures, disk: Disk, since: Option<f64>) -> DiskTier {
    let path = shown(&disk.path);
    let label = [("disk", path.as_str())];
    let both = [("tier", "disk"), ("disk", path.as_str())];
    let samples = &present.after.samples;
    DiskTier {
        state: disk.state,
        words: disk.state.sentence().to_owned(),
        why: disk.why,
        since,
        capacity: disk.capacity,
        used: disk.used,
        free: disk.free,
        pinned: disk.pinned,
        queued: disk.queued,
        chunks: disk.chunks,
        hit_share: hit_share(present, &both),
        written_per_second: rate(present, "store_written_bytes_total", &label),
        written: samples.count("store_written_bytes_total", &label),
        write_amplification: disk.write_amplification,
        evictions_per_second: rate(present, "store_disk_evictions_total", &label),
        eviction_age: samples.quantile("store_eviction_age_seconds", &both, 0.5, None),
        read_time: samples.quantile(
            "store_read_seconds",
            &label,
            0.5,
            Some(&present.before.samples),
        ),
        faults: samples.count("store_faults_total", &label),
        path,
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn hit_share(present: &CurrentFigures, having: &[(&str, &str)]) -> Option<f64> {
    let hits = rate(present, "store_hits_total", having);
    let misses = rate(present, "store_misses_total", having);
    (hits + misses > 0.0).then(|| hits / (hits + misses))
}

/// Returns the growth of a counter in the period, a second.
pub(crate) fn rate(present: &CurrentFigures, name: &str, having: &[(&str, &str)]) -> f64 {
    let (before, after) = (&present.before.samples, &present.after.samples);
    let grown = (after.sum(name, having) - before.sum(name, having)).max(0.0);
    grown / present.period.max(0.001)
}

/// Answers `GET /api/v1/tiers`.
#[utoipa::path(
    get,
    path = "/api/v1/tiers",
    operation_id = "get_tiers",
    responses((status = 200, body = Tiers))
)]
pub(crate) async fn show(State(console): State<Console>) -> Json<Tiers> {
    Json(collect(&console))
}
