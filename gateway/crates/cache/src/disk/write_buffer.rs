//! A buffer whose address direct writes accept.

use super::files::PAGE_SIZE;
use crate::direct;

const ALIGNMENT: usize = PAGE_SIZE as usize;

/// Bytes that begin at a page; allocated when they are first needed.
#[derive(Debug, Default)]
pub(super) struct WriteBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl WriteBuffer {
    /// Empties the buffer, and makes room for `len` bytes.
    pub(super) fn clear(&mut self, len: usize) {
        self.len = 0;
        if self.bytes.len() < self.start + len {
            (self.bytes, self.start) = direct::buffer(len);
            self.bytes.resize(self.start + len, 0);
        }
    }

    /// Appends a chunk, padded with zeros to a whole page, and returns the copy. There must be
    /// room.
    pub(super) fn append(&mut self, chunk: &[u8]) -> &[u8] {
        let begin = self.start + self.len;
        let end = begin + chunk.len();
        let whole = begin + chunk.len().next_multiple_of(ALIGNMENT);
        self.bytes[begin..end].copy_from_slice(chunk);
        self.bytes[end..whole].fill(0);
        self.len = whole - self.start;
        &self.bytes[begin..end]
    }

    /// Returns all that was appended.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_lie_at_pages_and_what_is_between_is_zero() {
        let mut buffer = WriteBuffer::default();
        for round in 1..4u8 {
            buffer.clear(4 * ALIGNMENT);
            assert_eq!(buffer.append(&[round; 5000]), [round; 5000]);
            assert_eq!(buffer.append(&[round]), [round]);
            let bytes = buffer.bytes();
            assert_eq!(bytes.len(), 3 * ALIGNMENT);
            assert_eq!(bytes.as_ptr().align_offset(ALIGNMENT), 0);
            assert!(bytes[5000..2 * ALIGNMENT].iter().all(|byte| *byte == 0));
            assert_eq!(bytes[2 * ALIGNMENT], round);
        }
    }
}
