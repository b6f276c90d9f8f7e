//! Fetches objects ahead of use, into the tiers that their profile names.
//!
//! Cached chunks are left alone. The rest is read in pieces, a few at a time and within the requested rate, after
//! everything for which a reader waits. Disks are not overrun: no piece begins while more than half of a disk's queue
//! waits, and a chunk that a disk refuses all the same is offered again.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures_util::{TryStreamExt, stream};
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout_at};

use crate::invalidate::pins;
use crate::object::object_state::ObjectState;
use crate::object::reader::Reader;
use crate::{Engine, Error, Object, OpenOptions, ReadContext};
use tidegate_cache::{Admit, ChunkKey};
use tidegate_plan::pacer::Pacer;
use tidegate_plan::profile::DiskUse;
use tidegate_plan::{ByteRange, Client, ObjectKey, Profile, RangeSpec};
use tidegate_telemetry::locks::Recover as _;

pub(crate) mod folder_prefetch;
pub mod keys;

/// The largest piece: half of the largest part, so that several fit a disk's queue.
const MAX_PIECE: u64 = 4 << 20;

/// The maximum number of concurrent pieces of all objects: this bounds connections, and memory to the size of one
/// disk's queue.
const MAX_PIECES: usize = 8;

/// The longest time for a piece if a rate is set.
const PIECE_TIME: Duration = Duration::from_millis(250);

/// The interval of the checks on a busy disk, and the timeout of the wait for it.
const DISK_CHECK_INTERVAL: Duration = Duration::from_millis(20);
const DISK_TIMEOUT: Duration = Duration::from_secs(30);

/// The timeout of the wait for a fetch under way, before its chunks count as left out.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);

/// The number of chunks that are looked up before other tasks have their turn.
const LOOKED_UP_AT_ONCE: u32 = 4096;

/// The number of attempts for an object that changes while it is warmed.
const MAX_ATTEMPTS: u32 = 3;

/// Warms objects, all at one common rate.
#[derive(Debug)]
pub struct Warmer {
    engine: Engine,
    pacer: Option<Mutex<Pacer>>,
    began: Instant,
    pieces: Semaphore,
}

/// The result of warming an object, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WarmResult {
    /// The object's size.
    pub size: u64,
    /// Bytes fetched from the origin.
    pub fetched: u64,
    /// Bytes that were already in their tier.
    pub cached: u64,
    /// Bytes that are not in their tier after all: it is full or failing, or nothing may be stored.
    pub left_out: u64,
}

/// The warming of one object.
struct WarmJob {
    pinned: Arc<ObjectState>,
    to_disk: bool,
    streams: usize,
}

impl Warmer {
    /// Creates a warmer with at most `rate` bytes a second; `None` means no limit.
    #[must_use]
    pub fn new(engine: Engine, rate: Option<u64>) -> Self {
        Self {
            engine,
            pacer: rate.map(|rate| Mutex::new(Pacer::new(rate))),
            began: Instant::now(),
            pieces: Semaphore::new(MAX_PIECES),
        }
    }

    /// Warms an object; calls `tell` with each number of newly fetched bytes. If the profile keeps the object from disk
    /// (`off`), its bytes go to memory, and bulk bytes nowhere. Bytes that the profile offers to disk at the second use
    /// are offered now.
    ///
    /// # Errors
    /// The origin's failure. Bytes that arrived before are kept.
    pub async fn warm(
        &self,
        source: &Arc<ReadContext>,
        key: &ObjectKey,
        tell: &(dyn Fn(u64) + Sync),
    ) -> Result<WarmResult, Error> {
        self.engine.core.chunks.loaded().await;
        let source = Arc::new(at_first_use(source));
        let mut attempts = 1;
        loop {
            // The bytes that come with the version are counted once they are here.
            self.wait_for_rate(0).await;
            let how = OpenOptions {
                first: Some(RangeSpec::From(0)),
                client: Client::Warm,
                ..OpenOptions::default()
            };
            let object = self.engine.open(&source, key, how).await?;
            match self.fetch_missing(&object, tell).await {
                Err(Error::Changed) if attempts < MAX_ATTEMPTS => attempts += 1,
                done => return done,
            }
        }
    }

