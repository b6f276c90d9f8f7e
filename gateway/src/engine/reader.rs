//! The bytes of a range, in order: from memory where it has them, else from a flight.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_core::Stream;

use super::Error;
use super::board::Boarded;
use super::cursor::{self, Cursor};
use super::flight::{Flight, Lease, Piece, Place};
use super::object::Pinned;
use crate::plan::ByteRange;
use crate::store::ChunkKey;

/// The bytes of a range, in order, as they arrive. Dropping it gives up the fetches that only it
/// wanted.
#[derive(Debug)]
pub struct Reader {
    pinned: Arc<Pinned>,
    number: u64,
    left: ByteRange,
    chunk: Option<(u32, Chunk)>,
    /// Taken ahead by [`Reader::prime`].
    primed: Option<Bytes>,
    /// The memory that the piece yielded last keeps alive.
    keeps: usize,
    /// The whole of what it reads.
    range: ByteRange,
    /// Taken up near where one is, and made by the first read that memory cannot serve; of an
    /// object large enough.
    cursor: Option<Arc<Cursor>>,
    /// The byte up to which the cursor was told, and whether the reader had to wait since.
    told: u64,
    waited: bool,
}

/// The chunk that the reader is in.
#[derive(Debug)]
enum Chunk {
    Whole(Bytes),
    Flight {
        flight: Arc<Flight>,
        place: Place,
        lease: Lease,
    },
    /// Handed out to its end. The lease keeps the rest of its part coming until the next chunk is
    /// boarded.
    Passed(Lease),
}

impl Reader {
    pub(super) fn new(pinned: Arc<Pinned>, range: ByteRange) -> Self {
        debug_assert!(
            range.end <= pinned.record.version.size,
            "the caller resolved the range"
        );
        let number = pinned.core.number();
        Self {
            pinned,
            number,
            left: range,
            chunk: None,
            primed: None,
            keeps: 0,
            range,
            cursor: None,
            told: range.start,
            waited: false,
        }
    }

