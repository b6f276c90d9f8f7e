//! A slot for one configured disk, which is empty while the disk is switched off.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;

use crate::disk::{Disk, check_capacity};
use crate::metrics::{DiskMetrics, StoreMetrics};
use crate::pins::SharedPins;
use crate::tiering::{DiskReport, DiskState, TieringError};
use crate::{DiskSettings, StoreError};
use tidegate_plan::Geometry;
use tidegate_telemetry::locks::Recover as _;

/// The time that a disk which is switched off gets for its last reads: a read that takes longer hangs.
const LAST_READS_TIMEOUT: Duration = Duration::from_secs(2);

/// The time that it gets for its last writes.
const LAST_WRITES_TIMEOUT: Duration = Duration::from_secs(20);

/// The slot of a disk.
#[derive(Debug)]
pub(super) struct DiskSlot {
    /// The folder, as the configuration writes it.
    path: PathBuf,
    settings: Mutex<DiskSettings>,
    metrics: DiskMetrics,
    pub(super) disk: ArcSwapOption<Disk>,
}

impl DiskSlot {
    /// Opens a disk. Blocks, but does not wait for its index.
    ///
    /// # Errors
    /// As for [`Disk::open`].
    pub(super) fn open(
        settings: &DiskSettings,
        geometry: Geometry,
        (metrics, pins): (&StoreMetrics, &SharedPins),
    ) -> Result<Self, StoreError> {
        let label = settings.path.display().to_string();
        let own = metrics.disk(&label);
        let opened = Disk::open(settings, geometry, own.clone(), pins);
        let opened = opened.inspect_err(|_| metrics.forget_disk(&label))?;
        Ok(Self {
            path: settings.path.clone(),
            settings: Mutex::new(settings.clone()),
            metrics: own,
            disk: ArcSwapOption::from_pointee(opened),
        })
    }

    fn settings(&self) -> MutexGuard<'_, DiskSettings> {
        self.settings.lock().recover()
    }

    /// Returns the folder, as the configuration writes it.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reports the state.
    pub(super) fn report(&self) -> DiskReport {
        let capacity = self.settings().capacity;
        let disk = self.disk.load_full();
        let state = disk.as_ref().map_or(DiskState::Off, |disk| disk.state());
        DiskReport {
            state,
            why: disk.as_ref().map(|disk| disk.why()).unwrap_or_default(),
            content: disk.map(|disk| disk.content()),
            path: self.path.clone(),
            capacity,
            written: self.metrics.written.get(),
            admitted: self.metrics.admitted.get(),
        }
    }

    /// Returns whether another configuration changes the disk. Blocks.
    ///
    /// # Errors
    /// The disk cannot have the capacity.
    pub(super) fn check(
        &self,
        configured: &DiskSettings,
        geometry: Geometry,
    ) -> Result<bool, TieringError> {
        let changes = *self.settings() != *configured;
        if changes {
            check_capacity(configured, geometry).map_err(refusal)?;
        }
        Ok(changes)
    }

    /// Puts another configuration in force, which [`Self::check`] allowed.
    pub(super) fn configure(&self, configured: DiskSettings) {
        let mut settings = self.settings();
        *settings = configured;
        self.put_in_force(&settings);
    }

    /// Changes the disk, if it is in. The settings stay locked meanwhile, so that the last ones are those in force.
    fn put_in_force(&self, settings: &DiskSettings) {
        if let Some(disk) = &*self.disk.load() {
            disk.configure(settings);
        }
    }

    /// Takes the disk out and closes it in order; its chunks count as misses. Reads that have begun end.
    ///
    /// # Errors
    /// Its end failed.
    pub(super) async fn switch_off(&self) -> Result<(), TieringError> {
        let Some(disk) = self.disk.swap(None) else {
            return Ok(());
        };
        // If a disk hangs, its unwritten chunks are lost.
        let closed = tokio::time::timeout(LAST_WRITES_TIMEOUT, disk.close()).await;
        if closed.is_err() {
            tracing::warn!(path = %self.path().display(), "cache disk not closed in order");
        }
        // Reads that began before end within their deadline; the last one releases the lock.
        let until = Instant::now() + LAST_READS_TIMEOUT;
        while Arc::strong_count(&disk) > 1 && Instant::now() < until {
            tokio::time::sleep(LAST_READS_TIMEOUT / 100).await;
        }
        // Dropping the disk waits for its threads.
        let ended = tokio::task::spawn_blocking(move || drop(disk)).await;
        ended.map_err(refusal)
    }

    /// Puts the disk in again, with its content. Blocks, but does not wait for its index.
    ///
    /// # Errors
    /// It cannot be opened: the reason in words.
    pub(super) fn switch_on(
        &self,
        geometry: Geometry,
        pins: &SharedPins,
    ) -> Result<(), TieringError> {
        if self.disk.load().is_some() {
            return Ok(());
        }
        let present = self.settings().clone();
        let opened = Disk::open(&present, geometry, self.metrics.clone(), pins);
        let opened = opened.map_err(not_opened)?;
        opened.check_start().map_err(refusal)?;
        self.disk.store(Some(Arc::new(opened)));
        // They may have changed while the disk was opened.
        self.put_in_force(&self.settings());
        Ok(())
    }
}

/// Returns the reason why a disk of a running store was not opened.
pub(super) fn not_opened(error: StoreError) -> TieringError {
    match error {
        StoreError::InUse {
            path,
            holder: Some(holder),
        } if holder == std::process::id() => refusal(format!(
            "{} is still in use by this process: a read hangs in it, or another disk has it; try again later",
            path.display()
        )),
        error => refusal(error),
    }
}

pub(super) fn refusal(why: impl ToString) -> TieringError {
    TieringError::Refused(why.to_string())
}
