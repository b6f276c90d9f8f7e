//! Chunks: fixed-size, aligned pieces in which objects are cached.

use std::ops::Range;

use crate::ByteRange;

/// The division of objects into chunks. All chunks have one size but the last of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    shift: u32,
}

impl Geometry {
    /// Creates a geometry with chunks of `chunk` bytes. `None` unless that is a power of two from 4
    /// KiB to 16 MiB.
    #[must_use]
    pub fn new(chunk: u64) -> Option<Self> {
        let allowed = (4 << 10)..=(16 << 20);
        (chunk.is_power_of_two() && allowed.contains(&chunk)).then(|| Self {
            shift: chunk.trailing_zeros(),
        })
    }

    /// Returns the number of bytes in a whole chunk.
    #[must_use]
    pub fn chunk(self) -> u64 {
        1 << self.shift
    }

    /// Returns the chunk that holds the byte at `offset`.
    #[must_use]
    pub fn index(self, offset: u64) -> u32 {
        u32::try_from(offset >> self.shift).unwrap_or(u32::MAX)
    }

    /// Returns the first byte of chunk `index`.
    #[must_use]
    pub fn start(self, index: u32) -> u64 {
        u64::from(index) << self.shift
    }

    /// Returns the bytes of chunk `index` in an object of `size` bytes.
    #[must_use]
    pub fn bytes(self, index: u32, size: u64) -> ByteRange {
        let start = self.start(index).min(size);
        ByteRange {
            start,
            end: (start + self.chunk()).min(size),
        }
    }

    /// Returns the chunks that a range touches; none for an empty range.
    #[must_use]
    pub fn span(self, range: ByteRange) -> Range<u32> {
        if range.is_empty() {
            return 0..0;
        }
        self.index(range.start)..self.index(range.end - 1) + 1
    }

    /// Returns the number of chunks of an object of `size` bytes.
    #[must_use]
    pub fn count(self, size: u64) -> u32 {
        self.span(ByteRange {
            start: 0,
            end: size,
        })
        .end
    }
}

impl Default for Geometry {
    /// Returns chunks of 256 KiB, the default of `cache.chunk`.
    fn default() -> Self {
        Self { shift: 18 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_more_is_one_chunk_more() {
        let g = Geometry::new(4096).expect("a power of two");
        assert_eq!(
            [0, 1, 4095, 4096, 4097].map(|n| g.count(n)),
            [0, 1, 1, 1, 2]
        );
        assert_eq!(
            g.bytes(1, 4097),
            ByteRange {
                start: 4096,
                end: 4097
            }
        );
        assert_eq!(
            g.span(ByteRange {
                start: 4095,
                end: 4097
            }),
            0..2
        );
        assert_eq!(g.span(ByteRange { start: 10, end: 10 }), 0..0);
    }

    #[test]
    fn refuses_odd_sizes() {
        for bad in [0, 1, 2048, 3 << 12, 32 << 20] {
            assert_eq!(Geometry::new(bad), None, "{bad}");
        }
    }
}
