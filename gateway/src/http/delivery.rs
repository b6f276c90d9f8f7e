//! Bytes of one object on their way to one client.
//!
//! Frames are handed on as the engine yields them; a client too slow, or too dear, is handed copies
//! instead (see [`super::pace`]). What a frame held is then read again a piece at a time, from the
//! cache and only from there: where that would mean asking the origin once more, the frame is held.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use tokio::time::Instant;

use super::multipart::Multipart;
use super::pace::{Allowance, PIECE, Pace, Pinned};
use crate::engine::{Error, Found, Object, Reader};
use crate::plan::ByteRange;

/// What a body needs of an open object; the engine's is one.
pub(super) trait Readable: Send + Unpin + 'static {
    /// The bytes of one range, in order.
    type Reader: Stream<Item = Result<Bytes, Error>> + Send + Unpin + 'static;
    /// Reads `range`.
    fn read_at(&self, range: ByteRange) -> Self::Reader;
    /// Whether all of `range` can be read again without asking the origin.
    fn is_cached(&self, range: ByteRange) -> bool;
}

impl Readable for Object {
    type Reader = Reader;

    fn read_at(&self, range: ByteRange) -> Reader {
        Self::read_at(self, range)
    }

    fn is_cached(&self, range: ByteRange) -> bool {
        matches!(self.locate(range), Found::All(_))
    }
}

/// Why a body broke off.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The engine could not go on.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The engine delivered less or more than the range has.
    #[error("the object's length is not what was said")]
    Length,
    /// The compressor failed.
    #[error("compression failed")]
    Encoder,
}

/// Bytes of one object on their way to one client: a range, or several with their headings.
pub(super) struct Delivery<O: Readable> {
    object: O,
    /// The range being read; `None` between ranges.
    reader: Option<O::Reader>,
    /// Where in the object the next byte lies, and where the range ends.
    range: ByteRange,
    /// What is left of a frame that goes out in copies.
    slow: Option<Slow<O::Reader>>,
    /// What comes after this range.
    parts: Option<Multipart>,
    /// Bytes of the body not yet handed out, headings included.
    left: u64,
    /// The frame handed out last, and when, until the client comes for more.
    handed: Option<(Instant, usize)>,
    /// How fast it took the one before.
    pace: Option<Pace>,
    allowance: Arc<dyn Allowance>,
}

/// A frame whose client is too slow, or too dear, to be given all of it at once.
enum Slow<R> {
    /// It is held, because it could not be read again for free.
    Held(Bytes),
    /// It was let go; this much is read again, a piece at a time.
    Again { end: u64, piece: Option<R> },
}

impl<O: Readable> Delivery<O> {
    /// One range, whose reader may have been primed.
    pub(super) fn single(
        object: O,
        reader: O::Reader,
        range: ByteRange,
        allowance: Arc<dyn Allowance>,
    ) -> Self {
        Self {
            object,
            reader: Some(reader),
            range,
            slow: None,
            parts: None,
            left: range.len(),
            handed: None,
            pace: None,
            allowance,
        }
    }

    /// The ranges of `parts` with their headings; `reader` reads the first.
    pub(super) fn several(
        object: O,
        reader: O::Reader,
        parts: Multipart,
        allowance: Arc<dyn Allowance>,
    ) -> Self {
        let (left, nothing) = (parts.len(), ByteRange::new(0, 0));
        Self {
            left,
            parts: Some(parts),
            ..Self::single(object, reader, nothing, allowance)
        }
    }

    /// Bytes of the body not yet handed out.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// The next bytes of the body; an error also where they end too early.
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
            let Some(frame) = ready!(Pin::new(reader).poll_next(cx)) else {
                return Poll::Ready(Err(Broken::Length));
            };
            let frame = frame?;
            if frame.len() as u64 > self.range.len() {
                return Poll::Ready(Err(Broken::Length));
            }
            if frame.is_empty() {
                continue;
            }
            if let Some(bytes) = self.hand(frame) {
                return Poll::Ready(Ok(Some(bytes)));
            }
        }
    }

    /// The heading of the next part, or the end of the last.
    fn next_part(&mut self) -> Option<Bytes> {
        let (text, range) = self.parts.as_mut()?.next()?;
        // The first part's reader was given; the others are made when their turn comes.
        if self.range.end > 0 {
            self.reader = None;
        }
        self.range = range.unwrap_or(self.range);
        Some(text)
    }

    /// Hands a frame on, or begins to hand it on in copies.
    fn hand(&mut self, frame: Bytes) -> Option<Bytes> {
        if !self.pace.is_some_and(Pace::is_very_slow)
            && let Some(bytes) = Pinned::charged(&frame, &self.allowance)
        {
            self.range.start += frame.len() as u64;
            return Some(bytes);
        }
        let end = self.range.start + frame.len() as u64;
        let here = ByteRange::new(self.range.start, end);
        self.slow = Some(if frame.len() > PIECE && self.object.is_cached(here) {
            Slow::Again { end, piece: None }
        } else {
            Slow::Held(Pinned::forced(&frame, &self.allowance))
        });
        None
    }

    /// The next copy out of a frame; `None` when it is used up.
    fn poll_slow(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>> {
        let copied = match self.slow.as_mut() {
            None => return Poll::Ready(Ok(None)),
            Some(Slow::Held(rest)) => {
                if rest.is_empty() {
                    return Poll::Ready(Ok(None));
                }
                let piece = rest.split_to(rest.len().min(PIECE));
                Bytes::copy_from_slice(&piece)
            }
            Some(Slow::Again { end, piece }) => {
                let at = self.range.start;
                if at == *end {
                    return Poll::Ready(Ok(None));
                }
                let until = (*end).min(at + PIECE as u64);
                let reader =
                    piece.get_or_insert_with(|| self.object.read_at(ByteRange::new(at, until)));
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
                Bytes::copy_from_slice(&frame)
            }
        };
        self.range.start += copied.len() as u64;
        Poll::Ready(Ok(Some(copied)))
    }
}

#[cfg(test)]
#[path = "delivery/tests.rs"]
pub(super) mod tests;
