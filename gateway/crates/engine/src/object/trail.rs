//! The trail of an open object's readers: how far they have come in sequence.
//!
//! Each read of a mount is a reader of its own, and those that memory serves make no cursor. The trail tells the first one
//! that finds a chunk missing what was read before it, so that its cursor begins with that sequence.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_plan::ByteRange;

/// The latest sequence of reads. Reads at the same time may lose it, which costs a request.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    start: AtomicU64,
    next: AtomicU64,
}

impl Trail {
    /// Records that a reader begins to read `range`. Returns the beginning of the sequence that this continues: that of
    /// the range, if it continues none.
    pub(crate) fn follow(&self, range: ByteRange) -> u64 {
        let (start, next) = (
            self.start.load(Ordering::Relaxed),
            self.next.load(Ordering::Relaxed),
        );
        let (start, next) = match start <= range.start && range.start <= next {
            true => (start, next.max(range.end)),
            false => (range.start, range.end),
        };
        self.start.store(start, Ordering::Relaxed);
        self.next.store(next, Ordering::Relaxed);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_follow_each_other_are_one_trail() {
        let trail = Trail::default();
        for (start, end, from) in [
            (0, 128, 0),
            (128, 256, 0),
            (192, 224, 0),
            (256, 384, 0),
            (400, 500, 400),
            (500, 600, 400),
            (0, 10, 0),
        ] {
            assert_eq!(
                trail.follow(ByteRange::new(start, end)),
                from,
                "{start}..{end}"
            );
        }
    }
}
