//! The state of a draft. Its fields are private to this module and its children, in which each transition is a method that
//! also queues the journal's records of it.

use std::sync::Arc;

use crate::draft::base_version::BaseVersion;
use crate::draft::edition::ReplacedEdition;
use crate::draft::phase::{Phase, Step};
use crate::draft::state::change_times::ChangeTimes;
use crate::draft::state::handles::OpenHandles;
use crate::draft::state::journal_queue::JournalQueue;
use crate::draft::state::retry::Retry;
use crate::draft::state::room::DraftRoom;
use crate::draft::state::target::CommitTarget;
use crate::draft::state::upload::UploadState;
use crate::draft::uncertain::UncertainCommits;
use crate::spool::file::SpoolFile;
use crate::spool::replay::ReplayedDraft;
use crate::{Drafts, WriteError};
use tidegate_engine::times::Times;
use tidegate_origin::write::Headers;
use tidegate_origin::{Guard, Upload};
use tidegate_plan::upload::Draft;
use tidegate_plan::{ByteRange, ObjectId, Timestamp};

mod base;
mod change_times;
mod changes;
pub(crate) mod editions;
mod handles;
mod journal_queue;
mod journaling;
mod outcome;
mod parts;
mod retry;
pub(crate) mod room;
mod sending;
pub(crate) mod stage;
pub(crate) mod target;
pub(crate) mod upload;

/// See the module documentation.
pub(crate) struct DraftState {
    target: CommitTarget,
    draft: Draft,
    base: Option<BaseVersion>,
    upload: UploadState,
    /// Our objects that are, or may be, in the bucket.
    uncertain: UncertainCommits,
    journal: JournalQueue,
    /// The promised edition that this unpromised one replaces.
    replaced_edition: Option<ReplacedEdition>,
    room: DraftRoom,
    times: ChangeTimes,
    phase: Phase,
    handles: OpenHandles,
    retry: Retry,
}

impl DraftState {
    /// Returns a state that begins as `base`, or empty.
    pub(crate) fn new(inner: &Drafts, target: CommitTarget, base: Option<BaseVersion>) -> Self {
        let length = base.as_ref().map_or(0, |base| base.version.size);
        let draft = Draft::new(inner.settings.parts, length).with_kept_ends(inner.settings.kept);
        let begins_as = base.as_ref().map(|base| &*base.version);
        let times = inner.core.times_of_draft(target.id(), begins_as);
        Self {
            target,
            draft,
            base,
            upload: UploadState::default(),
            uncertain: UncertainCommits::default(),
            journal: JournalQueue::default(),
            replaced_edition: None,
            room: DraftRoom::default(),
            times: ChangeTimes::new(times),
            phase: Phase::default(),
            handles: OpenHandles::default(),
            retry: Retry::default(),
        }
    }

    /// Returns the same as an earlier process left it: with its files, its upload, and the times that were seen then.
    pub(crate) fn recovered(
        self,
        inner: &Drafts,
        file: Arc<SpoolFile>,
        replayed: &ReplayedDraft,
        begun: Option<(Upload, Headers)>,
        times: Times,
    ) -> Self {
        let kept = inner.settings.kept;
        let mut journal = JournalQueue::default();
        journal.open(file);
        Self {
            draft: replayed.draft.clone().with_kept_ends(kept),
            upload: UploadState::recovered(&self.id().key, begun, replayed),
            uncertain: UncertainCommits::earlier(replayed.tried.clone()),
            journal,
            times: ChangeTimes::new(times),
            phase: Phase::recovered(replayed.promised),
            ..self
        }
    }

    /// Returns the same in another phase, which it begins with.
    pub(crate) fn in_phase(self, phase: Phase) -> Self {
        Self { phase, ..self }
    }

    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Takes a step of its phase. The methods of the children do that too, where a step goes with other changes.
    pub(crate) fn step(&mut self, step: Step) {
        let next = self.phase.after(&step);
        #[cfg(test)]
        crate::draft::phase::table::note(&self.phase, &step, &next);
        self.phase = next;
    }

    /// Returns the object that a commit makes.
    pub(crate) fn id(&self) -> &ObjectId {
        self.target.id()
    }

    /// Returns the headers that the object will have.
    pub(crate) fn headers(&self) -> &Headers {
        self.target.headers()
    }

    /// Returns the condition on the key.
    pub(crate) fn guard(&self) -> &Guard {
        self.target.guard()
    }

    /// Returns the revision of the waiting change of attributes that is among the headers.
    pub(crate) fn attributes_of(&self) -> Option<u64> {
        self.target.attributes_of()
    }

    /// Returns the places of its bytes, and the states of its parts.
    pub(crate) fn draft(&self) -> &Draft {
        &self.draft
    }

    /// Returns the time of the last write; before the first one, the times of its base.
    pub(crate) fn times(&self) -> Times {
        self.times.times()
    }

    /// Returns a number that changes with every write and every changed header.
    pub(crate) fn revision(&self) -> u64 {
        self.times.revision()
    }

    /// Returns the time of the oldest write that is not in the bucket, while it is unpublished.
    pub(crate) fn unsent_since(&self) -> Timestamp {
        self.times.unsent_since()
    }

    /// Returns the time of its last write that is not in the bucket, if there is one.
    pub(crate) fn unsent_write(&self) -> Option<Timestamp> {
        self.times.unsent_write()
    }

    pub(crate) fn handles(&self) -> &OpenHandles {
        &self.handles
    }

    pub(crate) fn handles_mut(&mut self) -> &mut OpenHandles {
        &mut self.handles
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

    /// Takes the room that it has in the spool, except that of its journal.
    fn take_room(&mut self) -> u64 {
        self.draft.local().bytes() + self.room.take()
    }

    pub(crate) fn uncertain(&self) -> &UncertainCommits {
        &self.uncertain
    }

    /// Notes a copy of the object onto itself without an answer.
    pub(crate) fn note_uncertain_copy(&mut self) {
        self.uncertain.note_copy();
    }

    pub(crate) fn upload(&self) -> &UploadState {
        &self.upload
    }

    /// Fails if bytes of it are lost.
    pub(crate) fn check_not_lost(&self) -> Result<(), WriteError> {
        match self.phase.is_lost() {
            true => Err(WriteError::Lost),
            false => Ok(()),
        }
    }
}
