//! Reads of the database: bounded in number and in time, on threads of their own.
//!
//! A row that does not come in time is [`StoredRow::Unknown`]: the engine then asks the origin, as for a
//! key that it does not know. An unknown row says nothing about the key. It is never taken for "there
//! is no row". A row that arrives after its deadline is dropped, so that it cannot overtake a later
//! write.
//!
//! After a late read the database is left alone: every further read is unknown at once. A probe, one
//! read at a time on a thread of its own, reads the same row again until it comes in time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{info, warn};

use super::db::Db;
use super::db::failure::DbFailure;
use super::metrics::MetaMetrics;
use crate::blocking::{BlockingCall, BlockingThreads};

use tidegate_telemetry::locks::Recover as _;

/// The pause before each probe.
pub(super) const PROBE_PAUSE: Duration = Duration::from_secs(1);

/// Reads at a time; each holds a thread until its system calls return.
const MAX_READS: usize = 16;

/// A table of rows that may block, or never return.
pub(super) trait RowSource: Send + Sync + std::fmt::Debug {
    /// Returns whether there is a database to read now. Never blocks.
    fn is_open(&self) -> bool;

    /// Reads the row of a key, still sealed. Blocks.
    fn row(&self, key: &[u8]) -> Result<Option<Vec<u8>>, DbFailure>;
}

impl RowSource for Db {
    fn is_open(&self) -> bool {
        Db::is_open(self)
    }

    fn row(&self, key: &[u8]) -> Result<Option<Vec<u8>>, DbFailure> {
        self.read(key)
    }
}

/// The outcome of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StoredRow {
    /// The row as it is in the database.
    Found(Vec<u8>),
    /// The database has no such row.
    Absent,
    /// The database did not answer in time, failed, or was not asked.
    Unknown,
}

/// The reads of one database.
#[derive(Debug)]
pub(super) struct RowReads {
    shared: Arc<RowReadState>,
    threads: BlockingThreads,
    permits: Arc<Semaphore>,
}

#[derive(Debug)]
struct RowReadState {
    rows: Arc<dyn RowSource>,
    metrics: MetaMetrics,
    /// The longest that a request waits for a row, including the wait for a permit.
    timeout: Duration,
    /// The pause before each probe.
    pause: Duration,
    /// A read was late, and no probe was in time since.
    off: AtomicBool,
    /// Reads and probes that were given up and have not returned.
    hung: AtomicU64,
    /// Set when the store ends; the probe waits on it between two reads.
    ended: Mutex<bool>,
    end: Condvar,
}

impl RowReads {
    /// Creates the reads of `rows`, each of which is late after `timeout`. After a late read, a probe tries again after
    /// each `pause`.
    ///
    /// # Errors
    /// The system gives no threads.
    pub(super) fn new(
        rows: Arc<dyn RowSource>,
        metrics: MetaMetrics,
        (timeout, pause): (Duration, Duration),
    ) -> std::io::Result<Self> {
        let threads = BlockingThreads::new("tidegate-row", MAX_READS)?;
        metrics.reads_up.set(1);
        Ok(Self {
            shared: Arc::new(RowReadState {
                rows,
                metrics,
                timeout,
                pause,
                off: AtomicBool::new(false),
                hung: AtomicU64::new(0),
                ended: Mutex::new(false),
                end: Condvar::new(),
            }),
            threads,
            permits: Arc::new(Semaphore::new(MAX_READS)),
        })
    }

    /// Reads the row of a key, within the timeout. A failure is handed to `failed`.
    pub(super) async fn read(
        &self,
        key: Vec<u8>,
        failed: impl FnOnce(DbFailure) + Send + 'static,
    ) -> StoredRow {
        let shared = &self.shared;
        if shared.off.load(Ordering::Acquire) || !shared.rows.is_open() {
            shared.metrics.unknown.inc();
            return StoredRow::Unknown;
        }
        let call = Arc::new(BlockingCall::default());
        let row = match timeout(shared.timeout, self.run(&key, Arc::clone(&call), failed)).await {
            Ok(row) => row,
            Err(_) => {
                // A read that only waited for its permit says nothing about the disk.
                if call.abandon() {
                    shared.count_hung();
                    shared.suspend(key);
                }
                StoredRow::Unknown
            }
        };
        if row == StoredRow::Unknown {
            shared.metrics.unknown.inc();
        }
        row
    }

