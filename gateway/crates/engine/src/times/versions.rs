//! The times and attributes of versions, as the table and their own headers tell them.

use std::sync::Arc;

use super::{KnownAttributes, MIN_STEP, Times};
use crate::Core;
use crate::names::Facts;
use tidegate_cache::Entry;
use tidegate_plan::attributes::Attributes;
use tidegate_plan::{ObjectId, Timestamp, Version};

impl Core {
    /// Returns the facts of an object of a known version.
    pub fn facts(&self, id: &ObjectId, version: &Arc<Version>) -> Facts {
        let place = (id.origin, id.key.as_str());
        let stored = version.last_modified;
        let shown = self.times.times_of(place, Some(&version.etag), stored);
        let attributes = match shown.attributes {
            KnownAttributes::Pending(pending) => pending,
            _ => {
                let found = Attributes::of(&version.headers);
                self.times.learn(id, version, shown, found);
                found
            }
        };
        Facts {
            size: version.size,
            modified: shown.modified,
            changed: shown.changed,
            attributes: Some(attributes),
            etag: Some(version.etag.clone()),
            version: Some(version.clone()),
        }
    }

    /// Returns the facts of a version whose headers are not known.
    pub fn listed_facts(&self, id: &ObjectId, version: &Version) -> Facts {
        let place = (id.origin, id.key.as_str());
        let stored = version.last_modified;
        let shown = self.times.times_of(place, Some(&version.etag), stored);
        Facts {
            size: version.size,
            modified: shown.modified,
            changed: shown.changed,
            attributes: shown.attributes.get(),
            etag: Some(version.etag.clone()),
            version: None,
        }
    }

    /// Returns the times of a draft before its first write: those of its base, or now.
    pub fn times_of_draft(&self, id: &ObjectId, base: Option<&Version>) -> Times {
        let Some(base) = base else {
            return Times::at(self.next_time(id));
        };
        let place = (id.origin, id.key.as_str());
        let shown = self
            .times
            .times_of(place, Some(&base.etag), base.last_modified);
        let now = self.now();
        Times {
            modified: shown.modified.unwrap_or(now),
            changed: shown.changed.unwrap_or(now),
        }
    }

    /// Returns the times of an object under a new name; the time of its content stays.
    pub fn times_of_moved(&self, from: &ObjectId, version: &Version, to: &ObjectId) -> Times {
        let before = self.times_of_draft(from, Some(version));
        Times {
            modified: before.modified,
            changed: before.changed.max(self.next_time(to)),
        }
    }

    /// Returns the current time, but later than any known time of this key. A clock that is behind
    /// the bucket's, or was set back, does not decrease a file's times.
    pub fn next_time(&self, id: &ObjectId) -> Timestamp {
        let (known, now) = (self.last_time(id), self.now());
        known.map_or(now, |known| now.max(known.plus(MIN_STEP)))
    }

    /// Returns the last known time of a key.
    fn last_time(&self, id: &ObjectId) -> Option<Timestamp> {
        let stored = match self.meta.peek(id) {
            Some(Entry::Present(record)) => record.version.last_modified,
            _ => None,
        };
        let listed = self.names.changed(id.origin, id.key.as_str());
        self.times.changed(id).max(stored).max(listed)
    }

    /// Forgets the times of an object that is being deleted, or was written without the spool. The
    /// next version has the bucket's time, even with the same ETag. Call this while the old version
    /// is known.
    pub fn forget_times(&self, id: &ObjectId) {
        let now = self.now();
        let ahead = self.last_time(id).filter(|known| *known > now);
        self.times.forget(id, ahead);
    }
}
