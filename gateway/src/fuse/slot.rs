//! What is being written of a file, and by how many of its handles.
//!
//! As long as any handle of a file is open that was written here, the draft is held: it reads what
//! was written, and after a commit the version that this became. A handle *follows* the draft that
//! was begun while the handle was open; one that is opened when nobody writes any more is on a version
//! of its own, as in a mount that only reads.

use std::sync::Arc;

use crate::engine::{Object, Writer};
use crate::plan::VersionId;

/// See the module's head.
#[derive(Debug, Default)]
pub(super) struct Slot {
    writer: Option<Arc<Writer>>,
    /// Open handles that write.
    writers: u32,
    /// Open handles.
    handles: u32,
    /// How often somebody began to write.
    begun: u64,
    /// The version that the file had when it was renamed, and what has its bytes now.
    moved: Option<(VersionId, Object)>,
}

impl Slot {
    /// The draft, if one is held.
    pub(super) fn writer(&self) -> Option<Arc<Writer>> {
        self.writer.clone()
    }

    /// The draft, if a handle of this birth reads it.
    pub(super) fn followed(&self, born: u64) -> Option<Arc<Writer>> {
        self.writer.clone().filter(|_| self.begun > born)
    }

    /// Holds a draft. `anew`: nobody wrote before. Says whether it is another one than the one held.
    pub(super) fn hold(&mut self, writer: Arc<Writer>, anew: bool) -> bool {
        self.begun += u64::from(anew);
        let before = self.writer.replace(writer.clone());
        before.is_some_and(|before| !before.is_of_one(&writer))
    }

    /// A handle is opened. Gives its birth; `follows`: it reads the draft that is there.
    pub(super) fn enter(&mut self, writes: bool, follows: bool) -> u64 {
        self.handles += 1;
        self.writers += u32::from(writes);
        match follows {
            true => self.begun.saturating_sub(1),
            false => self.begun,
        }
    }

    /// A handle is closed. With the last one the draft is let go.
    pub(super) fn leave(&mut self, writes: bool) -> Option<Arc<Writer>> {
        self.handles -= 1;
        self.writers -= u32::from(writes);
        match self.handles {
            0 => {
                self.moved = None;
                self.writer.take()
            }
            _ => None,
        }
    }

    /// Open handles that write.
    pub(super) fn writers(&self) -> u32 {
        self.writers
    }

    /// Remembers what a version of the file is after a rename.
    pub(super) fn moved(&mut self, from: VersionId, to: Object) {
        self.moved = (self.handles > 0).then_some((from, to));
    }

    /// What has the bytes of a version, if the file was renamed.
    pub(super) fn successor(&self, of: VersionId) -> Option<Object> {
        let moved = self.moved.as_ref();
        moved
            .filter(|(from, _)| *from == of)
            .map(|(_, to)| to.clone())
    }
}
