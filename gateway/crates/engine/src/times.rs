//! The times of versions that were written through this process.
//!
//! A bucket reports the time of a version in whole seconds of its own clock, and none at all for
//! one that was just put. By then programs have seen another time: that of the last write, in
//! milliseconds of the local clock. That remains the version's time. The table keeps it by key and
//! ETag, so that no listing, HEAD or GET of the same ETag changes it. A file beside the spool
//! (`log`) keeps it across restarts. ADR 0024 has the reasons.
//!
//! Beside the times it keeps the attributes of a version (mode, owner, set times), which no listing
//! has: of those that were written here, and of those whose headers were seen (ADR 0049).

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use self::log::TimeRow;
use self::packed::PackedAttributes;
use super::invalidate::identities::Identities;
use super::names::Facts;
use super::table_log::TableLog;
use super::table_log::rows::RowFile;
use super::{Engine, Object};
use tidegate_plan::attributes::{Attributes, MAX_LINK};
use tidegate_plan::{ETag, Generations, ObjectId, OriginId, Timestamp, Version};
use tidegate_telemetry::locks::Recover as _;

pub(crate) mod folders;
mod log;
mod packed;
mod versions;

/// The maximum number of versions in a generation; there are two. The oldest versions beyond that
/// are forgotten, and get the bucket's time.
const MAX_GENERATION: usize = 1 << 17;

/// The smallest step of a time.
const MIN_STEP: Duration = Duration::from_millis(1);

/// Two times of a file: `mtime` and `ctime`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// The time at which its content was written.
    pub modified: Timestamp,
    /// The time at which the content or the name last changed. It never decreases.
    pub changed: Timestamp,
}

impl Times {
    /// Returns two equal times.
    pub fn at(time: Timestamp) -> Self {
        Self {
            modified: time,
            changed: time,
        }
    }
}

/// The hash by which the table knows a key, or the draft of one.
type Address = u128;

/// The entry of a key in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TimeEntry {
    /// A hash of the ETag of the version with these times; [`NO_ETAG`]: that version no longer exists.
    etag: u64,
    times: Times,
    /// Whether the times are of this process, and not the bucket's.
    is_own: bool,
    attributes: PackedAttributes,
}

/// The knowledge of a version's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KnownAttributes {
    /// Nothing is known.
    #[default]
    Unknown,
    /// They are stored with the object.
    Stored(Attributes),
    /// They were set here, and are not stored with the object yet.
    Pending(Attributes),
}

impl KnownAttributes {
    /// Returns the attributes, if they are known.
    #[must_use]
    pub fn get(self) -> Option<Attributes> {
        match self {
            Self::Unknown => None,
            Self::Stored(known) | Self::Pending(known) => Some(known),
        }
    }
}

/// The times and attributes that a version is shown with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShownTimes {
    pub(crate) modified: Option<Timestamp>,
    pub(crate) changed: Option<Timestamp>,
    pub(crate) attributes: KnownAttributes,
}

impl TimeEntry {
    /// Returns times that are of no version in the bucket.
    fn none(times: Times) -> Self {
        Self {
            etag: NO_ETAG,
            times,
            is_own: true,
            attributes: PackedAttributes::default(),
        }
    }
}

/// No version has this hash.
const NO_ETAG: u64 = 0;

/// See the module documentation.
#[derive(Debug, Default)]
pub struct TimeTable {
    identities: Arc<Identities>,
    state: Mutex<TimeTableState>,
}

#[derive(Debug)]
struct TimeTableState {
    entries: Generations<Address, TimeEntry>,
    latest: Timestamp,
    log: TableLog<RowFile<TimeRow>>,
}

impl Default for TimeTableState {
    fn default() -> Self {
        Self {
            entries: Generations::new(MAX_GENERATION),
            latest: Timestamp::default(),
            log: TableLog::new(
                "the times of files that are written here do not outlive this process",
            ),
        }
    }
}

