//! The bytes of a variant, in order.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use futures_core::future::BoxFuture;
use tokio::time::timeout;

use super::{DEADLINE, Departure, Fare, Inner, Variant};
use crate::engine::Error;
use crate::plan::ByteRange;

/// The bytes of a range of a variant, in order. It holds no memory but what a disk or an encoder gave it and
/// its client has not taken.
pub struct VariantReader {
    variant: Variant,
    left: ByteRange,
    /// What [`VariantReader::prime`] had to wait for.
    primed: Option<Bytes>,
    waits: Option<BoxFuture<'static, Result<Bytes, Error>>>,
    /// Length of the piece that the bytes yielded last were cut from.
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
            primed: None,
            waits: None,
            keeps: 0,
        }
    }

    /// Bytes of memory that those yielded last keep alive.
    #[must_use]
    pub fn keeps(&self) -> usize {
        self.keeps
    }

    /// Takes the bytes that [`VariantReader::prime`] had to wait for, if it had.
    pub fn take_primed(&mut self) -> Option<Bytes> {
        let piece = self.primed.take()?;
        Some(self.cut(&piece))
    }

    /// What is wanted of the piece that comes next.
    fn cut(&mut self, piece: &Bytes) -> Bytes {
        let core = &self.variant.0.object.pinned.core;
        let whole = core
            .geometry
            .bytes(core.geometry.index(self.left.start), self.variant.size());
        let end = whole.end.min(self.left.end);
        let at =
            |byte: u64| usize::try_from(byte - whole.start).expect("chunks are at most 16 MiB");
        let bytes = piece.slice(at(self.left.start)..at(end));
        core.metrics.delivered.inc_by(bytes.len() as u64);
        self.left.start = end;
        self.keeps = piece.len();
        bytes
    }

    /// Waits until the first bytes are at hand.
    ///
    /// # Errors
    /// They are in no cache any more, and cannot be made again.
    pub async fn prime(&mut self) -> Result<(), Error> {
        let inner = &self.variant.0;
        let first = inner.object.pinned.core.geometry.index(self.left.start);
        if !self.left.is_empty() && inner.at_hand(first).is_none() {
            self.primed = Some(poll_fn(|cx| self.poll_piece(cx, first)).await?);
        }
        Ok(())
    }

    /// The whole of one piece.
    fn poll_piece(&mut self, cx: &mut Context<'_>, index: u32) -> Poll<Result<Bytes, Error>> {
        if let Some(piece) = self.primed.take() {
            return Poll::Ready(Ok(piece));
        }
        if self.waits.is_none() {
            if let Some(piece) = self.variant.0.at_hand(index) {
                return Poll::Ready(Ok(piece));
            }
            let variant = self.variant.clone();
            self.waits = Some(Box::pin(async move { variant.0.regain(index).await }));
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

impl Inner {
    fn len(&self, index: u32) -> usize {
        let bytes = self
            .object
            .pinned
            .core
            .geometry
            .bytes(index, self.head.size);
        usize::try_from(bytes.len()).expect("chunks are at most 16 MiB")
    }

    /// A piece that is in memory.
    fn at_hand(&self, index: u32) -> Option<Bytes> {
        let kept = match &self.made {
            Some(made) => made.pieces.get(index as usize).cloned(),
            None => {
                let chunks = &self.object.pinned.core.chunks;
                chunks.get_memory(&self.chunk(index))
            }
        };
        kept.filter(|piece| piece.len() == self.len(index))
    }

    /// A piece that is not: from disk, or made again.
    async fn regain(&self, index: u32) -> Result<Bytes, Error> {
        let chunks = &self.object.pinned.core.chunks;
        let key = self.chunk(index);
        if let Some((piece, _)) = chunks.get(&key, self.len(index)).await {
            return Ok(piece);
        }
        let remade = timeout(DEADLINE, self.remake(index)).await;
        remade.ok().flatten().ok_or(Error::Unavailable)
    }

    /// A piece out of another run of the encoder, which must have come to the very same bytes. This one waits in
    /// turn, for its answer has begun.
    async fn remake(&self, index: u32) -> Option<Bytes> {
        let core = &self.object.pinned.core;
        let place = core.variants.places.clone().acquire_owned().await.ok()?;
        let bytes = self.object.encoder_memory(self.coding);
        let charge = core.budget.demand(bytes).await.ok()?;
        let fare = Some(Fare(place, charge));
        let Departure::Flight(flight) = self.object.depart(self.coding, fare, true) else {
            return None;
        };
        let made = flight.await.ok()??;
        let same = made.head == self.head;
        same.then(|| made.pieces.get(index as usize).cloned())?
    }
}
