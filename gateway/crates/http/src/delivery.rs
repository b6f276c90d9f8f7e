//! Bytes of one object on their way to one client.
//!
//! Frames are handed on as the engine yields them; a client that is too slow, or holds too much, is handed copies
//! instead (see [`super::pace`]). The frame's bytes are then read again a piece at a time, but only from the cache: if
//! that would mean asking the origin once more, the frame is held, unless clients hold far too much already.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use tokio::time::Instant;

use super::multipart::Multipart;
use super::pace::{Allowance, Copies, PIECE, Pace, Pinned};
use tidegate_engine::{Coverage, Error, Object, Reader, Variant, VariantReader};
use tidegate_plan::ByteRange;
use tidegate_write::{ClosedDraft, ClosedDraftReader};

/// The interface of an open object that a body needs, such as the engine's.
pub(super) trait Readable: Send + Unpin + 'static {
    /// The bytes of one range, in order.
    type Reader: Stream<Item = Result<Bytes, Error>> + Send + Unpin + 'static;
    /// Reads `range`.
    fn read_at(&self, range: ByteRange) -> Self::Reader;
    /// Returns whether all of `range` can be read again without asking the origin.
    fn is_cached(&self, range: ByteRange) -> bool;
    /// Takes the bytes that `reader` has ready.
    fn take_primed(reader: &mut Self::Reader) -> Option<Bytes>;
    /// Returns the bytes of memory that `piece`, which `reader` yielded last, keeps alive.
    fn keeps(&self, reader: &Self::Reader, piece: &Bytes) -> usize;
}

impl Readable for Object {
    type Reader = Reader;

    fn read_at(&self, range: ByteRange) -> Reader {
        Self::read_at(self, range)
    }

    fn is_cached(&self, range: ByteRange) -> bool {
        matches!(self.locate(range), Coverage::All(_))
    }

    fn take_primed(reader: &mut Reader) -> Option<Bytes> {
        reader.take_primed()
    }

    fn keeps(&self, reader: &Reader, _: &Bytes) -> usize {
        reader.keeps()
    }
}

impl Readable for Variant {
    type Reader = VariantReader;

    fn read_at(&self, range: ByteRange) -> VariantReader {
        Self::read_at(self, range)
    }

    fn is_cached(&self, range: ByteRange) -> bool {
        Self::is_cached(self, range)
    }

    fn take_primed(reader: &mut VariantReader) -> Option<Bytes> {
        reader.take_primed()
    }

    fn keeps(&self, reader: &VariantReader, _: &Bytes) -> usize {
        reader.keeps()
    }
}

impl Readable for ClosedDraft {
    type Reader = ClosedDraftReader;

    fn read_at(&self, range: ByteRange) -> ClosedDraftReader {
        Self::read_at(self, range)
    }

    /// Returns true: the spool has it.
    fn is_cached(&self, _: ByteRange) -> bool {
        true
    }

    fn take_primed(reader: &mut ClosedDraftReader) -> Option<Bytes> {
        reader.take_primed()
    }

    fn keeps(&self, _: &ClosedDraftReader, piece: &Bytes) -> usize {
        piece.len()
    }
}

/// The reason why a body broke off.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The engine delivered less or more than the range has.
    #[error("the object's length is not what was said")]
    Length,
}

/// Bytes of one object on their way to one client: a range, or several with their headings.
pub(super) struct Delivery<O: Readable> {
    object: O,
    /// The reader of the present range; `None` between ranges.
    reader: Option<O::Reader>,
    /// The position of the next byte in the object, and the end of the range.
    range: ByteRange,
    /// The heading of the first part, then the bytes that were ready from the start.
    heading: Option<Bytes>,
    first: Option<Bytes>,
    /// The rest of a frame that goes out in copies.
    slow: Option<Slow<O::Reader>>,
    /// The copies that the client has not taken yet.
    copies: Option<Arc<Copies>>,
    /// Whether the last poll waited for the client, and not for bytes.
    held_back: bool,
    /// The parts after this range.
    parts: Option<Multipart>,
    /// Bytes of the body not yet handed out, headings included.
    left: u64,
    /// The time and length of the last frame, until the client asks for more.
    handed: Option<(Instant, usize)>,
    /// The speed at which it took the one before.
    pace: Option<Pace>,
    allowance: Arc<dyn Allowance>,
}

/// A frame whose client is too slow, or holds too much, to be given all of it at once.
enum Slow<R> {
    /// It is held, because the cache might not have it again.
    Held(Bytes),
    /// It was released and is read again: up to `end`, a piece at a time, each with its end and its reader.
    Again { end: u64, piece: Option<(u64, R)> },
}

impl<O: Readable> Delivery<O> {
    /// Delivers one range, whose reader may have been primed.
    pub(super) fn single(
        object: O,
        reader: O::Reader,
        range: ByteRange,
        allowance: Arc<dyn Allowance>,
    ) -> Self {
        let mut delivery = Self {
            object,
            reader: Some(reader),
            range,
            heading: None,
            first: None,
            slow: None,
            copies: None,
            held_back: false,
            parts: None,
            left: range.len(),
            handed: None,
            pace: None,
            allowance,
        };
        delivery.charge_first();
        delivery
    }

    /// Delivers the ranges of `parts` with their headings; `reader` reads the first.
    pub(super) fn several(
        object: O,
        reader: O::Reader,
        mut parts: Multipart,
        allowance: Arc<dyn Allowance>,
    ) -> Self {
        let left = parts.len();
        let (heading, range) = parts.next().unzip();
        let range = range.flatten().unwrap_or(ByteRange::new(0, 0));
        Self {
            left,
            heading,
            parts: Some(parts),
            ..Self::single(object, reader, range, allowance)
        }
    }

