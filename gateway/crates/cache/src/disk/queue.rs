//! Chunks on their way to disk: bounded in bytes, readable while they wait.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;

use super::entry::pages;
use super::refusal::Refusal;
use crate::ChunkKey;
use crate::hash::FoldHasher;
use crate::pins::PinId;
use tidegate_telemetry::locks::Recover as _;

/// A chunk to be written.
#[derive(Debug)]
pub(super) struct QueuedChunk {
    pub(super) key: ChunkKey,
    pub(super) bytes: Bytes,
    /// Distinguishes it from a later chunk under the same key.
    pub(super) ticket: u64,
    /// The pin that is to keep it from eviction, unless it is given another before it is written.
    pub(super) pin: PinId,
}

#[derive(Debug)]
struct WaitingChunk {
    ticket: u64,
    bytes: Bytes,
    pin: PinId,
}

/// The progress of the queue's end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum QueuePhase {
    /// Takes chunks.
    #[default]
    Open,
    /// Takes none; the waiting chunks are still written.
    Closing,
    /// Takes none; the waiting chunks are lost.
    Stopped,
}

#[derive(Debug, Default)]
struct QueueState {
    /// All chunks that wait or are being written.
    chunks: HashMap<ChunkKey, WaitingChunk, FoldHasher>,
    /// The waiting ones in order; some were removed since.
    order: VecDeque<(ChunkKey, u64)>,
    tickets: u64,
    woken: bool,
    phase: QueuePhase,
}

/// The queue. Insertion never waits; one writer takes chunks out.
#[derive(Debug)]
pub(super) struct WriteQueue {
    state: Mutex<QueueState>,
    wake: Condvar,
    /// Bytes on disk of all chunks in it; changed under the lock only.
    bytes: AtomicU64,
    limit: u64,
}

impl WriteQueue {
    /// Creates a queue for at most `limit` bytes, counted in whole pages.
    pub(super) fn new(limit: u64) -> Self {
        Self {
            state: Mutex::default(),
            wake: Condvar::new(),
            bytes: AtomicU64::new(0),
            limit,
        }
    }

    /// Returns the bytes that wait or are being written, in whole pages.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Returns the most bytes that may wait.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the chunk if it waits or is being written.
    pub(super) fn get(&self, key: &ChunkKey) -> Option<Bytes> {
        // Usually nothing waits, and look-ups come from all cores.
        if self.bytes() == 0 {
            return None;
        }
        let state = self.lock();
        state.chunks.get(key).map(|waiting| waiting.bytes.clone())
    }

    /// Returns whether the chunk waits or is being written.
    pub(super) fn contains(&self, key: &ChunkKey) -> bool {
        self.bytes() != 0 && self.lock().chunks.contains_key(key)
    }

    /// Queues a chunk.
    pub(super) fn push(&self, key: ChunkKey, bytes: Bytes, pin: PinId) -> Result<(), Refusal> {
        let mut state = self.lock();
        if state.phase != QueuePhase::Open {
            return Err(Refusal::Closed);
        }
        if state.chunks.contains_key(&key) {
            return Err(Refusal::Present);
        }
        let size = pages(bytes.len());
        if self.bytes() + size > self.limit {
            return Err(Refusal::QueueFull);
        }
        self.bytes.fetch_add(size, Ordering::Release);
        state.tickets += 1;
        let ticket = state.tickets;
        let waiting = WaitingChunk { ticket, bytes, pin };
        state.chunks.insert(key, waiting);
        state.order.push_back((key, ticket));
        self.wake.notify_one();
        Ok(())
    }

    /// Removes a chunk. If it is being written, the writer no longer wants it afterwards.
    pub(super) fn remove(&self, key: &ChunkKey) {
        if self.bytes() == 0 {
            return;
        }
        if let Some(waiting) = self.lock().chunks.remove(key) {
            self.release(&waiting);
        }
    }

    /// Assigns a chunk that waits or is being written to another pin, or to none.
    pub(super) fn set_pin(&self, key: &ChunkKey, pin: PinId) {
        if self.bytes() == 0 {
            return;
        }
        if let Some(waiting) = self.lock().chunks.get_mut(key) {
            waiting.pin = pin;
        }
    }

    /// Takes the next chunks to be written: one, or several of up to `most` bytes in all. They can
    /// be read until [`finish`](Self::finish) is called for each.
    pub(super) fn take(&self, most: u64) -> Vec<QueuedChunk> {
        let mut state = self.lock();
        let (mut batch, mut size) = (Vec::new(), 0);
        while let Some((key, ticket)) = state.order.front().copied() {
            if let Some(waiting) = state.chunks.get(&key)
                && waiting.ticket == ticket
            {
                size += pages(waiting.bytes.len());
                if size > most && !batch.is_empty() {
                    break;
                }
                batch.push(QueuedChunk {
                    key,
                    bytes: waiting.bytes.clone(),
                    ticket,
                    pin: waiting.pin,
                });
            }
            state.order.pop_front();
        }
        batch
    }

    /// Returns whether a chunk that was taken is still wanted.
    pub(super) fn is_wanted(&self, key: &ChunkKey, ticket: u64) -> bool {
        let state = self.lock();
        let waiting = state.chunks.get(key);
        waiting.is_some_and(|waiting| waiting.ticket == ticket)
    }

    /// Removes a chunk that was written. Returns its present pin, if it was still wanted.
    pub(super) fn finish(&self, key: &ChunkKey, ticket: u64) -> Option<PinId> {
        let mut state = self.lock();
        if state.chunks.get(key)?.ticket != ticket {
            return None;
        }
        let waiting = state.chunks.remove(key)?;
        self.release(&waiting);
        Some(waiting.pin)
    }

    /// Subtracts the bytes of a chunk that has left the queue. The caller holds the lock.
    fn release(&self, waiting: &WaitingChunk) {
        let size = pages(waiting.bytes.len());
        self.bytes.fetch_sub(size, Ordering::Release);
    }

    /// Removes all chunks, and returns their number.
    pub(super) fn drop_all(&self) -> usize {
        let mut state = self.lock();
        let dropped = state.chunks.len();
        state.order.clear();
        state.chunks.clear();
        self.bytes.store(0, Ordering::Release);
        dropped
    }

    /// Returns the progress of the queue's end.
    pub(super) fn phase(&self) -> QueuePhase {
        self.lock().phase
    }

    /// Moves on to a later phase; never back from `Stopped`.
    pub(super) fn advance(&self, phase: QueuePhase) {
        let mut state = self.lock();
        if state.phase != QueuePhase::Stopped {
            state.phase = phase;
        }
        state.woken = true;
        self.wake.notify_one();
    }

    /// Wakes the writer for work beside the queue.
    pub(super) fn wake_writer(&self) {
        self.lock().woken = true;
        self.wake.notify_one();
    }

    /// Waits until a chunk is queued or the writer is woken, at most for `at_most`.
    pub(super) fn wait(&self, at_most: Option<Duration>) {
        let state = self.lock();
        let idle = |state: &mut QueueState| state.order.is_empty() && !state.woken;
        let mut state = match at_most {
            Some(time) => {
                let waited = self.wake.wait_timeout_while(state, time, idle);
                waited.recover().0
            }
            None => {
                let waited = self.wake.wait_while(state, idle);
                waited.recover()
            }
        };
        state.woken = false;
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().recover()
    }
}

#[cfg(test)]
mod tests;
