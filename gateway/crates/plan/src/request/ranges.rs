//! The `Range` header: from its text to the bytes to send (RFC 9110, 14.1.1 to 14.2).
//!
//! A header that is malformed, of another unit or unreasonably long is ignored, as RFC 9110, 14.2
//! allows. The client then gets the whole object.

use crate::{ByteRange, RangeSpec};

/// The most ranges of one request; a header with more is ignored. Players and PDF viewers send one
/// or two. Long lists are an attack that makes servers work for nothing (RFC 9110, 17.15).
pub const MAX_RANGES: usize = 32;

/// A valid `Range` header: at least one range, in the requested order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranges(Vec<RangeSpec>);

/// The bytes of the requested [`Ranges`] in an object of a known size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// No byte: 416.
    Unsatisfiable,
    /// One piece: 206 with `Content-Range`.
    Single(ByteRange),
    /// Several pieces, at least two, disjoint and not adjacent: 206 as `multipart/byteranges`.
    Several(Vec<ByteRange>),
}

impl Ranges {
    /// Reads the value of a `Range` header; `None` if it must be ignored.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let (unit, set) = value.split_once('=')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        let mut specs = Vec::with_capacity(1);
        // RFC 9110, 5.6.1.2 allows empty list elements.
        for text in set.split(',').map(trim).filter(|text| !text.is_empty()) {
            if specs.len() == MAX_RANGES {
                return None;
            }
            specs.push(spec(text)?);
        }
        (!specs.is_empty()).then_some(Self(specs))
    }

    /// Returns the range that the answer will begin with, before the size is known.
    #[must_use]
    pub fn first(&self) -> RangeSpec {
        self.0[0]
    }

    /// Returns the bytes to send of an object of `size` bytes.
    ///
    /// Ranges that overlap or touch become one (RFC 9110, 15.3.7.2). Pieces keep the requested
    /// order; a merged piece takes the place of its first part.
    #[must_use]
    pub fn select(&self, size: u64) -> Selection {
        let found: Vec<_> = self.0.iter().filter_map(|s| s.resolve(size)).collect();
        match found[..] {
            [] => Selection::Unsatisfiable,
            [one] => Selection::Single(one),
            _ => coalesce(found),
        }
    }
}

fn coalesce(found: Vec<ByteRange>) -> Selection {
    let mut ordered: Vec<(usize, ByteRange)> = found.into_iter().enumerate().collect();
    ordered.sort_by_key(|(_, range)| range.start);
    let mut merged: Vec<(usize, ByteRange)> = Vec::with_capacity(ordered.len());
    for (place, range) in ordered {
        match merged.last_mut() {
            Some((first, last)) if range.start <= last.end => {
                *first = place.min(*first);
                last.end = last.end.max(range.end);
            }
            _ => merged.push((place, range)),
        }
    }
    merged.sort_by_key(|(place, _)| *place);
    match merged[..] {
        [(_, one)] => Selection::Single(one),
        _ => Selection::Several(merged.into_iter().map(|(_, range)| range).collect()),
    }
}

/// Parses one `int-range` or `suffix-range`. A last byte before the first makes the header invalid.
fn spec(text: &str) -> Option<RangeSpec> {
    let (first, last) = text.split_once('-')?;
    match (first, last) {
        ("", last) => Some(RangeSpec::Suffix(number(last)?)),
        (first, "") => Some(RangeSpec::From(number(first)?)),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(RangeSpec::Bounded { first, last })
        }
    }
}

/// Parses `1*DIGIT`; numbers beyond any object's size count as the largest.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

#[cfg(test)]
mod tests;
