//! The operator's view of the tiers: the reports of the stores and the engine, and disks that are switched one at a time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use tidegate_admin::cache::{Budget, Disk, Memory, Report, SwitchError, Tiers};
use tidegate_cache::tiering::DiskReport;
use tidegate_cache::{self as cache, TieringError};
use tidegate_engine::Engine;

/// The time that a switch may take before the next one has its turn: a disk that hangs takes for ever.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Implements [`Tiers`] over the stores and the engine.
#[derive(Debug)]
pub(in crate::app) struct OperatorTiers {
    tiers: Arc<cache::Tiers>,
    engine: Engine,
    /// Held during a change: of two requests each sees the other's result.
    changing: Arc<Mutex<()>>,
}

impl OperatorTiers {
    pub(in crate::app) fn new(tiers: Arc<cache::Tiers>, engine: Engine) -> Self {
        Self {
            tiers,
            engine,
            changing: Arc::default(),
        }
    }
}

impl Tiers for OperatorTiers {
    fn report(&self) -> Report {
        let report = self.tiers.report();
        let budget = self.engine.budget();
        Report {
            memory: Memory {
                capacity: report.memory.capacity,
                used: report.memory.used,
            },
            budget: Budget {
                capacity: budget.total(),
                lent: budget.used(),
            },
            disks: report.disks.into_iter().map(disk_report).collect(),
        }
    }

    fn switch_disk(&self, path: PathBuf, enabled: bool) -> BoxFuture<'_, Result<(), SwitchError>> {
        let (tiers, changing) = (self.tiers.clone(), self.changing.clone());
        // A task of its own: a client that leaves does not leave a disk half switched off.
        let done = tokio::spawn(async move {
            let _changing = changing.lock().await;
            match enabled {
                false => tiers.switch_off(&path).await.map_err(store_error),
                true => blocking(move || tiers.switch_on(&path)).await,
            }
        });
        Box::pin(async { done.await.unwrap_or_else(|error| Err(refusal(error))) })
    }
}

async fn blocking(
    change: impl FnOnce() -> Result<(), TieringError> + Send + 'static,
) -> Result<(), SwitchError> {
    match timeout(CHANGE_TIMEOUT, spawn_blocking(change)).await {
        Ok(Ok(done)) => done.map_err(store_error),
        Ok(Err(error)) => Err(refusal(error)),
        Err(_) => Err(refusal(
            "the disk does not answer; it may still come to be done",
        )),
    }
}

fn store_error(error: TieringError) -> SwitchError {
    let words = error.to_string();
    match error {
        TieringError::NoDisk(_) => SwitchError::NoSuch(words),
        TieringError::Refused(_) => SwitchError::Refused(words),
    }
}

/// Returns the refusal for a panic, or the end of the runtime.
fn refusal(error: impl ToString) -> SwitchError {
    SwitchError::Refused(error.to_string())
}

fn disk_report(disk: DiskReport) -> Disk {
    let content = disk.content;
    let ratio = disk.written as f64 / disk.admitted as f64;
    Disk {
        path: disk.path,
        state: disk.state,
        why: (!disk.why.is_empty()).then(|| disk.why.join("; ")),
        capacity: disk.capacity,
        used: content.map(|content| content.used),
        free: content.map(|content| content.free),
        pinned: content.map(|content| content.pinned),
        queued: content.map(|content| content.queued),
        chunks: content.map(|content| content.chunks),
        write_amplification: (disk.admitted > 0).then_some(ratio),
    }
}