    async fn run(
        &self,
        key: &[u8],
        call: Arc<BlockingCall>,
        failed: impl FnOnce(DbFailure) + Send + 'static,
    ) -> StoredRow {
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
            return StoredRow::Unknown;
        };
        // Reads were turned off while this one waited for its permit.
        if self.shared.off.load(Ordering::Acquire) {
            return StoredRow::Unknown;
        }
        let (shared, key) = (Arc::clone(&self.shared), key.to_vec());
        // From here on the disk is waited for.
        call.begin();
        let work = move || {
            let read = shared.rows.row(&key);
            if !call.end() {
                shared.count_returned();
            }
            drop(permit);
            match read {
                Ok(Some(row)) => StoredRow::Found(row),
                Ok(None) => StoredRow::Absent,
                Err(failure) => {
                    failed(failure);
                    StoredRow::Unknown
                }
            }
        };
        match self.threads.run(work) {
            Some(row) => row.await.unwrap_or(StoredRow::Unknown),
            None => StoredRow::Unknown,
        }
    }

    /// Returns the reason in words why no row is read; `None` while rows are read.
    pub(super) fn note(&self) -> Option<String> {
        let off = self.shared.off.load(Ordering::Acquire);
        off.then(|| {
            format!(
                "metadata store: nothing is read from it (no answer within {} ms)",
                self.shared.timeout.as_millis()
            )
        })
    }
}

impl Drop for RowReads {
    fn drop(&mut self) {
        *self.shared.ended() = true;
        self.shared.end.notify_all();
    }
}

impl RowReadState {
    fn ended(&self) -> MutexGuard<'_, bool> {
        self.ended.lock().recover()
    }

    fn count_hung(&self) {
        self.hung.fetch_add(1, Ordering::Relaxed);
        self.metrics.hung.inc();
    }

    fn count_returned(&self) {
        self.hung.fetch_sub(1, Ordering::Relaxed);
        self.metrics.hung.dec();
    }

    /// Leaves the database alone from now on, and begins to probe it with the row that was late.
    fn suspend(self: &Arc<Self>, key: Vec<u8>) {
        if self.off.swap(true, Ordering::AcqRel) {
            return;
        }
        self.metrics.reads_up.set(0);
        warn!(
            waited_ms = self.timeout.as_millis(),
            "the metadata store does not answer in time; nothing is read from it until a probe succeeds"
        );
        let weak = Arc::downgrade(self);
        let probe = thread::Builder::new().name("tidegate-probe".to_owned());
        if let Err(error) = probe.spawn(move || probe_until_in_time(&weak, &key)) {
            warn!(%error, "no thread for a probe; the metadata store is read on");
            self.resume();
        }
    }

    fn resume(&self) {
        self.off.store(false, Ordering::Release);
        self.metrics.reads_up.set(1);
    }

    /// Returns whether the store ends within the pause.
    fn wait_for_end(&self, pause: Duration) -> bool {
        let waited = self
            .end
            .wait_timeout_while(self.ended(), pause, |ended| !*ended);
        *waited.recover().0
    }

    /// Reads a row once. Returns whether it came in time and no abandoned read still hangs.
    fn probe(&self, key: &[u8]) -> bool {
        let began = Instant::now();
        // A failure is an answer too: the next read reports it.
        let _ = self.rows.row(key);
        began.elapsed() < self.timeout && self.hung.load(Ordering::Relaxed) == 0
    }
}

/// Probes until the row comes in time or the store ends. The thread holds the database only while it
/// reads, so that a store can be closed in between.
fn probe_until_in_time(shared: &Weak<RowReadState>, key: &[u8]) {
    while let Some(shared) = shared.upgrade() {
        if shared.wait_for_end(shared.pause) {
            return;
        }
        if shared.probe(key) {
            shared.resume();
            info!("the metadata store is read again");
            return;
        }
    }
}

#[cfg(test)]
mod tests;
