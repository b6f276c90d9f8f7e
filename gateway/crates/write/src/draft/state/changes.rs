//! Changes of a draft that programs make: writes, other lengths, other headers.

use super::DraftState;
use crate::draft::phase::Step;
use crate::spool::journal::Record;
use tidegate_origin::write::Headers;
use tidegate_plan::attributes::Attributes;
use tidegate_plan::upload::GonePart;
use tidegate_plan::{ByteRange, Timestamp};

impl DraftState {
    /// Notes that a writer closed it, and that it is to be published in the background.
    pub(crate) fn close_for_queue(&mut self) {
        self.step(Step::Close);
        self.journal.push(Record::Closed);
    }

    /// Announces a write: readers of the closed draft notice it before a byte changes.
    pub(crate) fn begin_write(&mut self, range: ByteRange) -> Result<(), GonePart> {
        self.draft.begin_write(range)?;
        self.times.count();
        self.step(Step::BeginChange);
        Ok(())
    }

    /// Notes that a range was written. Returns how many bytes of it are new in the spool.
    pub(crate) fn end_write(&mut self, range: ByteRange, now: Timestamp) -> u64 {
        let grown = self.draft.end_write(range);
        self.journal.add_written(range);
        self.note_change(now);
        grown
    }

    /// Notes that a write has failed.
    pub(crate) fn fail_write(&mut self, range: ByteRange) {
        self.draft.fail_write(range);
    }

    /// Cuts it to the first `kept` bytes, and then to `size`, which is not shorter. Returns the bytes of the spool that
    /// are free then.
    pub(crate) fn resize(
        &mut self,
        (kept, size): (u64, u64),
        now: Timestamp,
    ) -> Result<u64, GonePart> {
        self.note_written();
        let mut freed = 0;
        for (from, size) in [(self.draft.size(), kept), (kept, size)] {
            if from != size {
                // The second one cannot fail after the first: it begins where no byte is gone.
                freed += self.draft.truncate(size)?;
                self.journal.push(Record::Cut { size });
            }
        }
        self.note_change(now);
        self.restore_if_whole();
        Ok(freed)
    }

    /// Cuts it to nothing, in place. Returns the bytes of the spool that are free then.
    pub(crate) fn empty(&mut self, now: Timestamp) -> u64 {
        self.note_written();
        // A cut to nothing goes through no part that has left the spool.
        let freed = self.draft.truncate(0).unwrap_or_default();
        self.journal.push(Record::Cut { size: 0 });
        self.note_change(now);
        self.step(Step::ReplaceAll);
        self.restore_if_whole();
        freed
    }

    /// Drops the condition on the version before, and takes the headers of a writer that replaces the object: the last
    /// commit wins.
    pub(crate) fn replace_all(&mut self, headers: Headers, now: Timestamp) {
        self.step(Step::ReplaceAll);
        let record = self.target.replace_all(headers);
        self.journal.push(record);
        self.note_change(now);
    }

    /// Has the rest sent anew if the lost bytes are truncated, and the rest is here.
    fn restore_if_whole(&mut self) {
        if self.phase.is_lost() && !self.draft.has_gone_bytes() {
            self.step(Step::Restore);
            // The store has forgotten it.
            drop(self.forget_upload());
        }
    }

    /// Notes a write. It invalidates a completion under way, and a set time of the content.
    pub(crate) fn note_change(&mut self, now: Timestamp) {
        self.note_headers(now);
        self.times.note_content();
        if let Some(record) = self.target.drop_set_time() {
            self.journal.push(record);
        }
    }

    /// Changes the attributes that the object will have.
    pub(crate) fn set_attributes(&mut self, now: Timestamp, change: impl FnOnce(&mut Attributes)) {
        if let Some(record) = self.target.set_attributes(change) {
            self.journal.push(record);
            self.note_headers(now);
        }
    }

    /// Notes a change of a header. It invalidates a completion under way.
    fn note_headers(&mut self, now: Timestamp) {
        self.times.change(now, self.phase.is_dirty());
        self.send_anew();
    }

    /// Has it sent anew, with headers that were changed before: no time moves.
    pub(super) fn send_anew(&mut self) {
        self.times.count();
        self.step(Step::Change);
        self.upload.forget_completion();
    }
}
