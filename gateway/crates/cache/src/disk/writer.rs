//! The writer: the only one that changes the files of a log. It writes the queued chunks and does maintenance.
//!
//! [`Writer::step`] does a piece of work and returns when the next one is due. A thread calls it for as long as the
//! disk is open; tests call it by hand. Order within a step: give space back ([`maintenance`],
//! [`evict`]), write one batch ([`append`]), make it durable.

mod append;
mod clocks;
mod evict;
mod index_file;
mod load;
mod maintenance;
mod rewrite;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::warn;

use self::append::{Chunk, Current, From};
use self::clocks::Clocks;
use super::entry::Place;
use super::files::{Access, is_full};
use super::layout::CLEAN;
use super::log::Log;
use super::queue::Phase;
use super::refusal::Refusal;
use super::write_buffer::Buffer;
use crate::ChunkKey;

/// Bytes of chunks in one write: enough for any disk's full speed, and copied in a millisecond.
const BATCH: u64 = 4 << 20;

/// Bytes of chunks that are moved out of nearly empty segments along with a batch of new ones.
const MOVES: u64 = 1 << 20;

/// The shortest time between two syncs, except those of full segments. A power cut may lose the writes since the
/// last one.
const SYNC: Duration = Duration::from_secs(1);

/// The time after which a file system that reported itself full is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// The time when the next step is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wake {
    /// Now.
    Now,
    /// After this time, or when the queue wakes the writer.
    After(Duration),
    /// When the queue wakes the writer.
    Asked,
    /// Never: the log is closed.
    Ended,
}

/// The writer of one log.
#[derive(Debug)]
pub(super) struct Writer {
    log: Arc<Log>,
    current: Option<Current>,
    /// The full segments.
    clocks: Clocks,
    /// The nearly empty segments.
    sparse: VecDeque<u32>,
    /// The chunks to be moved out of one of them.
    survivors: VecDeque<(ChunkKey, Place)>,
    /// Number of the next segment.
    next: u32,
    /// Whether the file system takes back parts of a file.
    punches: bool,
    /// Bytes that are still to be freed for other files on the file system.
    to_give: u64,
    /// The number of segments that the hand has passed since there was room enough.
    hunt: usize,
    /// The time from which a full file system is asked again.
    retry: Option<Instant>,
    buffer: Buffer,
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
            to_give: 0,
            hunt: 0,
            retry: None,
            buffer: Buffer::default(),
            unsynced: false,
            synced: None,
        }
    }

    /// Does a piece of work.
    pub(super) fn step(&mut self, now: Instant) -> Wake {
        self.log.set_busy(Some(now));
        let wake = self.work(now);
        self.log.set_busy(None);
        wake
    }

    fn work(&mut self, now: Instant) -> Wake {
        let phase = self.log.queue.phase();
        if phase == Phase::Stopped {
            self.end();
            return Wake::Ended;
        }
        match self.keep_house(now) {
            Ok(true) if phase == Phase::Open => return Wake::Now,
            Ok(_) => {}
            Err(error) => self.failed(&error, now),
        }
        if self.log.health.writes_off() {
            self.give_up();
        } else if self.log.health.is_full() {
            self.drop_queue(Refusal::Full);
        } else {
            let batch = self.batch(phase);
            if !batch.is_empty() {
                self.write(batch, now);
                return Wake::Now;
            }
        }
        if phase == Phase::Closing {
            self.close();
            return Wake::Ended;
        }
        self.sync_in_time(now)
    }

    /// Recovers from a panic: drops the chunks in hand and the queue.
    pub(super) fn recover(&mut self) {
        self.log.set_busy(None);
        self.survivors.clear();
        self.give_up();
    }

    /// Collects the chunks of one write: from the queue, and some of those to be moved.
    fn batch(&mut self, phase: Phase) -> Vec<Chunk> {
        let most = BATCH.min(self.log.segment());
        let queued = self.log.queue.take(most);
        let chunk = |queued: super::queue::Queued| Chunk {
            key: queued.key,
            bytes: queued.bytes,
            pin: queued.pin,
            from: From::Queue(queued.ticket),
        };
        let mut batch: Vec<_> = queued.into_iter().map(chunk).collect();
        if phase == Phase::Open {
            let moves = if batch.is_empty() {
                most
            } else {
                MOVES.min(most)
            };
            batch.extend(self.moves(moves));
        }
        batch
    }

    /// Writes a batch, and removes its chunks from the queue whatever the result.
    fn write(&mut self, batch: Vec<Chunk>, now: Instant) {
        let written = self.try_write(&batch);
        let refusal = match &written {
            Ok(true) => None,
            Ok(false) => Some(Refusal::Full),
            Err(error) if is_full(error) => Some(Refusal::Full),
            Err(_) => Some(Refusal::Demoted),
        };
        for chunk in &batch {
            if let From::Queue(ticket) = chunk.from
                && self.log.queue.finish(&chunk.key, ticket).is_some()
                && let Some(refusal) = refusal
            {
                self.log.metrics.refused(refusal);
            }
        }
        if let Err(error) = written {
            self.failed(&error, now);
        }
    }

    /// Makes the current segment durable, and puts it under the clock.
    fn seal(&mut self) -> io::Result<()> {
        let synced = self.sync();
        self.let_go();
        synced
    }

    /// Puts the current segment under the clock without a sync.
    fn let_go(&mut self) {
        let Some(current) = self.current.take() else {
            return;
        };
        if current.segment.allocated() == 0 {
            self.unlink(current.segment.number);
        } else {
            self.clocks.enter(current.segment.number);
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

    fn sync_in_time(&mut self, now: Instant) -> Wake {
        if !self.unsynced {
            return Wake::Asked;
        }
        let since = self.synced.map(|then| now.saturating_duration_since(then));
        if let Some(since) = since
            && since < SYNC
        {
            return Wake::After(SYNC - since);
        }
        self.synced = Some(now);
        if let Err(error) = self.sync() {
            self.failed(&error, now);
        }
        Wake::Asked
    }

    /// Handles an error: lack of space makes the disk full, any other error switches writes off.
    fn failed(&mut self, error: &io::Error, now: Instant) {
        if !is_full(error) {
            self.log.health.writes_failed(error);
            self.give_up();
            return;
        }
        self.retry = Some(now + RETRY);
        self.log.health.set_full(true, 0);
        if let Err(error) = self.evict_some()
            && !is_full(&error)
        {
            self.log.health.writes_failed(&error);
        }
    }

    /// Drops the queue, because nothing can be written, and closes the current segment, which is no longer trusted.
    fn give_up(&mut self) {
        self.unsynced = false;
        self.let_go();
        self.drop_queue(Refusal::Demoted);
    }

    fn drop_queue(&self, refusal: Refusal) {
        for _ in 0..self.log.queue.drop_all() {
            self.log.metrics.refused(refusal);
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
        self.end();
    }

    fn mark_clean(&self) -> io::Result<()> {
        let path = self.log.dir.join(CLEAN);
        self.log.files.open(&path, Access::Cached)?.sync()?;
        self.log.files.sync_dir(&self.log.dir)
    }

    fn end(&self) {
        self.log.health.close();
        // It is set already if the end was requested twice.
        let _ = self.log.drained.set(());
    }
}
