//! The version whose pages the kernel may hold of a file: never more than one.
//!
//! The kernel keeps pages, size and times by node. Handles are on versions, and several can be open
//! on one node. So:
//!
//! - The first handle decides the version. As long as one is open, the node shows that version's size and time: the
//!   kernel cuts pages off where a file becomes shorter.
//! - A handle on another version meanwhile needs a node of its own: bypassing the pages does not work where the kernel
//!   copies (`sendfile`) or maps. So handles that bypass them count as well.
//! - Once they are all closed, pages stay, and are kept by the next handle on the same version. A handle on another
//!   version has them dropped first.
//! - While the file is written here, pages are of the *draft*, and so is every handle: writes go through the pages, or
//!   past them while there are none (`file_draft`). When a draft begins, pages are dropped unless they are of the
//!   version that it is based on. When it ends with a commit, they are of the committed version, and stay.

use std::time::Duration;

use tidegate_engine::names::Facts;
use tidegate_plan::attributes::Attributes;
use tidegate_plan::{ETag, Timestamp, VersionId};

/// The kernel's pages of one file. See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// The version that pages may be of.
    owner: PageOwner,
    /// Open handles, all of them on `owner`.
    handles: u32,
    pinned: Option<Facts>,
    /// The size and time that the kernel was told last.
    told: Option<(u64, Option<Timestamp>)>,
    /// Whether the kernel itself has written its pages, and so does not know the version's time.
    written: bool,
    /// Whether pages may have been read before a purge of their version, or may be of another one.
    doubted: bool,
}

/// The version that pages may be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum PageOwner {
    /// There are none.
    #[default]
    Nothing,
    /// This version.
    Version(VersionId),
    /// The draft.
    Draft,
    /// A draft that has changed since.
    Unknown,
}

/// The treatment of the kernel's pages at an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageAction {
    /// The kernel's pages and attributes are right.
    Keep,
    /// The kernel must drop pages and attributes first.
    Drop,
    /// The pages belong to another version's handles: it needs another node.
    Elsewhere,
}

impl Pages {
    /// Counts an opened handle on version `id`. Not while there is a draft.
    pub(crate) fn open(&mut self, id: VersionId, facts: &Facts) -> PageAction {
        debug_assert!(!self.is_draft(), "such a handle follows the draft");
        let same = self.owner == PageOwner::Version(id);
        if self.handles > 0 && !same {
            return PageAction::Elsewhere;
        }
        let right = !std::mem::take(&mut self.doubted)
            && match self.told {
                // If a version was written through these pages, only the length can be wrong.
                Some((size, _)) if same && self.written => size == facts.size,
                known => {
                    (same || self.owner == PageOwner::Nothing)
                        && known == Some(size_and_time(facts))
                }
            };
        let opening = if right {
            PageAction::Keep
        } else {
            PageAction::Drop
        };
        if self.owner != PageOwner::Version(id) {
            self.written = false;
        }
        self.owner = PageOwner::Version(id);
        self.handles += 1;
        self.pinned = Some(facts.clone());
        opening
    }

    /// Counts an opened handle that follows the draft: the kernel's pages are right.
    pub(crate) fn follow(&mut self) {
        self.handles += 1;
    }

    /// Returns whether handles are open on another version, by ETag. A version that was purged is not another one.
    pub(crate) fn holds_another(&self, than: &ETag) -> bool {
        let held = self.pinned.as_ref().and_then(|it| it.etag.as_ref());
        held.is_some_and(|held| held != than)
    }

    /// Begins a draft of this size: from now on readers read it. Returns whether the kernel must drop its pages first,
    /// because they are not of `base`, the version that the draft begins as, or its attributes, because they have
    /// another size: the kernel seeks by that.
    pub(crate) fn begin(&mut self, base: Option<VersionId>, size: u64) -> bool {
        let believed = self.size().unwrap_or(size);
        let stale = std::mem::take(&mut self.doubted)
            || match self.owner {
                PageOwner::Draft => false,
                PageOwner::Nothing => believed != size,
                PageOwner::Version(of) => base != Some(of) || believed != size,
                PageOwner::Unknown => true,
            };
        self.owner = PageOwner::Draft;
        self.pinned = None;
        stale
    }

