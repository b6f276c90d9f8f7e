//! A flight: one chunk under way, for which any number of readers wait and which they read while it arrives.
//!
//! A flight belongs to a [`Part`], the one fetch that brings it and perhaps its neighbours. Readers hold a [`Lease`] on
//! the part; when the last lease is dropped, no reader wants the rest, and the fetch is stopped.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::budget::Charge;
use super::cursor::Cursor;
use tidegate_cache::direct::BufferPool;

/// One fetch of one or more neighbouring chunks, and the leases on it.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) chunks: Range<u32>,
    pub(super) bringer: Bringer,
    /// The cursor that fetched it ahead, notified when a stream becomes free.
    pub(super) cursor: Weak<Cursor>,
    /// Whether its request still occupies a stream; ends a little before the last byte arrives.
    busy: AtomicBool,
    leases: AtomicUsize,
    unwanted: Notify,
    landed: CancellationToken,
}

/// The source of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bringer {
    Origin,
    Disk,
}

/// Keeps a part wanted for as long as it is held.
#[derive(Debug)]
pub(super) struct Lease(Arc<Part>);

impl Part {
    pub(super) fn new(chunks: Range<u32>, bringer: Bringer, cursor: Weak<Cursor>) -> Arc<Self> {
        Arc::new(Self {
            chunks,
            bringer,
            cursor,
            busy: AtomicBool::new(true),
            leases: AtomicUsize::new(0),
            unwanted: Notify::new(),
            landed: CancellationToken::new(),
        })
    }

    /// Takes a lease. Call it under the lock of the version's flights, so that it cannot cross with a fetch that gives
    /// up.
    pub(super) fn lease(self: &Arc<Self>) -> Lease {
        self.leases.fetch_add(1, Ordering::Relaxed);
        Lease(self.clone())
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.leases() > 0
    }

    /// Returns the number of leases.
    pub(super) fn leases(&self) -> usize {
        self.leases.load(Ordering::Acquire)
    }

    /// Marks the stream as free, or about to be. Returns whether it was busy until now.
    pub(super) fn leave_stream(&self) -> bool {
        self.busy.swap(false, Ordering::AcqRel)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Marks the fetch as over: all chunks are there, or the rest never will be.
    pub(super) fn land(&self) {
        self.landed.cancel();
    }

    pub(super) fn has_landed(&self) -> bool {
        self.landed.is_cancelled()
    }

    /// Returns when the fetch is over.
    pub(super) async fn landed(&self) {
        self.landed.cancelled().await;
    }

    /// Returns when the last lease was dropped; check [`Part::is_wanted`] again under the lock.
    pub(super) async fn unwanted(&self) {
        while self.is_wanted() {
            self.unwanted.notified().await;
        }
    }
}

impl Lease {
    pub(super) fn part(&self) -> &Part {
        &self.0
    }

    /// Gives up the lease.
    pub(super) fn into_part(self) -> Arc<Part> {
        self.0.clone()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.0.leases.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.unwanted.notify_one();
        }
    }
}

/// One chunk under way. See the module's head.
///
/// If a reader seeks into the middle of a chunk, it is served from the wanted byte: such a flight carries the chunk's
/// tail first, from `base` on, and its head afterwards.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) part: Arc<Part>,
    /// Length of the whole chunk.
    len: usize,
    /// The byte of the chunk that arrives first.
    pub(super) base: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The frames that have arrived from `base` on, in order.
    frames: Vec<Bytes>,
    arrived: usize,
    outcome: Option<Result<Bytes, Error>>,
    /// Whether the chunk was handed over to the memory tier, where readers find it.
    settled: bool,
    /// Wakers by reader, so that a reader that is polled twice waits once.
    waiting: HashMap<u64, Waker>,
    charge: Option<Charge>,
}

/// A reader's position in a flight's frames, so that a poll needs no search.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Place {
    frame: usize,
    /// Bytes that arrived before that frame.
    before: usize,
}

/// Bytes cut from a buffer.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) bytes: Bytes,
    /// The length of the whole buffer, which the bytes keep alive.
    pub(super) keeps: usize,
}

