//! A set of bytes, as ranges that neither touch nor overlap.

use std::collections::BTreeMap;

use crate::ByteRange;

/// A set of byte positions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extents {
    /// Ends by starts.
    ranges: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Extents {
    /// Returns the number of bytes in the set.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = ByteRange> + '_ {
        self.ranges.iter().map(|(s, e)| ByteRange::new(*s, *e))
    }

    /// Adds a range; returns how many of its bytes are new.
    pub fn insert(&mut self, range: ByteRange) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let (mut start, mut end, mut held) = (range.start, range.end, 0);
        // Ranges that only touch this one are merged too.
        let met: Vec<_> = self
            .ranges
            .range(..=range.end)
            .rev()
            .take_while(|(_, e)| **e >= range.start)
            .map(|(s, e)| (*s, *e))
            .collect();
        for (s, e) in met {
            self.ranges.remove(&s);
            (start, end, held) = (start.min(s), end.max(e), held + (e - s));
        }
        self.ranges.insert(start, end);
        let new = (end - start) - held;
        self.bytes += new;
        new
    }

    /// Removes a range; returns how many bytes were in the set.
    pub fn remove(&mut self, range: ByteRange) -> u64 {
        let met: Vec<_> = self.within(range).collect();
        let mut gone = 0;
        for cut in met {
            let (start, end) = self.range_around(cut.start);
            self.ranges.remove(&start);
            if start < cut.start {
                self.ranges.insert(start, cut.start);
            }
            if cut.end < end {
                self.ranges.insert(cut.end, end);
            }
            gone += cut.len();
        }
        self.bytes -= gone;
        gone
    }

    /// Returns the parts of `range` that are in the set, in order.
    pub fn within(&self, range: ByteRange) -> impl Iterator<Item = ByteRange> + '_ {
        let first = self.ranges.range(..=range.start).next_back();
        let first = first
            .map(|(s, e)| (*s, *e))
            .filter(|(s, _)| *s < range.start);
        let rest = self.ranges.range(range.start..range.end.max(range.start));
        let all = first.into_iter().chain(rest.map(|(s, e)| (*s, *e)));
        all.filter_map(move |(s, e)| ByteRange::new(s, e).intersect(range))
    }

    /// Returns the parts of `range` that are not in the set, in order.
    pub fn gaps(&self, range: ByteRange) -> Vec<ByteRange> {
        let (mut at, mut gaps) = (range.start, Vec::new());
        for held in self.within(range) {
            gaps.push(ByteRange::new(at, held.start));
            at = held.end;
        }
        gaps.push(ByteRange::new(at, range.end));
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }

    /// Returns whether all of `range` is in the set.
    #[must_use]
    pub fn covers(&self, range: ByteRange) -> bool {
        self.gaps(range).is_empty()
    }

    /// Returns the range that holds `at`, a byte known to be in the set.
    fn range_around(&self, at: u64) -> (u64, u64) {
        let found = self.ranges.range(..=at).next_back();
        let (start, end) = found.expect("the byte is in the set");
        (*start, *end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LENGTH: usize = 40;

    fn range() -> impl Strategy<Value = ByteRange> {
        (0..LENGTH as u64, 0..LENGTH as u64).prop_map(|(a, b)| ByteRange::new(a.min(b), a.max(b)))
    }

    proptest! {
        /// Compares with an array of one flag a byte.
        #[test]
        fn is_a_set_of_bytes(steps in prop::collection::vec((any::<bool>(), range()), 1..30), look in range()) {
            let (mut set, mut flags) = (Extents::default(), [false; LENGTH]);
            for (insert, range) in steps {
                let bytes = range.start as usize..range.end as usize;
                let differ = flags[bytes.clone()].iter().filter(|flag| **flag != insert).count();
                let changed = if insert { set.insert(range) } else { set.remove(range) };
                prop_assert_eq!(changed, differ as u64);
                flags[bytes].fill(insert);
            }
            prop_assert_eq!(set.bytes(), flags.iter().filter(|flag| **flag).count() as u64);
            let spread = |ranges: Vec<ByteRange>| -> Vec<u64> {
                ranges.into_iter().flat_map(|range| range.start..range.end).collect()
            };
            let truth = |wanted: bool, within: ByteRange| -> Vec<u64> {
                (within.start..within.end).filter(|at| flags[*at as usize] == wanted).collect()
            };
            let all = ByteRange::new(0, LENGTH as u64);
            prop_assert_eq!(spread(set.iter().collect()), truth(true, all));
            prop_assert_eq!(spread(set.within(look).collect()), truth(true, look));
            prop_assert_eq!(spread(set.gaps(look)), truth(false, look));
            prop_assert_eq!(set.covers(look), truth(false, look).is_empty());
            // Neighbours are merged.
            let ranges: Vec<_> = set.iter().collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
