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

use crate::draft::shared_draft::SharedDraft;
use crate::draft::state::DraftState;
use crate::{Commit, Drafts, Writer};
use tidegate_plan::ByteRange;

impl Drafts {
    /// Returns whether more than half of the spool is taken.
    fn is_half_full(&self) -> bool {
        let space = &self.spool.space;
        space.used() > space.size() / 2
    }
}

impl SharedDraft {
    /// Returns whether it waits for its close. Releases the memory of all its parts then, but the one that was written last.
    pub(crate) fn waits_for_close(&self) -> bool {
        let mut state = self.state();
        if !state.may_wait() || self.inner.is_half_full() {
            return false;
        }
        let sizes = state.draft().sizes();
        let last = sizes.index(state.draft().last_write_end().saturating_sub(1));
        let left = state.handles_mut().keep_in_memory(last);
        if last != left
            && let Some(file) = state.file()
        {
            let end = sizes.start(last.max(left + 1));
            file.let_go(ByteRange::new(sizes.start(left), end));
        }
        true
    }

    /// Returns whether it has other files wait for room: it is sent without a wait for a rename.
    pub(crate) fn is_in_the_way(&self, state: &DraftState) -> bool {
        !state.draft().is_one_part() && self.inner.is_half_full()
    }
}

impl Writer {
    /// Announces when the closes of this handle return. If all handles of a new file close in the background, nothing of
    /// it is sent before a close, up to a size.
    pub fn announce_commit(&self, commit: Commit) {
        let closes_behind = commit == Commit::Background;
        let mut state = self.writing.state();
        state.handles_mut().announce(closes_behind);
    }
}
