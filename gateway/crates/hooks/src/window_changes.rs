//! The changes that wait for their call, bounded in number.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use tidegate_plan::folder::{common_folder, folder_of};
use tidegate_plan::{ChangeKind, KeyChange, ObjectKey};

/// The most keys of one origin that wait. With more, their common folder stands for all: 1 MB of the longest keys.
const MAX_KEYS: usize = 1000;

/// The changes that one call reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallGrouping {
    /// All of a window.
    Window,
    /// Those of one folder.
    Folder,
    /// Those of one key.
    Key,
}

/// The changes of one window.
#[derive(Debug, Default)]
pub(crate) struct WindowChanges {
    origins: BTreeMap<Arc<str>, OriginChanges>,
    /// The times of the first and the last change.
    span: Option<(Instant, Instant)>,
}

/// The changes of one origin.
#[derive(Debug)]
struct OriginChanges {
    bucket: String,
    changes: Changes,
}

#[derive(Debug)]
enum Changes {
    Keys(BTreeMap<ObjectKey, Event>),
    /// Too many for a list.
    Folder(FolderChanges),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FolderChanges {
    folder: String,
    event: Event,
    count: u64,
}

/// The kind of the changes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Created,
    Removed,
    /// Both, or what a later change has overtaken: its own kind may be over.
    Changed,
}

impl Event {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Removed => "removed",
            Self::Changed => "changed",
        }
    }

    fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Changed }
    }

    /// Returns the event of changes of these kinds. `None`: there are none.
    pub(crate) fn of(kinds: impl IntoIterator<Item = ChangeKind>) -> Option<Self> {
        kinds.into_iter().map(Self::from).reduce(Self::and)
    }
}

impl From<ChangeKind> for Event {
    fn from(kind: ChangeKind) -> Self {
        match kind {
            ChangeKind::Created => Self::Created,
            ChangeKind::Removed => Self::Removed,
        }
    }
}

/// The changes that one call reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) bucket: String,
    /// The key, or the folder of several; it may be empty.
    pub(crate) key: String,
    pub(crate) event: Event,
    pub(crate) count: u64,
}

/// The effect of a change on the changes that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddOutcome {
    /// It waits with the others.
    Kept,
    /// There were too many keys: from now on their common folder waits.
    Widened,
}

impl WindowChanges {
    /// Adds a change. It takes the place of one of its key that waits, unless that one has overtaken it.
    pub(crate) fn add(
        &mut self,
        origin: &Arc<str>,
        change: &KeyChange,
        now: Instant,
    ) -> AddOutcome {
        self.changes(origin, &change.bucket, now).add(change)
    }

    /// Adds changes of which no more is known than their folder.
    pub(crate) fn add_folder(&mut self, origin: &Arc<str>, call: &Call, now: Instant) {
        let changes = self.changes(origin, &call.bucket, now);
        changes.add_folder(&call.key, call.event, call.count);
    }

    fn changes(&mut self, origin: &Arc<str>, bucket: &str, now: Instant) -> &mut Changes {
        let first = self.span.map_or(now, |(first, _)| first);
        self.span = Some((first, now));
        let entry = self.origins.entry(origin.clone());
        let origin = entry.or_insert_with(|| OriginChanges {
            bucket: bucket.to_owned(),
            changes: Changes::Keys(BTreeMap::new()),
        });
        &mut origin.changes
    }

    /// Returns the time at which the call is due: `debounce` after the last change, and at most `max_delay` after the
    /// first. `None`: nothing waits.
    pub(crate) fn due(&self, debounce: Duration, max_delay: Duration) -> Option<Instant> {
        let (first, last) = self.span?;
        Some((last + debounce).min(first + max_delay))
    }

    /// Returns the number of changed keys that wait.
    pub(crate) fn count(&self) -> u64 {
        let counts = self.origins.values().map(|one| match &one.changes {
            Changes::Keys(keys) => keys.len() as u64,
            Changes::Folder(folder) => folder.count,
        });
        counts.sum()
    }

    /// Takes all changes, and returns the calls that report them.
    pub(crate) fn take(&mut self, each: CallGrouping) -> Vec<Call> {
        self.span = None;
        let origins = std::mem::take(&mut self.origins).into_values();
        origins.flat_map(|origin| origin.calls(each)).collect()
    }
}