    /// Ends a draft. If it was committed, pages are of that version.
    pub(crate) fn settle(&mut self, committed: Option<(VersionId, Facts)>) {
        let Some((id, facts)) = committed else {
            return self.distrust();
        };
        self.owner = PageOwner::Version(id);
        self.told = Some(size_and_time(&facts));
        self.written = true;
        self.pinned = (self.handles > 0).then_some(facts);
    }

    /// Notes that pages may not be of the version: the next open drops them, or has another node.
    pub(crate) fn distrust(&mut self) {
        self.owner = PageOwner::Unknown;
        self.told = None;
    }

    /// Notes that a version was renamed, or copied onto itself, and so has another identity and these `facts`, with the
    /// same bytes.
    pub(crate) fn moved(&mut self, from: VersionId, to: VersionId, facts: &Facts) {
        if self.owner != PageOwner::Version(from) {
            return;
        }
        self.owner = PageOwner::Version(to);
        self.written = true;
        if let Some(pinned) = &mut self.pinned {
            pinned.etag.clone_from(&facts.etag);
            pinned.version.clone_from(&facts.version);
        }
    }

    /// Notes that the version was purged: it has the address `to` now, and pages may have what was to be thrown away.
    pub(crate) fn purged(&mut self, from: VersionId, to: VersionId, facts: &Facts) {
        self.moved(from, to, facts);
        self.doubted |= self.owner == PageOwner::Version(to);
    }

    /// Notes that pages which had to be dropped may still be there.
    pub(crate) fn doubt(&mut self) {
        self.doubted = true;
    }

    /// Returns the version that open handles are on, and its tag.
    pub(crate) fn held(&self) -> Option<(VersionId, ETag)> {
        let tag = self.pinned.as_ref()?.etag.clone()?;
        match self.owner {
            PageOwner::Version(id) => Some((id, tag)),
            PageOwner::Nothing | PageOwner::Draft | PageOwner::Unknown => None,
        }
    }

    /// Returns whether handles are open that use the pages.
    pub(crate) fn is_open(&self) -> bool {
        self.handles > 0
    }

    /// Returns whether there is a draft.
    pub(crate) fn is_draft(&self) -> bool {
        self.owner == PageOwner::Draft
    }

    /// Counts a closed handle.
    pub(crate) fn close(&mut self) {
        self.handles -= 1;
        if self.handles == 0 {
            self.pinned = None;
        }
    }

    /// Returns the attributes that an open handle pins.
    pub(crate) fn pinned(&self) -> Option<&Facts> {
        self.pinned.as_ref()
    }

    /// Gives the pinned version attributes, and the time at which they were set.
    pub(crate) fn pin_attributes(&mut self, attributes: Attributes, changed: Timestamp) {
        if let Some(pinned) = &mut self.pinned {
            pinned.attributes = Some(attributes);
            pinned.changed = Some(changed);
        }
    }

    /// Returns the size that the kernel was told last.
    pub(crate) fn size(&self) -> Option<u64> {
        self.told.map(|(size, _)| size)
    }

    /// Notes that the kernel is told the length of the draft.
    pub(crate) fn show_draft(&mut self, size: u64) {
        self.told = Some((size, None));
    }

    /// Takes back a [`Pages::show`] that was not sent: the kernel's knowledge is now unknown.
    pub(crate) fn forget_shown(&mut self) {
        self.told = Some((u64::MAX, None));
    }

    /// Returns the attributes to send for a file with the present `facts`, and how long they hold.
    pub(crate) fn show(&mut self, facts: &Facts, fresh: Duration) -> (Facts, Duration) {
        let (shown, fresh) = match &self.pinned {
            // Once the old version's handles are closed, the new one shows.
            Some(pinned) if size_and_time(pinned) != size_and_time(facts) => {
                (pinned.clone(), Duration::ZERO)
            }
            _ => (facts.clone(), fresh),
        };
        self.told = Some(size_and_time(&shown));
        (shown, fresh)
    }
}

fn size_and_time(facts: &Facts) -> (u64, Option<Timestamp>) {
    (facts.size, facts.modified)
}

#[cfg(test)]
mod tests;
