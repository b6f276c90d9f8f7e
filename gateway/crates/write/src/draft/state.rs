//! The state of a draft, and its changes that need no wait.

use std::sync::Arc;

use crate::draft::edition::{ClosedEdition, ReplacedEdition};
use crate::draft::phase::{Phase, Step};
use crate::draft::pinned::Pinned;
use crate::draft::records::header_pairs;
use crate::draft::state::retry::Retry;
use crate::draft::state::room::DraftRoom;
use crate::draft::state::upload::{Completion, UploadState};
use crate::draft::uncertain::UncertainCommits;
use crate::spool::file::SpoolFile;
use crate::spool::journal::{Base, Begin, GuardWord, Record};
use crate::{Drafts, WriteError};
use tidegate_engine::times::{Times, following};
use tidegate_origin::Guard;
use tidegate_origin::write::Headers;
use tidegate_plan::attributes::{Attributes, MTIME_HEADER, UnixTime};
use tidegate_plan::upload::{Draft, GonePart};
use tidegate_plan::{ByteRange, ETag, Extents, ObjectId, Timestamp, Version};

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
    pub(crate) uncertain: UncertainCommits,
    pub(crate) file: Option<Arc<SpoolFile>>,
    /// The promised edition that this unpromised one replaces.
    pub(crate) replaced_edition: Option<ReplacedEdition>,
    room: DraftRoom,
    /// Bytes written since the last journal record of them.
    pub(crate) unnoted: Extents,
    /// Records to append to the journal.
    pub(crate) records: Vec<Record>,
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
            file: None,
            replaced_edition: None,
            room: DraftRoom::default(),
            unnoted: Extents::default(),
            records: Vec::new(),
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

    /// Notes that a writer closed it, and that it is to be published in the background.
    pub(crate) fn close_for_queue(&mut self) {
        self.step(Step::Close);
        self.records.push(Record::Closed);
    }

    /// Announces a write: readers of the closed draft notice it before a byte changes.
    pub(crate) fn begin_write(&mut self, range: ByteRange) -> Result<(), GonePart> {
        self.draft.begin_write(range)?;
        self.revision += 1;
        self.step(Step::BeginChange);
        Ok(())
    }

    /// Notes a write. It invalidates a completion under way, and a set time of the content.
    pub(crate) fn note_change(&mut self, now: Timestamp) {
        self.note_headers(now);
        self.times.modified = self.times.changed;
        if self.headers.iter().any(|(name, _)| *name == MTIME_HEADER) {
            self.headers.retain(|(name, _)| *name != MTIME_HEADER);
            let headers = header_pairs(&self.headers);
            self.records.push(Record::Headers(headers));
        }
    }

    /// Notes a change of a header. It invalidates a completion under way.
    pub(crate) fn note_headers(&mut self, now: Timestamp) {
        self.times.changed = following(now, self.times.changed, self.phase.is_dirty());
        if !self.phase.is_dirty() {
            self.unsent_since = now;
        }
        self.revision += 1;
        self.step(Step::Change);
        self.upload.forget_completion();
    }

    /// Notes another name: the content's time stays.
    pub(crate) fn note_name(&mut self, now: Timestamp) {
        self.times.changed = following(now, self.times.changed, true);
    }

    /// Has the headers sent, which were changed before: no time moves.
    pub(crate) fn send_headers(&mut self) {
        self.revision += 1;
        self.step(Step::Change);
        self.upload.forget_completion();
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

    /// Returns the first record of this draft's journal.
    pub(crate) fn beginning(&self) -> Begin {
        Begin {
            origin: self.id.origin.0,
            key: self.id.key.as_str().to_owned(),
            headers: header_pairs(&self.headers),
            guard: match &self.guard {
                Guard::None => GuardWord::None,
                Guard::Absent => GuardWord::Absent,
                Guard::Same(etag) => GuardWord::Same(etag.as_str().to_owned()),
            },
            may_lack_guard: self.may_lack_guard,
            base: self.journaled_base(),
            first_part: self.draft.sizes().first(),
            hidden: self.upload.is_staged(),
            replaces: self.replaced_edition.as_ref().map(|replaced| replaced.id),
            // The spool numbers it.
            order: 0,
        }
    }

    /// Returns the base for the journal, which names no other object.
    fn journaled_base(&self) -> Option<Base> {
        let base = self.base.as_ref();
        let base = base.filter(|_| self.copied_base().is_none());
        base.map(Pinned::journal_base)
    }

    /// Releases the memory of the written bytes, which are read from the disk from now on. A
    /// failing origin may fail for long, and other writers want the memory.
    pub(crate) fn hold_no_memory(&self) {
        if let Some(file) = &self.file {
            file.let_go(ByteRange::new(0, u64::MAX));
        }
    }

    /// Takes the queued records and the journal's file. Without a file, the records stay queued.
    pub(crate) fn take_records(&mut self) -> Option<(Arc<SpoolFile>, Vec<Record>)> {
        let file = self.file.clone()?;
        Some((file, std::mem::take(&mut self.records)))
    }

    /// Takes the room that it has in the spool, except that of its journal.
    pub(crate) fn take_room(&mut self) -> u64 {
        self.draft.local().bytes() + self.room.take()
    }

    /// Queues records of the bytes written since the last ones.
    pub(crate) fn note_written(&mut self) {
        if self.unnoted.iter().next().is_some() {
            let unnoted = std::mem::take(&mut self.unnoted);
            self.records
                .extend(Record::wrote(self.draft.size(), &unnoted));
        }
    }
}

