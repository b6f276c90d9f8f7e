//! The body of every answer: its length is known to the byte, its frames are the engine's own.
//!
//! A body that ends early or breaks yields an error, upon which the server cuts the connection (or
//! resets the stream), so that the client sees that its copy is not whole.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::delivery::{Broken, Delivery, Readable};
use super::exchange::Exchange;
use super::streams::Outgoing;
use tidegate_engine::{Object, Variant};
use tidegate_write::ClosedDraft;

/// The body of an answer, which also updates its [`Exchange`].
pub(super) struct Body<O: Readable = Object> {
    content: Content<O>,
    exchange: Option<Exchange>,
}

/// The source of a body's bytes.
pub(super) enum Content<O: Readable = Object> {
    /// No bytes, or none left.
    Nothing,
    /// A short text.
    Text(Bytes),
    /// Bytes of an object as they are.
    Object(Box<Delivery<O>>),
    /// Bytes of a variant of an object.
    Variant(Box<Delivery<Variant>>),
    /// Bytes of a draft that is not in the bucket yet.
    Draft(Box<Delivery<ClosedDraft>>),
}

impl<O: Readable> Body<O> {
    pub(super) fn new(content: Content<O>, exchange: Exchange) -> Self {
        Self {
            content,
            exchange: Some(exchange),
        }
    }
}

impl<O: Readable> HttpBody for Body<O> {
    type Data = Outgoing;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Outgoing>, Broken>>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.content).poll_frame(cx);
        let mut stream = None;
        if let Some(exchange) = &mut this.exchange {
            stream = exchange.stream();
            match &polled {
                Poll::Pending if this.content.is_held_back() => exchange.waits_for_client(),
                Poll::Pending => exchange.waits(),
                Poll::Ready(Some(Ok(frame))) => {
                    exchange.hands(frame.data_ref().map_or(0, Bytes::len));
                }
                Poll::Ready(Some(Err(error))) => exchange.breaks(error),
                Poll::Ready(None) => {}
            }
        }
        if this.content.is_end_stream()
            && matches!(&polled, Poll::Ready(None | Some(Ok(_))))
            && let Some(mut exchange) = this.exchange.take()
        {
            exchange.completes();
        }
        polled.map(|next| {
            let outgoing = |bytes| Outgoing::new(bytes, stream);
            next.map(|frame| frame.map(|frame| frame.map_data(outgoing)))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size_hint()
    }
}

impl<O: Readable> Drop for Body<O> {
    fn drop(&mut self) {
        // An empty body (HEAD, 304) is never polled, and whole all the same.
        if self.content.is_end_stream()
            && let Some(exchange) = &mut self.exchange
        {
            exchange.completes();
        }
    }
}

impl<O: Readable> Content<O> {
    /// Returns whether the last poll waited for the client, and not for bytes.
    pub(super) fn is_held_back(&self) -> bool {
        match self {
            Self::Object(delivery) => delivery.is_held_back(),
            Self::Variant(delivery) => delivery.is_held_back(),
            Self::Draft(delivery) => delivery.is_held_back(),
            Self::Nothing | Self::Text(_) => false,
        }
    }
}

impl<O: Readable> HttpBody for Content<O> {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let next = match &mut *self {
            Self::Nothing => return Poll::Ready(None),
            Self::Text(text) => Some(Ok(std::mem::take(text))),
            Self::Object(delivery) => ready!(delivery.poll_next(cx)),
            Self::Variant(delivery) => ready!(delivery.poll_next(cx)),
            Self::Draft(delivery) => ready!(delivery.poll_next(cx)),
        };
        let goes_on = match &*self {
            Self::Object(delivery) => delivery.left() > 0,
            Self::Variant(delivery) => delivery.left() > 0,
            Self::Draft(delivery) => delivery.left() > 0,
            Self::Nothing | Self::Text(_) => false,
        };
        let ends = match next {
            Some(Ok(_)) => !goes_on,
            Some(Err(_)) => false,
            None => true,
        };
        if ends {
            *self = Self::Nothing;
        }
        Poll::Ready(next.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Nothing => SizeHint::with_exact(0),
            Self::Text(text) => SizeHint::with_exact(text.len() as u64),
            Self::Object(delivery) => SizeHint::with_exact(delivery.left()),
            Self::Variant(delivery) => SizeHint::with_exact(delivery.left()),
            Self::Draft(delivery) => SizeHint::with_exact(delivery.left()),
        }
    }
}
