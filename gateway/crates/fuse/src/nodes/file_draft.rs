//! The draft of a file, and the handles that write to it.
//!
//! As long as any handle of a file that was written here is open, the draft is held: readers read the written bytes,
//! and after a commit the version that was committed. A handle *follows* a draft that was begun while the handle was
//! open. A handle that is opened when no handle writes any more is on a version of its own, as in a read-only mount.
//!
//! A handle that alone opens a file to fill it, while the file has little or nothing in it, bypasses the kernel's
//! pages: they are seldom read, and to make one costs as much as to write to it. As long as that handle is open, other
//! handles bypass them too.

use std::sync::Arc;

use tidegate_engine::Object;
use tidegate_plan::VersionId;
use tidegate_write::Writer;

/// The state of a file's draft and handles: see the module's head.
#[derive(Debug, Default)]
pub(crate) struct FileDraft {
    writer: Option<Arc<Writer>>,
    /// The changes of the draft that were made through this node.
    changes: u64,
    /// Those of them that were there at the last close that published it.
    published: u64,
    /// The changes that other mounts had made by the time at which the kernel's pages were last right.
    shown: u64,
    /// The version that it was committed as last.
    settled: Option<Object>,
    /// Open handles that write.
    writers: u32,
    /// Open handles that write and bypass the pages.
    past: u32,
    /// Open handles through which the kernel runs the file.
    runs: u32,
    /// Open handles.
    handles: u32,
    /// The number of drafts that were begun.
    begun: u64,
    /// The versions that the file had when it was renamed, each with the object that has its bytes now.
    moved: Vec<(VersionId, Object)>,
}

/// The purpose that a handle is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    /// The kernel reads it, to run it.
    Run,
    /// It writes, and may read.
    Write,
    /// It writes to a file with little in it.
    Fill,
}

/// The state that a handle is given when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HandleEntry {
    /// The number of drafts begun before it.
    pub(crate) born: u64,
    /// It must bypass the kernel's pages.
    pub(crate) past: bool,
    purpose: Purpose,
}

impl Purpose {
    fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Fill)
    }
}

impl FileDraft {
    /// Returns the draft, if one is held.
    pub(crate) fn writer(&self) -> Option<Arc<Writer>> {
        self.writer.clone()
    }

    /// Returns the draft, if a handle of this birth reads it.
    pub(crate) fn followed(&self, born: u64) -> Option<Arc<Writer>> {
        self.writer.clone().filter(|_| self.begun > born)
    }

    /// Returns the version that a handle of this birth reads: the one that it was opened on, or the commit of the draft
    /// that it followed, under the name that this has now.
    pub(crate) fn read_by(&self, opened: Option<&Object>, born: u64) -> Option<Object> {
        let followed = self.begun > born;
        let on = if followed {
            self.settled.as_ref()
        } else {
            opened
        }?;
        self.successor(on.id()).or_else(|| Some(on.clone()))
    }

    /// Notes the version that the draft was committed as.
    pub(crate) fn settle(&mut self, object: Option<Object>) {
        self.settled = object;
    }

    /// Lets go of the draft because the name has another node. Handles that followed it stay on its commit.
    pub(crate) fn release(&mut self) -> Option<Arc<Writer>> {
        self.writer.take()
    }

    /// Holds a draft. `anew`: no handle wrote before. Returns whether it replaces another draft.
    pub(crate) fn hold(&mut self, writer: Arc<Writer>, anew: bool) -> bool {
        self.begun += u64::from(anew);
        let before = self.writer.replace(writer.clone());
        let another = before.is_some_and(|before| !before.is_of_one(&writer));
        if anew || another {
            (self.changes, self.published, self.shown) = (0, 0, writer.changes());
        }
        another
    }

    /// Counts a change of the draft that is about to be made through this node.
    pub(crate) fn count_change(&mut self, writer: &Writer) {
        // In this order: a look in between finds one too many of others, never one too few.
        writer.count_change();
        self.changes += 1;
    }

