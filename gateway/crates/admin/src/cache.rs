//! `GET /cache` and `PUT /cache/disk`: the state of the tiers, and a disk that is switched off or on while the gateway runs.
//!
//! `PUT /cache/disk {"path": "/var/cache/tidegate", "enabled": false}` closes the disk in order, and the gateway goes on
//! without it; `true` opens it again with its content. A disk is named as the configuration writes its path, and no other
//! path is ever used. The answer is the new state of the tiers. The next start switches every disk on.
//!
//! Sizes are settings: the configuration has them, and `POST /overrides` sets them while the gateway runs.

use std::path::PathBuf;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_core::future::BoxFuture;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};

use super::Admin;
use super::ask::{self, Refusal};
use tidegate_plan::{ByteSize, DiskState};

/// The tiers, as the operator sees them.
pub trait Tiers: Send + Sync + 'static {
    /// Returns the state of the tiers. Never blocks.
    fn report(&self) -> Report;

    /// Switches a disk off or on, and returns when that is done. `path` is the disk's, as configured.
    ///
    /// # Errors
    /// If the disk was not switched.
    fn switch_disk(&self, path: PathBuf, enabled: bool) -> BoxFuture<'_, Result<(), SwitchError>>;
}

/// The state of the tiers. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The memory tier.
    pub memory: Memory,
    /// The budget of fetches and read-ahead.
    pub budget: Budget,
    /// Every configured disk, in the order of the configuration.
    pub disks: Vec<Disk>,
}

/// The state of the memory tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// The bytes that it may hold.
    pub capacity: u64,
    /// The bytes that it holds, overhead included.
    pub used: u64,
}

/// The state of the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Budget {
    /// The bytes for fetches and read-ahead.
    pub capacity: u64,
    /// The part of them that is reserved.
    pub lent: u64,
}

/// The state of one disk. Values that are unknown while it is off are `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disk {
    /// Its directory, as the configuration writes it.
    pub path: PathBuf,
    /// The state in one word: that of `tidegate_store_disk_state`, or `off`.
    pub state: DiskState,
    /// The reason why it is not `up`, in words.
    pub why: Option<String>,
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
    /// Bytes written to the device for each byte of chunks that was stored, since the start; `null` while none was.
    pub write_amplification: Option<f64>,
}

/// The reason why a disk was not switched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// There is no such disk.
    #[error("{0}")]
    NoSuch(String),
    /// It cannot be done.
    #[error("{0}")]
    Refused(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskSwitch {
    path: PathBuf,
    enabled: bool,
}

/// Answers `GET /cache`.
pub(super) async fn show(State(admin): State<Admin>) -> Response {
    shown(&admin)
}

/// Answers `PUT /cache/disk`.
pub(super) async fn disk(State(admin): State<Admin>, request: Request) -> Response {
    let asked = read::<DiskSwitch>(request).await;
    let DiskSwitch { path, enabled } = match asked {
        Ok(asked) => asked,
        Err((status, why)) => return (status, format!("{why}\n")).into_response(),
    };
    if let Err(error) = admin.tiers.switch_disk(path.clone(), enabled).await {
        let status = match error {
            SwitchError::NoSuch(_) => StatusCode::NOT_FOUND,
            SwitchError::Refused(_) => StatusCode::BAD_REQUEST,
        };
        return (status, format!("{error}\n")).into_response();
    }
    tracing::info!(?path, enabled, "cache disk switched");
    shown(&admin)
}

fn shown(admin: &Admin) -> Response {
    match serde_json::to_value(admin.tiers.report()) {
        Ok(report) => ask::json(&report),
        Err(error) => {
            // A path that is not text.
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
        }
    }
}

async fn read<T: DeserializeOwned>(request: Request) -> Result<T, Refusal> {
    let body = ask::body(request).await?;
    serde_json::from_slice(&body).map_err(bad)
}

fn bad(why: impl ToString) -> Refusal {
    (StatusCode::BAD_REQUEST, why.to_string())
}

/// A size as in the configuration: a number of bytes, or text with a unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum SizeValue {
    Bytes(u64),
    Text(String),
}

impl SizeValue {
    fn bytes(self) -> Result<u64, String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Text(text) => text.parse().map(|size: ByteSize| size.0),
        }
    }
}

/// Reads a size.
pub(super) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let written = SizeValue::deserialize(from)?;
    written.bytes().map_err(D::Error::custom)
}

/// Reads a size that may be left out.
pub(super) fn some_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let written = Option::<SizeValue>::deserialize(from)?;
    let bytes = written.map(SizeValue::bytes).transpose();
    bytes.map_err(D::Error::custom)
}

#[cfg(test)]
pub(super) mod tests;