impl Piece {
    /// Returns the bytes of `whole` from `offset` on.
    pub(super) fn of(whole: &Bytes, offset: usize) -> Self {
        Self {
            bytes: whole.slice(offset..),
            keeps: whole.len(),
        }
    }
}

impl Flight {
    pub(super) fn new(part: Arc<Part>, len: usize, base: usize) -> Self {
        Self {
            part,
            len,
            base,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no code panics while it holds this lock")
    }

    /// Charges the chunk's memory to `charge` until the flight is dropped.
    pub(super) fn charge(&self, charge: Charge) {
        self.state().charge = Some(charge);
    }

    /// Hands the chunk over to the memory tier, which holds it and accounts for its memory from now on. A stalled
    /// reader in this chunk then keeps nothing alive.
    pub(super) fn settle(&self) {
        let mut state = self.state();
        (state.charge, state.outcome, state.settled) = (None, None, true);
        wake(state);
    }

    /// Returns the bytes from `base` on that have not arrived yet.
    pub(super) fn missing(&self) -> usize {
        self.len - self.base - self.state().arrived
    }

    /// Takes a frame and wakes the waiting readers. The caller cuts at chunk boundaries.
    pub(super) fn push(&self, frame: Bytes) {
        let mut state = self.state();
        state.arrived += frame.len();
        debug_assert!(
            self.base + state.arrived <= self.len,
            "frames are cut at the chunk's end"
        );
        state.frames.push(frame);
        wake(state);
    }

    /// Joins the head (if the flight began after it) and the frames into one buffer, which becomes the outcome. A whole
    /// chunk takes a buffer of the pool.
    pub(super) fn complete(&self, head: &[Bytes], buffers: &Arc<BufferPool>) -> Bytes {
        // The frames stay for concurrent readers until the outcome replaces them.
        let frames = self.state().frames.clone();
        let pieces = head.iter().chain(&frames);
        let whole = match self.len == buffers.room() {
            true => {
                let mut whole = buffers.take();
                pieces.for_each(|piece| whole.push(piece));
                Bytes::from_owner(whole)
            }
            false => {
                let mut whole = BytesMut::with_capacity(self.len);
                pieces.for_each(|piece| whole.extend_from_slice(piece));
                whole.freeze()
            }
        };
        self.finish(Ok(whole.clone()));
        whole
    }

    /// Ends the flight for all waiting readers. Bytes that arrived before a failure can still be read.
    pub(super) fn finish(&self, outcome: Result<Bytes, Error>) {
        let mut state = self.state();
        if outcome.is_ok() {
            state.frames = Vec::new();
        }
        state.outcome = Some(outcome);
        wake(state);
    }

    /// Returns the bytes at hand from `offset` on, in one piece of any length; `None` if the chunk was handed over to
    /// the memory tier.
    pub(super) fn poll_at(
        &self,
        reader: u64,
        offset: usize,
        place: &mut Place,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Piece>, Error>> {
        let mut state = self.state();
        if state.settled {
            return Poll::Ready(Ok(None));
        }
        if let Some(Ok(whole)) = &state.outcome {
            return Poll::Ready(Ok(Some(Piece::of(whole, offset))));
        }
        if (self.base..self.base + state.arrived).contains(&offset) {
            let wanted = offset - self.base;
            while wanted >= place.before + state.frames[place.frame].len() {
                place.before += state.frames[place.frame].len();
                place.frame += 1;
            }
            let frame = &state.frames[place.frame];
            return Poll::Ready(Ok(Some(Piece::of(frame, wanted - place.before))));
        }
        if let Some(Err(error)) = &state.outcome {
            return Poll::Ready(Err(error.clone()));
        }
        state.waiting.insert(reader, cx.waker().clone());
        Poll::Pending
    }

    /// Returns whether a reader waits for bytes that have not arrived.
    pub(super) fn is_awaited(&self) -> bool {
        !self.state().waiting.is_empty()
    }
}

/// Wakes after the lock is released: a woken reader wants it at once.
fn wake(mut state: MutexGuard<'_, State>) {
    let waiting = std::mem::take(&mut state.waiting);
    drop(state);
    waiting.into_values().for_each(Waker::wake);
}
