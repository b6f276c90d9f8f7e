//! Decisions on a draft's way into the bucket: when it is sent, under which condition, and with which headers.

use std::sync::Arc;

use super::DraftState;
use crate::change::temporary::is_temporary;
use crate::spool::file::SpoolFile;
use tidegate_origin::write::Headers;
use tidegate_origin::{Guard, PartSums};
use tidegate_plan::attributes::MTIME_HEADER;
use tidegate_plan::folder::has_sure_name;

impl DraftState {
    /// Returns whether nothing of it is sent before a close, unless the spool is short of room.
    pub(crate) fn may_wait(&self) -> bool {
        let is_whole = !self.phase.is_discarded() && !self.phase.is_lost();
        let is_untouched = !self.upload.is_used() && !self.retry.is_sending();
        let is_new = self.base.is_none();
        // Its close is to be short: it waits for the bucket.
        let is_asked = self.may_be_refused() && !is_temporary(self.id().key.as_str());
        let may_wait = self.handles.closes_behind() && is_whole && is_new && !is_asked;
        may_wait && is_untouched && self.draft.is_kept_whole()
    }

    /// Returns whether the store may refuse its name, so that a close in the background asks the bucket. The store has
    /// taken the name of an object that is there.
    pub(crate) fn may_be_refused(&self) -> bool {
        self.own_base().is_none() && !has_sure_name(self.id().key.as_str())
    }

    /// Returns whether one request, or an upload that a close begins, sends all of it.
    fn is_sent_at_close(&self) -> bool {
        self.draft.is_one_part() || (self.handles.closes_behind() && self.draft.is_kept_whole())
    }

    /// Returns whether it is a new object for which no request was sent yet.
    pub(crate) fn is_unsent(&self) -> bool {
        let is_whole = self.phase.is_unpublished() && !self.phase.is_lost();
        let is_new = self.base.is_none() && !self.replaces_edition();
        let is_untried = self.uncertain.is_empty() && !self.upload.is_used();
        let is_alone = !self.retry.is_sending() && self.is_sent_at_close();
        let is_first = self.phase.trouble().is_none() && !self.phase.is_publishing();
        is_whole && is_new && is_untried && is_alone && is_first
    }

    /// Returns whether its program will rename it before it means anything to others.
    pub(crate) fn awaits_rename(&self) -> bool {
        is_temporary(self.id().key.as_str()) && self.is_unsent()
    }

    /// Returns whether its close may return before it is in the bucket, also with [`crate::Commit::Close`].
    pub(crate) fn may_close_early(&self) -> bool {
        self.draft.is_one_part() && self.awaits_rename()
    }

    /// Returns whether it is a new, empty object that was not promised.
    pub(crate) fn is_blank(&self) -> bool {
        let is_new = self.base.is_none() && self.draft.size() == 0;
        is_new && !self.phase.is_promised() && !self.is_half_way()
    }

    /// Returns whether an open handle has changed it since the last close.
    pub(crate) fn is_half_way(&self) -> bool {
        self.handles.is_open() && self.phase.is_unclosed()
    }

    /// Returns whether an open handle has truncated it to nothing since the last close. Its own close publishes it.
    pub(crate) fn is_half_replaced(&self) -> bool {
        self.handles.is_open() && self.phase.is_replaced()
    }

    /// Returns the headers for an object that is sent as a whole. One with a mode has the time of its content as well.
    pub(crate) fn headers_to_store(&self) -> Headers {
        self.target.headers_to_store(self.times().modified)
    }

    /// Returns the headers for an upload that begins now. After the last write they have the time of the content.
    pub(crate) fn headers_to_begin(&self) -> Headers {
        let is_complete = self.phase.is_publishing() && !self.upload.is_staged();
        match self.handles.closes_behind() && is_complete {
            true => self.headers_to_store(),
            false => self.headers().clone(),
        }
    }

    /// Returns the headers that the object of the upload is to have. An upload that was begun with the time of the content
    /// has it.
    pub(crate) fn headers_to_end(&self) -> Headers {
        let begun_with = self.upload.begun_with();
        match begun_with.iter().any(|(name, _)| *name == MTIME_HEADER) {
            true => self.headers_to_store(),
            false => self.headers().clone(),
        }
    }

    /// Returns the checksums that the parts of a new upload carry.
    pub(crate) fn part_sums(&self) -> PartSums {
        match self.draft.may_copy() || self.copied_base().is_some() {
            true => PartSums::Crc64,
            false => PartSums::Crc32c,
        }
    }

    /// Returns whether a part would replace promised bytes in the store.
    pub(crate) fn replaces_promised(&self, index: u32) -> bool {
        self.phase.is_promised() && self.draft.replaces_gone(index)
    }

    /// Returns the condition on the key for this commit. A draft that was cut so that it needs no byte of the base replaces
    /// any version, unless the object was to be new. One that began as an empty object was not cut.
    pub(crate) fn guard_now(&self) -> Guard {
        match self.guard() {
            Guard::Same(_) if self.draft.base() == 0 && !self.began_empty() => Guard::None,
            guard => guard.clone(),
        }
    }

    /// Returns the condition that may be dropped if the store does not know it, once a look has found that it holds.
    pub(crate) fn optional_guard(&self) -> Option<Guard> {
        let is_due = match self.guard() {
            Guard::Absent => self.target.may_lack_guard(),
            Guard::Same(_) => self.began_empty(),
            Guard::None => false,
        };
        is_due.then(|| self.guard().clone())
    }

    /// Returns whether these are its files.
    pub(crate) fn has_file(&self, file: &Arc<SpoolFile>) -> bool {
        self.file().is_some_and(|it| Arc::ptr_eq(it, file))
    }
}