    async fn fetch_missing(
        &self,
        object: &Object,
        tell: &(dyn Fn(u64) + Sync),
    ) -> Result<WarmResult, Error> {
        let job = self.job(object);
        let size = job.pinned.record.version.size;
        let mut warmed = WarmResult {
            size,
            ..WarmResult::default()
        };
        let keeps = job.to_disk || !job.pinned.options.bulk;
        if !job.pinned.options.storable || !keeps {
            warmed.left_out = size;
            return Ok(warmed);
        }
        let first = object.pinned.first_chunks();
        let range = self.range(&job, &first);
        self.wait_for_rate(range.len()).await;
        tell(range.len());
        let missing = self.list_missing(&job, &first, &mut warmed).await;
        let pieces = stream::iter(missing.into_iter().map(Ok::<_, Error>));
        let (job, first) = (&job, &first);
        pieces
            .try_for_each_concurrent(job.streams, |piece| async move {
                let range = self.range(job, &piece);
                if first.contains(&piece.start) {
                    // Its time was waited for, and its bytes are counted.
                    return self.read(job, range).await;
                }
                self.fetch(job, range).await?;
                tell(range.len());
                Ok(())
            })
            .await?;
        warmed.fetched = size - warmed.cached;
        warmed.left_out = self.store_refused(job).await;
        Ok(warmed)
    }

    fn job(&self, object: &Object) -> WarmJob {
        let pinned = object.for_background().pinned;
        WarmJob {
            to_disk: pinned.options.disk != DiskUse::Off && pinned.core.chunks.backlog().is_some(),
            streams: usize::try_from(pinned.limits.streams).unwrap_or(1).max(1),
            pinned,
        }
    }

    /// Counts cached chunks other than `first`, writes chunks from memory to disk, and cuts the rest into pieces.
    async fn list_missing(
        &self,
        job: &WarmJob,
        first: &Range<u32>,
        warmed: &mut WarmResult,
    ) -> Vec<Range<u32>> {
        let core = &job.pinned.core;
        let size = job.pinned.record.version.size;
        let most = u32::try_from(self.piece() / core.geometry.chunk()).unwrap_or(u32::MAX);
        let mut pieces: Vec<Range<u32>> = Vec::new();
        for index in 0..core.geometry.count(size) {
            yield_at(index).await;
            if self.is_there(job, index) || self.put(job, index).await {
                if !first.contains(&index) {
                    warmed.cached += core.geometry.bytes(index, size).len();
                }
                continue;
            }
            let begins = first.end == index;
            match pieces.last_mut() {
                Some(last) if last.end == index && !begins && last.len() < most.max(1) as usize => {
                    last.end += 1;
                }
                _ => pieces.push(index..index + 1),
            }
        }
        pieces
    }

    fn piece(&self) -> u64 {
        let Some(pacer) = &self.pacer else {
            return MAX_PIECE;
        };
        let pacer = pacer.lock().recover();
        pacer.piece(PIECE_TIME).min(MAX_PIECE)
    }

    fn key(job: &WarmJob, index: u32) -> ChunkKey {
        ChunkKey {
            version: job.pinned.record.id,
            index,
        }
    }

    /// Returns whether a chunk is in its tier; pins it if its object is pinned.
    fn is_there(&self, job: &WarmJob, index: u32) -> bool {
        let (core, key) = (&job.pinned.core, Self::key(job, index));
        let held = core.chunks.tiers_of(&key);
        if held.disk {
            pins::pin_found(core, &job.pinned.id, &key);
        }
        if job.to_disk { held.disk } else { held.memory }
    }

