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
pub(crate) struct ReportedChanges(Mutex<Reported>);

#[derive(Debug)]
struct Reported {
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

impl Default for Reported {
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
    fn lock(&self) -> MutexGuard<'_, Reported> {
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
mod tests {
    use super::*;
    use tidegate_plan::{ObjectKey, OriginId};

    fn id(number: usize) -> ObjectId {
        ObjectId {
            origin: OriginId(1),
            key: ObjectKey::new(&format!("k{number}")).expect("a key"),
        }
    }

    fn change(id: &ObjectId, kind: ChangeKind, etag: &str) -> KeyChange {
        KeyChange {
            etag: ETag::parse(etag),
            ..KeyChange::of("b", &id.key, kind)
        }
    }

    #[test]
    fn another_version_reported_since_contradicts_a_write() {
        let all = ReportedChanges::default();
        let (id, own) = (id(1), ETag::parse("\"a\"").expect("a tag"));
        let contradicts = |since| all.contradict(&id, &own, Timestamp(since));
        assert!(!contradicts(0));
        all.note(
            &id,
            &change(&id, ChangeKind::Created, "\"a\""),
            Timestamp(5),
        );
        assert!(!contradicts(0));
        all.note(
            &id,
            &change(&id, ChangeKind::Created, "\"b\""),
            Timestamp(6),
        );
        assert_eq!([contradicts(6), contradicts(7)], [true, false]);
        all.note(&id, &change(&id, ChangeKind::Removed, ""), Timestamp(8));
        assert!(contradicts(8));
    }

    #[test]
    fn a_creation_outlasts_a_deletion_that_it_came_during() {
        let all = ReportedChanges::default();
        let id = id(1);
        let lately = |now| all.is_created_lately(&id, Timestamp(now));
        all.note(
            &id,
            &change(&id, ChangeKind::Created, "\"a\""),
            Timestamp(5),
        );
        assert_eq!(
            [lately(5), lately(60_004), lately(60_005)],
            [true, true, false]
        );
        all.note(&id, &change(&id, ChangeKind::Removed, ""), Timestamp(6));
        assert!(!lately(6));
    }

    #[test]
    fn an_overtaken_change_contradicts_every_write_and_removal() {
        let all = ReportedChanges::default();
        let (id, own) = (id(1), ETag::parse("\"a\"").expect("a tag"));
        for kind in [ChangeKind::Created, ChangeKind::Removed] {
            let change = KeyChange {
                is_overtaken: true,
                ..change(&id, kind, "\"a\"")
            };
            all.note(&id, &change, Timestamp(5));
            assert!(all.contradict(&id, &own, Timestamp(5)), "{kind:?}");
            assert!(all.is_created_lately(&id, Timestamp(5)), "{kind:?}");
        }
    }

    #[test]
    fn a_change_is_overtaken_by_one_of_its_key_that_was_noted_before() {
        let all = ReportedChanges::default();
        let (id, own) = (id(1), ETag::parse("\"a\"").expect("a tag"));
        let note = |etag, sequencer| {
            let change = KeyChange {
                sequencer: Sequencer::parse(sequencer),
                ..change(&id, ChangeKind::Created, etag)
            };
            all.note(&id, &change, Timestamp(5))
        };
        let contradicts = || all.contradict(&id, &own, Timestamp(5));
        assert!(!note("\"b\"", "02"));
        assert!(note("\"a\"", "01"));
        assert!(contradicts(), "the later one may stand");
        // A fleet's message has no sequencer: nothing is known of its place.
        assert!(!note("\"a\"", ""));
        assert!(note("\"a\"", "01"));
        assert!(!note("\"a\"", "02"));
        assert!(!note("\"a\"", "03"));
        assert!(!contradicts());
    }

    #[test]
    fn an_own_removal_explains_one_event_after_it() {
        let all = ReportedChanges::default();
        let id = id(1);
        assert!(!all.take_own_removal(&id));
        all.note_own_removal(&id, Timestamp(5));
        assert_eq!([(); 2].map(|()| all.take_own_removal(&id)), [true, false]);
        // Its event came before the answer to its request.
        all.note(&id, &change(&id, ChangeKind::Removed, ""), Timestamp(6));
        all.note_own_removal(&id, Timestamp(7));
        assert!(!all.take_own_removal(&id));
    }

    #[test]
    fn it_is_bounded_and_a_dropped_change_contradicts_every_write_before_it() {
        let all = ReportedChanges::default();
        let own = ETag::parse("\"a\"").expect("a tag");
        for number in 0..3 * MAX_GENERATION {
            let id = id(number);
            let at = Timestamp(number as u64);
            all.note(&id, &change(&id, ChangeKind::Created, "\"b\""), at);
        }
        assert!(all.lock().last.len() <= 2 * MAX_GENERATION);
        let last_dropped = Timestamp(MAX_GENERATION as u64 - 1);
        let unknown = id(usize::MAX);
        assert!(all.contradict(&unknown, &own, last_dropped));
        assert!(!all.contradict(&unknown, &own, last_dropped.plus(Duration::from_millis(1))));
    }
}
