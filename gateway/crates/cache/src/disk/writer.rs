//! The writer: the only one that changes the files of a log. It writes the queued chunks and does maintenance.
//!
//! [`Writer::step`] does a piece of work and returns when the next one is due. A thread calls it for as long as the
//! disk is open; tests call it by hand. Order within a step: give space back ([`maintenance`],
//! [`evict`]), write one batch ([`append`]), make it durable.

mod append;
mod clocks;
mod evict;
mod index_file;
pub(super) mod load;
mod maintenance;
mod rewrite;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::warn;

use self::append::{ChunkOrigin, ChunkWrite, CurrentSegment};
use self::clocks::Clocks;
use super::entry::DiskLocation;
use super::files::{FileAccess, is_full};
use super::layout::CLEAN_MARKER;
use super::log::Log;
use super::queue::QueuePhase;
use super::refusal::Refusal;
use super::write_buffer::WriteBuffer;
use crate::ChunkKey;

/// Bytes of chunks in one write: enough for any disk's full speed, and copied in a millisecond.
const MAX_BATCH_BYTES: u64 = 4 << 20;

/// Bytes of chunks that are moved out of nearly empty segments along with a batch of new ones.
const MAX_MOVED_BYTES: u64 = 1 << 20;

/// The shortest time between two syncs, except those of full segments. A power cut may lose the writes since the
/// last one.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The time after which a file system that reported itself full is asked again.
const FULL_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The time when the next step is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Now.
    Now,
    /// After this time, or when the queue wakes the writer.
    After(Duration),
    /// When the queue wakes the writer.
    OnWake,
    /// Never: the log is closed.
    Ended,
}

/// The writer of one log.
#[derive(Debug)]
pub(super) struct Writer {
    log: Arc<Log>,
    current: Option<CurrentSegment>,
    /// The full segments.
    clocks: Clocks,
    /// The nearly empty segments.
    sparse: VecDeque<u32>,
    /// The chunks to be moved out of one of them.
    survivors: VecDeque<(ChunkKey, DiskLocation)>,
    /// Number of the next segment.
    next: u32,
    /// Whether the file system takes back parts of a file.
    punches: bool,
    /// Bytes that are still to be freed for other files on the file system.
    to_free: u64,
    /// The number of segments that the hand has passed since there was room enough.
    hand_steps: usize,
    /// The time from which a full file system is asked again.
    retry: Option<Instant>,
    buffer: WriteBuffer,
    /// Whether anything was written since the last sync, at `synced`.
    unsynced: bool,
    synced: Option<Instant>,
}

impl Writer {
    /// Creates the only writer of a log.
    pub(super) fn new(log: Arc<Log>) -> Self {
        Self {
            log,
            current: None,
            clocks: Clocks::default(),
            sparse: VecDeque::new(),
            survivors: VecDeque::new(),
            next: 0,
            punches: true,
            to_free: 0,
            hand_steps: 0,
            retry: None,
            buffer: WriteBuffer::default(),
            unsynced: false,
            synced: None,
        }
    }

    /// Does a piece of work.
    pub(super) fn step(&mut self, now: Instant) -> NextStep {
        self.log.set_step_start(Some(now));
        let wake = self.run_step(now);
        self.log.set_step_start(None);
        wake
    }

    fn run_step(&mut self, now: Instant) -> NextStep {
        let phase = self.log.queue.phase();
        if phase == QueuePhase::Stopped {
            self.finish();
            return NextStep::Ended;
        }
        match self.maintain(now) {
            Ok(true) if phase == QueuePhase::Open => return NextStep::Now,
            Ok(_) => {}
            Err(error) => self.handle_error(&error, now),
        }
        if self.log.health.writes_off() {
            self.abandon();
        } else if self.log.health.is_full() {
            self.drop_queue(Refusal::Full);
        } else {
            let batch = self.collect_batch(phase);
            if !batch.is_empty() {
                self.write(batch, now);
                return NextStep::Now;
            }
        }
        if phase == QueuePhase::Closing {
            self.close();
            return NextStep::Ended;
        }
        self.sync_if_due(now)
    }

    /// Recovers from a panic: drops the chunks in hand and the queue.
    pub(super) fn recover(&mut self) {
        self.log.set_step_start(None);
        self.survivors.clear();
        self.abandon();
    }

