//! The trail of an open object's readers: how far they have come in sequence.
//!
//! Each read of a mount is a reader of its own, and those that memory serves make no cursor. The trail tells the first one
//! that finds a chunk missing what was read before it, so that its cursor begins with that sequence.

use std::sync::Mutex;

use tidegate_plan::ByteRange;
use tidegate_plan::readahead::MAX_HEADER;
use tidegate_telemetry::locks::Recover as _;

/// The latest sequence of reads.
#[derive(Debug, Default)]
pub(crate) struct Trail(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    start: u64,
    next: u64,
    /// The place of a first read that continued what lies before it, until that was told.
    joined: Option<u64>,
}

impl Trail {
    /// Records that a reader begins to read `range`. Returns the beginning of the sequence that this continues: that of
    /// the range, if it continues none. The first one continues what lies before it, if that `is_known`.
    ///
    /// Reads of a kernel come side by side, so one may begin a little before the end of another. One that goes back further
    /// is a seek, and has proved nothing of what comes next.
    pub(crate) fn follow(&self, range: ByteRange, is_known: impl FnOnce() -> bool) -> u64 {
        let mut state = self.0.lock().recover();
        let back = state.next.checked_sub(range.start);
        let goes_on = back.is_some_and(|back| back <= MAX_HEADER);
        if goes_on && state.start <= range.start && state.next > 0 {
            state.next = state.next.max(range.end);
        } else if state.next == 0 && range.start > 0 && is_known() {
            *state = State {
                start: 0,
                next: range.end,
                joined: Some(range.start),
            };
        } else {
            (state.start, state.next) = (range.start, range.end);
        }
        state.start
    }

    /// Returns whether the read at `start` was the first, and continued what lies before it. It does so once.
    pub(crate) fn take_joined(&self, start: u64) -> bool {
        let mut state = self.0.lock().recover();
        state.joined.take_if(|joined| *joined == start).is_some()
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
    fn a_read_far_back_is_no_part_of_the_trail() {
        let trail = Trail::default();
        let follow = |start| trail.follow(ByteRange::new(start, start + 1024), || true);
        let far = 100 << 20;
        for start in (0..=far).step_by(1024) {
            assert_eq!(follow(start), 0);
        }
        assert_eq!(follow(far - MAX_HEADER / 2), 0, "beside the others");
        let back = far / 2;
        assert_eq!(follow(back), back);
        assert_eq!(follow(back + 1024), back);
    }

    #[test]
    fn the_first_read_goes_on_from_what_is_known() {
        let range = ByteRange::new(128, 256);
        let known = Trail::default();
        assert_eq!(known.follow(range, || true), 0);
        assert!(!known.take_joined(256) && known.take_joined(128) && !known.take_joined(128));
        let trail = Trail::default();
        assert_eq!(trail.follow(range, || false), 128);
        let later = ByteRange::new(300, 400);
        assert_eq!(trail.follow(later, || true), 300, "only the first");
    }
}
