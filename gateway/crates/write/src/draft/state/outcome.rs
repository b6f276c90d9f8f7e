//! The ends of a draft's way: it is published, discarded, or has another key.

use std::sync::Arc;

use super::DraftState;
use super::target::RenamedTarget;
use crate::draft::base_version::BaseVersion;
use crate::draft::phase::Step;
use crate::draft::uncertain::UncertainCommits;
use tidegate_origin::Guard;
use tidegate_plan::attributes::Attributes;
use tidegate_plan::{ETag, ObjectId, Timestamp, Version};

impl DraftState {
    /// Notes that the bucket has it as this version, which the draft is based on from now on. Returns the base before.
    /// The caller has dropped its files.
    pub(crate) fn publish(&mut self, version: Arc<Version>) -> Option<BaseVersion> {
        self.draft = self.draft.successor(version.size);
        self.target.expect(version.etag.clone());
        self.upload.end();
        self.uncertain = UncertainCommits::default();
        self.step(Step::Publish);
        let key = self.id().key.clone();
        self.base.replace(BaseVersion { key, version })
    }

    /// Makes a staged object the base: the spool has no byte of it. Returns the base before, and the room in the spool
    /// that is free then. The caller has restarted the journal.
    pub(crate) fn rebase(&mut self, base: BaseVersion) -> (Option<BaseVersion>, u64) {
        let freed = self.take_room();
        self.draft = self.draft.successor(base.version.size);
        self.upload.end();
        self.journal.forget_written();
        (self.base.replace(base), freed)
    }

    /// Takes the version in the bucket for one of the draft's own: bytes that are still the base's are the same in it.
    /// Returns whether the condition on the key was another one.
    pub(crate) fn adopt(&mut self, found: Version) -> bool {
        let guard = Guard::Same(found.etag.clone());
        if !self.uncertain.has(&found, self.guard()) || *self.guard() == guard {
            return false;
        }
        self.target.expect(found.etag.clone());
        if self.own_base().is_some() {
            let key = self.id().key.clone();
            let version = Arc::new(found);
            self.base = Some(BaseVersion { key, version });
        }
        true
    }

    /// Drops the condition on the key.
    pub(crate) fn drop_guard(&mut self) {
        self.target.drop_guard();
    }

    /// Takes the revision of the change of attributes that is published with it.
    pub(crate) fn take_attributes_of(&mut self) -> Option<u64> {
        self.target.take_attributes_of()
    }

    /// Notes that its headers have the waiting change of attributes of this revision.
    pub(crate) fn note_attributes_of(&mut self, revision: u64) {
        self.target.note_attributes_of(revision);
    }

    /// Closes it with a waiting change of attributes, which is to be sent. No time moves.
    pub(crate) fn close_with_attributes(&mut self, attributes: &Attributes, revision: u64) {
        self.target.take_along(attributes, revision);
        self.send_anew();
        self.step(Step::Close);
    }

    /// Begins its publish under another key, under a condition, with the change of attributes that waits there. Returns
    /// what it had under the old one.
    pub(crate) fn begin_rename(
        &mut self,
        new: &ObjectId,
        guard: Guard,
        attributes_of: Option<u64>,
        now: Timestamp,
    ) -> RenamedTarget {
        // Before it has another key: no sync writes the journal anew.
        self.step(Step::BeginAttempt);
        self.times.rename(now);
        self.target.rename(new.clone(), guard, attributes_of)
    }

    /// Gives it its old key back, under which it was not published.
    pub(crate) fn take_back(&mut self, before: RenamedTarget) {
        self.target.take_back(before);
    }

    /// Follows an object that was renamed in the bucket, as a version with this tag.
    pub(crate) fn follow(&mut self, new: &ObjectId, etag: ETag, version: Version) {
        if !self.phase.is_dirty() {
            self.draft = self.draft.successor(version.size);
        }
        self.target.follow(new.clone(), etag.clone());
        self.base = Some(BaseVersion {
            key: new.key.clone(),
            version: Arc::new(Version {
                etag,
                version_id: None,
                ..version
            }),
        });
    }

    /// Forgets its bytes and its base, which it returns: a discarded draft has no handle any more.
    pub(crate) fn forget_content(&mut self) -> Option<BaseVersion> {
        self.draft = self.draft.successor(0);
        self.base.take()
    }
}
