//! The version that a draft is based on, and the bytes that it has of it.

use super::DraftState;
use crate::draft::base_version::BaseVersion;
use crate::publish::staging_key::is_staging_key;
use tidegate_plan::{ByteRange, ETag};

impl DraftState {
    pub(crate) fn base(&self) -> Option<&BaseVersion> {
        self.base.as_ref()
    }

    /// Returns the base, if it is a version of the draft's own object.
    pub(crate) fn own_base(&self) -> Option<&BaseVersion> {
        self.base().filter(|base| base.key == self.id().key)
    }

    /// Returns the version of another object that the draft began as.
    pub(crate) fn copied_base(&self) -> Option<&BaseVersion> {
        let base = self.base()?;
        let is_other = base.key != self.id().key && !is_staging_key(base.key.as_str());
        is_other.then_some(base)
    }

    /// Takes a range of a version as the draft's bytes at the same offsets. Returns the base before, and `None` if the
    /// draft has other bytes in front of them, or has begun to send some.
    pub(crate) fn take_copy(
        &mut self,
        source: &BaseVersion,
        range: ByteRange,
    ) -> Option<Option<BaseVersion>> {
        let is_fresh = !self.is_promised() && !self.phase.is_discarded() && !self.phase.is_lost();
        let is_sent = self.upload.is_used() || self.retry.is_sending();
        if !is_fresh || is_sent || source.key == self.id().key {
            return None;
        }
        let goes_on = self.copied_base().is_some_and(|base| base.is(source));
        if goes_on && range.start == self.draft.size() {
            return self.draft.extend_base(range.end).then_some(None);
        }
        if self.draft.size() > 0 || range.start > 0 {
            return None;
        }
        self.draft = self.draft.successor(range.end);
        self.upload.forget_sums();
        Some(self.base.replace(source.clone()))
    }

    /// Notes that a range of the base is in the spool, beside the written ones. Returns how many bytes of it are new there.
    pub(crate) fn record_fill(&mut self, range: ByteRange) -> u64 {
        self.draft.record_fill(range)
    }

    /// Gives a copied base up, if the spool has all that the draft has of it.
    pub(crate) fn leave_copied_base(&mut self) {
        let all = ByteRange::new(0, u64::MAX);
        if self.copied_base().is_none() || self.draft.first_of_base(all).is_some() {
            return;
        }
        // The journal knows nothing of what was filled from the base.
        let base = ByteRange::new(0, self.draft.base());
        for range in self.draft.local().within(base) {
            self.journal.add_written(range);
        }
        self.draft.forget_base();
        self.base = None;
    }

    /// Returns the tag of the object's version of which it is a copy of `size` bytes.
    pub(crate) fn copied_tag(&self, size: u64) -> Option<ETag> {
        let base = self.own_base().filter(|_| self.is_untouched(size));
        base.map(|base| base.version.etag.clone())
    }

    /// Returns whether it is the whole base, which has `size` bytes.
    pub(crate) fn is_untouched(&self, size: u64) -> bool {
        let whole = self.base().map(|base| base.version.size);
        size > 0 && whole == Some(size) && self.is_of_base(size)
    }

    /// Returns whether all its bytes, `size` of them, are those of the base.
    pub(crate) fn is_of_base(&self, size: u64) -> bool {
        let all = ByteRange::new(0, size);
        self.draft.first_of_base(all) == Some(all)
    }

    /// Returns whether it began as an empty version of the object.
    pub(crate) fn began_empty(&self) -> bool {
        let base = self.own_base();
        base.is_some_and(|base| base.version.size == 0)
    }
}
