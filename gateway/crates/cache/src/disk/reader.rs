//! Reads of one disk: bounded in number and in time, on threads of the disk's own.
//!
//! A late read is not waited for any longer, but it keeps its permit and its thread until the system
//! call returns, which may be never. If such reads hold all permits, other reads are misses at once. A
//! read may take twice the time that the meter expects, plus the recent scatter of reads, plus `late`.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Patience;
use super::entry::Place;
use super::log::Log;
use super::refusal::Fault;
use crate::{ChunkKey, DiskSettings, Planned, StoreError};
use tidegate_plan::meter::{DiskMeter, ReadEstimate};

/// Bytes per second that an unmeasured disk is assumed to read: an old hard disk under load. The first
/// reads after a start must not count as late on a slow disk.
const SLOWEST: u64 = 8 << 20;

/// The longest expected time that is accepted: a slower disk is of no use to a reader.
const LONGEST: Duration = Duration::from_secs(3);

/// The time that a disk gets if no other source has the chunk.
const LAST: Duration = Duration::from_secs(10);

/// Reads of at least this size, with more than [`MANY`] of them under way, go past the file cache. To
/// fill its pages is slower than a good disk, and evicts pages that other readers use. Sparse reads
/// fill it.
const LARGE: u64 = 256 << 10;
const MANY: u64 = 3;

/// Reads of one disk.
#[derive(Debug)]
pub(super) struct Reader {
    log: Arc<Log>,
    threads: Threads,
    places: Arc<Semaphore>,
    reads: i64,
    /// See [`DiskSettings::late`].
    pub(super) late: Duration,
    shared: Arc<Shared>,
}

/// The measurements, and the time of the last read.
#[derive(Debug, Default)]
struct Measured {
    meter: DiskMeter,
    last: Option<Instant>,
}

/// The state that reads share and leave behind.
#[derive(Debug, Default)]
struct Shared {
    meter: Mutex<Measured>,
    /// Bytes requested and not yet read.
    under_way: AtomicU64,
    /// Bytes that are planned to be requested.
    planned: Arc<AtomicU64>,
    /// Abandoned reads that still hold their permit.
    hung: AtomicI64,
}

