//! One cache disk: Tidegate's own log of chunks (`gateway/docs/adr/0008-chunk-log.md` gives the
//! reasons).
//!
//! # The life of a chunk
//!
//! [`Disk::insert`] puts it into a bounded `queue`, where it can be read already. One `writer` thread
//! appends the queued chunks to the current `segment`, a batch at a time and past the file cache, and
//! enters them into the `index` in memory. A read looks there, and verifies the bytes that the
//! `reader`'s threads bring. If the capacity is reached, the `writer` evicts the chunks that were not
//! read lately, and gives their space back to the file system in place. At the start the index files
//! are read in the background (`load`); the `layout` of the directory says which can be.
//!
//! # Failures of a disk
//!
//! A disk may fail in any way, at any time: `health` says what it is still trusted with, and a `monitor`
//! checks once a second whether it is well again. No reader waits for longer than the deadline of a
//! read, no caller waits for an insertion, and no unverified bytes are given out.
//!
//! All operations on files go through `files`, so that tests can make each of them fail.

mod entry;
mod files;
mod health;
mod index;
mod layout;
mod log;
mod monitor;
mod queue;
mod reader;
mod refusal;
mod segment;
mod speed;
mod threads;
mod write_buffer;
mod writer;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::time::timeout;

use self::files::{Files, RealFiles};
use self::layout::Layout;
pub(crate) use self::layout::check_least;
use self::log::Log;
use self::monitor::{CHECK_INTERVAL, DiskMonitor};
use self::queue::QueuePhase;
use self::reader::DiskReader;
use self::threads::DiskThreads;
use super::metrics::DiskMetrics;
use super::pins::{PinId, SharedPins};
use super::tiering::{DiskContent, DiskState};
use super::{ChunkKey, DiskSettings, PlannedRead, StoreError};
use tidegate_plan::Geometry;
use tidegate_plan::meter::ReadEstimate;

pub(super) use self::refusal::{Fault, Refusal};

/// The time that a read may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadDeadline {
    /// As long as the disk usually takes, and a little more: another source has the chunk.
    Usual,
    /// As long as a disk may take at all: no other source has the chunk.
    Longest,
}

/// One cache disk.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
    log: Arc<Log>,
    reader: DiskReader,
    threads: DiskThreads,
}

impl Disk {
    /// Locks the directory, and starts to load its index in the background. Blocks.
    ///
    /// # Errors
    /// A fault that only a change of configuration can mend; a later fault of the disk is no error.
    pub(super) fn open(
        settings: &DiskSettings,
        geometry: Geometry,
        metrics: DiskMetrics,
        pins: &SharedPins,
    ) -> Result<Self, StoreError> {
        Self::open_on(settings, geometry, metrics, pins, Arc::new(RealFiles))
    }

    fn open_on(
        settings: &DiskSettings,
        geometry: Geometry,
        metrics: DiskMetrics,
        pins: &SharedPins,
        files: Arc<dyn Files>,
    ) -> Result<Self, StoreError> {
        let layout = Layout::prepare(settings, geometry, &*files)?;
        let log = Arc::new(Log::new(settings, layout, files, metrics, pins));
        let reader = DiskReader::new(&log, settings, speed::read_meter(&settings.path))?;
        let mut monitor = DiskMonitor::new(Arc::clone(&log), reader.limits.clone());
        monitor.check(Instant::now());
        let threads = DiskThreads::start(&log, monitor)
            .map_err(StoreError::io("start threads for", &settings.path))?;
        Ok(Self {
            path: settings.path.clone(),
            log,
            reader,
            threads,
        })
    }

    /// Returns the fault that kept its directory from being taken when it was opened. A start goes on with such a disk; a
    /// change of a running gateway is refused.
    pub(super) fn check_start(&self) -> Result<(), &StoreError> {
        self.log.layout.fault.as_ref().map_or(Ok(()), Err)
    }

    /// Returns the chunk if it is there, sound and `len` bytes long, and was read within the deadline.
    pub(super) async fn get(
        &self,
        key: &ChunkKey,
        len: usize,
        deadline: ReadDeadline,
    ) -> Option<Bytes> {
        let found = self.find(key, len, deadline).await;
        let metrics = &self.log.metrics;
        metrics.tier.count_lookup(found.as_ref().map(Bytes::len));
        found
    }

