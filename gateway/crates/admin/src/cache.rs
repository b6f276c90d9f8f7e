//! `GET /cache`, `PUT /cache/memory` and `PUT /cache/disk`: the state of the tiers, and changes to them while the
//! gateway runs.
//!
//! - `PUT /cache/memory {"capacity": "512MiB"}`: another capacity of the memory tier;
//! - `PUT /cache/disk {"path": "/var/cache/tidegate", "capacity": "50GiB"}`: another capacity of a disk;
//! - `PUT /cache/disk {"path": "/var/cache/tidegate", "enabled": false}`: the disk is closed in order, and the gateway
//!   goes on without it; `true` opens it again with its content.
//!
//! Both may stand in one request; then the capacity comes first. A disk is named as the configuration writes its path,
//! and no other path is ever used. Each answers with the new state of the tiers. The next start uses the file again.

use std::path::PathBuf;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_core::future::BoxFuture;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};

use super::Admin;
use super::ask::{self, Refusal};
use tidegate_plan::ByteSize;

/// The tiers, as the operator sees them.
pub trait Tiers: Send + Sync + 'static {
    /// Returns the state of the tiers. Never blocks.
    fn report(&self) -> Report;

    /// Changes a tier, and returns when that is done; evictions that follow go on in the background.
    ///
    /// # Errors
    /// If the tier was not changed.
    fn change(&self, change: TierChange) -> BoxFuture<'_, Result<(), TierChangeError>>;
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
    pub state: &'static str,
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

/// A requested change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TierChange {
    /// The capacity of the memory tier, in bytes.
    Memory(u64),
    /// A disk.
    Disk {
        /// Its path, as configured.
        path: PathBuf,
        /// Its new capacity in bytes, if that is to change.
        capacity: Option<u64>,
        /// Whether it is to be on, if that is to change.
        enabled: Option<bool>,
    },
}

/// The reason why a tier was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TierChangeError {
    /// There is no such disk.
    #[error("{0}")]
    NoSuch(String),
    /// It cannot be done.
    #[error("{0}")]
    Refused(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryChange {
    #[serde(deserialize_with = "size")]
    capacity: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskChange {
    path: PathBuf,
    #[serde(default, deserialize_with = "some_size")]
    capacity: Option<u64>,
    enabled: Option<bool>,
}

/// Answers `GET /cache`.
pub(super) async fn show(State(admin): State<Admin>) -> Response {
    shown(&admin)
}

/// Answers `PUT /cache/memory`.
pub(super) async fn memory(State(admin): State<Admin>, request: Request) -> Response {
    let asked = read::<MemoryChange>(request).await;
    let change = asked.map(|to| TierChange::Memory(to.capacity));
    carry_out(&admin, change).await
}

/// Answers `PUT /cache/disk`.
pub(super) async fn disk(State(admin): State<Admin>, request: Request) -> Response {
    let asked = read::<DiskChange>(request).await;
    let change = asked.and_then(|to| match (to.capacity, to.enabled) {
        (None, None) => Err(bad("say what is to change: capacity, enabled, or both")),
        (capacity, enabled) => Ok(TierChange::Disk {
            path: to.path,
            capacity,
            enabled,
        }),
    });
    carry_out(&admin, change).await
}

async fn carry_out(admin: &Admin, change: Result<TierChange, Refusal>) -> Response {
    let change = match change {
        Ok(change) => change,
        Err((status, why)) => return (status, format!("{why}\n")).into_response(),
    };
    let changed = admin.tiers.change(change.clone()).await;
    if let Err(error) = changed {
        let status = match error {
            TierChangeError::NoSuch(_) => StatusCode::NOT_FOUND,
            TierChangeError::Refused(_) => StatusCode::BAD_REQUEST,
        };
        return (status, format!("{error}\n")).into_response();
    }
    match change {
        TierChange::Memory(capacity) => tracing::info!(capacity, "memory tier changed"),
        TierChange::Disk {
            path,
            capacity,
            enabled,
        } => tracing::info!(?path, ?capacity, ?enabled, "cache disk changed"),
    }
    shown(admin)
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
