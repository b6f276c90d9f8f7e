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
    /// The place of a first read that continued what lies before it.
    joined: AtomicU64,
}

impl Trail {
    /// Records that a reader begins to read `range`. Returns the beginning of the sequence that this continues: that of
    /// the range, if it continues none. The first one continues what lies before it, if that `is_known`.
    pub(crate) fn follow(&self, range: ByteRange, is_known: impl FnOnce() -> bool) -> u64 {
        let load = |at: &AtomicU64| at.load(Ordering::Relaxed);
        let (start, next) = (load(&self.start), load(&self.next));
        let (start, next) = match start <= range.start && range.start <= next {
            true => (start, next.max(range.end)),
            false if next == 0 && is_known() => {
                self.joined.store(range.start, Ordering::Relaxed);
                (0, range.end)
            }
            false => (range.start, range.end),
        };
        self.start.store(start, Ordering::Relaxed);
        self.next.store(next, Ordering::Relaxed);
        start
    }
}

impl Trail {
    /// Returns whether the read at `start` was the first, and continued what lies before it.
    pub(crate) fn has_joined(&self, start: u64) -> bool {
        start > 0 && self.joined.load(Ordering::Relaxed) == start
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
            let found = trail.follow(ByteRange::new(start, end), || true);
            assert_eq!(found, from, "{start}..{end}");
        }
    }

    #[test]
    fn the_first_read_goes_on_from_what_is_known() {
        let range = ByteRange::new(128, 256);
        let known = Trail::default();
        assert_eq!(known.follow(range, || true), 0);
        assert!(known.has_joined(128) && !known.has_joined(256));
        let trail = Trail::default();
        assert_eq!(trail.follow(range, || false), 128);
        let later = ByteRange::new(300, 400);
        assert_eq!(trail.follow(later, || true), 300, "only the first");
    }
}
