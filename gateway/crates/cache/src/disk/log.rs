//! The state that the writer, the readers and the monitor of one log share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::SetOnce;

use super::entry::{DiskLocation, checksum};
use super::files::{Files, LogFile, PAGE_SIZE};
use super::health::Health;
use super::index::Index;
use super::index::pinned_bytes::PinnedBytes;
use super::layout::{Layout, segment_size};
use super::queue::WriteQueue;
use super::refusal::{Fault, Refusal};
use super::segment::Segments;
use crate::direct::{BufferPool, PageBuffer};
use crate::metrics::DiskMetrics;
use crate::pins::{PinId, SharedPins};
use crate::{ChunkKey, DiskSettings};
use tidegate_telemetry::locks::Recover as _;

/// A step of the writer that takes longer hangs: any disk writes a batch, reads the index of a segment, or frees the
/// largest segment, in this time.
pub(super) const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// The most changes of pins that wait to be written down.
const MAX_PIN_CHANGES: usize = 1 << 16;

/// The most buffers of chunks that wait for the next read: 2 MiB of chunks of the usual size.
const MAX_SPARE_BUFFERS: usize = 8;

fn in_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// One log.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) layout: Layout,
    /// The directory of its files.
    pub(super) dir: PathBuf,
    /// Bytes of the longest chunk.
    pub(super) chunk: u64,
    /// Buffers for whole chunks that are read. Memory that was used before is cheaper than fresh pages.
    buffers: Arc<BufferPool>,
    pub(super) files: Arc<dyn Files>,
    pub(super) index: Index,
    pub(super) segments: Segments,
    pub(super) queue: WriteQueue,
    pub(super) health: Health,
    pub(super) metrics: DiskMetrics,
    /// The most bytes of all files.
    capacity: AtomicU64,
    /// Bytes of a segment; follows the capacity.
    segment: AtomicU64,
    /// Bytes that stay free on the file system.
    min_free: AtomicU64,
    /// Chunks that left the index and whose space is still to be given back.
    holes: Mutex<Vec<(ChunkKey, DiskLocation)>>,
    /// Chunks that have another pin than at their writing; to be written down.
    pin_changes: Mutex<Vec<(ChunkKey, DiskLocation)>>,
    /// The files were deleted.
    deleted: AtomicBool,
    /// The start of the writer's present step, which may hang.
    step_start: Mutex<Option<Instant>>,
    /// The load of the index was seen to be stuck, and is not waited for any more.
    is_load_late: AtomicBool,
    /// Segments to be loaded at the start, and loaded.
    pub(super) to_load: AtomicU32,
    pub(super) loaded: AtomicU32,
    /// Set when the index is complete.
    pub(super) ready: SetOnce<()>,
    /// Set when everything is written out, at the end.
    pub(super) drained: SetOnce<()>,
}

impl Log {
    pub(super) fn new(
        settings: &DiskSettings,
        layout: Layout,
        files: Arc<dyn Files>,
        metrics: DiskMetrics,
        pins: &SharedPins,
    ) -> Self {
        let path = settings.path.display().to_string();
        let capacity = i64::try_from(settings.capacity).unwrap_or(i64::MAX);
        metrics.tier.capacity.set(capacity);
        let health = Health::new(path, metrics.clone());
        if let Some(fault) = &layout.fault {
            health.record_write_failure(fault);
        }
        Self {
            chunk: layout.chunk,
            buffers: BufferPool::new(
                in_usize(layout.chunk.next_multiple_of(PAGE_SIZE)),
                MAX_SPARE_BUFFERS,
            ),
            files,
            index: Index::new(PinnedBytes::new(pins, settings.capacity)),
            segments: Segments::new(&layout.dir),
            dir: layout.dir.clone(),
            queue: WriteQueue::new(settings.write_queue.max(2 * layout.chunk)),
            health,
            metrics,
            capacity: AtomicU64::new(settings.capacity),
            segment: AtomicU64::new(layout.segment),
            min_free: AtomicU64::new(settings.min_free),
            holes: Mutex::default(),
            pin_changes: Mutex::default(),
            deleted: AtomicBool::new(false),
            step_start: Mutex::default(),
            is_load_late: AtomicBool::new(false),
            to_load: AtomicU32::new(0),
            loaded: AtomicU32::new(0),
            layout,
            ready: SetOnce::new(),
            drained: SetOnce::new(),
        }
    }

