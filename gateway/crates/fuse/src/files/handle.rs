//! The handles of open files: each on a version, or on the draft that it follows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use fuser::FopenFlags;
use rustix::fs::OFlags;

use super::draft::HandleShare;
use crate::handle_users::{HandleUsers, writes_elsewhere};
use crate::nodes::Node;
use tidegate_engine::{Object, StreamGuard, StreamKind};
use tidegate_write::Writer;

/// The size from which on an open file that is read is a stream of its own for the operator.
const MIN_STREAM_SIZE: u64 = 1 << 20;

/// A file, held open: on one version, or on a draft.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) share: HandleShare,
    /// `None`: it follows the draft to its end.
    pub(super) object: Option<Object>,
    /// Its way to write, if it may.
    pub(crate) write_handle: Option<WriteHandle>,
    /// The thread that opened it; 0 if that is not known.
    opener: u32,
    /// Its entry in the registry of streams, from its first longer read on.
    stream: OnceLock<StreamGuard>,
    _page_use: PageUse,
}

impl Handle {
    /// Returns a handle that follows a draft, and may write; and the flags for the kernel.
    pub(crate) fn following(
        share: HandleShare,
        object: Option<Object>,
        write_handle: Option<WriteHandle>,
        (past, opener): (bool, u32),
    ) -> (Self, FopenFlags) {
        let past = past || share.entry.past;
        let page_use = PageUse::following(&share.node);
        let reply = match (past, share.stale) {
            (true, _) => FopenFlags::FOPEN_DIRECT_IO,
            (false, true) => FopenFlags::empty(),
            (false, false) => FopenFlags::FOPEN_KEEP_CACHE,
        };
        let handle = Self {
            share,
            object,
            write_handle,
            opener,
            stream: OnceLock::new(),
            _page_use: page_use,
        };
        (handle, reply)
    }

    /// Returns a handle on a version.
    pub(super) fn on(share: HandleShare, object: Object, page_use: PageUse, opener: u32) -> Self {
        Self {
            share,
            object: Some(object),
            write_handle: None,
            opener,
            stream: OnceLock::new(),
            _page_use: page_use,
        }
    }

    /// Returns its entry in the registry of streams; a file of another version has one after the next open.
    pub(super) fn stream(&self, object: &Object) -> Option<&StreamGuard> {
        if object.version().size <= MIN_STREAM_SIZE {
            return None;
        }
        let new = || object.stream(StreamKind::Mount, program_of(self.opener));
        Some(self.stream.get_or_init(new))
    }

    /// Returns the draft that it reads, if any. One that writes reads what it writes.
    pub(crate) fn draft(&self) -> Option<Arc<Writer>> {
        let own = self.write_handle.as_ref().map(|it| it.writer.clone());
        own.or_else(|| self.share.node.file_draft().followed(self.share.entry.born))
    }
}

/// The right to read a node's pages, until it is dropped. A handle that bypasses them has it as well: the kernel copies
/// and maps through them all the same.
#[derive(Debug)]
pub(super) struct PageUse(pub(super) Arc<Node>);

impl PageUse {
    /// Returns the right of a handle that follows the draft.
    fn following(node: &Arc<Node>) -> Self {
        node.pages().follow();
        Self(node.clone())
    }
}

impl Drop for PageUse {
    fn drop(&mut self) {
        self.0.pages().close();
    }
}

/// The writing half of a handle, beside its share in the node.
#[derive(Debug)]
pub(crate) struct WriteHandle {
    pub(crate) writer: Arc<Writer>,
    /// The processes whose closes count.
    pub(super) users: HandleUsers,
    /// Another handle was writing when this one was opened, and this one has written nothing yet: the bytes to publish
    /// are not its own.
    pub(super) idle: AtomicBool,
    /// It was opened to empty a file that was there.
    pub(super) empties: bool,
}

impl WriteHandle {
    /// Notes that a process writes to the node's file through it.
    pub(super) fn writes(&self, node: &Node, thread: u32) {
        self.users.add(thread);
        self.changes(node);
    }

    /// Notes that the node's file is changed through it.
    pub(super) fn changes(&self, node: &Node) {
        node.file_draft().count_change(&self.writer);
        self.idle.store(false, Ordering::Relaxed);
    }

    /// Returns whether a thread that closes a descriptor of it calls the file `ino` complete. A shell closes one before any
    /// write, and has another. So an empty file is complete only if it was to be emptied, and the process is seen to have
    /// no other way to write to it.
    pub(super) fn is_complete(&self, thread: u32, ino: u64) -> bool {
        let is_empty = self.writer.snapshot().blank;
        let is_left_empty = || self.empties && writes_elsewhere(thread, ino) == Some(false);
        self.users.have(thread) && (!is_empty || is_left_empty())
    }

    /// Returns whether it has bytes of its own to publish.
    pub(crate) fn wrote(&self) -> bool {
        !self.idle.load(Ordering::Relaxed)
    }
}

/// Returns whether a flag of open(2) is set.
pub(crate) fn has_flag(flags: i32, flag: OFlags) -> bool {
    i32::try_from(flag.bits()).is_ok_and(|bits| flags & bits == bits)
}

/// Returns the name of a thread's program (proc_pid_comm(5)), and its number.
fn program_of(thread: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{thread}/comm"));
    match name {
        Ok(name) => format!("{} ({thread})", name.trim_end()),
        Err(_) => format!("process {thread}"),
    }
}