    /// Writes a chunk from memory to disk. Returns whether the disk has it.
    async fn put(&self, job: &WarmJob, index: u32) -> bool {
        let core = &job.pinned.core;
        let key = Self::key(job, index);
        if !job.to_disk || !core.chunks.tiers_of(&key).memory {
            return false;
        }
        self.wait_for_disk(job).await;
        let Some(bytes) = core.chunks.get_memory(&key) else {
            return false;
        };
        let pin = core.meta.pin_of(&job.pinned.id);
        core.chunks.insert_pinned(key, bytes, Admit::Disk, pin);
        core.chunks.tiers_of(&key).disk
    }

    /// Waits, for bounded time, while more than half of a disk's queue waits.
    async fn wait_for_disk(&self, job: &WarmJob) {
        let until = Instant::now() + DISK_TIMEOUT;
        let behind = || {
            job.pinned
                .core
                .chunks
                .backlog()
                .is_some_and(|share| share > 0.5)
        };
        while job.to_disk && behind() && Instant::now() < until {
            sleep(DISK_CHECK_INTERVAL).await;
        }
    }

    fn range(&self, job: &WarmJob, piece: &Range<u32>) -> ByteRange {
        if piece.is_empty() {
            return ByteRange::new(0, 0);
        }
        let (geometry, size) = (job.pinned.core.geometry, job.pinned.record.version.size);
        let end = geometry.bytes(piece.end - 1, size).end;
        ByteRange::new(geometry.start(piece.start), end)
    }

    /// Reads a piece within the rate.
    async fn fetch(&self, job: &WarmJob, range: ByteRange) -> Result<(), Error> {
        let _permit = self.pieces.acquire().await.expect("it is never closed");
        self.wait_for_disk(job).await;
        self.wait_for_rate(range.len()).await;
        self.read(job, range).await
    }

    async fn read(&self, job: &WarmJob, range: ByteRange) -> Result<(), Error> {
        let reader = Reader::new(job.pinned.clone(), range);
        reader.try_for_each(|_| std::future::ready(Ok(()))).await
    }

    /// Waits until the rate allows `bytes`.
    async fn wait_for_rate(&self, bytes: u64) {
        let Some(pacer) = &self.pacer else {
            return;
        };
        let wait = {
            let mut pacer = pacer.lock().recover();
            pacer.wait(self.began.elapsed(), bytes)
        };
        sleep(wait).await;
    }

    /// Offers refused chunks to the disk again while memory has them. Returns the bytes that are still not in their
    /// tier.
    async fn store_refused(&self, job: &WarmJob) -> u64 {
        let (geometry, size) = (job.pinned.core.geometry, job.pinned.record.version.size);
        let until = Instant::now() + FETCH_TIMEOUT;
        let mut left_out = 0;
        for index in 0..geometry.count(size) {
            yield_at(index).await;
            if self.is_there(job, index) {
                continue;
            }
            wait_for_fetch(job, index, until).await;
            if !self.is_there(job, index) && !self.put(job, index).await {
                left_out += geometry.bytes(index, size).len();
            }
        }
        left_out
    }
}

/// Waits until the fetch of a chunk that is under way has ended, at most until then. A reader has the last bytes before the
/// fetch has stored them.
async fn wait_for_fetch(job: &WarmJob, index: u32, until: Instant) {
    let fetches = job.pinned.living_fetches();
    let part = fetches.and_then(|fetches| Some(fetches.flights().get(&index)?.part.clone()));
    if let Some(part) = part {
        let _ = timeout_at(until, part.landed()).await;
    }
}

/// Lets other tasks have their turn, once in many chunks.
async fn yield_at(index: u32) {
    if index > 0 && index.is_multiple_of(LOOKED_UP_AT_ONCE) {
        yield_now().await;
    }
}

/// Returns the source with a profile that offers to disk at the first use instead of the second.
fn at_first_use(source: &ReadContext) -> ReadContext {
    let mut profile = Profile::clone(&source.profile.load());
    if profile.disk == DiskUse::Second {
        profile.disk = DiskUse::First;
    }
    ReadContext {
        events: ArcSwapOption::new(source.events.load_full()),
        ..ReadContext::new(source.origin.clone(), profile)
    }
}
