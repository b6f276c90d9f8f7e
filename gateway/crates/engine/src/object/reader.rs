//! The bytes of a range, in order: from memory if it has them, otherwise from a flight.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;
use tokio::time::Instant;

use super::object_state::ObjectState;
use super::streams::{Stream as Registered, StreamGuard};
use super::wait::Wait;
use crate::Error;
use crate::fetch::FIRST_REQUEST;
use crate::fetch::cursor::Cursor;
use crate::fetch::flight::{Flight, FlightPosition, FlightReader, Piece};
use crate::fetch::part::Lease;
use crate::fetch::schedule::{MIN_SKIP, Scheduled};
use tidegate_cache::ChunkKey;
use tidegate_plan::ByteRange;

/// The bytes of a range, in order, as they arrive. Dropping the reader stops the fetches that no other reader wants.
#[derive(Debug)]
pub struct Reader {
    pinned: Arc<ObjectState>,
    /// Its number among the readers of flights, once it needed one.
    number: Option<u64>,
    left: ByteRange,
    chunk: Option<(u32, CurrentChunk)>,
    /// The bytes of memory that the last piece keeps alive.
    keeps: usize,
    /// The whole range of the reader.
    range: ByteRange,
    /// The cursor: one nearby is taken over, or the first read that memory cannot serve creates one, if the object is
    /// large enough.
    cursor: Option<Arc<Cursor>>,
    /// The beginning of the sequence of which its range is the end, once it has begun to read.
    from: Option<u64>,
    /// The position last reported to the cursor, and the reader's last wait since.
    reported: u64,
    waited: Option<Instant>,
    /// The registered stream that it is part of.
    stream: Option<Arc<Registered>>,
}

/// The chunk that the reader is in.
#[derive(Debug)]
enum CurrentChunk {
    Whole(Bytes),
    Flight {
        flight: Arc<Flight>,
        position: FlightPosition,
        lease: Lease,
        /// The present wait for bytes.
        wait: Option<Wait>,
    },
    /// Read to its end. The lease keeps the rest of its part coming until the reader has the next chunk.
    Passed(Lease),
}

impl Reader {
    pub(crate) fn new(pinned: Arc<ObjectState>, range: ByteRange) -> Self {
        debug_assert!(
            range.end <= pinned.record.version.size,
            "the caller resolved the range"
        );
        Self {
            pinned,
            number: None,
            left: range,
            chunk: None,
            keeps: 0,
            range,
            cursor: None,
            from: None,
            reported: range.start,
            waited: None,
            stream: None,
        }
    }

    /// Reports to a registered stream from now on, and ends when that is stopped.
    pub fn report_to(&mut self, stream: &StreamGuard) {
        let taken = self.left.start - self.range.start;
        stream.stream().begin_at(self.left.start, taken);
        if let Some(cursor) = &self.cursor {
            stream.stream().set_cursor(cursor);
        }
        if let Some((_, CurrentChunk::Flight { wait, .. })) = &mut self.chunk
            && let Some(wait) = wait
        {
            wait.report_to(stream.stream());
        }
        self.stream = Some(stream.stream().clone());
        self.report_tier();
    }

    fn report_tier(&self) {
        if let (Some(stream), Some((index, chunk))) = (&self.stream, &self.chunk) {
            stream.set_tier(
                *index,
                match chunk {
                    CurrentChunk::Whole(_) => None,
                    CurrentChunk::Flight { flight, .. } => Some(&*flight.part),
                    CurrentChunk::Passed(lease) => Some(lease.part()),
                },
            );
        }
    }

