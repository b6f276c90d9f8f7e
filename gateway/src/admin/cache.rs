//! `GET /cache`, `PUT /cache/memory` and `PUT /cache/disk`: the tiers as they are, and others while
//! the gateway runs.
//!
//! - `PUT /cache/memory {"capacity": "512MiB"}`: another capacity of the memory tier;
//! - `PUT /cache/disk {"path": "/var/cache/tidegate", "capacity": "50GiB"}`: one of a disk;
//! - `PUT /cache/disk {"path": "/var/cache/tidegate", "enabled": false}`: closed in order, and gone on
//!   without; `true` opens it again with what it holds.
//!
//! Both may stand in one request; then the capacity comes first. A disk is named as the configuration
//! writes its path, and no other path is ever looked at. Each answers with the tiers as they are then.
//! The next start goes by the file again.

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

/// The tiers, as far as the operator is concerned.
pub trait Tiers: Send + Sync + 'static {
    /// How they are. Never blocks.
    fn report(&self) -> Report;

    /// Changes one, and returns when that is done; what it then evicts goes on in the background.
    ///
    /// # Errors
    /// Why it is as it was.
    fn change(&self, change: Change) -> BoxFuture<'_, Result<(), ChangeError>>;
}

/// How the tiers are. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The memory tier.
    pub memory: Memory,
    /// What fetches and read-ahead may borrow.
    pub budget: Budget,
    /// Every configured disk, in the order of the configuration.
    pub disks: Vec<Disk>,
}

/// How the memory tier is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// What it may hold.
    pub capacity: u64,
    /// What it holds, overhead included.
    pub used: u64,
}

/// How the budget is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Budget {
    /// What there is for fetches and read-ahead.
    pub capacity: u64,
    /// What of it is lent out.
    pub lent: u64,
}

/// How one disk is. What is `null` is not known of a disk that is off.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disk {
    /// Its directory, as the configuration writes it.
    pub path: PathBuf,
    /// The state in one word: that of `tidegate_store_disk_state`, or `off`.
    pub state: &'static str,
    /// Why it is not `up`, in words.
    pub why: Option<String>,
    /// What its files may take up.
    pub capacity: u64,
    /// What they take up, at most.
    pub used: Option<u64>,
    /// What is free on its file system, also for others.
    pub free: Option<u64>,
    /// What pins keep from eviction.
    pub pinned: Option<u64>,
    /// What waits to be written.
    pub queued: Option<u64>,
    /// Chunks in its index.
    pub chunks: Option<u64>,
    /// Bytes written to the device for each byte of chunks that was taken, since the start; `null`
    /// while none was.
    pub write_amplification: Option<f64>,
}

/// What is to be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The capacity of the memory tier, in bytes.
    Memory(u64),
    /// A disk.
    Disk {
        /// Which: its path, as configured.
        path: PathBuf,
        /// Its new capacity in bytes, if it is to have one.
        capacity: Option<u64>,
        /// Whether it is to be on from now on, if that is to change.
        enabled: Option<bool>,
    },
}

/// Why a tier was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// There is none such.
    #[error("{0}")]
    NoSuch(String),
    /// It cannot be done.
    #[error("{0}")]
    Refused(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToMemory {
    #[serde(deserialize_with = "size")]
    capacity: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToDisk {
    path: PathBuf,
    #[serde(default, deserialize_with = "some_size")]
    capacity: Option<u64>,
    enabled: Option<bool>,
}

/// `GET /cache`.
pub(super) async fn show(State(admin): State<Admin>) -> Response {
    shown(&admin)
}

/// `PUT /cache/memory`.
pub(super) async fn memory(State(admin): State<Admin>, request: Request) -> Response {
    let asked = read::<ToMemory>(request).await;
    let change = asked.map(|to| Change::Memory(to.capacity));
    carry_out(&admin, change).await
}

/// `PUT /cache/disk`.
pub(super) async fn disk(State(admin): State<Admin>, request: Request) -> Response {
    let asked = read::<ToDisk>(request).await;
    let change = asked.and_then(|to| match (to.capacity, to.enabled) {
        (None, None) => Err(bad("say what is to change: capacity, enabled, or both")),
        (capacity, enabled) => Ok(Change::Disk {
            path: to.path,
            capacity,
            enabled,
        }),
    });
    carry_out(&admin, change).await
}

async fn carry_out(admin: &Admin, change: Result<Change, Refusal>) -> Response {
    let change = match change {
        Ok(change) => change,
        Err((status, why)) => return (status, format!("{why}\n")).into_response(),
    };
    let changed = admin.tiers.change(change.clone()).await;
    if let Err(error) = changed {
        let status = match error {
            ChangeError::NoSuch(_) => StatusCode::NOT_FOUND,
            ChangeError::Refused(_) => StatusCode::BAD_REQUEST,
        };
        return (status, format!("{error}\n")).into_response();
    }
    match change {
        Change::Memory(capacity) => tracing::info!(capacity, "memory tier changed"),
        Change::Disk {
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
            // A path that is no text.
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

/// A size as the configuration has it: a number of bytes, or text with a unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Bytes(u64),
    Text(String),
}

impl Written {
    fn bytes(self) -> Result<u64, String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Text(text) => text.parse().map(|size: ByteSize| size.0),
        }
    }
}

/// Reads a size.
pub(super) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let written = Written::deserialize(from)?;
    written.bytes().map_err(D::Error::custom)
}

/// The same, where it may be left out.
pub(super) fn some_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let written = Option::<Written>::deserialize(from)?;
    let bytes = written.map(Written::bytes).transpose();
    bytes.map_err(D::Error::custom)
}

#[cfg(test)]
pub(super) mod tests;