    /// Returns the chunk without counting the look-up, for a caller that copies it.
    pub(super) async fn copy(&self, key: &ChunkKey, len: usize) -> Option<Bytes> {
        self.find(key, len, ReadDeadline::Usual).await
    }

    async fn find(&self, key: &ChunkKey, len: usize, deadline: ReadDeadline) -> Option<Bytes> {
        let log = &self.log;
        if let Some(bytes) = log.queue.get(key) {
            return (bytes.len() == len).then_some(bytes);
        }
        if deadline == ReadDeadline::Usual && !log.health.can_read() {
            return None;
        }
        let location = log.index.touch(key)?;
        if location.len as usize != len {
            log.metrics.count_fault(Fault::Corrupt);
            log.forget(key, &location);
            return None;
        }
        self.reader.read(*key, location, deadline).await
    }

    /// Returns whether the chunk waits to be written, or is in the index of a disk that can be read.
    pub(super) fn contains(&self, key: &ChunkKey) -> bool {
        let log = &self.log;
        log.queue.contains(key) || log.health.can_read() && log.index.find(key).is_some()
    }

    /// Records that a chunk was used in memory, so that it stays on disk like one that was read there.
    /// `false`: it is not there.
    pub(super) fn touch(&self, key: &ChunkKey) -> bool {
        self.log.queue.contains(key) || self.log.index.touch(key).is_some()
    }

