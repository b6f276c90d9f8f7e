//! A flight: one chunk under way, for which any number of readers wait and which they read while it arrives.
//!
//! A flight belongs to a [`Part`], the one fetch that brings it and perhaps its neighbours.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};

use super::part::Part;
use crate::Error;
use crate::budget::Charge;
use tidegate_cache::direct::BufferPool;
use tidegate_telemetry::locks::Recover as _;

/// One chunk under way. See the module's head.
///
/// If a reader seeks into the middle of a chunk, it is served from the wanted byte: such a flight carries the chunk's
/// tail first, from `base` on, and its head afterwards.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) part: Arc<Part>,
    /// Length of the whole chunk.
    len: usize,
    /// The byte of the chunk that arrives first.
    pub(crate) base: usize,
    state: Mutex<FlightState>,
}

#[derive(Debug, Default)]
struct FlightState {
    /// The frames that have arrived from `base` on, in order.
    frames: Vec<Bytes>,
    arrived: usize,
    outcome: Option<Result<Bytes, Error>>,
    /// Whether a reader has waited for bytes before `base`.
    head_wanted: bool,
    /// Whether nothing more comes by this flight: the chunk was handed over to the memory tier, or its head is not
    /// fetched. Readers look for the chunk anew.
    settled: bool,
    /// Waiting readers by number, so that a reader that is polled twice waits once.
    waiting: HashMap<u64, WaitingReader>,
    charge: Option<Charge>,
}

#[derive(Debug)]
struct WaitingReader {
    waker: Waker,
    /// See [`FetchOptions::quiet`](super::options::FetchOptions::quiet).
    quiet: bool,
}

/// A reader of a flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlightReader {
    pub(crate) number: u64,
    /// See [`FetchOptions::quiet`](super::options::FetchOptions::quiet).
    pub(crate) quiet: bool,
}

/// A reader's position in a flight's frames, so that a poll needs no search.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct FlightPosition {
    frame: usize,
    /// Bytes that arrived before that frame.
    before: usize,
}

/// Bytes cut from a buffer.
#[derive(Debug)]
pub struct Piece {
    /// The bytes.
    pub bytes: Bytes,
    /// The length of the whole buffer, which the bytes keep alive.
    pub keeps: usize,
}

impl Piece {
    /// Returns the bytes of `whole` from `offset` on.
    pub(crate) fn of(whole: &Bytes, offset: usize) -> Self {
        Self {
            bytes: whole.slice(offset..),
            keeps: whole.len(),
        }
    }
}

impl Flight {
    pub(crate) fn new(part: Arc<Part>, len: usize, base: usize) -> Self {
        Self {
            part,
            len,
            base,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, FlightState> {
        self.state.lock().recover()
    }

    /// Charges the chunk's memory to `charge` until the flight is dropped.
    pub(crate) fn charge(&self, charge: Charge) {
        self.state().charge = Some(charge);
    }

    /// Hands the chunk over to the memory tier, which holds it and accounts for its memory from now on. A stalled
    /// reader in this chunk then keeps nothing alive.
    pub(crate) fn settle(&self) {
        let mut state = self.state();
        (state.charge, state.outcome, state.settled) = (None, None, true);
        (state.frames, state.arrived) = (Vec::new(), 0);
        wake(state);
    }

    /// Ends a flight whose tail has arrived, unless a reader has waited for its head. Returns whether it ended. The tail
    /// can still be read.
    pub(crate) fn end_without_head(&self) -> bool {
        let mut state = self.state();
        state.settled = !state.head_wanted;
        state.settled
    }

    /// Returns whether byte `offset` is here or still comes.
    pub(crate) fn brings(&self, offset: usize) -> bool {
        offset >= self.base || !self.state().settled
    }

    /// Returns the bytes from `base` on that have not arrived yet.
    pub(crate) fn missing(&self) -> usize {
        self.len - self.base - self.state().arrived
    }

    /// Takes a frame and wakes the waiting readers. The caller cuts at chunk boundaries.
    pub(crate) fn push(&self, frame: Bytes) {
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
    pub(crate) fn complete(&self, head: &[Bytes], buffers: &Arc<BufferPool>) -> Bytes {
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
    pub(crate) fn finish(&self, outcome: Result<Bytes, Error>) {
        let mut state = self.state();
        if outcome.is_ok() {
            state.frames = Vec::new();
        }
        state.outcome = Some(outcome);
        wake(state);
    }

    /// Returns the bytes at hand from `offset` on, in one piece of any length; `None` if they do not come by this flight
    /// any more, and the reader has to look for the chunk anew.
    pub(crate) fn poll_at(
        &self,
        reader: FlightReader,
        offset: usize,
        position: &mut FlightPosition,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Piece>, Error>> {
        let mut state = self.state();
        if let Some(Ok(whole)) = &state.outcome {
            return Poll::Ready(Ok(Some(Piece::of(whole, offset))));
        }
        if (self.base..self.base + state.arrived).contains(&offset) {
            let wanted = offset - self.base;
            while wanted >= position.before + state.frames[position.frame].len() {
                position.before += state.frames[position.frame].len();
                position.frame += 1;
            }
            let frame = &state.frames[position.frame];
            return Poll::Ready(Ok(Some(Piece::of(frame, wanted - position.before))));
        }
        if state.settled {
            return Poll::Ready(Ok(None));
        }
        if let Some(Err(error)) = &state.outcome {
            return Poll::Ready(Err(error.clone()));
        }
        state.head_wanted |= offset < self.base;
        let FlightReader { number, quiet } = reader;
        let waker = cx.waker().clone();
        state.waiting.insert(number, WaitingReader { waker, quiet });
        drop(state);
        if !quiet {
            self.part.awaited.set();
        }
        Poll::Pending
    }

    /// Returns whether a reader waits for bytes that have not arrived, quiet ones apart.
    pub(crate) fn is_awaited(&self) -> bool {
        self.state().waiting.values().any(|reader| !reader.quiet)
    }
}

/// Wakes after the lock is released: a woken reader wants it at once.
fn wake(mut state: MutexGuard<'_, FlightState>) {
    let waiting = std::mem::take(&mut state.waiting);
    drop(state);
    waiting.into_values().for_each(|reader| reader.waker.wake());
}
