//! Pieces of a body that are handed to the socket together.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, BufMut as _, Bytes, BytesMut};

/// Pieces of a body, in order. The server writes all of them in one call, uncopied.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    first: Bytes,
    rest: VecDeque<Bytes>,
    /// Bytes of all pieces.
    len: usize,
}

impl Pieces {
    /// Adds a piece at the end, unless it is empty.
    pub(crate) fn push(&mut self, piece: Bytes) {
        self.len += piece.len();
        if self.first.is_empty() {
            self.first = piece;
        } else if !piece.is_empty() {
            self.rest.push_back(piece);
        }
    }

    /// Holds something until the last of the bytes has gone out, or was dropped.
    pub(crate) fn hold<T: Send + 'static>(&mut self, held: T) {
        let last = self.rest.back_mut().unwrap_or(&mut self.first);
        *last = Bytes::from_owner(HoldingBytes {
            bytes: std::mem::take(last),
            _held: held,
        });
    }
}

/// Bytes that hold something until their last reference is gone.
struct HoldingBytes<T> {
    bytes: Bytes,
    _held: T,
}

impl<T> AsRef<[u8]> for HoldingBytes<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Bytes> for Pieces {
    fn from(piece: Bytes) -> Self {
        let mut pieces = Self::default();
        pieces.push(piece);
        pieces
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.len
    }

    fn chunk(&self) -> &[u8] {
        &self.first
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let first = (!self.first.is_empty()).then_some(&self.first);
        let pairs = slices.iter_mut().zip(first.into_iter().chain(&self.rest));
        pairs
            .map(|(slice, piece)| *slice = IoSlice::new(piece))
            .count()
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.len, "no more than there is");
        self.len -= count;
        while count >= self.first.len() && !self.first.is_empty() {
            count -= self.first.len();
            self.first = self.rest.pop_front().unwrap_or_default();
        }
        self.first.advance(count);
    }

    /// Copies nothing if the bytes are of one piece.
    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        if count <= self.first.len() {
            let bytes = self.first.slice(..count);
            self.advance(count);
            return bytes;
        }
        let mut copy = BytesMut::with_capacity(count);
        copy.put(self.take(count));
        copy.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_bytes_come_out_in_order_however_they_are_taken(
            lens in prop::collection::vec(0_usize..5, 0..6),
            steps in prop::collection::vec(0_usize..7, 0..20),
            room in 0_usize..4,
        ) {
            let mut pieces = Pieces::default();
            let mut expected = Vec::new();
            for len in lens {
                let piece: Vec<u8> = (0..len).map(|at| (expected.len() + at) as u8).collect();
                expected.extend_from_slice(&piece);
                pieces.push(piece.into());
            }
            let mut at = 0;
            for step in steps {
                prop_assert_eq!(pieces.remaining(), expected.len() - at);
                let mut slices = [IoSlice::new(&[]); 4];
                let found = pieces.chunks_vectored(&mut slices[..room]);
                let seen: Vec<u8> = slices[..found].iter().flat_map(|slice| slice.to_vec()).collect();
                prop_assert!(expected[at..].starts_with(&seen));
                prop_assert!(room == 0 || seen.is_empty() == (at == expected.len()));
                prop_assert_eq!(pieces.chunk().is_empty(), at == expected.len());
                let step = step.min(expected.len() - at);
                pieces.advance(step);
                at += step;
            }
            prop_assert_eq!(pieces.copy_to_bytes(expected.len() - at), &expected[at..]);
        }
    }
}
