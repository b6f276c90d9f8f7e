//! `GET /api/v1/now` and `GET /api/v1/history`.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::Console;
use crate::exposition::label;
use crate::figures::{ErrorCount, Figures, errors};
use crate::history::{History, RecentCause};

/// The state of the gateway now.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct GatewayStatus {
    /// The time of this answer, in seconds since 1970.
    pub time: f64,
    /// The version of the program.
    pub version: String,
    /// The time since the start of the process, in seconds.
    pub uptime: f64,
    /// The length of the period that the figures are of, in seconds.
    pub period: f64,
    /// The figures of the period.
    pub figures: Figures,
    /// The failures of the period by cause, the most frequent first.
    pub errors_by_cause: Vec<ErrorCount>,
    /// The failures of the last hour by cause, the latest first.
    pub errors_of_last_hour: Vec<RecentCause>,
    /// The failures of the last day by cause, the latest first.
    pub errors_of_last_day: Vec<RecentCause>,
    /// HTTP requests under way.
    pub requests_in_flight: u64,
    /// Open HTTP connections.
    pub connections: u64,
    /// Files that programs hold open on mounts.
    pub open_files: u64,
    /// Streams under way: see `streams`.
    pub streams: u64,
    /// Memory of the process, in bytes.
    pub memory: u64,
    /// The missing parts, as `/readyz` names them; empty: none is missing. `null`: not known, because no check has ended in
    /// the last 15 s.
    pub missing: Option<Vec<String>>,
    /// The time since the last check for missing parts, in seconds; `null` before the first one.
    pub checked: Option<f64>,
    /// Long work under way, in words: the load of a disk's index, the spool that an earlier process left, the drain at the
    /// end.
    pub work: Vec<String>,
    /// Problems that do not prevent answers, in words.
    pub notes: Vec<String>,
}

/// Returns the state of the gateway now.
pub(crate) fn collect(console: &Console) -> GatewayStatus {
    let present = console.sampler.present();
    let history = console.sampler.history();
    let samples = &present.after.samples;
    let build = samples.series("build_info", &[]).next();
    let check = console.readiness.look(&console.admin.control);
    let started = samples.sum("process_start_time_seconds", &[]);
    GatewayStatus {
        time: present.time,
        version: build.map_or_else(String::new, |(labels, _)| {
            label(labels, "version").to_owned()
        }),
        uptime: (present.time - started).max(0.0),
        period: present.period,
        figures: present.figures.clone(),
        errors_by_cause: errors(&present.before, &present.after),
        errors_of_last_hour: history.causes(&present.latest_errors, present.time),
        errors_of_last_day: history.causes_of_day(&present.latest_errors, present.time),
        requests_in_flight: samples.count("http_requests_in_flight", &[]),
        connections: samples.count("http_connections", &[]),
        open_files: samples.count("fuse_open_files", &[]),
        streams: console.admin.engine.streams().count() as u64,
        memory: samples.count("process_resident_memory_bytes", &[]),
        missing: check.missing,
        checked: check.age,
        work: console.admin.control.work(),
        notes: console.admin.control.notes(),
    }
}

/// Answers `GET /api/v1/now`.
#[utoipa::path(
    get,
    path = "/api/v1/now",
    operation_id = "get_now",
    responses((status = 200, body = GatewayStatus))
)]
pub(crate) async fn now(State(console): State<Console>) -> Json<GatewayStatus> {
    Json(collect(&console))
}

/// Answers `GET /api/v1/history`.
#[utoipa::path(
    get,
    path = "/api/v1/history",
    operation_id = "get_history",
    responses((status = 200, body = History))
)]
pub(crate) async fn history(State(console): State<Console>) -> Json<History> {
    Json(console.sampler.history().as_ref().clone())
}