    /// Charges the bytes that are ready before the client asks for them, which may take any time.
    fn charge_first(&mut self) {
        let Some(reader) = &mut self.reader else {
            return;
        };
        let Some(frame) = O::take_primed(reader) else {
            return;
        };
        let keeps = self.object.keeps(reader, &frame);
        self.first = self.hand(&frame, keeps);
    }

    /// Returns the bytes of the body not yet handed out.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Returns whether the last poll waited for the client to take bytes.
    pub(super) fn is_held_back(&self) -> bool {
        self.held_back
    }

    /// Returns the next bytes of the body; an error also if they end too early.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Broken>>> {
        // Only the first poll tells how long the client took: later ones wait for the engine.
        if let Some((when, bytes)) = self.handed.take() {
            let took = when.elapsed();
            self.pace = Some(Pace { bytes, took });
        }
        let next = match ready!(self.poll_bytes(cx)) {
            Ok(next) => next,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        let Some(bytes) = next else {
            let whole = self.left == 0;
            return Poll::Ready((!whole).then_some(Err(Broken::Length)));
        };
        match self.left.checked_sub(bytes.len() as u64) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Some(Err(Broken::Length))),
        }
        self.handed = (self.left > 0).then(|| (Instant::now(), bytes.len()));
        Poll::Ready(Some(Ok(bytes)))
    }

    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>> {
        if let Some(bytes) = self.heading.take().or_else(|| self.first.take()) {
            return Poll::Ready(Ok(Some(bytes)));
        }
        loop {
            if self.slow.is_some() {
                if let Some(piece) = ready!(self.poll_slow(cx))? {
                    return Poll::Ready(Ok(Some(piece)));
                }
                self.slow = None;
            }
            if self.range.is_empty() {
                let Some(text) = self.next_part() else {
                    return Poll::Ready(Ok(None));
                };
                return Poll::Ready(Ok(Some(text)));
            }
            let range = self.range;
            let reader = self
                .reader
                .get_or_insert_with(|| self.object.read_at(range));
            let Some(frame) = ready!(Pin::new(&mut *reader).poll_next(cx)) else {
                return Poll::Ready(Err(Broken::Length));
            };
            let frame = frame?;
            if frame.len() as u64 > self.range.len() {
                return Poll::Ready(Err(Broken::Length));
            }
            if frame.is_empty() {
                continue;
            }
            let keeps = self.object.keeps(reader, &frame);
            if let Some(bytes) = self.hand(&frame, keeps) {
                return Poll::Ready(Ok(Some(bytes)));
            }
        }
    }

    /// Returns the heading of the next part, or the end of the last.
    fn next_part(&mut self) -> Option<Bytes> {
        let (text, range) = self.parts.as_mut()?.next()?;
        self.reader = None;
        self.range = range.unwrap_or(self.range);
        Some(text)
    }

    /// Hands a frame on, or begins to hand it on in copies.
    fn hand(&mut self, frame: &Bytes, keeps: usize) -> Option<Bytes> {
        let length = frame.len() as u64;
        if !self.pace.is_some_and(Pace::is_very_slow)
            && let Some(bytes) = Pinned::charged(frame, keeps, &self.allowance)
        {
            self.range.start += length;
            return Some(bytes);
        }
        let end = self.range.start + length;
        let here = ByteRange::new(self.range.start, end);
        let is_short = frame.len() <= PIECE;
        let again = !is_short && (self.object.is_cached(here) || self.allowance.is_overdrawn());
        self.slow = Some(match again {
            true => Slow::Again { end, piece: None },
            false => Slow::Held(Pinned::forced(frame, keeps, &self.allowance)),
        });
        None
    }

    /// Returns the next copy out of a frame; `None` at the frame's end.
    fn poll_slow(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>> {
        let copies = self
            .copies
            .get_or_insert_with(|| Copies::new(self.allowance.clone()));
        self.held_back = copies.poll_room(cx).is_pending();
        if self.held_back {
            return Poll::Pending;
        }
        let copied = match self.slow.as_mut() {
            None => return Poll::Ready(Ok(None)),
            Some(Slow::Held(rest)) => {
                if rest.is_empty() {
                    return Poll::Ready(Ok(None));
                }
                copies.copy(&rest.split_to(rest.len().min(copies.size())))
            }
            Some(Slow::Again { end, piece }) => {
                let at = self.range.start;
                if at == *end {
                    return Poll::Ready(Ok(None));
                }
                let (until, reader) = piece.get_or_insert_with(|| {
                    let until = (*end).min(at + copies.size() as u64);
                    (until, self.object.read_at(ByteRange::new(at, until)))
                });
                let until = *until;
                let Some(frame) = ready!(Pin::new(reader).poll_next(cx)) else {
                    return Poll::Ready(Err(Broken::Length));
                };
                let frame = frame?;
                if frame.is_empty() || frame.len() as u64 > until - at {
                    return Poll::Ready(Err(Broken::Length));
                }
                if at + frame.len() as u64 == until {
                    *piece = None;
                }
                copies.copy(&frame)
            }
        };
        self.range.start += copied.len() as u64;
        Poll::Ready(Ok(Some(copied)))
    }
}

#[cfg(test)]
#[path = "delivery/tests.rs"]
pub(super) mod tests;
