//! Reads of one disk: bounded in number and in time, on threads of the disk's own.
//!
//! A late read is not waited for any longer, but it keeps its permit and its thread until the system
//! call returns, which may be never. If such reads hold all permits, other reads are misses at once. A
//! read may take twice the time that the meter expects, plus the recent scatter of reads, plus `late`.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::ReadDeadline;
use super::entry::DiskLocation;
use super::log::Log;
use super::refusal::Fault;
use crate::blocking::{BlockingCall, BlockingThreads};
use crate::{ChunkKey, DiskSettings, PlannedRead, StoreError};
use tidegate_plan::meter::{DiskMeter, ReadEstimate};
use tidegate_telemetry::locks::Recover as _;

/// Bytes per second that an unmeasured disk is assumed to read: an old hard disk under load. The first
/// reads after a start must not count as late on a slow disk.
const ASSUMED_RATE: u64 = 8 << 20;

/// The longest expected time that is accepted: a slower disk is of no use to a reader.
const MAX_EXPECTED_TIME: Duration = Duration::from_secs(3);

/// The time that a disk gets if no other source has the chunk.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads of at least this size, with more than [`MIN_DIRECT_READS_UNDER_WAY`] of them under way, go past the file cache. To
/// fill its pages is slower than a good disk, and evicts pages that other readers use. Sparse reads
/// fill it.
const MIN_DIRECT_READ: u64 = 256 << 10;
const MIN_DIRECT_READS_UNDER_WAY: u64 = 3;

/// Reads of one disk.
#[derive(Debug)]
pub(super) struct DiskReader {
    log: Arc<Log>,
    threads: BlockingThreads,
    permits: Arc<Semaphore>,
    reads: i64,
    pub(super) limits: ReadLimits,
    shared: Arc<ReadState>,
}

/// The times that reads of one disk may take.
#[derive(Debug, Clone)]
pub(super) struct ReadLimits {
    /// See [`DiskSettings::late`].
    pub(super) late: Duration,
    shared: Arc<ReadState>,
}

impl ReadLimits {
    /// Returns the limits of a disk that was not measured.
    #[cfg(test)]
    pub(super) fn unmeasured(late: Duration) -> Self {
        Self {
            late,
            shared: Arc::default(),
        }
    }

    /// Records a read, as a disk that takes so long makes them.
    #[cfg(test)]
    pub(super) fn measure(&self, len: u64, took: Duration) {
        self.shared.measure(len, len, took);
    }

    /// Returns the time that a read may take that begins behind `under_way` bytes.
    pub(super) fn time_limit(&self, under_way: u64, len: u64) -> Duration {
        let meter = self.shared.current_meter();
        let measured = meter.estimate(under_way, len);
        let norm = measured.map_or_else(
            || assumed_time(under_way + len),
            |measured| 2 * measured + meter.scatter(),
        );
        norm.min(MAX_EXPECTED_TIME) + self.late
    }
}

/// The measurements, and the time of the last read.
#[derive(Debug, Default)]
struct MeterState {
    meter: DiskMeter,
    last: Option<Instant>,
}

/// The state that reads share and leave behind.
#[derive(Debug, Default)]
struct ReadState {
    meter: Mutex<MeterState>,
    /// Bytes requested and not yet read.
    under_way: AtomicU64,
    /// Bytes that are planned to be requested.
    planned: Arc<AtomicU64>,
    /// Abandoned reads that still hold their permit.
    hung: AtomicI64,
}

