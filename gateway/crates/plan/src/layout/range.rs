//! Byte ranges: half-open in code, inclusive only in headers (RFC 9110, 14).

use std::fmt;
use std::ops::Range;

/// Bytes `start..end` of an object. Half-open; empty when `start == end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

impl ByteRange {
    /// Returns `start..end`; an `end` before `start` is raised to it.
    #[must_use]
    pub fn new(start: u64, end: u64) -> Self {
        Self {
            start,
            end: end.max(start),
        }
    }

    /// Returns the number of bytes in the range.
    #[must_use]
    pub fn len(self) -> u64 {
        self.end - self.start
    }

    /// Returns whether the range has no bytes.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Returns its position in bytes that begin at `offset`, which must not be after its start.
    #[must_use]
    pub fn within(self, offset: u64) -> Range<usize> {
        let at = |at: u64| usize::try_from(at - offset).unwrap_or(usize::MAX);
        at(self.start)..at(self.end)
    }

    /// Returns the common bytes of both ranges, if any.
    #[must_use]
    pub fn intersect(self, other: Self) -> Option<Self> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some(Self { start, end })
    }
}

/// A requested range, before the size is known (RFC 9110, 14.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RangeSpec {
    /// `bytes=first-last`, inclusive as in the header.
    Bounded {
        /// The first requested byte.
        first: u64,
        /// The last requested byte.
        last: u64,
    },
    /// `bytes=first-`: the bytes from `first` to the end.
    From(u64),
    /// `bytes=-length`: the last bytes.
    Suffix(u64),
}

impl RangeSpec {
    /// Returns the requested bytes of an object of `size` bytes; `None` if unsatisfiable (RFC 9110,
    /// 14.1.2).
    #[must_use]
    pub fn resolve(self, size: u64) -> Option<ByteRange> {
        match self {
            Self::Bounded { first, last } => (first <= last && first < size).then(|| ByteRange {
                start: first,
                end: last.saturating_add(1).min(size),
            }),
            Self::From(first) => (first < size).then_some(ByteRange {
                start: first,
                end: size,
            }),
            Self::Suffix(length) => (length > 0 && size > 0).then(|| ByteRange {
                start: size.saturating_sub(length),
                end: size,
            }),
        }
    }
}

impl fmt::Display for RangeSpec {
    /// Writes the range as in a `Range` header, without the unit's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bounded { first, last } => write!(f, "{first}-{last}"),
            Self::From(first) => write!(f, "{first}-"),
            Self::Suffix(length) => write!(f, "-{length}"),
        }
    }
}

#[cfg(test)]
mod tests;
