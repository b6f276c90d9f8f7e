//! The object that a commit makes: its key, its headers, and the condition on the key.

use crate::draft::records::header_pairs;
use crate::spool::journal::{GuardWord, Record};
use tidegate_origin::Guard;
use tidegate_origin::write::Headers;
use tidegate_plan::attributes::{Attributes, MTIME_HEADER, UnixTime};
use tidegate_plan::{ETag, ObjectId, Timestamp};

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct CommitTarget {
    id: ObjectId,
    headers: Headers,
    guard: Guard,
    /// Whether it goes without the condition that no object is there, once a look has found none, if the store does not
    /// know conditions.
    may_lack_guard: bool,
    /// The revision of the waiting change of attributes that is among the headers.
    attributes_of: Option<u64>,
}

/// The parts of a target that a rename replaces, until the new key has the object.
pub(crate) struct RenamedTarget {
    id: ObjectId,
    guard: Guard,
    attributes_of: Option<u64>,
}

impl CommitTarget {
    pub(crate) fn new(id: ObjectId, headers: Headers, guard: Guard) -> Self {
        Self {
            id,
            headers,
            guard,
            may_lack_guard: false,
            attributes_of: None,
        }
    }

    /// Returns the same, for stores that may not know the condition.
    pub(crate) fn with_optional_guard(self, may_lack_guard: bool) -> Self {
        Self {
            may_lack_guard,
            ..self
        }
    }

    /// Returns the same with the revision of the waiting change of attributes that is among the headers.
    pub(crate) fn with_attributes_of(self, attributes_of: Option<u64>) -> Self {
        Self {
            attributes_of,
            ..self
        }
    }

    pub(super) fn id(&self) -> &ObjectId {
        &self.id
    }

    pub(super) fn headers(&self) -> &Headers {
        &self.headers
    }

    pub(super) fn guard(&self) -> &Guard {
        &self.guard
    }

    pub(super) fn may_lack_guard(&self) -> bool {
        self.may_lack_guard
    }

    /// Returns the revision of the waiting change of attributes that is among the headers.
    pub(super) fn attributes_of(&self) -> Option<u64> {
        self.attributes_of
    }

    /// Returns the headers for an object that is sent as a whole. One with a mode has the time of its content as well.
    pub(super) fn headers_to_store(&self, modified: Timestamp) -> Headers {
        let mut headers = self.headers.clone();
        let attributes = Attributes::of(&headers);
        if attributes.mode.is_some() && attributes.modified.is_none() {
            let modified = Some(UnixTime::from(modified));
            let dated = Attributes {
                modified,
                ..attributes
            };
            dated.store(&mut headers);
        }
        headers
    }

    /// Returns the condition as a journal has it.
    pub(super) fn guard_word(&self) -> GuardWord {
        match &self.guard {
            Guard::None => GuardWord::None,
            Guard::Absent => GuardWord::Absent,
            Guard::Same(etag) => GuardWord::Same(etag.as_str().to_owned()),
        }
    }

    /// Returns the journal's record of the headers.
    fn record(&self) -> Record {
        Record::Headers(header_pairs(&self.headers))
    }

    /// Takes other headers, and drops the condition. Returns the journal's record.
    pub(super) fn replace_all(&mut self, headers: Headers) -> Record {
        self.guard = Guard::None;
        self.headers = headers;
        self.record()
    }

    /// Drops a set time of the content. Returns the journal's record, if there was one.
    pub(super) fn drop_set_time(&mut self) -> Option<Record> {
        let is_set = self.headers.iter().any(|(name, _)| *name == MTIME_HEADER);
        self.headers.retain(|(name, _)| *name != MTIME_HEADER);
        is_set.then(|| self.record())
    }

    /// Changes the attributes. Returns the journal's record, if that changed anything.
    pub(super) fn set_attributes(
        &mut self,
        change: impl FnOnce(&mut Attributes),
    ) -> Option<Record> {
        let before = Attributes::of(&self.headers);
        let mut attributes = before;
        change(&mut attributes);
        if attributes == before {
            return None;
        }
        attributes.store(&mut self.headers);
        Some(self.record())
    }

    /// Takes a waiting change of attributes along.
    pub(super) fn take_along(&mut self, attributes: &Attributes, revision: u64) {
        attributes.store(&mut self.headers);
        self.attributes_of = Some(revision);
    }

    /// Notes that the headers have the waiting change of this revision.
    pub(super) fn note_attributes_of(&mut self, revision: u64) {
        self.attributes_of = Some(revision);
    }

    /// Takes the revision of the change of attributes that is published with the headers.
    pub(super) fn take_attributes_of(&mut self) -> Option<u64> {
        self.attributes_of.take()
    }

    pub(super) fn drop_guard(&mut self) {
        self.guard = Guard::None;
    }

    /// Replaces no other version than this one from now on.
    pub(super) fn expect(&mut self, etag: ETag) {
        self.guard = Guard::Same(etag);
    }

    /// Goes to another key, under another condition, with the change of attributes that waits there. Returns what it
    /// had.
    pub(super) fn rename(
        &mut self,
        id: ObjectId,
        guard: Guard,
        attributes_of: Option<u64>,
    ) -> RenamedTarget {
        RenamedTarget {
            id: std::mem::replace(&mut self.id, id),
            guard: std::mem::replace(&mut self.guard, guard),
            attributes_of: std::mem::replace(&mut self.attributes_of, attributes_of),
        }
    }

    /// Takes back what it had before a rename that failed.
    pub(super) fn take_back(&mut self, before: RenamedTarget) {
        self.id = before.id;
        self.guard = before.guard;
        self.attributes_of = before.attributes_of;
    }

    /// Follows an object that was renamed in the bucket.
    pub(super) fn follow(&mut self, id: ObjectId, etag: ETag) {
        self.id = id;
        self.expect(etag);
    }
}

impl RenamedTarget {
    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }
}
