//! Changes of a draft while its parts go to the bucket: the upload is begun, lost, moved, or about to be completed.

use tokio::time::Instant;

use super::DraftState;
use super::room::LeavingRange;
use super::upload::LeftUpload;
use crate::WriteError;
use crate::draft::phase::Step;
use crate::spool::journal::Record;
use tidegate_origin::write::Headers;
use tidegate_origin::{CompletedPart, Sums, Upload};
use tidegate_plan::upload::PartJob;
use tidegate_plan::{ByteRange, ETag};

impl DraftState {
    /// Returns whether the journal names another key: a rename is publishing the draft under its new one. A crash must not
    /// find the upload under that.
    fn is_journaled_elsewhere(&self) -> bool {
        let named = self.file().and_then(|file| file.object());
        named.is_some_and(|named| named.key != self.id().key)
    }

    /// Queues a record of the upload, unless the journal names another key.
    fn note_upload(&mut self, record: Record) {
        if !self.is_journaled_elsewhere() {
            self.journal.push(record);
        }
    }

    /// Takes over an upload that was begun for a draft that was `is_staged` or not. Returns whether it is still the right
    /// one.
    pub(crate) fn begin_upload(
        &mut self,
        upload: &Upload,
        is_staged: bool,
        headers: Headers,
    ) -> bool {
        let is_other_key = !is_staged && self.id().key != upload.key;
        if self.phase.is_discarded() || self.upload.is_staged() != is_staged || is_other_key {
            return false;
        }
        let record = Record::upload(upload, &headers);
        self.note_upload(record);
        self.upload.begin(upload.clone(), headers);
        true
    }

    /// Notes that a part is being sent.
    pub(crate) fn begin_part(&mut self, job: &PartJob) {
        self.draft.begin_send(job);
        self.retry.begin_part();
    }

    /// Notes that a part was not sent. Returns whether that is a failure, after which sending pauses: a part that was
    /// written to while it was read is none. After the loss of an upload, no part is current.
    pub(crate) fn fail_part(&mut self, job: &PartJob, now: Instant, error: &WriteError) -> bool {
        self.retry.end_part();
        let is_current = self.draft.is_current(job);
        self.draft.end_send(job, None);
        let has_failed = is_current || *error == WriteError::Lost;
        if has_failed {
            self.retry.pause(now, error.clone());
            self.hold_no_memory();
        }
        has_failed
    }

    /// Notes that a part was sent. Returns whether it has the bytes that the draft has now.
    pub(crate) fn end_part(&mut self, job: &PartJob, etag: &ETag, sums: Sums) -> bool {
        self.retry.end_part();
        self.retry.end_pause();
        self.note_written();
        let is_current = self.draft.end_send(job, Some(etag.clone()));
        if is_current {
            let length = job.range.len();
            let record = self.upload.add_part(job.index, length, etag, sums);
            self.note_upload(record);
        }
        is_current
    }

    /// Notes the outcome of the comparison of a part that an earlier process sent: it is sent again if the spool has other
    /// bytes.
    pub(crate) fn end_verification(&mut self, index: u32, is_same: bool) {
        if !is_same {
            self.draft.mark_unsent(index);
        }
        self.upload.end_verification(index);
    }

    /// Notes that the object is about to be completed from these parts.
    pub(crate) fn begin_completion(&mut self, parts: Vec<CompletedPart>, before: Option<ETag>) {
        self.note_written();
        let record = self.upload.begin_completion(parts, before);
        self.note_upload(record);
    }

    /// Forgets a completion that has failed for good.
    pub(crate) fn forget_completion(&mut self) {
        self.upload.forget_completion();
    }

    /// Forgets the upload, with its parts and its completion. Returns it: the caller abandons it.
    pub(crate) fn forget_upload(&mut self) -> Option<Upload> {
        self.draft.forget_sent();
        self.journal.push(Record::Unsent);
        self.upload.take().map(|left| left.upload)
    }

    /// Does the same, if an upload was begun.
    pub(crate) fn forget_begun_upload(&mut self) -> Option<Upload> {
        match self.upload.begun() {
            Some(_) => self.forget_upload(),
            None => None,
        }
    }

    /// Takes the upload of a draft that is given up.
    pub(crate) fn take_upload(&mut self) -> Option<LeftUpload> {
        self.upload.take()
    }

    /// Sends nothing any more: the draft is kept for its open handles. Bytes that had left the spool are still gone.
    pub(crate) fn end_sending(&mut self) {
        self.upload.forget_unverified();
        self.upload.end_staging();
        if !self.draft.has_gone_bytes() {
            self.draft.forget_sent();
        }
    }

    /// Returns a part to compare with the spool: see [`super::upload::UploadState::next_unverified`].
    pub(crate) fn next_unverified(&mut self) -> Option<(u32, ByteRange, Sums)> {
        self.upload.next_unverified(&self.draft)
    }

    /// Takes an upload that is not used, because the object was published without it.
    pub(crate) fn take_unused_upload(&mut self) -> Option<Upload> {
        self.upload.take().map(|left| left.upload)
    }

    /// Notes that the store has lost the upload, and with it bytes that had left the spool.
    pub(crate) fn lose_sent_bytes(&mut self) {
        self.upload.forget_completion();
        self.step(Step::Lose);
    }

    /// Sends and copies parts of one size from now on. Returns whether those that are here are sent again in the same
    /// upload, because it has bytes that left the spool. Otherwise the caller gives it up.
    pub(crate) fn send_apart(&mut self) -> bool {
        self.upload.copy_apart();
        let has_gone = self.draft.has_gone_bytes();
        if has_gone {
            self.upload.forget_completion();
            self.draft.mark_local_unsent();
        }
        has_gone
    }

    /// Selects parts to evict, at least one if there is any, beginning with those that failed before.
    pub(crate) fn evict(&mut self, at_once: u64) -> Vec<LeavingRange> {
        let mut parts = self.room.take_leaving();
        let mut all: u64 = parts.iter().map(|(_, freed)| freed).sum();
        while all < at_once.max(1)
            && let Some((index, range, freed)) = self.draft.evict()
        {
            self.note_written();
            self.journal.push(Record::Evicted { index });
            parts.push((range, freed));
            all += freed;
        }
        parts
    }

    /// Switches to a staging key. Returns the upload under the own key: the caller abandons it.
    pub(crate) fn begin_staging(&mut self) -> Option<Upload> {
        self.upload.begin_staging();
        self.forget_upload()
    }

    /// Returns to the own key, once the staged object is the base.
    pub(crate) fn end_staging(&mut self) {
        self.upload.end_staging();
    }
}
