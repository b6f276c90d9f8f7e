//! The changes that events have reported of late.
//!
//! A write that the bucket answers after such an event may have been overtaken: its version is confirmed before it is
//! served.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::Core;
use tidegate_plan::{ChangeKind, ETag, Generations, KeyChange, ObjectId, Sequencer, Timestamp};
use tidegate_telemetry::locks::Recover as _;

/// The maximum number of keys in a generation; there are two. Writes that began before the last dropped one are confirmed.
const MAX_GENERATION: usize = 1 << 14;

/// The time for which a deletion takes a reported creation as one that came during it. The request of a deletion takes
/// less.
const DELETION_TIME: Duration = Duration::from_secs(60);

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct ReportedChanges(Mutex<ReportHistory>);

#[derive(Debug)]
struct ReportHistory {
    last: Generations<ObjectId, LastChange>,
    /// Whether the event of the last removal by this process is still to come.
    own_removals: Generations<ObjectId, bool>,
    /// The time of the last change that was dropped.
    dropped: Option<Timestamp>,
}

/// The last reported change of a key.
#[derive(Debug, Clone)]
struct LastChange {
    /// The time at which the gateway learned of it.
    at: Timestamp,
    created: bool,
    etag: Option<ETag>,
    /// The latest one of the key, which may be that of an earlier reported change.
    sequencer: Option<Sequencer>,
}

impl Default for ReportHistory {
    fn default() -> Self {
        Self {
            last: Generations::new(MAX_GENERATION),
            own_removals: Generations::new(MAX_GENERATION),
            dropped: None,
        }
    }
}

/// Returns whether a change that was reported at `at` may have come during a deletion that ends `now`.
fn is_late(at: Timestamp, now: Timestamp) -> bool {
    now.since(at) < DELETION_TIME
}

impl ReportedChanges {
    fn lock(&self) -> MutexGuard<'_, ReportHistory> {
        self.0.lock().recover()
    }

    /// Notes a change that was reported at `at`. Returns whether it was overtaken: as its sender says, or since one with a
    /// later sequencer was noted before, which its sender cannot know while that one is still being applied.
    pub(crate) fn note(&self, id: &ObjectId, change: &KeyChange, at: Timestamp) -> bool {
        let mut all = self.lock();
        let before = all.last.get(id).and_then(|last| last.sequencer.clone());
        let own = &change.sequencer;
        let later = before.filter(|last| own.as_ref().is_none_or(|own| last.is_after(own)));
        let is_late = later.is_some() && own.is_some();
        let is_overtaken = change.is_overtaken || is_late;
        let last = LastChange {
            at,
            // An overtaken one contradicts every version, and every removal.
            created: is_overtaken || change.kind == ChangeKind::Created,
            etag: change.etag.clone().filter(|_| !is_overtaken),
            sequencer: later.or_else(|| own.clone()),
        };
        let dropped = all.last.insert(id.clone(), last);
        let dropped = dropped.into_values().map(|change| change.at).max();
        all.dropped = all.dropped.max(dropped);
        is_overtaken
    }

    /// Returns whether a change of the key to anything but the version with this ETag was reported at `since` or later,
    /// or may have been.
    pub(crate) fn contradict(&self, id: &ObjectId, etag: &ETag, since: Timestamp) -> bool {
        let all = self.lock();
        match all.last.get(id) {
            Some(last) => {
                let is_other = !last.etag.as_ref().is_some_and(|told| told.strong_eq(etag));
                last.at >= since && is_other
            }
            None => all.dropped.is_some_and(|dropped| dropped >= since),
        }
    }

    /// Notes that this process has removed the object at `now`.
    fn note_own_removal(&self, id: &ObjectId, now: Timestamp) {
        let mut all = self.lock();
        let has_event = all.last.get(id).is_some_and(|last| is_late(last.at, now));
        all.own_removals.insert(id.clone(), !has_event);
    }

    /// Returns whether a reported removal is the last one of this process. The next one is another's.
    pub(crate) fn take_own_removal(&self, id: &ObjectId) -> bool {
        let mut all = self.lock();
        let is_own = all.own_removals.get(id) == Some(&true);
        if is_own {
            all.own_removals.insert(id.clone(), false);
        }
        is_own
    }

    /// Returns whether an object of this key was reported as created a short time before `now`.
    fn is_created_lately(&self, id: &ObjectId, now: Timestamp) -> bool {
        let all = self.lock();
        match all.last.get(id) {
            Some(last) => last.created && is_late(last.at, now),
            None => all.dropped.is_some_and(|at| is_late(at, now)),
        }
    }
}

impl Core {
    /// Records that this process has removed the object, unless the bucket has reported a new one meanwhile.
    pub fn record_removed(&self, id: &ObjectId) {
        use tidegate_cache::Entry;
        let now = self.now();
        let mut resolves = self.resolves();
        resolves.remove(id);
        if self.reported.is_created_lately(id, now) {
            self.meta.remove(id);
            self.names.forget_key(id.origin, id.key.as_str());
        } else {
            self.reported.note_own_removal(id, now);
            self.meta.put(id, Entry::Missing { since: now });
            self.name_removed(id);
        }
    }
}

#[cfg(test)]
mod tests;