    /// Returns the exact number of bytes not yet returned, for `Content-Length`.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.left.len()
    }

    /// Returns the bytes of memory that the last piece keeps alive: the size of the buffer from which it was cut.
    #[must_use]
    pub fn keeps(&self) -> usize {
        self.keeps
    }

    /// Has the present wait not count: the consumer only looked whether bytes are ready.
    pub fn forget_wait(&mut self) {
        if let Some((_, CurrentChunk::Flight { wait, .. })) = &mut self.chunk
            && let Some(wait) = wait.take()
        {
            wait.forget();
        }
    }

    /// Releases a chunk that was read to its end: from now on the consumer accounts for its memory.
    fn release_passed(&mut self) {
        if let Some((index, CurrentChunk::Flight { lease, .. })) = self.chunk.take() {
            self.chunk = Some((index, CurrentChunk::Passed(lease)));
        }
    }

    /// Releases a chunk that the reader has passed and no other reader wants; the fetch of its part continues.
    fn leave_behind(&self, passed: Option<(u32, CurrentChunk)>) {
        let Some((index, CurrentChunk::Passed(lease))) = passed else {
            return;
        };
        if let Some((_, CurrentChunk::Flight { flight, .. })) = &self.chunk {
            let part = lease.into_part();
            if Arc::ptr_eq(&part, &flight.part) {
                self.pinned.fetches().leave_behind(index, &part);
            }
        }
    }

    /// Reports the position to the cursor, and starts read-ahead. Called once a chunk; `cold` if memory does not have it,
    /// and `hole` if no tier has it.
    fn read_ahead(&mut self, cold: bool, hole: Option<u32>) {
        let limits = self.pinned.limits;
        if self.pinned.record.version.size <= FIRST_REQUEST || limits.window == 0 {
            return;
        }
        let (pinned, range) = (&self.pinned, self.range);
        let mut is_return = false;
        let from = *self.from.get_or_insert_with(|| {
            let from = pinned.follow(range);
            is_return = pinned.is_return(range);
            from
        });
        let fetches = match cold {
            true => Some(self.pinned.fetches()),
            // Read-ahead for an earlier request now comes from memory: its reader still goes on with the cursor that
            // fetched it.
            false => self.pinned.living_fetches(),
        };
        let (Some(fetches), at) = (fetches, self.left.start) else {
            return;
        };
        // The position last reported: bytes read since may be far ahead of this reader's neighbours.
        let reported = self.reported;
        if let Some(cursor) = self.cursor.take_if(|cursor| !cursor.continues(reported)) {
            cursor.leave(fetches);
        }
        if self.cursor.is_none() {
            self.cursor = fetches
                .cursors
                .join(self.range, (from, at), cold.then_some(limits));
            if let Some(cursor) = self.cursor.as_ref().filter(|_| is_return) {
                cursor.set_return(from, at);
            }
            self.reported = at;
            if let (Some(stream), Some(cursor)) = (&self.stream, &self.cursor) {
                stream.set_cursor(cursor);
            }
        }
        if let Some(cursor) = &self.cursor {
            cursor.record_read(ByteRange::new(self.reported, at), self.waited);
            if let Some(hole) = hole.filter(|index| !fetches.flights().contains_key(index)) {
                cursor.note_hole(hole);
            }
            cursor.fetch_ahead(fetches, self.pinned.options);
            self.reported = at;
            self.waited = None;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let (Some(stream), Some(number)) = (&self.stream, self.number) {
            stream.leave(number);
        }
        if let Some(cursor) = self.cursor.take() {
            cursor.record_read(ByteRange::new(self.reported, self.left.start), self.waited);
            cursor.leave(self.pinned.fetches());
        }
    }
}

fn number_of(number: &mut Option<u64>, pinned: &ObjectState) -> u64 {
    *number.get_or_insert_with(|| pinned.core.next_number())
}

fn flight_reader(number: &mut Option<u64>, pinned: &ObjectState) -> FlightReader {
    FlightReader {
        number: number_of(number, pinned),
        quiet: pinned.options.quiet,
    }
}

impl Stream for Reader {
    type Item = Result<Bytes, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let reader = self.get_mut();
        if reader.stream.is_none() {
            return reader.poll_bytes(cx);
        }
        if reader
            .stream
            .as_ref()
            .is_some_and(|stream| stream.is_stopped())
        {
            return Poll::Ready(Some(Err(Error::Stopped)));
        }
        let polled = reader.poll_bytes(cx);
        let Some(stream) = &reader.stream else {
            return polled;
        };
        match &polled {
            Poll::Ready(Some(Ok(bytes))) => stream.take(reader.left.start, bytes.len() as u64),
            Poll::Pending
                if stream.wait(number_of(&mut reader.number, &reader.pinned), cx.waker()) =>
            {
                return Poll::Ready(Some(Err(Error::Stopped)));
            }
            _ => {}
        }
        polled
    }
}

