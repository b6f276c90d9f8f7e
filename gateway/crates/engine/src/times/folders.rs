//! The times and attributes of folders.
//!
//! A folder has none in a bucket, but for an empty object whose key is the folder's: its marker. The table keeps those
//! of folders that were made or changed here, under the marker's key. Of another program's marker it notes that it was
//! listed, until its headers are asked for.

use std::sync::Arc;

use super::packed::PackedAttributes;
use super::{KnownAttributes, MIN_STEP, NO_ETAG, TimeEntry, TimeOwner, Times, hash};
use crate::{Core, Engine, ReadContext};
use tidegate_origin::cause::run_for;
use tidegate_origin::{Cause, OriginError};
use tidegate_plan::attributes::Attributes;
use tidegate_plan::{ETag, ObjectId, ObjectKey, OriginId, Timestamp};

/// The knowledge of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownFolder {
    /// The time of the last change of a name in it, if this process has seen one.
    pub modified: Option<Timestamp>,
    /// The time of the last change of its attributes, or of a name in it.
    pub changed: Option<Timestamp>,
    /// The attributes of its marker.
    pub attributes: KnownAttributes,
    /// Whether another program's marker was listed whose headers are not known.
    pub is_unread: bool,
}

impl Core {
    fn folder_row(&self, (origin, prefix): (OriginId, &str)) -> Option<TimeEntry> {
        let address = self.times.address(origin, prefix, TimeOwner::Object);
        self.times.lock().get(address)
    }

    fn change_row(&self, (origin, prefix): (OriginId, &str), change: impl FnOnce(&mut TimeEntry)) {
        let address = self.times.address(origin, prefix, TimeOwner::Object);
        let now = self.now();
        let mut state = self.times.lock();
        let before = state.get(address);
        let mut row = before.unwrap_or(TimeEntry::none(Times::at(now)));
        row.is_own = true;
        row.times.changed = now.max(row.times.changed.plus(MIN_STEP));
        change(&mut row);
        state.keep(address, row);
    }

    /// Keeps the attributes of a folder, which were set just now.
    pub fn keep_folder(&self, place: (OriginId, &str), attributes: KnownAttributes) {
        self.change_row(place, |row| {
            row.etag = hash(&ETag::of_bytes([]));
            row.attributes = attributes.into();
        });
    }

    /// Notes that the pending attributes of a folder are in its marker. That is no change of it: its times stay.
    pub fn folder_sent(&self, (origin, prefix): (OriginId, &str)) {
        let address = self.times.address(origin, prefix, TimeOwner::Object);
        let mut state = self.times.lock();
        if let Some(mut row) = state.get(address)
            && let KnownAttributes::Pending(sent) = row.attributes.into()
        {
            row.attributes = KnownAttributes::Stored(sent).into();
            state.keep(address, row);
        }
    }

    /// Notes that a name in a folder has changed: its time is the present one, whatever was set before.
    pub fn touch_folder(&self, place: (OriginId, &str)) {
        let undated = |known: Attributes| Attributes {
            modified: None,
            ..known
        };
        self.change_row(place, |row| {
            row.times.modified = row.times.changed;
            let undated = match row.attributes.into() {
                KnownAttributes::Unknown => KnownAttributes::Unknown,
                KnownAttributes::Stored(known) => KnownAttributes::Stored(undated(known)),
                KnownAttributes::Pending(known) => KnownAttributes::Pending(undated(known)),
            };
            row.attributes = undated.into();
        });
    }

    /// Notes that a listing has shown a folder's marker.
    pub(crate) fn note_marker(&self, place: (OriginId, &str), etag: Option<&ETag>, at: Timestamp) {
        let Some(etag) = etag else { return };
        let address = self.times.address(place.0, place.1, TimeOwner::Object);
        let mut state = self.times.lock();
        let before = state.get(address);
        if before.is_some_and(|row| row.etag != NO_ETAG) {
            return;
        }
        let new = TimeEntry {
            is_own: false,
            ..TimeEntry::none(Times::at(at))
        };
        let row = TimeEntry {
            etag: hash(etag),
            ..before.unwrap_or(new)
        };
        state.keep(address, row);
    }

    /// Forgets the pending attributes of an object or a folder, because they are not sent any more.
    pub fn drop_pending(&self, (origin, key): (OriginId, &str)) {
        let address = self.times.address(origin, key, TimeOwner::Object);
        let mut state = self.times.lock();
        if let Some(mut row) = state.get(address)
            && matches!(row.attributes.into(), KnownAttributes::Pending(_))
        {
            row.attributes = PackedAttributes::default();
            state.keep(address, row);
        }
    }

    /// Keeps the attributes of a version that are not stored with it yet, for the process that resumes the change.
    pub fn keep_pending(&self, id: &ObjectId, etag: &ETag, attributes: Attributes) {
        let place = (id.origin, id.key.as_str());
        let shown = self.times.times_of(place, Some(etag), None);
        let now = self.now();
        let times = Times {
            modified: shown.modified.unwrap_or(now),
            changed: shown.changed.unwrap_or(now),
        };
        self.times
            .keep(id, etag, times, KnownAttributes::Pending(attributes));
    }
}

impl Engine {
    /// Returns the knowledge of the folder of this prefix, if there is any; sends no request.
    #[must_use]
    pub fn known_folder(&self, source: &ReadContext, prefix: &str) -> Option<KnownFolder> {
        let row = self.core.folder_row((source.origin.id(), prefix))?;
        let own = |time| row.is_own.then_some(time);
        Some(KnownFolder {
            modified: own(row.times.modified),
            changed: own(row.times.changed),
            attributes: row.attributes.into(),
            is_unread: row.etag != NO_ETAG && row.attributes == PackedAttributes::default(),
        })
    }

    /// Asks the bucket for the marker of a folder, and keeps its attributes. A failure changes nothing.
    pub async fn read_folder(&self, source: &Arc<ReadContext>, prefix: &str) {
        let Ok(key) = ObjectKey::new(prefix) else {
            return;
        };
        let origin = source.origin.clone();
        let ask = async move { Ok(run_for(Cause::Names, origin.head(&key)).await) };
        let found = match self.core.run_on_origin_runtime(ask).await {
            Ok(Ok(version)) => Attributes::of(&version.headers),
            Ok(Err(OriginError::NotFound)) => Attributes::default(),
            _ => return,
        };
        let place = (source.origin.id(), prefix);
        let address = self.core.times.address(place.0, place.1, TimeOwner::Object);
        let mut state = self.core.times.lock();
        if let Some(mut row) = state.get(address)
            && row.attributes == PackedAttributes::default()
        {
            row.attributes = KnownAttributes::Stored(found).into();
            state.keep(address, row);
        }
    }

    /// Keeps the attributes of the folder that is mounted, if it has no key: only this process's table has them.
    pub fn keep_root(&self, source: &ReadContext, attributes: Attributes) {
        let place = (source.origin.id(), "");
        self.core
            .keep_folder(place, KnownAttributes::Stored(attributes));
    }
}