    /// Collects the chunks of one write: from the queue, and some of those to be moved.
    fn collect_batch(&mut self, phase: QueuePhase) -> Vec<ChunkWrite> {
        let most = MAX_BATCH_BYTES.min(self.log.segment());
        let queued = self.log.queue.take(most);
        let chunk = |queued: super::queue::QueuedChunk| ChunkWrite {
            key: queued.key,
            bytes: queued.bytes,
            pin: queued.pin,
            from: ChunkOrigin::Queue(queued.ticket),
        };
        let mut batch: Vec<_> = queued.into_iter().map(chunk).collect();
        if phase == QueuePhase::Open {
            let most_moved = if batch.is_empty() {
                most
            } else {
                MAX_MOVED_BYTES.min(most)
            };
            batch.extend(self.read_survivors(most_moved));
        }
        batch
    }

    /// Writes a batch, and removes its chunks from the queue whatever the result.
    fn write(&mut self, batch: Vec<ChunkWrite>, now: Instant) {
        let written = self.try_write(&batch);
        let refusal = match &written {
            Ok(true) => None,
            Ok(false) => Some(Refusal::Full),
            Err(error) if is_full(error) => Some(Refusal::Full),
            Err(_) => Some(Refusal::Demoted),
        };
        for chunk in &batch {
            if let ChunkOrigin::Queue(ticket) = chunk.from
                && self.log.queue.finish(&chunk.key, ticket).is_some()
                && let Some(refusal) = refusal
            {
                self.log.metrics.count_refusal(refusal);
            }
        }
        if let Err(error) = written {
            self.handle_error(&error, now);
        }
    }

    /// Makes the current segment durable, and puts it under the clock.
    fn seal(&mut self) -> io::Result<()> {
        let synced = self.sync();
        self.retire_current();
        synced
    }

    /// Puts the current segment under the clock without a sync.
    fn retire_current(&mut self) {
        let Some(current) = self.current.take() else {
            return;
        };
        if current.segment.allocated() == 0 {
            self.unlink(current.segment.number);
        } else {
            self.clocks.push_trial(current.segment.number);
        }
    }

    /// Syncs the data before the index, so that a durable entry has its chunk, as a rule.
    fn sync(&mut self) -> io::Result<()> {
        if let Some(current) = &self.current
            && self.unsynced
        {
            current.out.sync()?;
            current.index.sync()?;
        }
        self.unsynced = false;
        Ok(())
    }

    fn sync_if_due(&mut self, now: Instant) -> NextStep {
        if !self.unsynced {
            return NextStep::OnWake;
        }
        let since = self.synced.map(|then| now.saturating_duration_since(then));
        if let Some(since) = since
            && since < SYNC_INTERVAL
        {
            return NextStep::After(SYNC_INTERVAL - since);
        }
        self.synced = Some(now);
        if let Err(error) = self.sync() {
            self.handle_error(&error, now);
        }
        NextStep::OnWake
    }

    /// Handles an error: lack of space makes the disk full, any other error switches writes off.
    fn handle_error(&mut self, error: &io::Error, now: Instant) {
        if !is_full(error) {
            self.log.health.record_write_failure(error);
            self.abandon();
            return;
        }
        self.retry = Some(now + FULL_RETRY_PAUSE);
        self.log.health.set_full(true, 0);
        if let Err(error) = self.evict_some()
            && !is_full(&error)
        {
            self.log.health.record_write_failure(&error);
        }
    }

    /// Drops the queue, because nothing can be written, and closes the current segment, which is no longer trusted.
    fn abandon(&mut self) {
        self.unsynced = false;
        self.retire_current();
        self.drop_queue(Refusal::Demoted);
    }

    fn drop_queue(&self, refusal: Refusal) {
        for _ in 0..self.log.queue.drop_all() {
            self.log.metrics.count_refusal(refusal);
        }
    }

    /// Ends in order: everything is written and durable.
    fn close(&mut self) {
        if let Err(error) = self.seal() {
            warn!(path = %self.log.dir.display(), %error, "cache disk not closed in order");
        } else if !self.log.health.writes_off()
            && let Err(error) = self.mark_clean()
        {
            warn!(path = %self.log.dir.display(), %error, "cache disk not closed in order");
        }
        self.finish();
    }

    fn mark_clean(&self) -> io::Result<()> {
        let path = self.log.dir.join(CLEAN_MARKER);
        self.log.files.open(&path, FileAccess::Cached)?.sync()?;
        self.log.files.sync_dir(&self.log.dir)
    }

    fn finish(&self) {
        self.log.health.set_closed();
        // It is set already if the end was requested twice.
        let _ = self.log.drained.set(());
    }
}
