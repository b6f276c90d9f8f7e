//! The room that a draft has in the spool beside that of its bytes, and what is to leave it.

use tidegate_plan::{ByteRange, Extents};

/// A range that leaves the spool, and how many bytes of it are there.
pub(crate) type LeavingRange = (ByteRange, u64);

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct DraftRoom {
    /// Ranges for whose bytes room was taken ahead.
    set_aside: Extents,
    /// Ranges that were to leave the spool and are still there. The draft counts them no more.
    leaving: Vec<LeavingRange>,
    /// Whether parts are being evicted ahead of need.
    is_evicting: bool,
    /// Whether the last eviction failed, of which the log knows.
    eviction_fails: bool,
}

impl DraftRoom {
    pub(crate) fn has_set_aside(&self) -> bool {
        self.set_aside.bytes() > 0
    }

    /// Returns the pieces of a range for which no room was taken ahead.
    pub(super) fn gaps(&self, range: ByteRange) -> Vec<ByteRange> {
        self.set_aside.gaps(range)
    }

    /// Notes that room was taken for a range ahead.
    pub(crate) fn set_aside(&mut self, range: ByteRange) {
        self.set_aside.insert(range);
    }

    /// Hands the room of a range to a write; returns its bytes.
    pub(crate) fn use_up(&mut self, range: ByteRange) -> u64 {
        self.set_aside.remove(range)
    }

    /// Takes the ranges that could not leave the spool before.
    pub(super) fn take_leaving(&mut self) -> Vec<LeavingRange> {
        std::mem::take(&mut self.leaving)
    }

    /// Keeps the room of a range that could not leave the spool.
    pub(crate) fn leave_later(&mut self, range: LeavingRange) {
        self.leaving.push(range);
    }

    /// Takes all of the room; returns its bytes.
    pub(super) fn take(&mut self) -> u64 {
        let leaving = self.take_leaving().into_iter();
        let set_aside = std::mem::take(&mut self.set_aside).bytes();
        set_aside + leaving.map(|(_, freed)| freed).sum::<u64>()
    }

    /// Begins an eviction ahead of need. `false`: another one is under way.
    pub(crate) fn begin_evicting(&mut self) -> bool {
        !std::mem::replace(&mut self.is_evicting, true)
    }

    pub(crate) fn end_evicting(&mut self) {
        self.is_evicting = false;
    }

    /// Notes a failed eviction. Returns whether it is the first one in a row.
    pub(crate) fn note_failed_eviction(&mut self) -> bool {
        !std::mem::replace(&mut self.eviction_fails, true)
    }

    pub(crate) fn note_eviction(&mut self) {
        self.eviction_fails = false;
    }
}
