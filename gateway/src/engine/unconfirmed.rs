//! Versions that are known from the answer to a write alone.
//!
//! Such an answer has the version's ETag and no `Last-Modified`; the store's `Date` and the time that the
//! request took say between which moments the store wrote the object. The first confirmation (304) tells
//! the time. If it lies between those moments it is the write's own; a later one says that the object's
//! headers were mended since, and that they must be asked for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::plan::{ETag, Timestamp, Version, VersionId};
use crate::store::Record;

/// The versions in a generation; there are two. Of one that is forgotten the first confirmation costs a HEAD.
const GENERATION: usize = 1 << 14;

/// What the clocks of one store may differ by, and what is cut off in whole seconds.
const SLACK: Duration = Duration::from_secs(2);

/// The moments between which a store wrote an object, by its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriteSpan {
    /// The `Date` of the answer.
    pub(super) answered: Timestamp,
    /// How long the request took.
    pub(super) took: Duration,
}

impl WriteSpan {
    fn covers(self, time: Timestamp) -> bool {
        let is_late = time > self.answered.plus(SLACK);
        let is_early = time.plus(self.took).plus(SLACK) < self.answered;
        !is_late && !is_early
    }
}

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Unconfirmed(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<VersionId, WriteSpan>,
    old: HashMap<VersionId, WriteSpan>,
}

impl Unconfirmed {
    fn lock(&self) -> MutexGuard<'_, Generations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes when the store wrote a version.
    pub(super) fn note(&self, id: VersionId, written: WriteSpan) {
        let mut all = self.lock();
        if all.young.len() >= GENERATION {
            all.old = std::mem::take(&mut all.young);
        }
        all.young.insert(id, written);
    }

    /// The version of a record as a store tells it that says when it was modified: itself, or with that time where
    /// a write alone had told it. `None`: its headers may have been mended since.
    pub(super) fn dated(&self, record: &Record, told: Timestamp) -> Option<Arc<Version>> {
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

    /// The version of a record as a listing shows it: the same bytes (ETag, size) with the same headers, as far as
    /// `told`, the listing's time, says. `None`: it shows another version, or headers that may have been mended since.
    pub(super) fn listed(
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

    /// Whether `time` is the version's own `Last-Modified`: its headers are those that were sent then.
    fn explains(&self, id: VersionId, time: Timestamp) -> bool {
        let all = self.lock();
        let written = all.young.get(&id).or_else(|| all.old.get(&id));
        written.is_some_and(|written| written.covers(time))
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
        let count = 3 * GENERATION as u128;
        (0..count).for_each(|id| all.note(VersionId(id), written));
        let held = {
            let all = all.lock();
            all.young.len() + all.old.len()
        };
        assert!(held <= 2 * GENERATION);
        assert!(!all.explains(VersionId(0), Timestamp(0)));
        assert!(all.explains(VersionId(count - 1), Timestamp(0)));
    }
}