/// Editions.
impl DraftState {
    /// Returns whether a `fsync` or `close` has promised this edition, or the one before.
    pub(crate) fn is_promised(&self) -> bool {
        self.phase.is_promised() || self.replaced_edition.is_some()
    }

    /// Returns whether a crash would find a promised state of it other than the present one.
    pub(crate) fn has_outdated_journal(&self) -> bool {
        self.phase.is_behind() || self.replaced_edition.is_some()
    }

    /// Returns the closed edition that a writer replaces, unless the replacement is promised or in
    /// the bucket.
    pub(crate) fn replaced_closed_edition(&self) -> Option<Arc<ClosedEdition>> {
        let before = self
            .replaced_edition
            .as_ref()
            .filter(|_| self.phase.is_dirty())?;
        before.closed.clone()
    }

    /// Hides the edition before from readers, because the object was changed another way since.
    pub(crate) fn forget_closed_edition(&mut self) {
        if let Some(before) = &mut self.replaced_edition {
            before.closed = None;
        }
    }

    /// Returns this edition for readers if it is unchanged since its close and all of it is in the
    /// spool.
    pub(crate) fn closed_edition(&self, file: &Arc<SpoolFile>) -> Option<Arc<ClosedEdition>> {
        let is_whole = self.phase.is_closed_and_promised() && !self.draft.has_gone_bytes();
        is_whole.then(|| {
            Arc::new(ClosedEdition {
                revision: self.revision,
                draft: self.draft.clone(),
                headers: self.headers.clone(),
                file: file.clone(),
                base: self.base.clone(),
            })
        })
    }

    /// Has the rest sent anew if the lost bytes are truncated, and the rest is here.
    pub(crate) fn restore_if_whole(&mut self) {
        if self.phase.is_lost() && !self.draft.has_gone_bytes() {
            self.step(Step::Restore);
            // The store has forgotten it.
            drop(self.forget_upload());
        }
    }

    /// Replaces the edition by an empty one, with files of its own. The one before has `room` in the spool, and readers see
    /// it if it is `closed`. Uncertain commits stay: an object in the bucket may still be ours.
    pub(crate) fn begin_edition(
        &mut self,
        file: &SpoolFile,
        room: u64,
        closed: Option<Arc<ClosedEdition>>,
    ) {
        self.replaced_edition = Some(ReplacedEdition {
            id: file.id(),
            room,
            upload: self.upload.begin_edition(),
            base: self.base.take(),
            closed,
        });
        self.unnoted = Extents::default();
        self.records = self.uncertain.records();
        let is_scattered = !self.draft.is_in_order();
        self.records
            .extend(is_scattered.then_some(Record::Scattered));
        self.step(Step::BeginEdition);
    }
}

/// Uncertain commits, and the journal.
impl DraftState {
    /// Notes that the object with this tag is, or may be, in the bucket, and is ours. It has these headers, if they are
    /// known.
    pub(crate) fn add_uncertain(&mut self, etag: ETag, headers: Option<Headers>) {
        let record = self.uncertain.add(etag, headers);
        self.records.extend(record);
    }

    /// Returns the beginning and the records of a new journal, valid once the bytes are durable.
    pub(crate) fn journal_snapshot(&self) -> (Box<Begin>, Vec<Record>) {
        let size = self.draft.base();
        let mut records = vec![Record::Cut { size }];
        records.extend(self.wrote());
        records.extend(self.upload.record());
        records.extend(self.sent());
        let gone = self.draft.gone_parts();
        records.extend(gone.map(|(index, _)| Record::Evicted { index }));
        records.extend((!self.draft.is_in_order()).then_some(Record::Scattered));
        records.extend(self.uncertain.records());
        records.extend(self.upload.completion().map(Completion::record));
        records.push(Record::Synced);
        (Box::new(self.beginning()), records)
    }

    /// Returns the ranges that are in the spool, and those that were before they left.
    fn wrote(&self) -> Vec<Record> {
        let mut extents = self.draft.local().clone();
        for (_, range) in self.draft.gone_parts() {
            extents.insert(range);
        }
        Record::wrote(self.draft.size(), &extents)
    }

    fn sent(&self) -> impl Iterator<Item = Record> {
        let sent = self.draft.sent_parts();
        sent.filter_map(|(index, sent)| {
            let sums = *self.upload.sums_of(index)?;
            Some(Record::part(index, sent.length, &sent.etag, sums))
        })
    }
}
