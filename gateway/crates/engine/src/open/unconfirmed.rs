//! Versions that are known only from the answer to a write.
//!
//! Such an answer has the version's ETag and no `Last-Modified`. The store's `Date` and the
//! duration of the request bound the time at which the store wrote the object. The first
//! confirmation (304) has the exact time. A time within the bounds is the write's own. A later one
//! means that the object's headers were changed since, and must be requested.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::Core;
use tidegate_cache::Record;
use tidegate_plan::{ETag, Generations, Timestamp, Version, VersionId};
use tidegate_telemetry::locks::Recover as _;

/// The maximum number of versions in a generation; there are two. The first confirmation of a
/// forgotten version costs a HEAD.
const MAX_GENERATION: usize = 1 << 14;

/// The tolerance for differing clocks within one store, and for the rounding to whole seconds.
const CLOCK_SLACK: Duration = Duration::from_secs(2);

/// The bounds of the time at which a store wrote an object, by its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteSpan {
    /// The `Date` of the answer.
    pub(crate) answered: Timestamp,
    /// The duration of the request.
    pub(crate) took: Duration,
}

impl WriteSpan {
    fn covers(self, time: Timestamp) -> bool {
        let is_late = time > self.answered.plus(CLOCK_SLACK);
        let is_early = time.plus(self.took).plus(CLOCK_SLACK) < self.answered;
        !is_late && !is_early
    }
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Unconfirmed(Mutex<WriteSpans>);

type WriteSpans = Generations<VersionId, WriteSpan>;

impl Default for Unconfirmed {
    fn default() -> Self {
        Self(Mutex::new(Generations::new(MAX_GENERATION)))
    }
}

impl Unconfirmed {
    fn lock(&self) -> MutexGuard<'_, WriteSpans> {
        self.0.lock().recover()
    }

    /// Notes the time at which the store wrote a version.
    pub(crate) fn note(&self, id: VersionId, written: WriteSpan) {
        self.lock().insert(id, written);
    }

    /// Returns the version of a record if the store's `told` time fits it. Adds the time if the
    /// version is known only from its write. `None`: its headers may have been changed since.
    pub(crate) fn dated(&self, record: &Record, told: Timestamp) -> Option<Arc<Version>> {
        let version = &record.version;
        match version.last_modified {
            Some(known) => (known == told).then(|| version.clone()),
            None if self.explains(record.id, told) => Some(Arc::new(Version {
                last_modified: Some(told),
                ..Version::clone(version)
            })),
            None => None,
        }
    }

    /// Returns the version of a record if a listing shows the same one: the same ETag and size, and
    /// a time `told` that fits. `None`: it is another version, or its headers may have been changed
    /// since.
    pub(crate) fn confirm_listed(
        &self,
        record: &Record,
        etag: Option<&ETag>,
        size: u64,
        told: Timestamp,
    ) -> Option<Arc<Version>> {
        let known = &record.version;
        let is_same = known.size == size && etag?.strong_eq(&known.etag);
        is_same.then(|| self.dated(record, told)).flatten()
    }

    /// Returns whether an event at `time` reports the write that made a version here, which the bucket has not confirmed
    /// yet.
    pub(crate) fn explains_event(&self, record: &Record, time: Option<Timestamp>) -> bool {
        let is_young = record.version.last_modified.is_none();
        is_young && time.is_some_and(|time| self.explains(record.id, time))
    }

    /// Returns whether `time` is the version's own `Last-Modified`: its headers are those of the
    /// write.
    fn explains(&self, id: VersionId, time: Timestamp) -> bool {
        let all = self.lock();
        all.get(&id).is_some_and(|written| written.covers(time))
    }
}

impl Core {
    /// Returns the version of a record if a listing shows the same one: see [`Unconfirmed::confirm_listed`].
    pub fn confirmed_by(
        &self,
        record: &Record,
        etag: Option<&ETag>,
        size: u64,
        told: Timestamp,
    ) -> Option<Arc<Version>> {
        self.unconfirmed.confirm_listed(record, etag, size, told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_writes_own_between_its_beginning_and_its_answer() {
        let all = Unconfirmed::default();
        let written = WriteSpan {
            answered: Timestamp(100_000),
            took: Duration::from_secs(10),
        };
        all.note(VersionId(1), written);
        for (time, own) in [
            (87_000, false),
            (88_000, true),
            (95_000, true),
            (102_000, true),
            (103_000, false),
        ] {
            let explained = all.explains(VersionId(1), Timestamp(time));
            assert_eq!(explained, own, "{time}");
        }
        assert!(!all.explains(VersionId(2), Timestamp(100_000)));
    }

    #[test]
    fn it_is_bounded_and_forgets_the_oldest() {
        let all = Unconfirmed::default();
        let written = WriteSpan {
            answered: Timestamp(0),
            took: Duration::ZERO,
        };
        let count = 3 * MAX_GENERATION as u128;
        (0..count).for_each(|id| all.note(VersionId(id), written));
        assert!(all.lock().len() <= 2 * MAX_GENERATION);
        assert!(!all.explains(VersionId(0), Timestamp(0)));
        assert!(all.explains(VersionId(count - 1), Timestamp(0)));
    }
}