impl TimeTableState {
    fn get(&self, address: Address) -> Option<TimeEntry> {
        self.entries.get(&address).copied()
    }

    fn insert(&mut self, address: Address, kept: TimeEntry) {
        self.latest = self.latest.max(kept.times.changed);
        self.entries.insert(address, kept);
    }

    fn keep(&mut self, address: Address, kept: TimeEntry) {
        self.insert(address, kept);
        self.log.push((address, kept));
    }

    /// Returns all entries, the oldest first.
    fn all(&self) -> Vec<TimeRow> {
        let all = self.entries.iter();
        all.map(|(address, kept)| (*address, *kept)).collect()
    }
}

impl TimeTable {
    fn lock(&self) -> MutexGuard<'_, TimeTableState> {
        self.state.lock().recover()
    }

    /// Creates a table for origins of these identities.
    pub(crate) fn new(identities: Arc<Identities>) -> Self {
        Self {
            identities,
            ..Self::default()
        }
    }

    /// Returns the address of a key, which is the same under every identity of a bucket.
    fn address(&self, origin: OriginId, key: &str, of: TimeOwner) -> Address {
        let bucket = self.identities.bucket(origin);
        let mut hash = Xxh3::new();
        hash.update(&bucket.0.to_le_bytes());
        hash.update(&[of as u8]);
        hash.update(key.as_bytes());
        hash.digest128()
    }

    /// Reads the entries of an earlier process in `directory`, and keeps all new ones there. If
    /// that fails, times are kept in memory only. Blocks.
    pub fn attach(&self, directory: &Path) {
        let opened = log::open(directory, |(address, kept)| {
            self.lock().insert(address, kept)
        });
        let log = self.lock().log.clone();
        log.attach(opened);
    }

    /// Keeps the times and attributes of a version that was written just now. They are in the file after
    /// [`Self::write_out`].
    pub fn keep(&self, id: &ObjectId, etag: &ETag, times: Times, attributes: KnownAttributes) {
        let kept = TimeEntry {
            etag: hash(etag),
            times,
            is_own: true,
            attributes: attributes.into(),
        };
        let address = self.address(id.origin, id.key.as_str(), TimeOwner::Object);
        self.lock().keep(address, kept);
    }

    /// Returns the attributes of a version, as far as they are kept.
    pub fn attributes_of(&self, id: &ObjectId, etag: &ETag) -> KnownAttributes {
        let place = (id.origin, id.key.as_str());
        self.times_of(place, Some(etag), None).attributes
    }

    /// Keeps the attributes that a version's headers have, unless they say nothing and the object is too large for a
    /// link. `shown` is the present knowledge.
    fn learn(&self, id: &ObjectId, version: &Version, shown: ShownTimes, found: Attributes) {
        let is_new = match shown.attributes {
            KnownAttributes::Unknown => found != Attributes::default() || version.size <= MAX_LINK,
            known => known != KnownAttributes::Stored(found),
        };
        if !is_new {
            return;
        }
        let address = self.address(id.origin, id.key.as_str(), TimeOwner::Object);
        let etag = hash(&version.etag);
        let mut state = self.lock();
        let known = state.get(address);
        let same = known.filter(|known| known.etag == etag);
        let now = same.map(|known| KnownAttributes::from(known.attributes));
        if matches!(now, Some(KnownAttributes::Pending(_))) {
            // They were changed since.
            return;
        }
        let changed = known.map(|known| known.times.changed);
        let Some(stored) = version.last_modified.max(changed) else {
            return;
        };
        let kept = TimeEntry {
            attributes: KnownAttributes::Stored(found).into(),
            ..same.unwrap_or(TimeEntry {
                etag,
                times: Times::at(stored),
                is_own: false,
                attributes: PackedAttributes::default(),
            })
        };
        state.keep(address, kept);
    }

    /// Keeps the times of a draft that is durable now, for the process that resumes it.
    pub fn keep_draft(&self, id: &ObjectId, times: Times) {
        let address = self.address(id.origin, id.key.as_str(), TimeOwner::Draft);
        self.lock().keep(address, TimeEntry::none(times));
    }

    /// Returns the times that a draft had when it was last durable.
    pub fn of_draft(&self, id: &ObjectId) -> Option<Times> {
        let address = self.address(id.origin, id.key.as_str(), TimeOwner::Draft);
        self.lock().get(address).map(|kept| kept.times)
    }

    /// Forgets the version that has the times of a key. The next times are no earlier than these,
    /// nor than `ahead`.
    fn forget(&self, id: &ObjectId, ahead: Option<Timestamp>) {
        let address = self.address(id.origin, id.key.as_str(), TimeOwner::Object);
        let mut state = self.lock();
        let kept = state.get(address).map(|kept| kept.times.changed);
        if let Some(changed) = kept.max(ahead) {
            state.keep(address, TimeEntry::none(Times::at(changed)));
        }
    }

    /// Returns the latest time in the table.
    fn latest(&self) -> Timestamp {
        self.lock().latest
    }

    /// Returns the time at which this process last changed a key, whatever version it has now.
    fn changed(&self, id: &ObjectId) -> Option<Timestamp> {
        let address = self.address(id.origin, id.key.as_str(), TimeOwner::Object);
        self.lock().get(address).map(|kept| kept.times.changed)
    }

    /// Returns `mtime`, `ctime` and the attributes of a version that the bucket dates `stored`.
    pub(crate) fn times_of(
        &self,
        (origin, key): (OriginId, &str),
        etag: Option<&ETag>,
        stored: Option<Timestamp>,
    ) -> ShownTimes {
        let kept = self
            .lock()
            .get(self.address(origin, key, TimeOwner::Object));
        let Some(kept) = kept else {
            return ShownTimes {
                modified: stored,
                changed: stored,
                attributes: KnownAttributes::Unknown,
            };
        };
        let same = etag.is_some_and(|etag| hash(etag) == kept.etag);
        ShownTimes {
            modified: match same && kept.is_own {
                true => Some(kept.times.modified),
                false => stored,
            },
            // Of another version: not before that of the one which was here.
            changed: match same && kept.is_own {
                true => Some(kept.times.changed),
                false => stored.max(Some(kept.times.changed)),
            },
            attributes: match same {
                true => kept.attributes.into(),
                false => KnownAttributes::Unknown,
            },
        }
    }

    /// Writes new entries to the file, and waits for that a bounded time.
    pub async fn write_out(self: &Arc<Self>) {
        let (log, table) = (self.lock().log.clone(), self.clone());
        log.write_out(move || table.lock().all()).await;
    }
}

/// The owner of the times: the object, or its draft.
#[derive(Clone, Copy)]
enum TimeOwner {
    Object,
    Draft,
}

/// Returns a hash of an ETag, the same for its weak form.
fn hash(etag: &ETag) -> u64 {
    xxh3_64(etag.as_str().trim_start_matches("W/").as_bytes()).max(NO_ETAG + 1)
}

/// Returns the time of a write now: later than `before`, or, in the same draft, not earlier.
pub fn following(now: Timestamp, before: Timestamp, same: bool) -> Timestamp {
    match same {
        true => now.max(before),
        false => now.max(before.plus(MIN_STEP)),
    }
}

impl Engine {
    /// Returns the latest time that this process has given a file.
    #[must_use]
    pub fn latest_time(&self) -> Timestamp {
        self.core.times.latest()
    }

    /// Writes attributes that were learned from headers to the file beside the spool, within a bounded time.
    pub async fn write_times_out(&self) {
        self.core.times.write_out().await;
    }
}

impl Object {
    /// Returns the facts of the object, with its times.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.pinned.core.facts(&self.pinned.id, self.version())
    }
}

#[cfg(test)]
mod tests;