impl Changes {
    fn add(&mut self, change: &KeyChange) -> AddOutcome {
        let key = &change.key;
        let event = match change.is_overtaken {
            true => Event::Changed,
            false => change.kind.into(),
        };
        match self {
            Self::Keys(keys) if change.is_overtaken && keys.contains_key(key) => AddOutcome::Kept,
            Self::Keys(keys) if keys.len() < MAX_KEYS || keys.contains_key(key) => {
                keys.insert(key.clone(), event);
                AddOutcome::Kept
            }
            Self::Keys(keys) => {
                let mut folder = FolderChanges::of(keys);
                folder.add(key, event);
                *self = Self::Folder(folder);
                AddOutcome::Widened
            }
            Self::Folder(folder) => {
                folder.add(key, event);
                AddOutcome::Kept
            }
        }
    }

    fn add_folder(&mut self, folder: &str, event: Event, count: u64) {
        let mut all = match self {
            Self::Folder(all) => all.clone(),
            Self::Keys(keys) if keys.is_empty() => FolderChanges {
                folder: folder.to_owned(),
                event,
                count: 0,
            },
            Self::Keys(keys) => FolderChanges::of(keys),
        };
        all.join(folder, event, count);
        *self = Self::Folder(all);
    }
}

impl FolderChanges {
    /// Returns what is common to keys. There is at least one.
    fn of(keys: &BTreeMap<ObjectKey, Event>) -> Self {
        let (mut all, mut count) = (None::<Self>, 0);
        for (key, event) in keys {
            count += 1;
            match &mut all {
                Some(all) => all.add(key, *event),
                none => {
                    *none = Some(Self {
                        folder: folder_of(key.as_str()).to_owned(),
                        event: *event,
                        count,
                    });
                }
            }
        }
        all.unwrap_or(Self {
            folder: String::new(),
            event: Event::Changed,
            count,
        })
    }

    fn add(&mut self, key: &ObjectKey, event: Event) {
        self.join(key.as_str(), event, 1);
    }

    /// Adds changes of a key, or below a folder.
    fn join(&mut self, below: &str, event: Event, count: u64) {
        let length = common_folder(&self.folder, below).len();
        self.folder.truncate(length);
        self.event = self.event.and(event);
        self.count += count;
    }

    fn into_call(self, bucket: &str) -> Call {
        Call {
            bucket: bucket.to_owned(),
            key: self.folder,
            event: self.event,
            count: self.count,
        }
    }
}

