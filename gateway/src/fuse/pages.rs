//! Which version's pages the kernel may hold of a file: of one at a time, ever.
//!
//! The kernel keeps pages, size and times by node. Handles are on versions, and several can be open
//! on one node. So:
//!
//! - The first handle that reads through pages decides which version they are of. As long as one
//!   such handle is open, the node shows that version's size and time: the kernel cuts pages off
//!   where a file becomes shorter.
//! - A handle on another version meanwhile reads past the pages (`FOPEN_DIRECT_IO`).
//! - Once they are all closed, pages stay, and are kept by the next handle on the same version. A
//!   handle on another one has them dropped first.

use std::time::Duration;

use crate::engine::names::Facts;
use crate::plan::{Timestamp, VersionId};

/// What the kernel holds of one file. See the module's head.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// The version that pages may be of.
    of: Option<VersionId>,
    /// Handles that read through pages, all of them on `of`, and what it is.
    handles: u32,
    pinned: Option<Facts>,
    /// What the kernel was told last.
    told: Option<(u64, Option<Timestamp>)>,
}

/// How a handle is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// What the kernel holds is right.
    Keep,
    /// The kernel must drop pages and attributes first.
    Drop,
    /// The pages belong to another version's handles.
    Direct,
}

impl Pages {
    /// A handle on version `id` is opened that would read through pages.
    pub(super) fn open(&mut self, id: VersionId, facts: &Facts) -> Opening {
        if self.handles > 0 && self.of != Some(id) {
            return Opening::Direct;
        }
        let same = self.of.is_none_or(|of| of == id);
        let opening = match same && self.told == Some(told(facts)) {
            true => Opening::Keep,
            false => Opening::Drop,
        };
        self.of = Some(id);
        self.handles += 1;
        self.pinned = Some(facts.clone());
        opening
    }

    /// A handle that was not opened [`Opening::Direct`] is closed.
    pub(super) fn close(&mut self) {
        self.handles -= 1;
        if self.handles == 0 {
            self.pinned = None;
        }
    }

    /// What an open handle holds the node to.
    pub(super) fn pinned(&self) -> Option<&Facts> {
        self.pinned.as_ref()
    }

    /// The size that the kernel was told last.
    pub(super) fn size(&self) -> Option<u64> {
        self.told.map(|(size, _)| size)
    }

    /// What to tell the kernel of a file of which `facts` are known now, and for how long that
    /// holds.
    pub(super) fn show(&mut self, facts: &Facts, fresh: Duration) -> (Facts, Duration) {
        let (shown, fresh) = match &self.pinned {
            // As soon as the old version's handles are closed, the new one shows.
            Some(pinned) if told(pinned) != told(facts) => (pinned.clone(), Duration::ZERO),
            _ => (facts.clone(), fresh),
        };
        self.told = Some(told(&shown));
        (shown, fresh)
    }
}

fn told(facts: &Facts) -> (u64, Option<Timestamp>) {
    (facts.size, facts.modified)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: VersionId = VersionId(1);
    const B: VersionId = VersionId(2);
    const LONG: Duration = Duration::from_secs(60);

    fn facts(size: u64) -> Facts {
        Facts {
            size,
            modified: Some(Timestamp(size)),
            etag: None,
            version: None,
        }
    }

    #[test]
    fn pages_stay_while_the_version_stands() {
        let mut pages = Pages::default();
        pages.show(&facts(1), LONG);
        assert_eq!(pages.open(A, &facts(1)), Opening::Keep);
        assert_eq!(pages.open(A, &facts(1)), Opening::Keep);
        pages.close();
        pages.close();
        assert_eq!(pages.open(A, &facts(1)), Opening::Keep);
        pages.close();
        assert_eq!(pages.open(B, &facts(1)), Opening::Drop);
    }

    #[test]
    fn two_versions_never_meet_in_pages() {
        let mut pages = Pages::default();
        pages.show(&facts(1), LONG);
        assert_eq!(pages.open(A, &facts(1)), Opening::Keep);
        assert_eq!(pages.open(B, &facts(2)), Opening::Direct);
        assert_eq!(pages.show(&facts(2), LONG), (facts(1), Duration::ZERO));
        assert_eq!(pages.show(&facts(1), LONG), (facts(1), LONG));
        pages.close();
        assert_eq!(pages.show(&facts(2), LONG), (facts(2), LONG));
        assert_eq!(pages.open(B, &facts(2)), Opening::Drop);
        assert_eq!(pages.open(A, &facts(1)), Opening::Direct);
    }

    #[test]
    fn what_the_kernel_was_told_wrong_is_dropped() {
        let mut pages = Pages::default();
        pages.show(&facts(1), LONG);
        assert_eq!(pages.open(B, &facts(2)), Opening::Drop);
    }
}
