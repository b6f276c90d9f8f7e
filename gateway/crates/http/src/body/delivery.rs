//! Bytes of one object on their way to one client.
//!
//! Frames are handed on as the engine yields them; a client that is too slow, or holds too much, is handed copies
//! instead (see [`super::client_memory`]). The frame's bytes are then read again a piece at a time, but only from the
//! cache: if that would mean asking the origin once more, the frame is held, unless clients hold far too much already.
//!
//! The frames of a short answer that are ready at once go to the socket together: one system call takes them all.

use std::mem::take;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use futures_core::Stream as _;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::Instant;

use super::Content;
use super::client_memory::{COPY_BYTES, ChargedBytes, ClientMemory, ClientSpeed, CopiesInFlight};
use super::multipart::Multipart;
use super::pieces::Pieces;
use super::readable::Readable;
use tidegate_engine::{Error, StreamGuard};
use tidegate_plan::ByteRange;

/// The reason why a body broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The engine delivered less or more than the range has.
    #[error("the object's length is not what was said")]
    Length,
}

/// The bytes of a body, from any [`Readable`].
pub(crate) trait ByteSource: Send {
    /// Returns the next bytes of the body; an error also if they end too early.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Pieces, BodyError>>>;
    /// Returns the bytes of the body not yet handed out.
    fn left(&self) -> u64;
    /// Returns whether the last poll waited for the client to take bytes.
    fn waits_for_client(&self) -> bool;
    /// Registers it as a stream of this client for the operator.
    fn register(&mut self, client: Option<IpAddr>);
}

/// The longest answer whose frames are handed to the socket together.
const MAX_GATHERED: u64 = 1 << 20;

/// Bytes of one object on their way to one client: a range, or several with their headings.
pub(crate) struct Delivery<O: Readable> {
    object: O,
    /// The reader of the present range; `None` between ranges.
    reader: Option<O::Reader>,
    /// The position of the next byte in the object, and the end of the range.
    range: ByteRange,
    /// The bytes that were ready from the start, after the heading of the first part.
    first: Pieces,
    /// The rest of a frame that goes out in copies.
    slow_frame: Option<SlowFrame<O::Reader>>,
    /// The copies that the client has not taken yet.
    copies: Option<Arc<CopiesInFlight>>,
    /// Whether the last poll waited for the client, and not for bytes.
    waits_for_client: bool,
    /// The parts after this range.
    parts: Option<Multipart>,
    /// Bytes of the body not yet handed out, headings included.
    left: u64,
    /// The time and length of the last frame that was handed out, until the client asks for more.
    sent: Option<(Instant, usize)>,
    /// The speed at which it took the one before.
    speed: Option<ClientSpeed>,
    memory: Arc<ClientMemory>,
    /// Its entry in the registry of streams.
    stream: Option<StreamGuard>,
}

impl<O: Readable> ByteSource for Delivery<O> {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Pieces, BodyError>>> {
        // Only the first poll tells how long the client took: later ones wait for the engine.
        if let Some((when, bytes)) = self.sent.take() {
            let took = when.elapsed();
            self.speed = Some(ClientSpeed { bytes, took });
        }
        let mut pieces = take(&mut self.first);
        if !pieces.has_remaining() {
            pieces = match ready!(self.poll_bytes(cx)) {
                Ok(Some(bytes)) => bytes.into(),
                Ok(None) if self.left == 0 => return Poll::Ready(None),
                Ok(None) => return Poll::Ready(Some(Err(BodyError::Length))),
                Err(error) => return Poll::Ready(Some(Err(error))),
            };
        }
        match self.left.checked_sub(pieces.remaining() as u64) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Some(Err(BodyError::Length))),
        }
        self.sent = (self.left > 0).then(|| (Instant::now(), pieces.remaining()));
        Poll::Ready(Some(Ok(pieces)))
    }

    fn left(&self) -> u64 {
        self.left
    }

    fn waits_for_client(&self) -> bool {
        self.waits_for_client
    }

    fn register(&mut self, client: Option<IpAddr>) {
        self.stream = self.object.stream(client);
        if let (Some(reader), Some(stream)) = (&mut self.reader, &self.stream) {
            O::report_to(reader, stream);
        }
    }
}

/// A frame whose client is too slow, or holds too much, to be given all of it at once.
enum SlowFrame<R> {
    /// It is held, because the cache might not have it again.
    Kept(Bytes),
    /// It was released and is read again: up to `end`, a piece at a time, each with its end and its reader.
    Reread { end: u64, piece: Option<(u64, R)> },
}

impl<O: Readable> Delivery<O> {
    /// Returns one range as a body, once its first frame has come.
    ///
    /// # Errors
    /// The engine's. After [`Error::Changed`], the answer can still begin again on the new version.
    pub(crate) async fn single(
        object: &O,
        range: ByteRange,
        memory: &Arc<ClientMemory>,
    ) -> Result<Content, Error> {
        let mut reader = object.read_at(range);
        let frame = reader.next().await.transpose()?;
        // A hit of one chunk needs nothing more.
        if let Some(frame) = &frame
            && frame.len() as u64 == range.len()
            && let Some(bytes) =
                ChargedBytes::charge(frame.clone(), object.pinned_bytes(&reader, frame), memory)
        {
            return Ok(Content::Ready(bytes.into()));
        }
        let mut delivery = Self::new(object.clone(), reader, range, memory.clone());
        delivery.begin(frame);
        delivery.gather();
        Ok(delivery.into_content())
    }

