//! The open objects whose bytes a body can carry.

use std::net::IpAddr;

use bytes::Bytes;
use futures_core::Stream;

use tidegate_engine::{
    Coverage, Error, Object, Reader, StreamGuard, StreamKind, Variant, VariantReader,
};
use tidegate_plan::ByteRange;
use tidegate_write::{ClosedDraft, ClosedDraftReader};

/// The interface of an open object that a body needs, such as the engine's.
pub(crate) trait Readable: Clone + Send + Unpin + 'static {
    /// The bytes of one range, in order.
    type Reader: Stream<Item = Result<Bytes, Error>> + Send + Unpin + 'static;
    /// Reads `range`.
    fn read_at(&self, range: ByteRange) -> Self::Reader;
    /// Returns whether all of `range` can be read again without asking the origin.
    fn is_cached(&self, range: ByteRange) -> bool;
    /// Returns the bytes of memory that `piece`, which `reader` yielded last, keeps alive.
    fn pinned_bytes(&self, reader: &Self::Reader, piece: &Bytes) -> usize;
    /// Registers a stream of it for the operator, if it is read from the cache or the bucket.
    fn stream(&self, _client: Option<IpAddr>) -> Option<StreamGuard> {
        None
    }
    /// Has `reader` report to a registered stream.
    fn report_to(_reader: &mut Self::Reader, _stream: &StreamGuard) {}
    /// Has the present wait of `reader` not count: no client waits for its bytes yet.
    fn forget_wait(_reader: &mut Self::Reader) {}
}

impl Readable for Object {
    type Reader = Reader;

    fn read_at(&self, range: ByteRange) -> Reader {
        Self::read_at(self, range)
    }

    fn is_cached(&self, range: ByteRange) -> bool {
        matches!(self.locate(range), Coverage::All(_))
    }

    fn pinned_bytes(&self, reader: &Reader, _: &Bytes) -> usize {
        reader.keeps()
    }

    fn stream(&self, client: Option<IpAddr>) -> Option<StreamGuard> {
        let client = client.map_or_else(|| "local".to_owned(), |address| address.to_string());
        Some(Self::stream(self, StreamKind::Http, client))
    }

    fn report_to(reader: &mut Reader, stream: &StreamGuard) {
        reader.report_to(stream);
    }

    fn forget_wait(reader: &mut Reader) {
        reader.forget_wait();
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

    fn pinned_bytes(&self, reader: &VariantReader, _: &Bytes) -> usize {
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

    fn pinned_bytes(&self, _: &ClosedDraftReader, piece: &Bytes) -> usize {
        piece.len()
    }
}