impl DiskReader {
    /// Creates the reader of `log`; `measured` comes from an earlier process.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub(super) fn new(
        log: &Arc<Log>,
        settings: &DiskSettings,
        measured: Option<DiskMeter>,
    ) -> Result<Self, StoreError> {
        let reads = settings.reads.max(1);
        let threads = BlockingThreads::new("tidegate-disk", reads)
            .map_err(StoreError::io("start threads for", &settings.path))?;
        let shared = Arc::new(ReadState {
            meter: Mutex::new(MeterState {
                meter: measured.unwrap_or_default(),
                last: None,
            }),
            ..ReadState::default()
        });
        Ok(Self {
            log: Arc::clone(log),
            threads,
            permits: Arc::new(Semaphore::new(reads)),
            reads: i64::try_from(reads).unwrap_or(i64::MAX),
            limits: ReadLimits {
                late: settings.late,
                shared: Arc::clone(&shared),
            },
            shared,
        })
    }

    /// Reads and verifies a chunk. `None`: it could not be read, for whatever reason; counted.
    pub(super) async fn read(
        &self,
        key: ChunkKey,
        location: DiskLocation,
        deadline: ReadDeadline,
    ) -> Option<Bytes> {
        let shared = &self.shared;
        // A reader without another source waits for a permit all the same.
        let usual = deadline == ReadDeadline::Usual;
        if usual && shared.hung.load(Ordering::Relaxed) >= self.reads {
            return None;
        }
        let began = Instant::now();
        let turn = ReadTurn::take(shared, u64::from(location.len));
        let under_way = turn.under_way;
        let allowed = match deadline {
            ReadDeadline::Usual => self.limits.time_limit(under_way - turn.len, turn.len),
            ReadDeadline::Longest => LONGEST_TIMEOUT,
        };
        let call = Arc::new(BlockingCall::default());
        let work = self.start_read(key, location, turn, Arc::clone(&call), began);
        let outcome = timeout(allowed, work).await;
        let seconds = began.elapsed().as_secs_f64();
        self.log.metrics.read_seconds.observe(seconds);
        let fault = match outcome {
            Ok(Some(Ok(bytes))) => return Some(bytes),
            Ok(Some(Err(fault))) => fault,
            Ok(None) => Fault::Error,
            Err(_) => {
                if call.abandon() {
                    shared.hung.fetch_add(1, Ordering::Relaxed);
                    self.log.metrics.hung.inc();
                }
                shared.measure(u64::from(location.len), under_way, allowed);
                self.log.health.record_late_read(allowed);
                Fault::Late
            }
        };
        self.log.metrics.count_fault(fault);
        if fault != Fault::Late {
            // A bad place costs one chunk: it comes from the origin and is written elsewhere.
            self.log.forget(&key, &location);
        }
        None
    }

    /// Counts a planned read.
    pub(super) fn plan(&self, len: u64) -> PlannedRead {
        PlannedRead::take(&self.shared.planned, len)
    }

    /// Estimates a read of `len` bytes that would begin now. While nothing was measured, the first read
    /// counts as no time, so that one is tried; few follow behind it, because the disk may be slow.
    pub(super) fn estimate(&self, len: u64) -> ReadEstimate {
        let ahead = self.shared.ahead();
        let meter = self.shared.current_meter();
        ReadEstimate {
            takes: meter
                .estimate(ahead, len)
                .unwrap_or_else(|| assumed_time(ahead)),
            scatter: meter.scatter(),
            is_idle: ahead == 0,
        }
    }

    /// Returns the measurements, for the next process to begin with.
    pub(super) fn measured(&self) -> DiskMeter {
        self.shared.current_meter()
    }

    /// Returns the bytes per second that the disk gave lately.
    pub(super) fn rate(&self) -> Option<f64> {
        self.shared.meter().meter.rate()
    }

    async fn start_read(
        &self,
        key: ChunkKey,
        location: DiskLocation,
        turn: ReadTurn,
        call: Arc<BlockingCall>,
        began: Instant,
    ) -> Option<Result<Bytes, Fault>> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
        let (log, shared) = (Arc::clone(&self.log), Arc::clone(&self.shared));
        call.begin();
        let direct =
            turn.len >= MIN_DIRECT_READ && turn.under_way > MIN_DIRECT_READS_UNDER_WAY * turn.len;
        let read = self.threads.run(move || {
            let read = log.read(&key, &location, direct);
            if !call.end() {
                shared.hung.fetch_sub(1, Ordering::Relaxed);
                log.metrics.hung.dec();
            } else if read.is_ok() {
                shared.measure(turn.len, turn.under_way, began.elapsed());
            }
            drop((turn, permit));
            read
        })?;
        read.await.ok()
    }
}

/// Returns the time that an unmeasured disk may take for so many bytes.
fn assumed_time(bytes: u64) -> Duration {
    Duration::from_micros(bytes.saturating_mul(1_000_000) / ASSUMED_RATE)
}

impl ReadState {
    /// Returns the bytes that a read decided on now queues behind.
    fn ahead(&self) -> u64 {
        self.under_way.load(Ordering::Relaxed) + self.planned.load(Ordering::Relaxed)
    }

    fn meter(&self) -> MutexGuard<'_, MeterState> {
        self.meter.lock().recover()
    }

    /// Returns the meter, adjusted for the time since the last read.
    fn current_meter(&self) -> DiskMeter {
        let measured = self.meter();
        let idle = measured.last.map(|last| last.elapsed());
        measured.meter.after_idle(idle.unwrap_or_default())
    }

    fn measure(&self, len: u64, under_way: u64, took: Duration) {
        let mut measured = self.meter();
        let idle = measured.last.map(|last| last.elapsed());
        measured.meter = measured.meter.after_idle(idle.unwrap_or_default());
        measured.meter.record_read(len, under_way, took);
        measured.last = Some(Instant::now());
    }
}

/// A read's share of the bytes under way, until it ends.
#[derive(Debug)]
struct ReadTurn {
    shared: Arc<ReadState>,
    len: u64,
    /// Bytes under way at its start, its own included.
    under_way: u64,
}

impl ReadTurn {
    fn take(shared: &Arc<ReadState>, len: u64) -> Self {
        Self {
            under_way: shared.under_way.fetch_add(len, Ordering::Relaxed) + len,
            shared: Arc::clone(shared),
            len,
        }
    }
}

impl Drop for ReadTurn {
    fn drop(&mut self) {
        self.shared.under_way.fetch_sub(self.len, Ordering::Relaxed);
    }
}