impl Reader {
    /// Finds the chunk: looks once into memory, and only then among the flights. If no tier has it, read-ahead comes first:
    /// one request may then bring it and what follows. Returns the chunk, and whether read-ahead has begun.
    fn find(&mut self, index: u32, offset: usize) -> (CurrentChunk, bool) {
        let chunks = &self.pinned.core.chunks;
        let key = ChunkKey {
            version: self.pinned.record.id,
            index,
        };
        if let Some(bytes) = chunks.get_memory(&key) {
            return (CurrentChunk::Whole(bytes), false);
        }
        let ahead_first = offset < MIN_SKIP && chunks.locate(&key).is_none();
        if ahead_first {
            self.read_ahead(true, Some(index));
        }
        let pinned = &self.pinned;
        let until = pinned.core.geometry.span(self.left).end;
        let found = match pinned
            .fetches()
            .schedule(index, offset, until, pinned.options)
        {
            Scheduled::Whole(bytes) => CurrentChunk::Whole(bytes),
            Scheduled::Flight(flight, lease) => CurrentChunk::Flight {
                flight,
                position: FlightPosition::default(),
                lease,
                wait: None,
            },
        };
        (found, ahead_first)
    }

    /// Goes on to the chunk `index`, from its byte `offset` on.
    fn enter(&mut self, index: u32, offset: usize) {
        // The new lease is taken before the old one is dropped, so a part of several chunks stays wanted.
        let (next, has_begun) = self.find(index, offset);
        let cold = matches!(next, CurrentChunk::Flight { .. });
        let before = self.chunk.replace((index, next));
        self.pinned.release_first();
        self.leave_behind(before);
        if !has_begun {
            self.read_ahead(cold, None);
        }
        self.report_tier();
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let reader = self;
        if reader.left.is_empty() {
            return Poll::Ready(None);
        }
        let geometry = reader.pinned.core.geometry;
        let index = geometry.index(reader.left.start);
        let offset = usize::try_from(reader.left.start - geometry.start(index))
            .expect("chunks are at most 16 MiB");
        if reader.chunk.as_ref().is_none_or(|(at, _)| *at != index) {
            reader.enter(index, offset);
        }
        let (_, chunk) = reader.chunk.as_mut().expect("found just now");
        let Piece { mut bytes, keeps } = match chunk {
            CurrentChunk::Whole(bytes) => Piece::of(bytes, offset),
            CurrentChunk::Flight {
                flight,
                position,
                wait,
                ..
            } => match flight.poll_at(
                flight_reader(&mut reader.number, &reader.pinned),
                offset,
                position,
                cx,
            ) {
                Poll::Ready(Ok(Some(piece))) => {
                    *wait = None;
                    piece
                }
                Poll::Ready(Ok(None)) => {
                    reader.chunk = None;
                    return reader.poll_bytes(cx);
                }
                Poll::Ready(Err(error)) => {
                    reader.chunk = None;
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Pending => {
                    reader.waited = Some(Instant::now());
                    wait.get_or_insert_with(|| Wait::begin(&reader.pinned, reader.stream.as_ref()));
                    return Poll::Pending;
                }
            },
            CurrentChunk::Passed(_) => unreachable!("nothing of it is left to read"),
        };
        bytes.truncate(usize::try_from(reader.left.len()).unwrap_or(usize::MAX));
        reader.keeps = keeps;
        reader.left.start += bytes.len() as u64;
        if reader.left.is_empty() {
            reader.chunk = None;
        } else if geometry.index(reader.left.start) != index {
            reader.release_passed();
        }
        reader.pinned.core.count_delivered(bytes.len() as u64);
        Poll::Ready(Some(Ok(bytes)))
    }
}
