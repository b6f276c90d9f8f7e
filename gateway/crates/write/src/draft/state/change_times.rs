//! The times of a draft's changes, and their number.

use tidegate_engine::times::{Times, following};
use tidegate_plan::Timestamp;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct ChangeTimes {
    /// The time of the last write; before the first one, the times of its base.
    times: Times,
    /// The time of the oldest write that is not in the bucket, while it is unpublished.
    unsent_since: Timestamp,
    /// Changes with every write and every changed header.
    revision: u64,
}

impl ChangeTimes {
    pub(super) fn new(times: Times) -> Self {
        Self {
            times,
            unsent_since: times.changed,
            revision: 0,
        }
    }

    pub(super) fn times(&self) -> Times {
        self.times
    }

    pub(super) fn unsent_since(&self) -> Timestamp {
        self.unsent_since
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the time of the last write that is not in the bucket, if there is one.
    pub(super) fn unsent_write(&self) -> Option<Timestamp> {
        let modified = self.times.modified;
        (modified >= self.unsent_since).then_some(modified)
    }

    /// Notes that something changes.
    pub(super) fn count(&mut self) {
        self.revision += 1;
    }

    /// Notes a changed header; `is_dirty`: not the first change that the bucket lacks.
    pub(super) fn change(&mut self, now: Timestamp, is_dirty: bool) {
        self.times.changed = following(now, self.times.changed, is_dirty);
        if !is_dirty {
            self.unsent_since = now;
        }
    }

    /// Notes that the last change was one of the content.
    pub(super) fn note_content(&mut self) {
        self.times.modified = self.times.changed;
    }

    /// Notes another name: the content's time stays.
    pub(super) fn rename(&mut self, now: Timestamp) {
        self.times.changed = following(now, self.times.changed, true);
    }
}
