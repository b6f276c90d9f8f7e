//! Cutting written bytes into chunks.

use bytes::Bytes;

use tidegate_plan::{ByteRange, Geometry};

/// Cuts sequential bytes into chunks that own their memory. Omits a chunk that began before the
/// first byte.
#[derive(Debug)]
pub(super) struct Cutter {
    geometry: Geometry,
    range: ByteRange,
    at: u64,
    open: Vec<u8>,
    chunks: Vec<(u32, Bytes)>,
    has_more: bool,
}

impl Cutter {
    /// Creates a cutter for a range of an object. The last chunk ends at the end of the range.
    pub(super) fn new(geometry: Geometry, range: ByteRange) -> Self {
        Self {
            geometry,
            range,
            at: range.start,
            open: Vec::new(),
            chunks: Vec::new(),
            has_more: false,
        }
    }

    /// Takes the next bytes. `owned`: the piece is no slice of a larger buffer, and becomes a chunk
    /// without a copy if it has a chunk's bounds.
    pub(super) fn push(&mut self, piece: &Bytes, owned: bool) {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let left = self.range.end - self.at;
            if left == 0 {
                self.has_more = true;
                return;
            }
            let index = self.geometry.index(self.at);
            let chunk = self.geometry.bytes(index, self.range.end);
            let length = usize::try_from(chunk.end - self.at).unwrap_or(usize::MAX);
            if owned && self.at == chunk.start && rest.len() == length && piece.len() == length {
                self.at = chunk.end;
                self.chunks.push((index, piece.clone()));
                return;
            }
            let (taken, behind) = rest.split_at(rest.len().min(length));
            if chunk.start >= self.range.start {
                if self.open.is_empty() {
                    self.open.reserve_exact(length);
                }
                self.open.extend_from_slice(taken);
            }
            self.at += taken.len() as u64;
            rest = behind;
            if self.at == chunk.end && !self.open.is_empty() {
                let whole = std::mem::take(&mut self.open);
                self.chunks.push((index, whole.into()));
            }
        }
    }

    /// Returns the chunks with their numbers, if exactly the bytes of the range came.
    pub(super) fn finish(self) -> Option<Vec<(u32, Bytes)>> {
        let is_whole = self.at == self.range.end && !self.has_more;
        is_whole.then_some(self.chunks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHUNK: u64 = 64 << 10;

    proptest! {
        /// Any pieces give each chunk that lies in the range, and its last one, to the byte.
        #[test]
        fn cuts_to_the_byte(
            start in 0..3 * CHUNK,
            length in 0..4 * CHUNK,
            pieces in proptest::collection::vec(1..3 * CHUNK, 1..8),
            owned: bool,
        ) {
            let geometry = Geometry::new(CHUNK).expect("a power of two");
            let range = ByteRange::new(start, start + length);
            let truth: Vec<u8> = (start..range.end).map(|at| (at % 251) as u8).collect();
            let (mut cutter, mut rest) = (Cutter::new(geometry, range), &truth[..]);
            for piece in pieces.iter().chain([&u64::MAX]) {
                let length = usize::try_from(*piece).map_or(rest.len(), |it| it.min(rest.len()));
                let (piece, behind) = rest.split_at(length);
                cutter.push(&Bytes::copy_from_slice(piece), owned);
                rest = behind;
            }
            let chunks = cutter.finish().expect("all bytes came");
            let mut wanted = geometry.span(range);
            if !start.is_multiple_of(CHUNK) && length > 0 {
                wanted.start += 1;
            }
            prop_assert!(chunks.iter().map(|(index, _)| *index).eq(wanted));
            for (index, bytes) in chunks {
                let within = geometry.bytes(index, range.end).within(start);
                prop_assert!(bytes[..] == truth[within]);
            }
        }
    }

    #[test]
    fn too_few_and_too_many_bytes_are_none() {
        let geometry = Geometry::new(CHUNK).expect("a power of two");
        for (length, whole) in [(9, false), (10, true), (11, false)] {
            let mut cutter = Cutter::new(geometry, ByteRange::new(0, 10));
            cutter.push(&vec![0; length].into(), false);
            assert_eq!(cutter.finish().is_some(), whole, "{length}");
        }
    }

    #[test]
    fn a_piece_that_is_a_chunk_is_not_copied() {
        let geometry = Geometry::new(CHUNK).expect("a power of two");
        let piece = Bytes::from(vec![7; CHUNK as usize]);
        for owned in [true, false] {
            let mut cutter = Cutter::new(geometry, ByteRange::new(0, 2 * CHUNK));
            cutter.push(&piece, owned);
            cutter.push(&piece, owned);
            let chunks = cutter.finish().expect("whole");
            let same = chunks.iter().all(|(_, it)| it.as_ptr() == piece.as_ptr());
            assert_eq!((chunks.len(), same), (2, owned));
        }
    }
}
