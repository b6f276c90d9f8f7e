//! The state that the writer, the readers and the watch of one log share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::SetOnce;

use super::entry::{Place, checksum};
use super::files::{Files, LogFile};
use super::health::Health;
use super::index::Index;
use super::index::pinned_bytes::Ledger;
use super::layout::{Layout, segment_size};
use super::queue::Queue;
use super::refusal::{Fault, Refusal};
use super::segment::Segments;
use crate::metrics::DiskMetrics;
use crate::pins::{PinId, SharedPins};
use crate::{ChunkKey, DiskSettings};
use tidegate_plan::locks::Recover as _;

/// The most marks that wait to be written down.
const MARKS: usize = 1 << 16;

/// One log.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) layout: Layout,
    /// The directory of its files.
    pub(super) dir: PathBuf,
    /// Bytes of the longest chunk.
    pub(super) chunk: u64,
    pub(super) files: Arc<dyn Files>,
    pub(super) index: Index,
    pub(super) segments: Segments,
    pub(super) queue: Queue,
    pub(super) health: Health,
    pub(super) metrics: DiskMetrics,
    /// The most bytes of all files.
    capacity: AtomicU64,
    /// Bytes of a segment; follows the capacity.
    segment: AtomicU64,
    /// Bytes that stay free on the file system.
    pub(super) min_free: u64,
    /// Chunks that left the index and whose space is still to be given back.
    holes: Mutex<Vec<(ChunkKey, Place)>>,
    /// Chunks that have another pin than at their writing; to be written down.
    marks: Mutex<Vec<(ChunkKey, Place)>>,
    /// The files were deleted.
    gone: AtomicBool,
    /// The start of the writer's present step, which may hang.
    busy: Mutex<Option<Instant>>,
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
        Self {
            chunk: layout.chunk,
            files,
            index: Index::new(Ledger::new(pins, settings.capacity)),
            segments: Segments::new(&layout.dir),
            dir: layout.dir.clone(),
            queue: Queue::new(settings.write_queue.max(2 * layout.chunk)),
            health: Health::new(path, metrics.clone()),
            metrics,
            capacity: AtomicU64::new(settings.capacity),
            segment: AtomicU64::new(layout.segment),
            min_free: settings.min_free,
            holes: Mutex::default(),
            marks: Mutex::default(),
            gone: AtomicBool::new(false),
            busy: Mutex::default(),
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

    /// Sets another capacity; chunks that no longer fit are evicted in the background. `false`: it
    /// is too small for this chunk size.
    pub(super) fn resize(&self, capacity: u64) -> bool {
        let Some(segment) = segment_size(capacity, self.chunk) else {
            return false;
        };
        self.capacity.store(capacity, Ordering::Relaxed);
        self.segment.store(segment, Ordering::Relaxed);
        self.index.ledger.resize(capacity);
        self.queue.nudge();
        true
    }

    /// Returns the free space from which the tier takes chunks again, once it had less than
    /// `min_free`.
    pub(super) fn resume_free(&self) -> u64 {
        self.min_free.saturating_add(self.min_free / 4)
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
            // A pin that is gone marks nothing: the chunk may have another by now.
            Err(Refusal::Present) if self.index.ledger.keeps(pin) => self.mark(&key, pin),
            Err(_) => {}
        }
        taken
    }

    /// Reads and verifies a chunk, past the file cache if `past`. Blocks for as long as the disk
    /// does.
    pub(super) fn read(&self, key: &ChunkKey, place: &Place, past: bool) -> Result<Bytes, Fault> {
        let segment = self.segments.get(place.segment).ok_or(Fault::Lost)?;
        let (data, len) = (&segment.data, place.len as usize);
        let read = match past {
            true => data.read_past(place.offset, len),
            false => data.read_at(place.offset, len).map(Bytes::from),
        };
        let bytes = read.map_err(|error| {
            self.health.read_failed(&error);
            Fault::Error
        })?;
        self.health.read_well();
        if bytes.len() == place.len as usize && checksum(key, &bytes) == place.sum {
            return Ok(bytes);
        }
        // It was given back during the read or, after a power cut, never written: zeros either way.
        let evicted = self.index.find(key) != Some(*place);
        let blank = bytes.iter().all(|byte| *byte == 0);
        Err(if evicted || blank && !bytes.is_empty() {
            Fault::Lost
        } else {
            Fault::Corrupt
        })
    }

    /// Removes a chunk from the index if it is at `place`, and queues its space to be given back.
    pub(super) fn forget(&self, key: &ChunkKey, place: &Place) {
        if self.index.remove_at(key, place) {
            self.add_hole(key, place);
        }
    }

    /// Removes a chunk from the queue and from the index.
    pub(super) fn remove(&self, key: &ChunkKey) {
        self.queue.remove(key);
        if let Some(place) = self.index.remove(key) {
            self.add_hole(key, &place);
        }
    }

    /// Queues the space of a chunk that is not in the index to be given back.
    pub(super) fn add_hole(&self, key: &ChunkKey, place: &Place) {
        let mut holes = self.holes.lock().recover();
        holes.push((*key, *place));
        drop(holes);
        self.queue.nudge();
    }

    /// Takes the holes; the caller gives back their space.
    pub(super) fn take_holes(&self) -> Vec<(ChunkKey, Place)> {
        std::mem::take(&mut *self.holes.lock().recover())
    }

    /// Assigns a chunk to another pin, or to none.
    pub(super) fn mark(&self, key: &ChunkKey, pin: PinId) {
        // The queue first: a chunk that has left it is in the index.
        self.queue.mark(key, pin);
        let Some(place) = self.index.mark(key, pin) else {
            return;
        };
        let mut marks = self.marks.lock().recover();
        // More wait only if the writer hangs.
        if marks.len() < MARKS {
            marks.push((*key, place));
        }
        drop(marks);
        self.queue.nudge();
    }

    /// Takes the marks; the caller writes them down.
    pub(super) fn take_marks(&self) -> Vec<(ChunkKey, Place)> {
        std::mem::take(&mut *self.marks.lock().recover())
    }

    /// Records that the files were deleted.
    pub(super) fn set_gone(&self) {
        self.gone.store(true, Ordering::Relaxed);
        self.queue.nudge();
    }

    /// Returns whether the files were deleted; `true` once.
    pub(super) fn take_gone(&self) -> bool {
        self.gone.swap(false, Ordering::Relaxed)
    }

    /// Records that the writer begins a step, or ends it.
    pub(super) fn set_busy(&self, since: Option<Instant>) {
        *self.busy.lock().recover() = since;
    }

    /// Returns the time since the start of the writer's present step.
    pub(super) fn busy(&self, now: Instant) -> Duration {
        let since = *self.busy.lock().recover();
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Returns any chunk, with its file.
    pub(super) fn sample(&self) -> Option<(ChunkKey, Place, Arc<dyn LogFile>)> {
        let (key, place) = self.index.any()?;
        let segment = self.segments.get(place.segment)?;
        Some((key, place, Arc::clone(&segment.data)))
    }
}
