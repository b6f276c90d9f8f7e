//! The body of every answer: its length is known to the byte, its frames are the engine's own.
//!
//! A body that ends early or breaks yields an error, upon which the server cuts the connection (or
//! resets the stream), so that the client sees that its copy is not whole.

pub(crate) mod client_memory;
pub(crate) mod delivery;
pub(crate) mod multipart;
pub(crate) mod pieces;
pub(crate) mod readable;

use std::mem::take;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf as _;
use http_body::{Body as HttpBody, Frame, SizeHint};

use self::delivery::{BodyError, ByteSource};
use self::pieces::Pieces;
use crate::record::RequestRecord;
use crate::server::streams::CountedBytes;
use tidegate_telemetry::trace;

/// The body of an answer, which also updates its [`RequestRecord`].
pub(crate) struct Body {
    content: Content,
    record: Option<Box<RequestRecord>>,
}

/// The source of a body's bytes.
pub(crate) enum Content {
    /// No bytes, or none left.
    Nothing,
    /// All bytes, which are handed to the socket at once.
    Ready(Pieces),
    /// Bytes of an object, a variant of one, or a draft, of which some are yet to come.
    Delivery(Box<dyn ByteSource>),
}

impl Content {
    /// Returns the next bytes.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Pieces, BodyError>>> {
        match self {
            Self::Nothing => Poll::Ready(None),
            Self::Ready(pieces) => {
                let pieces = take(pieces);
                *self = Self::Nothing;
                Poll::Ready(Some(Ok(pieces)))
            }
            Self::Delivery(delivery) => delivery.poll_next(cx),
        }
    }

    /// Returns the bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Ready(pieces) => pieces.remaining() as u64,
            Self::Delivery(delivery) => delivery.left(),
        }
    }

    /// Registers it as a stream of this client for the operator, unless all its bytes are here.
    pub(crate) fn register(&mut self, client: Option<IpAddr>) {
        if let Self::Delivery(delivery) = self {
            delivery.register(client);
        }
    }

    /// Returns whether the last poll waited for the client to take bytes.
    pub(crate) fn waits_for_client(&self) -> bool {
        matches!(self, Self::Delivery(delivery) if delivery.waits_for_client())
    }
}

impl Body {
    pub(crate) fn new(mut content: Content, record: Box<RequestRecord>) -> Self {
        content.register(record.client());
        Self {
            content,
            record: Some(record),
        }
    }
}

impl HttpBody for Body {
    type Data = CountedBytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<CountedBytes>, BodyError>>> {
        let this = &mut *self;
        let span = this.record.as_ref().and_then(|record| record.span());
        let polled = match span {
            None => this.content.poll_next(cx),
            Some(span) => trace::call_within(span, || this.content.poll_next(cx)),
        };
        let left = this.content.left();
        let mut stream = None;
        if let Some(record) = &mut this.record {
            stream = record.stream();
            match &polled {
                Poll::Pending if this.content.waits_for_client() => record.wait_for_client(),
                Poll::Pending => record.wait_for_server(),
                Poll::Ready(Some(Ok(bytes))) => record.add_sent(bytes.remaining()),
                Poll::Ready(Some(Err(error))) => record.break_off(error),
                Poll::Ready(None) => {}
            }
        }
        let ends = match &polled {
            Poll::Ready(Some(Ok(_))) => left == 0,
            Poll::Ready(None) => true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => false,
        };
        if ends {
            this.content = Content::Nothing;
            if let Some(mut record) = this.record.take() {
                record.complete();
            }
        }
        polled.map_ok(|pieces| Frame::data(CountedBytes::new(pieces, stream)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Nothing)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.content.left())
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // An empty body (HEAD, 304) is never polled, and whole all the same.
        if self.is_end_stream()
            && let Some(record) = &mut self.record
        {
            record.complete();
        }
    }
}