    /// Returns the most bytes of all files.
    pub(super) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Returns the bytes of a segment.
    pub(super) fn segment(&self) -> u64 {
        self.segment.load(Ordering::Relaxed)
    }

    /// Returns the bytes that stay free on the file system.
    pub(super) fn min_free(&self) -> u64 {
        self.min_free.load(Ordering::Relaxed)
    }

    /// Sets the bytes that stay free on the file system.
    pub(super) fn set_min_free(&self, min_free: u64) {
        self.min_free.store(min_free, Ordering::Relaxed);
    }

    /// Sets another capacity; chunks that no longer fit are evicted in the background. `false`: it
    /// is too small for this chunk size.
    pub(super) fn resize(&self, capacity: u64) -> bool {
        let Some(segment) = segment_size(capacity, self.chunk) else {
            return false;
        };
        self.metrics
            .tier
            .capacity
            .set(i64::try_from(capacity).unwrap_or(i64::MAX));
        self.capacity.store(capacity, Ordering::Relaxed);
        self.segment.store(segment, Ordering::Relaxed);
        self.index.pinned_bytes.resize(capacity);
        self.queue.wake_writer();
        true
    }

    /// Returns the free space from which the tier takes chunks again, once it had less than
    /// `min_free`.
    pub(super) fn resume_free(&self) -> u64 {
        let min_free = self.min_free();
        min_free.saturating_add(min_free / 4)
    }

    /// Queues a chunk to be written; `pin` keeps it from eviction, also if it is there already.
    pub(super) fn offer(&self, key: ChunkKey, bytes: Bytes, pin: PinId) -> Result<(), Refusal> {
        if let Some(refusal) = self.health.refusal() {
            return Err(refusal);
        }
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if len == 0 || len > self.chunk {
            return Err(Refusal::Size);
        }
        let taken = match self.index.find(&key) {
            Some(_) => Err(Refusal::Present),
            None => self.queue.push(key, bytes, pin),
        };
        match taken {
            Ok(()) => {
                self.metrics.tier.inserts.inc();
            }
            // A pin that is gone changes nothing: the chunk may have another by now.
            Err(Refusal::Present) if self.index.pinned_bytes.keeps(pin) => self.set_pin(&key, pin),
            Err(_) => {}
        }
        taken
    }

    /// Reads and verifies a chunk, past the file cache if `direct`. Blocks for as long as the disk
    /// does.
    pub(super) fn read(
        &self,
        key: &ChunkKey,
        location: &DiskLocation,
        direct: bool,
    ) -> Result<Bytes, Fault> {
        let segment = self.segments.get(location.segment).ok_or(Fault::Lost)?;
        let (data, len) = (&segment.data, location.len as usize);
        let read = match u64::from(location.len) == self.chunk {
            true => data.read_into(self.buffers.take(), direct, location.offset, len),
            false if direct => {
                let buffer = PageBuffer::new(in_usize(location.taken()));
                data.read_into(buffer, direct, location.offset, len)
            }
            // A short chunk keeps no more memory than it has bytes.
            false => data.read_at(location.offset, len).map(Bytes::from),
        };
        let bytes = read.map_err(|error| {
            self.health.record_read_failure(&error);
            Fault::Error
        })?;
        self.health.record_read_success();
        if bytes.len() == location.len as usize && checksum(key, &bytes) == location.sum {
            return Ok(bytes);
        }
        // It was given back during the read or, after a power cut, never written: zeros either way.
        let evicted = self.index.find(key) != Some(*location);
        let blank = bytes.iter().all(|byte| *byte == 0);
        Err(if evicted || blank && !bytes.is_empty() {
            Fault::Lost
        } else {
            Fault::Corrupt
        })
    }