impl Reader {
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
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(reads)
            .thread_name("tidegate-disk")
            .build()
            .map_err(StoreError::io("start threads for", &settings.path))?;
        Ok(Self {
            log: Arc::clone(log),
            threads: Threads(Some(threads)),
            places: Arc::new(Semaphore::new(reads)),
            reads: i64::try_from(reads).unwrap_or(i64::MAX),
            late: settings.late,
            shared: Arc::new(Shared {
                meter: Mutex::new(Measured {
                    meter: measured.unwrap_or_default(),
                    last: None,
                }),
                ..Shared::default()
            }),
        })
    }

    /// Reads and verifies a chunk. `None`: it could not be read, for whatever reason; counted.
    pub(super) async fn read(
        &self,
        key: ChunkKey,
        place: Place,
        patience: Patience,
    ) -> Option<Bytes> {
        let shared = &self.shared;
        // A reader without another source waits for a permit all the same.
        let usual = patience == Patience::Usual;
        if usual && shared.hung.load(Ordering::Relaxed) >= self.reads {
            return None;
        }
        let began = Instant::now();
        let turn = Turn::take(shared, u64::from(place.len));
        let under_way = turn.under_way;
        let allowed = match patience {
            Patience::Usual => self.allowed(under_way - turn.len, turn.len),
            Patience::Last => LAST,
        };
        let call = Arc::new(Call::default());
        let work = self.work(key, place, turn, Arc::clone(&call), began);
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
                shared.measure(u64::from(place.len), under_way, allowed);
                self.log.health.read_late(allowed);
                Fault::Late
            }
        };
        self.log.metrics.fault(fault);
        if fault != Fault::Late {
            // A bad place costs one chunk: it comes from the origin and is written elsewhere.
            self.log.forget(&key, &place);
        }
        None
    }

    /// Counts a planned read.
    pub(super) fn plan(&self, len: u64) -> Planned {
        Planned::take(&self.shared.planned, len)
    }

    /// Estimates a read of `len` bytes that would begin now. While nothing was measured, the first read
    /// counts as no time, so that one is tried; few follow behind it, because the disk may be slow.
    pub(super) fn estimate(&self, len: u64) -> ReadEstimate {
        let ahead = self.shared.ahead();
        let meter = self.shared.rested();
        ReadEstimate {
            takes: meter.estimate(ahead, len).unwrap_or_else(|| slowest(ahead)),
            scatter: meter.scatter(),
            is_idle: ahead == 0,
        }
    }

    /// Returns the measurements, for the next process to begin with.
    pub(super) fn measured(&self) -> DiskMeter {
        self.shared.rested()
    }

    /// Returns the bytes per second that the disk gave lately.
    pub(super) fn rate(&self) -> Option<f64> {
        self.shared.meter().meter.rate()
    }

    /// Returns the time that a read may take that begins behind `under_way` bytes.
    fn allowed(&self, under_way: u64, len: u64) -> Duration {
        let meter = self.shared.rested();
        let measured = meter.estimate(under_way, len);
        let norm = measured.map_or_else(
            || slowest(under_way + len),
            |measured| 2 * measured + meter.scatter(),
        );
        norm.min(LONGEST) + self.late
    }

    async fn work(
        &self,
        key: ChunkKey,
        place: Place,
        turn: Turn,
        call: Arc<Call>,
        began: Instant,
    ) -> Option<Result<Bytes, Fault>> {
        let permit = Arc::clone(&self.places).acquire_owned().await.ok()?;
        let (log, shared) = (Arc::clone(&self.log), Arc::clone(&self.shared));
        call.begin();
        let past = turn.len >= LARGE && turn.under_way > MANY * turn.len;
        let read = self.threads.run(move || {
            let read = log.read(&key, &place, past);
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
fn slowest(bytes: u64) -> Duration {
    Duration::from_micros(bytes.saturating_mul(1_000_000) / SLOWEST)
}

impl Shared {
    /// Returns the bytes that a read decided on now queues behind.
    fn ahead(&self) -> u64 {
        self.under_way.load(Ordering::Relaxed) + self.planned.load(Ordering::Relaxed)
    }

    fn meter(&self) -> MutexGuard<'_, Measured> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the meter, adjusted for the time since the last read.
    fn rested(&self) -> DiskMeter {
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

/// The progress of a system call, shared by the waiting task and the calling thread.
#[derive(Debug, Default)]
struct Call(AtomicU8);

impl Call {
    const WAITS: u8 = 0;
    const RUNS: u8 = 1;
    const ENDED: u8 = 2;
    const ABANDONED: u8 = 3;

    fn begin(&self) {
        self.change(Self::WAITS, Self::RUNS);
    }

    /// Records that the call returned; `false`: too late, it was abandoned.
    fn end(&self) -> bool {
        self.change(Self::RUNS, Self::ENDED)
    }

    /// Records that no task waits any more; `true`: the call still runs.
    fn abandon(&self) -> bool {
        self.change(Self::RUNS, Self::ABANDONED)
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// A read's share of the bytes under way, until it ends.
#[derive(Debug)]
struct Turn {
    shared: Arc<Shared>,
    len: u64,
    /// Bytes under way at its start, its own included.
    under_way: u64,
}

impl Turn {
    fn take(shared: &Arc<Shared>, len: u64) -> Self {
        Self {
            under_way: shared.under_way.fetch_add(len, Ordering::Relaxed) + len,
            shared: Arc::clone(shared),
            len,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shared.under_way.fetch_sub(self.len, Ordering::Relaxed);
    }
}

/// The disk's own runtime. Its end is not waited for, because a thread may hang for ever.
#[derive(Debug)]
struct Threads(Option<Runtime>);

impl Threads {
    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<tokio::task::JoinHandle<T>> {
        self.0.as_ref().map(|runtime| runtime.spawn_blocking(work))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
