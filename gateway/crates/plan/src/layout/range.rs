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
mod tests {
    use super::*;

    #[test]
    fn a_range_has_a_position_in_later_bytes() {
        let range = ByteRange::new(5, 9);
        assert_eq!(range.within(3), 2..6);
        assert_eq!(range.within(5), 0..4);
        assert_eq!(ByteRange::new(9, 5), ByteRange::new(9, 9));
        assert!(ByteRange::new(9, 5).is_empty() && !range.is_empty());
    }

    #[test]
    fn ranges_that_only_touch_have_nothing_in_common() {
        let range = ByteRange::new(5, 9);
        assert_eq!(range.intersect(ByteRange::new(9, 12)), None);
        assert_eq!(
            range.intersect(ByteRange::new(8, 12)),
            Some(ByteRange::new(8, 9))
        );
        assert_eq!(range.intersect(ByteRange::new(0, 20)), Some(range));
    }

    #[test]
    fn a_requested_range_is_written_as_in_the_header_and_resolved_by_the_size() {
        let rows = [
            (
                RangeSpec::Bounded { first: 2, last: 4 },
                "2-4",
                Some((2, 5)),
            ),
            (
                RangeSpec::Bounded { first: 9, last: 20 },
                "9-20",
                Some((9, 10)),
            ),
            (RangeSpec::Bounded { first: 4, last: 2 }, "4-2", None),
            (
                RangeSpec::Bounded {
                    first: 10,
                    last: 10,
                },
                "10-10",
                None,
            ),
            (RangeSpec::From(9), "9-", Some((9, 10))),
            (RangeSpec::From(10), "10-", None),
            (RangeSpec::Suffix(3), "-3", Some((7, 10))),
            (RangeSpec::Suffix(30), "-30", Some((0, 10))),
            (RangeSpec::Suffix(0), "-0", None),
        ];
        for (spec, text, bytes) in rows {
            assert_eq!(spec.to_string(), text);
            let bytes = bytes.map(|(start, end)| ByteRange { start, end });
            assert_eq!(spec.resolve(10), bytes, "{text}");
        }
    }
}
