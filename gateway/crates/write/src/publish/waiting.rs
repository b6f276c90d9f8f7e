//! New files whose upload waits for their close.
//!
//! Programs set modes and times, and the final name, once all bytes are written. An upload in parts that was begun before
//! has the old headers and the old key: a copy on the server mends each of them. Where a close waits for no bucket, the
//! upload may as well begin after it.
//!
//! A file waits as long as none of its bytes could leave the spool if they were sent ([`Draft::is_kept_whole`]), so it
//! takes no room that other writers would have. If half of the spool is taken, no file waits: what is closed then leaves
//! sooner. A waiting file holds the memory of one part, as a small file does; the rest is read from the disk.
//!
//! [`Draft::is_kept_whole`]: tidegate_plan::upload::Draft::is_kept_whole

use crate::change::temporary::is_temporary;
use crate::draft::shared_draft::SharedDraft;
use crate::draft::state::DraftState;
use crate::{Commit, Drafts, Writer};
use tidegate_origin::write::Headers;
use tidegate_plan::ByteRange;
use tidegate_plan::attributes::MTIME_HEADER;
use tidegate_plan::folder::has_sure_name;

impl Drafts {
    /// Returns whether more than half of the spool is taken.
    fn is_half_full(&self) -> bool {
        let space = &self.spool.space;
        space.used() > space.size() / 2
    }
}

impl DraftState {
    /// Returns whether nothing of it is sent before a close, unless the spool is short of room.
    fn may_wait(&self) -> bool {
        let is_whole = !self.phase().is_discarded() && !self.phase().is_lost();
        let is_untouched = !self.upload().is_used() && !self.retry().is_sending();
        let is_new = self.base.is_none();
        // Its close is to be short: it waits for the bucket.
        let is_asked = self.may_be_refused() && !is_temporary(self.id.key.as_str());
        let may_wait = self.closes_behind && is_whole && is_new && !is_asked;
        may_wait && is_untouched && self.draft.is_kept_whole()
    }

    /// Returns whether the store may refuse its name, so that a close in the background asks the bucket. The store has
    /// taken the name of an object that is there.
    pub(crate) fn may_be_refused(&self) -> bool {
        let key = &self.id.key;
        let is_there = self.base.as_ref().is_some_and(|base| base.key == *key);
        !is_there && !has_sure_name(key.as_str())
    }

    /// Returns whether one request, or an upload that a close begins, sends all of it.
    pub(crate) fn is_sent_at_close(&self) -> bool {
        self.draft.is_one_part() || (self.closes_behind && self.draft.is_kept_whole())
    }

    /// Returns the headers for an upload that begins now. After the last write they have the time of the content.
    pub(crate) fn headers_to_begin(&self) -> Headers {
        let is_complete = self.phase().is_publishing() && !self.upload().is_staged();
        match self.closes_behind && is_complete {
            true => self.headers_to_store(),
            false => self.headers.clone(),
        }
    }

    /// Returns the headers that the object of an upload is to have, which was begun with `begun_with`.
    pub(crate) fn headers_to_end(&self) -> Headers {
        let begun_with = self.upload().begun_with();
        let is_dated = begun_with.iter().any(|(name, _)| *name == MTIME_HEADER);
        match is_dated {
            true => self.headers_to_store(),
            false => self.headers.clone(),
        }
    }
}

impl SharedDraft {
    /// Returns whether it waits for its close. Releases the memory of all its parts then, but the one that was written last.
    pub(crate) fn waits_for_close(&self) -> bool {
        let mut state = self.state();
        if !state.may_wait() || self.inner.is_half_full() {
            return false;
        }
        let sizes = state.draft.sizes();
        let last = sizes.index(state.draft.last_write_end().saturating_sub(1));
        let left = state.part_in_memory;
        if last != left
            && let Some(file) = state.file()
        {
            let end = sizes.start(last.max(left + 1));
            file.let_go(ByteRange::new(sizes.start(left), end));
        }
        state.part_in_memory = last;
        true
    }

    /// Returns whether it has other files wait for room: it is sent without a wait for a rename.
    pub(crate) fn is_in_the_way(&self, state: &DraftState) -> bool {
        !state.draft.is_one_part() && self.inner.is_half_full()
    }
}

impl Writer {
    /// Announces when the closes of this handle return. If all handles of a new file close in the background, nothing of
    /// it is sent before a close, up to a size.
    pub fn announce_commit(&self, commit: Commit) {
        let mut state = self.writing.state();
        let is_alone = state.handles <= 1;
        state.closes_behind = commit == Commit::Background && (is_alone || state.closes_behind);
    }
}