    /// Returns the ranges of `parts` with their headings as a body, once the first frame has come. `first` is the first of
    /// the ranges.
    ///
    /// # Errors
    /// As of [`Delivery::single`].
    pub(crate) async fn several(
        object: &O,
        first: ByteRange,
        mut parts: Multipart,
        memory: &Arc<ClientMemory>,
    ) -> Result<Content, Error> {
        let left = parts.len();
        let (heading, _) = parts.next().unzip();
        let mut reader = object.read_at(first);
        let frame = reader.next().await.transpose()?;
        let mut delivery = Self::new(object.clone(), reader, first, memory.clone());
        delivery.left = left;
        delivery.first = heading.unwrap_or_default().into();
        delivery.begin(frame);
        delivery.parts = Some(parts);
        Ok(delivery.into_content())
    }

    /// Delivers one range from its reader.
    pub(crate) fn new(
        object: O,
        reader: O::Reader,
        range: ByteRange,
        memory: Arc<ClientMemory>,
    ) -> Self {
        Self {
            object,
            reader: Some(reader),
            range,
            first: Pieces::default(),
            slow_frame: None,
            copies: None,
            waits_for_client: false,
            parts: None,
            left: range.len(),
            sent: None,
            speed: None,
            memory,
            stream: None,
        }
    }

    /// Begins with the frame that the reader has yielded last, and charges it: the client may take any time to ask for it.
    fn begin(&mut self, frame: Option<Bytes>) {
        if let Some((reader, frame)) = self.reader.as_ref().zip(frame) {
            let pinned = self.object.pinned_bytes(reader, &frame);
            let bytes = self.charge(&frame, pinned);
            self.first.push(bytes.unwrap_or_default());
        }
    }

    /// Adds the frames that are ready already, if the answer is short and clients hold little memory.
    fn gather(&mut self) {
        while self.left <= MAX_GATHERED
            && self.slow_frame.is_none()
            && !self.range.is_empty()
            && self.memory.has_room()
            && let Some(reader) = &mut self.reader
        {
            let Some(next) = reader.next().now_or_never() else {
                // The client has not asked for it yet.
                O::forget_wait(reader);
                return;
            };
            match next {
                Some(Ok(frame)) if frame.len() as u64 <= self.range.len() => {
                    self.begin(Some(frame))
                }
                // It is read again, and fails again, when the client asks for the rest.
                _ => self.reader = None,
            }
        }
    }

    /// Returns the body: nothing but the bytes if all of them are ready.
    fn into_content(self) -> Content {
        match self.first.remaining() as u64 == self.left {
            true => Content::Ready(self.first),
            false => Content::Delivery(Box::new(self)),
        }
    }

    /// Returns bytes that the reader yields, the next heading, or copies of a slow frame.
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        loop {
            if self.slow_frame.is_some() {
                if let Some(piece) = ready!(self.poll_slow(cx))? {
                    return Poll::Ready(Ok(Some(piece)));
                }
                self.slow_frame = None;
            }
            if self.range.is_empty() {
                return Poll::Ready(Ok(self.next_part()));
            }
            let range = self.range;
            let reader = self.reader.get_or_insert_with(|| {
                let mut reader = self.object.read_at(range);
                if let Some(stream) = &self.stream {
                    O::report_to(&mut reader, stream);
                }
                reader
            });
            let Some(frame) = ready!(Pin::new(&mut *reader).poll_next(cx)) else {
                return Poll::Ready(Err(BodyError::Length));
            };
            let frame = frame?;
            if frame.len() as u64 > self.range.len() {
                return Poll::Ready(Err(BodyError::Length));
            }
            if frame.is_empty() {
                continue;
            }
            let pinned = self.object.pinned_bytes(reader, &frame);
            if let Some(bytes) = self.charge(&frame, pinned) {
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

    /// Charges a frame to the client's memory, or begins to hand it on in copies.
    fn charge(&mut self, frame: &Bytes, pinned: usize) -> Option<Bytes> {
        let length = frame.len() as u64;
        if !self.speed.is_some_and(ClientSpeed::is_very_slow)
            && let Some(bytes) = ChargedBytes::charge(frame.clone(), pinned, &self.memory)
        {
            self.range.start += length;
            return Some(bytes);
        }
        let end = self.range.start + length;
        let range = ByteRange::new(self.range.start, end);
        let is_short = frame.len() <= COPY_BYTES;
        let can_reread = !is_short && (self.object.is_cached(range) || self.memory.is_overdrawn());
        self.slow_frame = Some(match can_reread {
            true => SlowFrame::Reread { end, piece: None },
            false => SlowFrame::Kept(ChargedBytes::force_charge(frame, pinned, &self.memory)),
        });
        None
    }

    /// Returns the next copy out of a frame; `None` at the frame's end.
    fn poll_slow(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BodyError>> {
        let copies = self
            .copies
            .get_or_insert_with(|| CopiesInFlight::new(self.memory.clone()));
        self.waits_for_client = copies.poll_room(cx).is_pending();
        if self.waits_for_client {
            return Poll::Pending;
        }
        let copied = match self.slow_frame.as_mut() {
            None => return Poll::Ready(Ok(None)),
            Some(SlowFrame::Kept(rest)) => {
                if rest.is_empty() {
                    return Poll::Ready(Ok(None));
                }
                copies.copy(&rest.split_to(rest.len().min(copies.size())))
            }
            Some(SlowFrame::Reread { end, piece }) => {
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
                    return Poll::Ready(Err(BodyError::Length));
                };
                let frame = frame?;
                if frame.is_empty() || frame.len() as u64 > until - at {
                    return Poll::Ready(Err(BodyError::Length));
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
pub(crate) mod tests;
