//! The registry of streams: the answers and open files that take long enough for an operator to see.
//!
//! A frontend registers a stream when a body is not in memory at once, or a file of a mount is read beyond its first
//! bytes. Short answers from memory are not registered, so that they cost nothing. A stream's own reader updates it with
//! relaxed atomics, and once a chunk under a lock that no other stream takes. A report copies the list of each shard and
//! reads the figures afterwards; no reader waits for it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use crate::fetch::cursor::Cursor;
use crate::fetch::part::{FetchSource, Part};
use tidegate_plan::ObjectId;
use tidegate_telemetry::locks::Recover as _;

/// The number of shards: readers that begin or end at the same time rarely meet in one.
const SHARDS: usize = 16;

/// The length of a wait from which a player or a viewer may notice it.
const GAP: Duration = Duration::from_millis(100);

/// The time over which a rate is measured; a rate covers one to two of these.
const RATE_PERIOD: Duration = Duration::from_secs(2);

/// The way by which a stream is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// An answer of the public listener.
    Http,
    /// An open file of a mount.
    Mount,
}

/// The tier that a stream's bytes came from last. Bytes that were read ahead for it came from where they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamTier {
    /// No bytes have come yet.
    None,
    /// Memory.
    Memory,
    /// A cache disk.
    Disk,
    /// The bucket.
    Origin,
}

/// The description of a stream, as its frontend gives it.
#[derive(Debug, Clone)]
pub struct StreamInfo {
    /// The way by which it is read.
    pub kind: StreamKind,
    /// The client: an address, or a program.
    pub client: String,
    /// The object.
    pub object: ObjectId,
    /// The size of the object, in bytes.
    pub size: u64,
    /// The size of its chunks, in bytes.
    pub chunk: u64,
}

/// The figures of a stream at one time.
#[derive(Debug, Clone)]
pub struct StreamReport {
    /// Its number, which is never given twice in a process.
    pub id: u64,
    /// Its description.
    pub info: StreamInfo,
    /// The time since it began.
    pub age: Duration,
    /// The position of its reader in the object.
    pub position: u64,
    /// The bytes that its reader took.
    pub taken: u64,
    /// Its present rate, in bytes a second.
    pub rate: f64,
    /// The bytes that may be fetched ahead of it; shared by readers of one cursor.
    pub window: u64,
    /// The bytes that are fetched or under way ahead of it.
    pub ahead: u64,
    /// The requests to the bucket under way for it.
    pub in_flight: u32,
    /// The tier that fed it last.
    pub tier: StreamTier,
    /// The waits that were longer than 100 ms, its first bytes apart.
    pub stalls: u32,
    /// Whether it waits for bytes now.
    pub waiting: bool,
}

/// All streams of the process.
#[derive(Debug)]
pub struct Streams {
    shards: [Mutex<HashMap<u64, Arc<Stream>>>; SHARDS],
    last: AtomicU64,
    /// The stalls of all streams, also of those that have ended.
    stalls: Arc<AtomicU64>,
}

/// A registered stream, until it is dropped.
#[derive(Debug)]
pub struct StreamGuard {
    streams: Arc<Streams>,
    stream: Arc<Stream>,
}

/// One stream. Only its reader writes to it; orders to stop apart.
#[derive(Debug)]
pub(crate) struct Stream {
    id: u64,
    info: StreamInfo,
    began: Instant,
    position: AtomicU64,
    taken: AtomicU64,
    /// The period of the last bytes, and the bytes taken in it and in the one before.
    period: AtomicU64,
    period_bytes: AtomicU64,
    before_bytes: AtomicU64,
    tier: AtomicU8,
    /// The time at which its present wait began, in microseconds since `began`, plus one; 0: it does not wait.
    wait_began: AtomicU64,
    stalls: AtomicU32,
    all_stalls: Arc<AtomicU64>,
    stopped: AtomicBool,
    /// The waiting readers, by number: each read of a mount's handle is one. An entry may outlast its wait.
    waiting: Mutex<HashMap<u64, Waker>>,
    cursor: Mutex<Weak<Cursor>>,
    /// The chunks of the last part that its readers have read as it came, and where that came from.
    last_part: Mutex<Option<(Range<u32>, FetchSource)>>,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            last: AtomicU64::new(0),
            stalls: Arc::default(),
        }
    }
}

