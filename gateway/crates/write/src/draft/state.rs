//! The state of a draft, and its changes that need no wait.

use std::sync::Arc;

use crate::draft::edition::ReplacedEdition;
use crate::draft::phase::{Phase, Step};
use crate::draft::pinned::Pinned;
use crate::draft::state::journal_queue::JournalQueue;
use crate::draft::state::retry::Retry;
use crate::draft::state::room::DraftRoom;
use crate::draft::state::upload::UploadState;
use crate::draft::uncertain::UncertainCommits;
use crate::{Drafts, WriteError};
use tidegate_engine::times::Times;
use tidegate_origin::Guard;
use tidegate_origin::write::Headers;
use tidegate_plan::attributes::{Attributes, UnixTime};
use tidegate_plan::upload::Draft;
use tidegate_plan::{ByteRange, ObjectId, Timestamp, Version};

mod changes;
pub(crate) mod editions;
pub(crate) mod journal_queue;
mod journaling;
mod parts;
pub(crate) mod retry;
pub(crate) mod room;
pub(crate) mod upload;

/// See the module documentation.
pub(crate) struct DraftState {
    pub(crate) id: ObjectId,
    pub(crate) draft: Draft,
    pub(crate) base: Option<Pinned>,
    pub(crate) headers: Headers,
    pub(crate) guard: Guard,
    /// Whether it goes without the condition that no object is there, once a look has found none, if the store does not
    /// know conditions.
    pub(crate) may_lack_guard: bool,
    upload: UploadState,
    /// Our objects that are, or may be, in the bucket.
    uncertain: UncertainCommits,
    journal: JournalQueue,
    /// The promised edition that this unpromised one replaces.
    replaced_edition: Option<ReplacedEdition>,
    room: DraftRoom,
    /// The time of the last write; before the first one, the times of its base.
    pub(crate) times: Times,
    /// The revision of the waiting change of attributes that is among the headers.
    pub(crate) attributes_of: Option<u64>,
    /// The time of the oldest write that is not in the bucket, while it is unpublished.
    pub(crate) unsent_since: Timestamp,
    /// Changes with every write and every changed header.
    pub(crate) revision: u64,
    phase: Phase,
    pub(crate) handles: usize,
    /// Whether its closes return before it is in the bucket.
    pub(crate) closes_behind: bool,
    /// The only part whose bytes are in memory while it waits for its close.
    pub(crate) part_in_memory: u32,
    retry: Retry,
    /// The version that was committed last.
    pub(crate) committed: Option<Arc<Version>>,
}

impl DraftState {
    /// Returns a state that begins as `base`, or empty.
    pub(crate) fn new(
        inner: &Drafts,
        id: ObjectId,
        base: Option<Pinned>,
        headers: Headers,
        guard: Guard,
    ) -> Self {
        let length = base.as_ref().map_or(0, |base| base.version.size);
        let draft = Draft::new(inner.settings.parts, length).with_kept_ends(inner.settings.kept);
        let begins_as = base.as_ref().map(|base| &*base.version);
        let times = inner.core.times_of_draft(&id, begins_as);
        Self {
            id,
            draft,
            base,
            headers,
            guard,
            may_lack_guard: false,
            upload: UploadState::default(),
            uncertain: UncertainCommits::default(),
            journal: JournalQueue::default(),
            replaced_edition: None,
            room: DraftRoom::default(),
            times,
            attributes_of: None,
            unsent_since: times.changed,
            revision: 0,
            phase: Phase::default(),
            handles: 0,
            closes_behind: false,
            part_in_memory: 0,
            retry: Retry::default(),
            committed: None,
        }
    }

    /// Returns the same in another phase, which it begins with.
    pub(crate) fn in_phase(self, phase: Phase) -> Self {
        Self { phase, ..self }
    }

    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(crate) fn retry(&self) -> &Retry {
        &self.retry
    }

    pub(crate) fn retry_mut(&mut self) -> &mut Retry {
        &mut self.retry
    }

    pub(crate) fn room(&self) -> &DraftRoom {
        &self.room
    }

    pub(crate) fn room_mut(&mut self) -> &mut DraftRoom {
        &mut self.room
    }

    /// Returns the pieces of a range that have no room in the spool.
    pub(crate) fn without_room(&self, range: ByteRange) -> Vec<ByteRange> {
        let gaps = self.draft.local().gaps(range).into_iter();
        gaps.flat_map(|gap| self.room.gaps(gap)).collect()
    }

    pub(crate) fn uncertain(&self) -> &UncertainCommits {
        &self.uncertain
    }

    /// Forgets the tries: one of them is in the bucket, and the draft is based on it.
    pub(crate) fn forget_uncertain(&mut self) {
        self.uncertain = UncertainCommits::default();
    }

    /// Notes a copy of the object onto itself without an answer.
    pub(crate) fn note_uncertain_copy(&mut self) {
        self.uncertain.note_copy();
    }

    pub(crate) fn upload(&self) -> &UploadState {
        &self.upload
    }

    /// Takes a step of its phase. The methods below do that too, where a step goes with other changes.
    pub(crate) fn step(&mut self, step: Step) {
        let next = self.phase.after(&step);
        #[cfg(test)]
        crate::draft::phase::table::note(&self.phase, &step, &next);
        self.phase = next;
    }

    /// Returns the time of its last write that is not in the bucket, if there is one.
    pub(crate) fn unsent_write(&self) -> Option<Timestamp> {
        let modified = self.times.modified;
        (modified >= self.unsent_since).then_some(modified)
    }

    /// Returns the headers for an object that is sent as a whole. One with a mode has the time of its content as well.
    pub(crate) fn headers_to_store(&self) -> Headers {
        let mut headers = self.headers.clone();
        let attributes = Attributes::of(&headers);
        if attributes.mode.is_some() && attributes.modified.is_none() {
            let modified = Some(UnixTime::from(self.times.modified));
            let dated = Attributes {
                modified,
                ..attributes
            };
            dated.store(&mut headers);
        }
        headers
    }

    /// Returns whether an open handle has changed it since the last close.
    pub(crate) fn is_half_way(&self) -> bool {
        self.handles > 0 && self.phase.is_unclosed()
    }

    /// Returns whether an open handle has truncated it to nothing since the last close. Its own close publishes it.
    pub(crate) fn is_half_replaced(&self) -> bool {
        self.handles > 0 && self.phase.is_replaced()
    }

    /// Fails if bytes of it are lost.
    pub(crate) fn check_not_lost(&self) -> Result<(), WriteError> {
        match self.phase.is_lost() {
            true => Err(WriteError::Lost),
            false => Ok(()),
        }
    }

    /// Takes the room that it has in the spool, except that of its journal.
    pub(crate) fn take_room(&mut self) -> u64 {
        self.draft.local().bytes() + self.room.take()
    }
}
