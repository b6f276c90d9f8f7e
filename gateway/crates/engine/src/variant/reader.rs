//! The bytes of a variant, in order.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use futures_core::future::BoxFuture;
use tokio::time::timeout;

use super::{EncoderPermit, EncodingStart, OpenVariant, Variant};
use crate::Error;
use tidegate_plan::ByteRange;

/// The bytes of a range of a variant, in order. It only holds memory for a piece from a disk or an encoder that its
/// client has not taken yet.
pub struct VariantReader {
    variant: Variant,
    left: ByteRange,
    waits: Option<BoxFuture<'static, Result<Bytes, Error>>>,
    /// The length of the piece from which the last bytes were cut.
    keeps: usize,
}

impl fmt::Debug for VariantReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VariantReader")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl VariantReader {
    pub(super) fn new(variant: Variant, range: ByteRange) -> Self {
        Self {
            variant,
            left: range,
            waits: None,
            keeps: 0,
        }
    }

    /// Returns the bytes of memory that the last bytes keep alive.
    #[must_use]
    pub fn keeps(&self) -> usize {
        self.keeps
    }

    /// Cuts the wanted bytes from the next piece, and advances past them.
    fn cut(&mut self, piece: &Bytes) -> Bytes {
        let core = &self.variant.0.object.pinned.core;
        let whole = core
            .geometry
            .bytes(core.geometry.index(self.left.start), self.variant.size());
        let end = whole.end.min(self.left.end);
        let at =
            |byte: u64| usize::try_from(byte - whole.start).expect("chunks are at most 16 MiB");
        let bytes = piece.slice(at(self.left.start)..at(end));
        core.count_delivered(bytes.len() as u64);
        self.left.start = end;
        self.keeps = piece.len();
        bytes
    }

    /// Returns the whole of one piece.
    fn poll_piece(&mut self, cx: &mut Context<'_>, index: u32) -> Poll<Result<Bytes, Error>> {
        if self.waits.is_none() {
            if let Some(piece) = self.variant.0.in_memory(index) {
                return Poll::Ready(Ok(piece));
            }
            let variant = self.variant.clone();
            self.waits = Some(Box::pin(async move { variant.0.recover(index).await }));
        }
        let waits = self.waits.as_mut().expect("set just now");
        let piece = ready!(waits.as_mut().poll(cx));
        self.waits = None;
        Poll::Ready(piece)
    }
}

impl Stream for VariantReader {
    type Item = Result<Bytes, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let reader = self.get_mut();
        if reader.left.is_empty() {
            return Poll::Ready(None);
        }
        let geometry = reader.variant.0.object.pinned.core.geometry;
        let index = geometry.index(reader.left.start);
        let piece = ready!(reader.poll_piece(cx, index))?;
        Poll::Ready(Some(Ok(reader.cut(&piece))))
    }
}

impl OpenVariant {
    fn len(&self, index: u32) -> usize {
        let bytes = self
            .object
            .pinned
            .core
            .geometry
            .bytes(index, self.head.size);
        usize::try_from(bytes.len()).expect("chunks are at most 16 MiB")
    }

    /// Returns a piece that is in memory.
    fn in_memory(&self, index: u32) -> Option<Bytes> {
        let kept = match &self.made {
            Some(made) => made.pieces.get(index as usize).cloned(),
            None => {
                let chunks = &self.object.pinned.core.chunks;
                chunks.get_memory(&self.chunk(index))
            }
        };
        kept.filter(|piece| piece.len() == self.len(index))
    }

    /// Returns a piece that is not in memory: from disk, or encoded again.
    async fn recover(&self, index: u32) -> Result<Bytes, Error> {
        let core = &self.object.pinned.core;
        let key = self.chunk(index);
        let rules = self.object.pinned.options.lookup(false);
        let found = core.chunks.look_up(&key, self.len(index), rules).await;
        if let Some((piece, _)) = found {
            return Ok(piece);
        }
        let remade = timeout(core.variants.times.timeout, self.encode_again(index)).await;
        remade.ok().flatten().ok_or(Error::Unavailable)
    }

    /// Encodes again for one piece; the run must produce identical bytes. It waits its turn for an encoder, because its
    /// answer has begun.
    async fn encode_again(&self, index: u32) -> Option<Bytes> {
        let core = &self.object.pinned.core;
        let place = core.variants.permits.clone().acquire_owned().await.ok()?;
        let bytes = self.object.encoder_memory(self.coding);
        let charge = core.budget.demand(bytes).await.ok()?;
        let permit = Some(EncoderPermit(place, charge));
        let EncodingStart::UnderWay(flight) = self.object.start_encoding(self.coding, permit, true)
        else {
            return None;
        };
        let made = flight.await.ok()??;
        let same = made.head == self.head;
        same.then(|| made.pieces.get(index as usize).cloned())?
    }
}