    /// Bytes not yet handed out: exact, so that `Content-Length` can be.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.left.len() + self.primed.as_ref().map_or(0, |bytes| bytes.len() as u64)
    }

    /// Bytes of memory that the piece yielded last keeps alive: the buffer that it was cut from.
    #[must_use]
    pub fn keeps(&self) -> usize {
        self.keeps
    }

    /// Takes the bytes that [`Reader::prime`] waited for.
    pub fn take_primed(&mut self) -> Option<Bytes> {
        self.primed.take()
    }

    /// Waits until the first bytes are at hand, which the next poll then yields.
    ///
    /// # Errors
    /// [`Error::Changed`] here means that the answer can still begin again on the new version.
    pub async fn prime(&mut self) -> Result<(), Error> {
        if self.primed.is_none() && !self.left.is_empty() {
            self.primed = Some(poll_fn(|cx| self.poll_more(cx)).await?);
        }
        Ok(())
    }

    /// The next piece; must not be called at the end.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Error>> {
        let geometry = self.pinned.core.geometry;
        let index = geometry.index(self.left.start);
        let offset = usize::try_from(self.left.start - geometry.start(index))
            .expect("chunks are at most 16 MiB");
        if self.chunk.as_ref().is_none_or(|(at, _)| *at != index) {
            // The new lease is taken before the old one goes: a part of several chunks stays wanted.
            let next = board(&self.pinned, index, offset, self.left);
            let before = self.chunk.replace((index, next));
            self.pinned.hold(None);
            self.leave_behind(before);
            self.look_ahead();
        }
        let (_, chunk) = self.chunk.as_mut().expect("boarded just now");
        let Piece {
            bytes: mut piece,
            keeps,
        } = match chunk {
            Chunk::Whole(bytes) => Piece::of(bytes, offset),
            Chunk::Flight { flight, place, .. } => {
                match flight.poll_at(self.number, offset, place, cx) {
                    Poll::Ready(Ok(Some(piece))) => piece,
                    Poll::Ready(Ok(None)) => {
                        self.chunk = None;
                        return self.poll_more(cx);
                    }
                    Poll::Ready(Err(error)) => {
                        self.chunk = None;
                        return Poll::Ready(Err(error));
                    }
                    Poll::Pending => {
                        self.waited = true;
                        return Poll::Pending;
                    }
                }
            }
            Chunk::Passed(_) => unreachable!("nothing of it is left to read"),
        };
        let most = usize::try_from(self.left.len()).unwrap_or(usize::MAX);
        piece.truncate(most);
        self.keeps = keeps;
        self.left.start += piece.len() as u64;
        if self.left.is_empty() {
            self.chunk = None;
        } else if geometry.index(self.left.start) != index {
            self.pass();
        }
        self.pinned
            .core
            .metrics
            .delivered
            .inc_by(piece.len() as u64);
        Poll::Ready(Ok(piece))
    }

    /// Lets go of a chunk that has been handed out to its end: from here on who took its bytes
    /// answers for their memory.
    fn pass(&mut self) {
        if let Some((index, Chunk::Flight { lease, .. })) = self.chunk.take() {
            self.chunk = Some((index, Chunk::Passed(lease)));
        }
    }

    /// Gives back the memory of a passed chunk that nobody else came for, though its part goes on.
    fn leave_behind(&self, passed: Option<(u32, Chunk)>) {
        let Some((index, Chunk::Passed(lease))) = passed else {
            return;
        };
        if let Some((_, Chunk::Flight { flight, .. })) = &self.chunk {
            let part = lease.into_part();
            if Arc::ptr_eq(&part, &flight.part) {
                self.pinned.fill().leave_behind(index, &part);
            }
        }
    }

    /// Tells the cursor how far the reader has come, and has it fetch what comes next. Done once a
    /// chunk.
    fn look_ahead(&mut self) {
        let limits = self.pinned.limits;
        if self.pinned.record.version.size <= cursor::THRESHOLD || limits.window == 0 {
            return;
        }
        let cold = matches!(self.chunk, Some((_, Chunk::Flight { .. })));
        let fill = match cold {
            true => Some(self.pinned.fill()),
            // What was fetched ahead of an earlier request comes from memory: its reader still
            // goes on with the cursor that fetched it.
            false => self.pinned.living_fill(),
        };
        let (Some(fill), at) = (fill, self.left.start) else {
            return;
        };
        // By what was told last: what was read since may be far ahead of readers beside this one.
        let told = self.told;
        if let Some(cursor) = self.cursor.take_if(|cursor| !cursor.continues(told)) {
            cursor.leave(fill);
        }
        if self.cursor.is_none() {
            self.cursor = fill.cursors.at(self.range, at, cold.then_some(limits));
            self.told = at;
        }
        if let Some(cursor) = &self.cursor {
            cursor.took(ByteRange::new(self.told, at), self.waited);
            cursor.pump(fill, self.pinned.terms);
            self.told = at;
            self.waited = false;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if let Some(cursor) = self.cursor.take() {
            cursor.took(ByteRange::new(self.told, self.left.start), self.waited);
            cursor.leave(self.pinned.fill());
        }
    }
}

/// Finds the chunk: one look into memory, and only then into what is on its way.
fn board(pinned: &Pinned, index: u32, offset: usize, left: ByteRange) -> Chunk {
    let key = ChunkKey {
        version: pinned.record.id,
        index,
    };
    if let Some(bytes) = pinned.core.chunks.get_memory(&key) {
        return Chunk::Whole(bytes);
    }
    let until = pinned.core.geometry.span(left).end;
    match pinned.fill().board(index, offset, until, pinned.terms) {
        Boarded::Whole(bytes) => Chunk::Whole(bytes),
        Boarded::Flight(flight, lease) => Chunk::Flight {
            flight,
            place: Place::default(),
            lease,
        },
    }
}

impl Stream for Reader {
    type Item = Result<Bytes, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let reader = self.get_mut();
        if let Some(piece) = reader.primed.take() {
            return Poll::Ready(Some(Ok(piece)));
        }
        if reader.left.is_empty() {
            return Poll::Ready(None);
        }
        reader.poll_more(cx).map(Some)
    }
}
