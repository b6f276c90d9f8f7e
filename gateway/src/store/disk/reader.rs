//! Reads of one disk: bounded in number and in time, on threads of the disk's own.
//!
//! A read that is late is not waited for any longer, but it keeps its place and its thread until the
//! system call returns, which may be never. Where all places are taken by such reads, others are
//! misses at once. The time that a read may take is twice what the meter expects and as much as reads
//! scattered lately, and `late` more.

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
use crate::plan::meter::{Estimate, Meter};
use crate::store::{ChunkKey, DiskSettings, Planned, StoreError};

/// What a disk is believed to read in a second while nothing was measured: an old hard disk under
/// load. The first reads after a start must not count as late on a slow disk.
const SLOWEST: u64 = 8 << 20;

/// The longest norm that is believed: a disk that takes longer is of no use to a reader.
const LONGEST: Duration = Duration::from_secs(3);

/// How long a disk is waited for when nobody else has the chunk.
const LAST: Duration = Duration::from_secs(10);

/// Who reads a lot, in pieces of this size and more than so many at once, reads past the file cache: to
/// make its pages is slower than a good disk, and pushes out what others read. One that reads here and
/// there fills it.
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

/// What was measured, and when the last read was.
#[derive(Debug, Default)]
struct Measured {
    meter: Meter,
    last: Option<Instant>,
}

/// What reads leave behind when they end.
#[derive(Debug, Default)]
struct Shared {
    meter: Mutex<Measured>,
    /// Bytes that were asked for and are not there yet.
    under_way: AtomicU64,
    /// Bytes that are going to be asked for.
    planned: Arc<AtomicU64>,
    /// Reads that nobody waits for any more, and that hold their place still.
    hung: AtomicI64,
}

impl Reader {
    /// Reads of `log`, on a disk of which so much is known from earlier.
    ///
    /// # Errors
    /// No threads are to be had.
    pub(super) fn new(
        log: &Arc<Log>,
        settings: &DiskSettings,
        measured: Option<Meter>,
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

    /// Reads and verifies a chunk. `None`: it is not to be had, for whatever reason; counted.
    pub(super) async fn read(
        &self,
        key: ChunkKey,
        place: Place,
        patience: Patience,
    ) -> Option<Bytes> {
        let shared = &self.shared;
        // Who has nobody else to ask waits for a place all the same.
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
            // One bad place costs a chunk: it comes from the origin and is written elsewhere.
            self.log.forget(&key, &place);
        }
        None
    }

    /// Counts a read that is going to be made.
    pub(super) fn plan(&self, len: u64) -> Planned {
        Planned::take(&self.shared.planned, len)
    }

    /// What a read of `len` bytes would do if it began now. While nothing was measured, one has to be
    /// tried, which counts as no time; and behind it not many more, for the disk may be slow.
    pub(super) fn estimate(&self, len: u64) -> Estimate {
        let ahead = self.shared.ahead();
        let meter = self.shared.rested();
        Estimate {
            takes: meter.estimate(ahead, len).unwrap_or_else(|| slowest(ahead)),
            scatter: meter.scatter(),
            is_idle: ahead == 0,
        }
    }

    /// What was measured, to begin with it another time.
    pub(super) fn measured(&self) -> Meter {
        self.shared.rested()
    }

    /// Bytes per second that the disk gave lately.
    pub(super) fn rate(&self) -> Option<f64> {
        self.shared.meter().meter.rate()
    }

    /// How long a read may take that begins behind `under_way` bytes.
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

/// How long an unknown disk may take over so many bytes.
fn slowest(bytes: u64) -> Duration {
    Duration::from_micros(bytes.saturating_mul(1_000_000) / SLOWEST)
}

impl Shared {
    /// Bytes that a read which is decided on now stands behind.
    fn ahead(&self) -> u64 {
        self.under_way.load(Ordering::Relaxed) + self.planned.load(Ordering::Relaxed)
    }

    fn meter(&self) -> MutexGuard<'_, Measured> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The meter as it is after the time since the last read.
    fn rested(&self) -> Meter {
        let measured = self.meter();
        let idle = measured.last.map(|last| last.elapsed());
        measured.meter.after(idle.unwrap_or_default())
    }

    fn measure(&self, len: u64, under_way: u64, took: Duration) {
        let mut measured = self.meter();
        let idle = measured.last.map(|last| last.elapsed());
        measured.meter = measured.meter.after(idle.unwrap_or_default());
        measured.meter.read(len, under_way, took);
        measured.last = Some(Instant::now());
    }
}

/// How far a system call has come, between the one who waits and the one who makes it.
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

    /// The call returned; `false`: too late, it was abandoned.
    fn end(&self) -> bool {
        self.change(Self::RUNS, Self::ENDED)
    }

    /// Nobody waits any more; `true`: and the call runs still.
    fn abandon(&self) -> bool {
        self.change(Self::RUNS, Self::ABANDONED)
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// A read's part in what is under way, until it ends.
#[derive(Debug)]
struct Turn {
    shared: Arc<Shared>,
    len: u64,
    /// Bytes under way when it began, its own included.
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

/// The disk's own runtime, whose end nobody waits for: a thread may hang for ever.
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