impl OriginChanges {
    fn calls(self, each: CallGrouping) -> Vec<Call> {
        let bucket = self.bucket;
        let keys = match self.changes {
            Changes::Keys(keys) => keys,
            Changes::Folder(folder) => return vec![folder.into_call(&bucket)],
        };
        let single = |(key, event): (&ObjectKey, &Event)| Call {
            bucket: bucket.clone(),
            key: key.as_str().to_owned(),
            event: *event,
            count: 1,
        };
        match each {
            CallGrouping::Key => keys.iter().map(single).collect(),
            CallGrouping::Window if keys.len() == 1 => keys.iter().map(single).collect(),
            CallGrouping::Window => vec![FolderChanges::of(&keys).into_call(&bucket)],
            CallGrouping::Folder => {
                let mut folders = BTreeMap::<String, FolderChanges>::new();
                for (key, event) in &keys {
                    let folder = folder_of(key.as_str());
                    let new = || FolderChanges {
                        folder: folder.to_owned(),
                        event: *event,
                        count: 0,
                    };
                    let entry = folders.entry(folder.to_owned());
                    entry.or_insert_with(new).add(key, *event);
                }
                let calls = folders.into_values();
                calls.map(|folder| folder.into_call(&bucket)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::change;

    fn pending(changes: &[(&str, ChangeKind)]) -> WindowChanges {
        let mut pending = WindowChanges::default();
        for (key, kind) in changes {
            pending.add(&"media".into(), &change(key, *kind), Instant::now());
        }
        pending
    }

    fn told(pending: &mut WindowChanges, each: CallGrouping) -> Vec<String> {
        let calls = pending.take(each).into_iter();
        calls
            .map(|call| format!("{} {} {}", call.key, call.event.name(), call.count))
            .collect()
    }

    const CHANGES: [(&str, ChangeKind); 5] = [
        ("a/b/1", ChangeKind::Created),
        ("a/b/2", ChangeKind::Removed),
        ("a/bc/3", ChangeKind::Removed),
        ("a/b/1", ChangeKind::Created),
        ("a/bc/4", ChangeKind::Removed),
    ];

    #[test]
    fn calls_are_for_keys_folders_or_all() {
        for (each, expected) in [
            (
                CallGrouping::Key,
                &[
                    "a/b/1 created 1",
                    "a/b/2 removed 1",
                    "a/bc/3 removed 1",
                    "a/bc/4 removed 1",
                ][..],
            ),
            (CallGrouping::Folder, &["a/b/ changed 2", "a/bc/ removed 2"]),
            (CallGrouping::Window, &["a/ changed 4"]),
        ] {
            assert_eq!(told(&mut pending(&CHANGES), each), expected, "{each:?}");
        }
        let one = &CHANGES[..1];
        assert_eq!(
            told(&mut pending(one), CallGrouping::Window),
            ["a/b/1 created 1"]
        );
        assert_eq!(
            told(&mut pending(one), CallGrouping::Folder),
            ["a/b/ created 1"]
        );
        let top = [("1", ChangeKind::Created), ("2", ChangeKind::Created)];
        assert_eq!(
            told(&mut pending(&top), CallGrouping::Window),
            [" created 2"]
        );
    }

    #[test]
    fn a_change_that_was_overtaken_replaces_none_that_waits_and_says_no_more_than_that_it_was() {
        let overtaken = |key| KeyChange {
            is_overtaken: true,
            ..change(key, ChangeKind::Removed)
        };
        let mut pending = pending(&[("a", ChangeKind::Created)]);
        for key in ["a", "b"] {
            pending.add(&"media".into(), &overtaken(key), Instant::now());
        }
        let told = told(&mut pending, CallGrouping::Key);
        assert_eq!(told, ["a created 1", "b changed 1"]);
    }

    #[test]
    fn too_many_keys_become_their_folder() {
        let mut pending = WindowChanges::default();
        let (origin, now) = (Arc::from("media"), Instant::now());
        for number in 0..3 * MAX_KEYS {
            let change = change(&format!("a/ü/{number}"), ChangeKind::Created);
            let added = pending.add(&origin, &change, now);
            assert_eq!(added == AddOutcome::Widened, number == MAX_KEYS);
        }
        pending.add(&origin, &change("a/û/x", ChangeKind::Created), now);
        assert_eq!(pending.count(), 3001);
        assert_eq!(told(&mut pending, CallGrouping::Key), ["a/ created 3001"]);
        assert_eq!(pending.count(), 0);
        assert!(pending.due(Duration::ZERO, Duration::ZERO).is_none());
    }

    #[test]
    fn a_folder_of_changes_takes_in_what_waits() {
        let folder = Call {
            bucket: "media".to_owned(),
            key: "a/b/c/".to_owned(),
            event: Event::Created,
            count: 20,
        };
        let (origin, now) = (Arc::from("media"), Instant::now());
        let mut alone = WindowChanges::default();
        alone.add_folder(&origin, &folder, now);
        assert_eq!(told(&mut alone, CallGrouping::Key), ["a/b/c/ created 20"]);
        let mut pending = pending(&CHANGES[..2]);
        pending.add_folder(&origin, &folder, now);
        pending.add(&origin, &change("a/b/c/d", ChangeKind::Created), now);
        assert_eq!(told(&mut pending, CallGrouping::Key), ["a/b/ changed 23"]);
    }

    #[test]
    fn origins_are_not_mixed() {
        let mut pending = pending(&CHANGES[..1]);
        let other = change("a/b/1", ChangeKind::Removed);
        pending.add(&"other".into(), &other, Instant::now());
        let told = told(&mut pending, CallGrouping::Window);
        assert_eq!(told, ["a/b/1 created 1", "a/b/1 removed 1"]);
    }
}
