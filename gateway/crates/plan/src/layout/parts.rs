//! The division of a written object into parts.
//!
//! The final size is unknown while an object is written, so a part's offset follows from its number alone. Sizes begin
//! small, so that sending begins early, and double after every [`PARTS_PER_SIZE`] parts up to the 64-fold. From 16 MiB
//! on, 10,000 parts reach beyond 5 TiB: the most parts and the largest object that S3 allows (S3 user guide, "Multipart
//! upload limits"). That is 14 GiB in parts of 16 MiB, 42 GiB with those of 32 MiB, 98 GiB with those of 64 MiB, and
//! the largest parts have 1 GiB.

use crate::ByteRange;

/// The number of parts of one size.
const PARTS_PER_SIZE: u64 = 900;

/// The number of times that the size doubles.
const MAX_DOUBLINGS: u64 = 6;

/// The largest number of parts of an upload.
pub const MAX_PARTS: u32 = 10_000;

/// The size of the largest object, in bytes.
pub const MAX_OBJECT: u64 = 5 << 40;

/// The sizes of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartSizes {
    first: u64,
    tier: u64,
}

impl PartSizes {
    /// Creates sizes that begin with `first` bytes, at least one. Tests use small ones; S3 requires 5 MiB.
    #[must_use]
    pub fn new(first: u64) -> Self {
        Self {
            first: first.max(1),
            tier: PARTS_PER_SIZE,
        }
    }

    /// Returns the same with sizes that double after `tier` parts.
    #[must_use]
    pub fn doubling_after(self, tier: u64) -> Self {
        Self {
            tier: tier.max(1),
            ..self
        }
    }

    /// Returns the size of the first part in bytes.
    #[must_use]
    pub fn first(self) -> u64 {
        self.first
    }

    /// Returns the first byte of part `index`, counted from 0.
    #[must_use]
    pub fn start(self, index: u32) -> u64 {
        let index = u64::from(index);
        let tier = (index / self.tier).min(MAX_DOUBLINGS);
        let before = self.first * self.tier * ((1 << tier) - 1);
        before + (index - tier * self.tier) * (self.first << tier)
    }

    /// Returns the bytes of part `index` in an object of `size` bytes; none beyond its end.
    #[must_use]
    pub fn range(self, index: u32, size: u64) -> ByteRange {
        ByteRange::new(self.start(index).min(size), self.start(index + 1).min(size))
    }

    /// Returns the part that holds the byte at `offset`.
    #[must_use]
    pub fn index(self, offset: u64) -> u32 {
        let mut tier = 0;
        while tier < MAX_DOUBLINGS && offset >= self.first * self.tier * ((1 << (tier + 1)) - 1) {
            tier += 1;
        }
        let before = self.first * self.tier * ((1 << tier) - 1);
        let index = tier * self.tier + (offset - before) / (self.first << tier);
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// Returns the parts that a range touches.
    #[must_use]
    pub fn span(self, range: ByteRange) -> std::ops::Range<u32> {
        if range.is_empty() {
            return 0..0;
        }
        self.index(range.start)..self.index(range.end - 1) + 1
    }

    /// Returns the number of parts of an object of `size` bytes.
    #[must_use]
    pub fn count(self, size: u64) -> u32 {
        self.span(ByteRange::new(0, size)).end
    }
}

impl Default for PartSizes {
    /// Begins with 16 MiB. A round trip of 20 ms costs little beside the transfer of such a part, and the first part is
    /// on its way after a tenth of a second.
    fn default() -> Self {
        Self::new(16 << 20)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_largest_object_fits_into_one_upload() {
        let sizes = PartSizes::default();
        assert!(
            sizes.count(MAX_OBJECT) <= MAX_PARTS,
            "{}",
            sizes.count(MAX_OBJECT)
        );
        let largest = sizes.range(MAX_PARTS - 1, u64::MAX).len();
        assert_eq!(largest, 1 << 30);
        assert_eq!(sizes.start(900), 900 * (16 << 20));
        assert_eq!(sizes.range(900, u64::MAX).len(), 32 << 20);
    }

    proptest! {
        #[test]
        fn parts_lie_side_by_side(first in 1..100_u64, tier in 1..20_u64, index in 0..400_u32, size: u16) {
            let sizes = PartSizes::new(first).doubling_after(tier);
            let range = sizes.range(index, u64::MAX);
            prop_assert_eq!(sizes.start(index + 1), range.end);
            prop_assert_eq!(sizes.index(range.start), index);
            prop_assert_eq!(sizes.index(range.end - 1), index);
            let size = u64::from(size);
            let whole: u64 = (0..sizes.count(size)).map(|n| sizes.range(n, size).len()).sum();
            prop_assert_eq!(whole, size);
        }
    }
}
