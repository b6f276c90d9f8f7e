//! Versions that are known only from the answer to a write.
//!
//! Such an answer has the version's ETag and no `Last-Modified`. The store's `Date` and the
//! duration of the request bound the time at which the store wrote the object; the record keeps
//! them. The first confirmation (304) has the exact time. A time within the bounds is the write's
//! own. A later one means that the object's headers were changed since, and must be requested.

use std::sync::Arc;
use std::time::Duration;

use crate::Core;
use tidegate_cache::{Record, WriteSpan};
use tidegate_plan::{ETag, Timestamp, Version};

/// The tolerance for differing clocks within one store, and for the rounding to whole seconds.
const CLOCK_SLACK: Duration = Duration::from_secs(2);

/// Returns whether `time` may be that of the write: then its headers are the object's.
fn covers(written: WriteSpan, time: Timestamp) -> bool {
    let is_late = time > written.answered.plus(CLOCK_SLACK);
    let is_early = time.plus(written.took).plus(CLOCK_SLACK) < written.answered;
    !is_late && !is_early
}

/// Returns the version of a record if the store's `told` time fits it. Adds the time if the
/// version is known only from its write. `None`: its headers may have been changed since, or the time would change the
/// address of its bytes.
pub(crate) fn dated(record: &Record, told: Timestamp) -> Option<Arc<Version>> {
    let version = &record.version;
    match version.last_modified {
        Some(known) => (known == told).then(|| version.clone()),
        None if !version.etag.is_weak() && covers(record.written?, told) => {
            Some(Arc::new(Version {
                last_modified: Some(told),
                ..Version::clone(version)
            }))
        }
        None => None,
    }
}

/// Returns the version of a record if a listing shows the same one: the same ETag and size, and
/// a time `told` that fits. `None`: it is another version, or its headers may have been changed
/// since.
pub(crate) fn confirm_listed(
    record: &Record,
    etag: Option<&ETag>,
    size: u64,
    told: Timestamp,
) -> Option<Arc<Version>> {
    let known = &record.version;
    let is_same = known.size == size && etag?.strong_eq(&known.etag);
    is_same.then(|| dated(record, told)).flatten()
}

/// Returns whether an event at `time` reports the write that made a version here, which the bucket has not confirmed
/// yet.
pub(crate) fn explains_event(record: &Record, time: Option<Timestamp>) -> bool {
    let is_young = record.version.last_modified.is_none();
    let span = record.written.filter(|_| is_young);
    span.zip(time)
        .is_some_and(|(span, time)| covers(span, time))
}

impl Core {
    /// Returns the version of a record if a listing shows the same one: its ETag, its size, and a time `told` that fits.
    pub fn confirmed_by(
        &self,
        record: &Record,
        etag: Option<&ETag>,
        size: u64,
        told: Timestamp,
    ) -> Option<Arc<Version>> {
        confirm_listed(record, etag, size, told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_writes_own_between_its_beginning_and_its_answer() {
        let written = WriteSpan {
            answered: Timestamp(100_000),
            took: Duration::from_secs(10),
        };
        for (time, own) in [
            (87_000, false),
            (88_000, true),
            (95_000, true),
            (102_000, true),
            (103_000, false),
        ] {
            assert_eq!(covers(written, Timestamp(time)), own, "{time}");
        }
    }
}