    /// Removes a chunk from the index if it is at `location`, and queues its space to be given back.
    pub(super) fn forget(&self, key: &ChunkKey, location: &DiskLocation) {
        if self.index.remove_at(key, location) {
            self.add_hole(key, location);
        }
    }

    /// Removes a chunk from the queue and from the index.
    pub(super) fn remove(&self, key: &ChunkKey) {
        self.queue.remove(key);
        if let Some(location) = self.index.remove(key) {
            self.add_hole(key, &location);
        }
    }

    /// Queues the space of a chunk that is not in the index to be given back.
    pub(super) fn add_hole(&self, key: &ChunkKey, location: &DiskLocation) {
        let mut holes = self.holes.lock().recover();
        holes.push((*key, *location));
        drop(holes);
        self.queue.wake_writer();
    }

    /// Takes the holes; the caller gives back their space.
    pub(super) fn take_holes(&self) -> Vec<(ChunkKey, DiskLocation)> {
        std::mem::take(&mut *self.holes.lock().recover())
    }

    /// Queues holes again that were not given back.
    pub(super) fn put_back_holes(&self, holes: &[(ChunkKey, DiskLocation)]) {
        self.holes.lock().recover().extend_from_slice(holes);
    }

    /// Assigns a chunk to another pin, or to none.
    pub(super) fn set_pin(&self, key: &ChunkKey, pin: PinId) {
        // The queue first: a chunk that has left it is in the index.
        self.queue.set_pin(key, pin);
        let Some(location) = self.index.set_pin(key, pin) else {
            return;
        };
        let mut pin_changes = self.pin_changes.lock().recover();
        // More wait only if the writer hangs.
        if pin_changes.len() < MAX_PIN_CHANGES {
            pin_changes.push((*key, location));
        }
        drop(pin_changes);
        self.queue.wake_writer();
    }

    /// Takes the changes of pins; the caller writes them down.
    pub(super) fn take_pin_changes(&self) -> Vec<(ChunkKey, DiskLocation)> {
        std::mem::take(&mut *self.pin_changes.lock().recover())
    }

    /// Records that the files were deleted.
    pub(super) fn set_deleted(&self) {
        self.deleted.store(true, Ordering::Relaxed);
        self.queue.wake_writer();
    }

    /// Returns whether the files were deleted; `true` once.
    pub(super) fn take_deleted(&self) -> bool {
        self.deleted.swap(false, Ordering::Relaxed)
    }

    /// Records that the writer begins a step, or ends it.
    pub(super) fn set_step_start(&self, since: Option<Instant>) {
        *self.step_start.lock().recover() = since;
    }

    /// Returns whether the writer is in a step, or loads the index.
    pub(super) fn is_stepping(&self) -> bool {
        self.step_start.lock().recover().is_some()
    }

    /// Returns whether the load of the index has made no progress for so long that the disk hangs or fails.
    pub(super) fn is_load_stuck(&self, now: Instant) -> bool {
        !self.ready.initialized() && self.step_time(now) > STEP_TIMEOUT
    }

    /// Returns whether the load of the index is stuck, or was seen to be so and goes on. It stays late until the end, lest
    /// `/readyz` change with each segment of a slow disk.
    pub(super) fn is_load_late(&self, now: Instant) -> bool {
        if self.is_load_stuck(now) {
            self.is_load_late.store(true, Ordering::Relaxed);
        }
        !self.ready.initialized() && self.is_load_late.load(Ordering::Relaxed)
    }

    /// Returns the time since the start of the writer's present step.
    pub(super) fn step_time(&self, now: Instant) -> Duration {
        let since = *self.step_start.lock().recover();
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Returns any chunk, with its file.
    pub(super) fn sample(&self) -> Option<(ChunkKey, DiskLocation, Arc<dyn LogFile>)> {
        let (key, location) = self.index.sample()?;
        let segment = self.segments.get(location.segment)?;
        Some((key, location, Arc::clone(&segment.data)))
    }
}