    /// Queues a chunk to be written behind; `pin` keeps it from eviction. Never waits; a refusal is
    /// counted.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub(super) fn insert(&self, key: ChunkKey, bytes: Bytes, pin: PinId) -> Result<(), Refusal> {
        let taken = self.offer(key, bytes, pin);
        if let Err(refusal) = taken {
            self.log.metrics.count_refusal(refusal);
        }
        taken
    }

    /// Queues a chunk as [`insert`](Self::insert) does, without counting a refusal.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub(super) fn offer(&self, key: ChunkKey, bytes: Bytes, pin: PinId) -> Result<(), Refusal> {
        self.log.offer(key, bytes, pin)
    }

    /// Assigns a chunk that is there to another pin, or to none.
    pub(super) fn set_pin(&self, key: &ChunkKey, pin: PinId) {
        self.log.set_pin(key, pin);
    }

    /// Returns whether a chunk is there and kept from eviction.
    pub(super) fn is_pinned(&self, key: &ChunkKey) -> bool {
        self.log.index.is_pinned(key)
    }

    /// Drops a chunk.
    pub(super) fn remove(&self, key: &ChunkKey) {
        self.log.remove(key);
    }

    /// Returns `Ok` if the index is complete, or if the disk keeps it from getting so, which [`notes`](Self::notes) tell;
    /// otherwise its progress, in words.
    pub(super) fn ready(&self) -> Result<(), String> {
        self.ready_at(Instant::now())
    }

    fn ready_at(&self, now: Instant) -> Result<(), String> {
        if self.log.is_load_late(now) {
            return Ok(());
        }
        self.check_loaded()
    }

    /// Returns `Ok` if the index is complete; otherwise its progress, in words. Until then, a chunk that is not found may
    /// still be on the disk.
    pub(super) fn check_loaded(&self) -> Result<(), String> {
        if self.log.ready.initialized() {
            return Ok(());
        }
        Err(format!(
            "{} is still being loaded {}",
            self.index_name(),
            self.progress()
        ))
    }

    fn index_name(&self) -> String {
        format!("the index of cache disk {}", self.path.display())
    }

    fn progress(&self) -> String {
        let [loaded, all] = [&self.log.loaded, &self.log.to_load];
        let [loaded, all] = [loaded, all].map(|count| count.load(Ordering::Relaxed));
        format!("({loaded} of {all} segments)")
    }

    /// Waits until the index is complete, or the disk keeps it from getting so.
    pub(super) async fn loaded(&self) {
        while !self.log.is_load_late(Instant::now())
            && timeout(CHECK_INTERVAL, self.log.ready.wait())
                .await
                .is_err()
        {}
    }

    /// Describes the faults of the disk in words.
    pub(super) fn notes(&self) -> Vec<String> {
        self.notes_at(Instant::now())
    }

    fn notes_at(&self, now: Instant) -> Vec<String> {
        let mut notes = self.log.health.notes();
        if self.log.is_load_late(now) {
            let (index, progress) = (self.index_name(), self.progress());
            let loads = match self.log.is_load_stuck(now) {
                true => "does not load",
                false => "loads slowly",
            };
            notes.push(format!(
                "{index} {loads} {progress}: chunks not loaded count as misses"
            ));
        }
        notes
    }

    /// Estimates a read of `len` bytes that would begin now; `None`: the disk cannot be asked.
    pub(super) fn estimate(&self, key: &ChunkKey, len: usize) -> Option<ReadEstimate> {
        if self.log.queue.contains(key) {
            return Some(ReadEstimate::default());
        }
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        let reads = self.log.health.can_read();
        reads.then(|| self.reader.estimate(len))
    }

    /// Counts a planned read; see [`crate::ChunkStore::plan_read`].
    pub(super) fn plan_read(&self, key: &ChunkKey, len: usize) -> PlannedRead {
        if self.log.queue.contains(key) {
            return PlannedRead::default();
        }
        self.reader.plan(u64::try_from(len).unwrap_or(u64::MAX))
    }

    /// Returns the bytes per second that the disk gave lately; `None`: it cannot be asked, or was not
    /// measured.
    pub(super) fn rate(&self) -> Option<f64> {
        let reads = self.log.health.can_read();
        reads.then(|| self.reader.rate()).flatten()
    }

    /// Returns the bytes that wait to be written, or are being written.
    pub(super) fn queued(&self) -> u64 {
        self.log.queue.bytes()
    }

    /// Returns the fill of the queue, from 0 to 1; `None` if the disk takes nothing now.
    pub(super) fn backlog(&self) -> Option<f64> {
        let log = &self.log;
        let takes = log.health.refusal().is_none();
        takes.then(|| log.queue.bytes() as f64 / log.queue.limit().max(1) as f64)
    }

    /// Sets another capacity, which [`check_capacity`] allowed, and the bytes that stay free. Chunks that no longer fit
    /// are evicted in the background.
    pub(super) fn configure(&self, settings: &DiskSettings) {
        self.log.set_min_free(settings.min_free);
        self.log.resize(settings.capacity);
    }

    /// Returns the state.
    pub(super) fn state(&self) -> DiskState {
        self.log.health.state()
    }

    /// Describes in words why the disk is not up.
    pub(super) fn why(&self) -> Vec<String> {
        let loading = self.ready().err();
        loading.into_iter().chain(self.notes()).collect()
    }

    /// Returns figures of the disk's content.
    pub(super) fn content(&self) -> DiskContent {
        let log = &self.log;
        DiskContent {
            used: log.segments.taken(),
            free: u64::try_from(log.metrics.free.get()).unwrap_or(0),
            queued: log.queue.bytes(),
            pinned: log.index.pinned_bytes.total(),
            chunks: u64::try_from(log.index.len()).unwrap_or(u64::MAX),
        }
    }

    /// Takes nothing more, and waits until everything queued is written and durable.
    pub(super) async fn close(&self) {
        self.log.queue.advance(QueuePhase::Closing);
        self.log.drained.wait().await;
        let (path, measured) = (self.path.clone(), self.reader.measured());
        // A hanging disk is not waited for: its measurements can be made again.
        let written = tokio::task::spawn_blocking(move || speed::write_meter(&path, &measured));
        let _ = timeout(CLOSE_TIMEOUT, written).await;
    }
}

/// The time that [`Disk::close`] waits for the measurements to be written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

impl Drop for Disk {
    /// Stops the threads. Without [`Disk::close`] before, the queued chunks are lost.
    fn drop(&mut self) {
        self.log.queue.advance(QueuePhase::Stopped);
        // A thread that hangs on the disk still has the directory.
        if self.threads.end() {
            self.log.layout.unlock();
        }
    }
}

/// Returns whether two configured paths are one directory, as far as the file system can tell.
pub(super) fn same_directory(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| PathBuf::from(path));
    real(a) == real(b)
}

/// Checks whether a disk can have the capacity that its settings say. Blocks.
///
/// # Errors
/// It is too small for these chunks, or too large for the file system.
pub(super) fn check_capacity(
    settings: &DiskSettings,
    geometry: Geometry,
) -> Result<(), StoreError> {
    layout::check_capacity(settings, geometry.chunk(), &RealFiles)
}