    /// Returns the number of changes that were made through this node.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Notes that the first `changes` of them are published.
    pub(crate) fn note_published(&mut self, changes: u64) {
        self.published = self.published.max(changes);
    }

    /// Returns whether a change that was made through this node was not published by its close.
    pub(crate) fn has_unpublished(&self) -> bool {
        self.changes > self.published
    }

    /// Returns the number of changes by other mounts, if the kernel's pages lack any of them.
    pub(crate) fn hidden_changes(&self, writer: &Writer) -> Option<u64> {
        let others = writer.changes().wrapping_sub(self.changes);
        (others != self.shown).then_some(others)
    }

    /// Notes that the kernel's pages were dropped after this number of changes by other mounts.
    pub(crate) fn show_changes(&mut self, others: u64) {
        self.shown = others;
    }

    /// Counts an opened handle; `follows`: it reads the draft that is there.
    pub(crate) fn enter(&mut self, purpose: Purpose, follows: bool) -> HandleEntry {
        let alone = purpose == Purpose::Fill && self.handles == 0;
        let past = alone || self.past > 0;
        self.handles += 1;
        self.writers += u32::from(purpose.writes());
        self.past += u32::from(purpose.writes() && past);
        self.runs += u32::from(purpose == Purpose::Run);
        let born = match follows {
            true => self.begun.saturating_sub(1),
            false => self.begun,
        };
        HandleEntry {
            born,
            past,
            purpose,
        }
    }

    /// Counts a closed handle. With the last one, the draft is returned and let go.
    pub(crate) fn leave(&mut self, entry: HandleEntry) -> Option<Arc<Writer>> {
        self.handles -= 1;
        let writes = entry.purpose.writes();
        self.writers -= u32::from(writes);
        self.past -= u32::from(writes && entry.past);
        self.runs -= u32::from(entry.purpose == Purpose::Run);
        match self.handles {
            0 => {
                self.moved.clear();
                self.settled = None;
                self.writer.take()
            }
            _ => None,
        }
    }

    /// Returns the number of open handles that write.
    pub(crate) fn writers(&self) -> u32 {
        self.writers
    }

    /// Returns whether the kernel runs the file.
    pub(crate) fn is_run(&self) -> bool {
        self.runs > 0
    }

    /// Notes the object that a version of the file became by a rename.
    pub(crate) fn moved(&mut self, from: VersionId, to: Object) {
        if self.handles == 0 {
            return;
        }
        let earlier = self.moved.iter_mut();
        for (_, at) in earlier.filter(|(_, at)| at.id() == from) {
            *at = to.clone();
        }
        self.moved.push((from, to));
    }

    /// Returns the object that has the bytes of a version, if the file was renamed.
    fn successor(&self, of: VersionId) -> Option<Object> {
        let mut latest = self.moved.iter().rev();
        let moved = latest.find(|(from, _)| *from == of);
        moved.map(|(_, to)| to.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_that_fills_a_file_alone_goes_past_the_pages_and_so_do_those_that_join() {
        let mut slot = FileDraft::default();
        let first = slot.enter(Purpose::Fill, true);
        let reader = slot.enter(Purpose::Read, true);
        let second = slot.enter(Purpose::Write, true);
        assert!(first.past && reader.past && second.past);
        slot.leave(first);
        let third = slot.enter(Purpose::Read, true);
        assert!(third.past, "the second still writes past them");
        slot.leave(second);
        assert!(!slot.enter(Purpose::Read, true).past);
    }

    #[test]
    fn a_handle_that_finds_a_file_open_uses_the_pages() {
        let mut slot = FileDraft::default();
        let writer = slot.enter(Purpose::Write, true);
        let second = slot.enter(Purpose::Fill, true);
        assert!(!writer.past && !second.past);
        slot.leave(second);
        slot.leave(writer);
        assert_eq!((slot.writers, slot.past, slot.handles), (0, 0, 0));
    }
}
