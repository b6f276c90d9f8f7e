//! `GET /api/v1/streams` and `DELETE /api/v1/streams/ID`.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::ApiError;
use crate::Console;
use tidegate_engine::streams::{StreamKind, StreamReport, StreamTier};

/// The streams under way: answers whose bytes are not in memory at once, and open files that are read.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct StreamList {
    /// The streams, the oldest first.
    pub streams: Vec<Stream>,
}

/// One stream.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Stream {
    /// Its number, which is never given twice in a process.
    pub id: u64,
    /// `http` or `mount`.
    pub kind: String,
    /// The client's address, or the program and its number.
    pub client: String,
    /// The name of the origin; `null` if no configured origin has that bucket any more.
    pub origin: Option<String>,
    /// The key of the object.
    pub key: String,
    /// The size of the object, in bytes.
    pub size: u64,
    /// The position of the reader in the object.
    pub position: u64,
    /// The bytes that it took.
    pub taken: u64,
    /// Its present rate, in bytes a second.
    pub rate: f64,
    /// The bytes that may be fetched ahead of it.
    pub window: u64,
    /// The bytes that are fetched or under way ahead of it.
    pub ahead: u64,
    /// The requests to the bucket under way for it.
    pub in_flight: u32,
    /// The tier that fed it last: `memory`, `disk`, `origin`, or `none`.
    pub tier: String,
    /// Its waits that were longer than 100 ms.
    pub stalls: u32,
    /// Whether it waits for bytes now.
    pub waiting: bool,
    /// The time since it began, in seconds.
    pub age: f64,
}

/// Returns the streams under way.
pub(crate) fn collect(console: &Console) -> StreamList {
    let reports = console.admin.engine.streams().report();
    let mut names = std::collections::HashMap::new();
    let mut shown = |report: StreamReport| {
        let id = report.info.object.origin;
        let origin = names.entry(id);
        let origin = origin
            .or_insert_with(|| console.admin.locate.origin(id))
            .clone();
        stream(report, origin)
    };
    StreamList {
        streams: reports.into_iter().map(&mut shown).collect(),
    }
}

fn stream(report: StreamReport, origin: Option<String>) -> Stream {
    let kind = match report.info.kind {
        StreamKind::Http => "http",
        StreamKind::Mount => "mount",
    };
    let tier = match report.tier {
        StreamTier::None => "none",
        StreamTier::Memory => "memory",
        StreamTier::Disk => "disk",
        StreamTier::Origin => "origin",
    };
    Stream {
        id: report.id,
        kind: kind.to_owned(),
        client: report.info.client,
        origin,
        key: report.info.object.key.as_str().to_owned(),
        size: report.info.size,
        position: report.position,
        taken: report.taken,
        rate: report.rate,
        window: report.window,
        ahead: report.ahead,
        in_flight: report.in_flight,
        tier: tier.to_owned(),
        stalls: report.stalls,
        waiting: report.waiting,
        age: report.age.as_secs_f64(),
    }
}

/// Stops a stream.
pub(crate) fn stop_one(console: &Console, id: u64) -> Result<(), ApiError> {
    match console.admin.engine.streams().stop(id) {
        true => {
            tracing::info!(id, "a stream was stopped");
            Ok(())
        }
        false => Err(ApiError::missing("there is no such stream")),
    }
}

/// Answers `GET /api/v1/streams`.
#[utoipa::path(
    get,
    path = "/api/v1/streams",
    operation_id = "list_streams",
    responses((status = 200, body = StreamList))
)]
pub(crate) async fn list(State(console): State<Console>) -> Json<StreamList> {
    Json(collect(&console))
}

/// Answers `DELETE /api/v1/streams/ID`.
#[utoipa::path(
    delete,
    path = "/api/v1/streams/{id}",
    operation_id = "stop_stream",
    params(("id" = u64, Path, description = "The number of the stream")),
    responses((status = 204), (status = 404, body = ApiError))
)]
pub(crate) async fn stop(
    State(console): State<Console>,
    Path(id): Path<u64>,
) -> Result<StatusCode, ApiError> {
    stop_one(&console, id).map(|()| StatusCode::NO_CONTENT)
}