impl Streams {
    /// Registers a stream until the guard is dropped.
    #[must_use]
    pub fn register(self: &Arc<Self>, info: StreamInfo) -> StreamGuard {
        let id = self.last.fetch_add(1, Relaxed) + 1;
        let stream = Arc::new(Stream::new(id, info, self.stalls.clone()));
        self.shard(id).lock().recover().insert(id, stream.clone());
        StreamGuard {
            streams: self.clone(),
            stream,
        }
    }

    /// Returns the figures of all streams, by number.
    #[must_use]
    pub fn report(&self) -> Vec<StreamReport> {
        let mut streams = Vec::new();
        for shard in &self.shards {
            streams.extend(shard.lock().recover().values().cloned());
        }
        streams.sort_by_key(|stream| stream.id);
        streams.iter().map(|stream| stream.report()).collect()
    }

    /// Returns the number of streams.
    #[must_use]
    pub fn count(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| shard.lock().recover().len()).sum()
    }

    /// Stops a stream: its next read fails. Returns whether there is such a stream.
    pub fn stop(&self, id: u64) -> bool {
        let found = self.shard(id).lock().recover().get(&id).cloned();
        if let Some(stream) = &found {
            stream.stop();
        }
        found.is_some()
    }

    /// Returns the number of waits of streams that were longer than 100 ms and have ended, since the start.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.stalls.load(Relaxed)
    }

    fn shard(&self, id: u64) -> &Mutex<HashMap<u64, Arc<Stream>>> {
        &self.shards[(id % SHARDS as u64) as usize]
    }
}

impl StreamGuard {
    /// Returns the stream, for readers.
    pub(crate) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        let id = self.stream.id;
        self.streams.shard(id).lock().recover().remove(&id);
    }
}

