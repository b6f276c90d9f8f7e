//! A base that grows, because the object continues with bytes of another one, and that is given up, once the spool has
//! its bytes.

use super::{ByteSource, Draft};
use crate::ByteRange;

impl Draft {
    /// Continues the object with the base's bytes at the same offsets, up to `end`. Returns whether it did: only if the
    /// object ends where the base's bytes end.
    pub fn extend_base(&mut self, end: u64) -> bool {
        let last = self.sizes.index(self.size.saturating_sub(1));
        if self.size != self.base || end < self.base || self.is_evicted(last) {
            return false;
        }
        // Of a part that becomes longer, no job and no sent state counts: both have its length.
        (self.base, self.size) = (end, end);
        true
    }

    /// Returns the first range of a range whose bytes only the base has.
    #[must_use]
    pub fn first_of_base(&self, range: ByteRange) -> Option<ByteRange> {
        let range = range.intersect(ByteRange::new(0, self.base))?;
        let mut sources = self.sources(range).into_iter();
        sources.find_map(|(range, from)| (from == ByteSource::Base).then_some(range))
    }

    /// Gives up the base, whose bytes are all in the spool. Its parts are sent like written ones.
    pub fn forget_base(&mut self) {
        let base = ByteRange::new(0, self.base);
        debug_assert!(self.first_of_base(base).is_none(), "those are lost");
        if !base.is_empty() {
            for index in self.sizes.span(base) {
                if self.is_clean(index) {
                    self.change(index);
                }
            }
        }
        self.base = 0;
    }
}