impl Stream {
    fn new(id: u64, info: StreamInfo, all_stalls: Arc<AtomicU64>) -> Self {
        Self {
            id,
            info,
            began: Instant::now(),
            position: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            period: AtomicU64::new(0),
            period_bytes: AtomicU64::new(0),
            before_bytes: AtomicU64::new(0),
            tier: AtomicU8::new(0),
            wait_began: AtomicU64::new(0),
            stalls: AtomicU32::new(0),
            all_stalls,
            stopped: AtomicBool::new(false),
            waiting: Mutex::default(),
            cursor: Mutex::new(Weak::new()),
            last_part: Mutex::default(),
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// Records the position of a reader that begins to report, and the bytes that it took before if it is the first.
    pub(crate) fn begin_at(&self, position: u64, taken: u64) {
        self.position.store(position, Relaxed);
        if self.taken.load(Relaxed) == 0 {
            self.taken.store(taken, Relaxed);
        }
    }

    /// Has an order to stop wake a reader that waits. Returns whether the stream is stopped already.
    pub(crate) fn wait(&self, reader: u64, waker: &Waker) -> bool {
        let _before = self.waiting.lock().recover().insert(reader, waker.clone());
        // An order takes the lock as well after it is given, so one that is not seen here finds the reader.
        self.is_stopped()
    }

    /// Forgets a reader that is dropped.
    pub(crate) fn leave(&self, reader: u64) {
        let _left = self.waiting.lock().recover().remove(&reader);
    }

    fn stop(&self) {
        self.stopped.store(true, Relaxed);
        let waiting = std::mem::take(&mut *self.waiting.lock().recover());
        waiting.into_values().for_each(Waker::wake);
    }

    /// Records that its reader waits for bytes.
    pub(super) fn begin_wait(&self, since: Instant) {
        let began = since.saturating_duration_since(self.began);
        self.wait_began.store(micros(began) + 1, Relaxed);
    }

    /// Records the end of the wait. The wait for the first bytes is no stall.
    pub(super) fn end_wait(&self, is_gap: bool) {
        self.wait_began.store(0, Relaxed);
        let is_stall = is_gap && self.taken.load(Relaxed) > 0;
        if is_stall {
            self.stalls.fetch_add(1, Relaxed);
            self.all_stalls.fetch_add(1, Relaxed);
        }
    }

    /// Records bytes that a reader took, which is at `position` now.
    pub(crate) fn take(&self, position: u64, bytes: u64) {
        let now = self.began.elapsed();
        self.position.store(position, Relaxed);
        self.taken.fetch_add(bytes, Relaxed);
        let (period, before) = (period_of(now), self.period.load(Relaxed));
        if period != before {
            let last = self.period_bytes.swap(0, Relaxed);
            let last = if period == before + 1 { last } else { 0 };
            self.before_bytes.store(last, Relaxed);
            self.period.store(period, Relaxed);
        }
        self.period_bytes.fetch_add(bytes, Relaxed);
    }

    /// Records the tier of the chunk that its reader is in, and the part by which it is coming; `None`: it is in memory. It
    /// may be there because it was fetched for this very reader, by an earlier part or ahead.
    pub(crate) fn set_tier(&self, index: u32, part: Option<&Part>) {
        let mut last = self.last_part.lock().recover();
        if let Some(part) = part {
            *last = Some((part.chunks.clone(), part.source));
        }
        let fed = last.as_ref().filter(|(chunks, _)| chunks.contains(&index));
        let source = fed.map(|(_, source)| *source).or_else(|| {
            let cursor = self.cursor.lock().recover().upgrade();
            cursor.and_then(|cursor| cursor.source_ahead(index))
        });
        let tier = match source {
            None => 1,
            Some(FetchSource::Disk) => 2,
            Some(FetchSource::Origin) => 3,
        };
        self.tier.store(tier, Relaxed);
    }

    /// Records the cursor that reads ahead for it.
    pub(crate) fn set_cursor(&self, cursor: &Arc<Cursor>) {
        *self.cursor.lock().recover() = Arc::downgrade(cursor);
    }

    fn report(&self) -> StreamReport {
        let now = self.began.elapsed();
        let wait_began = self.wait_began.load(Relaxed).checked_sub(1);
        let taken = self.taken.load(Relaxed);
        let position = self.position.load(Relaxed);
        let cursor = self.cursor.lock().recover().upgrade();
        let ahead = cursor.map(|cursor| cursor.progress(position, self.info.chunk));
        let ahead = ahead.unwrap_or_default();
        let waited = wait_began.map(|began| now.saturating_sub(Duration::from_micros(began)));
        let stalled = taken > 0 && waited.is_some_and(is_gap);
        StreamReport {
            id: self.id,
            info: self.info.clone(),
            age: now,
            position,
            taken,
            rate: self.rate(now),
            window: ahead.window,
            ahead: ahead.bytes,
            in_flight: ahead.in_flight,
            tier: match self.tier.load(Relaxed) {
                1 => StreamTier::Memory,
                2 => StreamTier::Disk,
                3 => StreamTier::Origin,
                _ => StreamTier::None,
            },
            stalls: self.stalls.load(Relaxed) + u32::from(stalled),
            waiting: waited.is_some(),
        }
    }

    /// Returns the bytes a second over the period before and the present one.
    fn rate(&self, now: Duration) -> f64 {
        let (period, at) = (self.period.load(Relaxed), period_of(now));
        let (last, before) = (
            self.period_bytes.load(Relaxed),
            self.before_bytes.load(Relaxed),
        );
        let bytes = match at.saturating_sub(period) {
            0 => last + before,
            1 => last,
            _ => 0,
        };
        let since = RATE_PERIOD * u32::try_from(at.saturating_sub(1)).unwrap_or(u32::MAX);
        let time = now.saturating_sub(since).max(Duration::from_millis(100));
        bytes as f64 / time.as_secs_f64()
    }
}

/// Returns whether a wait is one that a player or a viewer may notice.
pub(super) fn is_gap(wait: Duration) -> bool {
    wait > GAP
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX - 1)
}

fn period_of(now: Duration) -> u64 {
    now.as_secs() / RATE_PERIOD.as_secs()
}

#[cfg(test)]
mod tests;
