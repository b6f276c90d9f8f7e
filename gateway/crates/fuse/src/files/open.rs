//! Open files: the version that each is on, or the draft that it follows, and whether the kernel may use its pages for it.

use std::sync::Arc;
use std::time::Duration;

use fuser::{Errno, FopenFlags, OpenAccMode, OpenFlags};
use rustix::fs::OFlags;

use super::draft::HandleShare;
use super::handle::{Handle, PageUse, WriteHandle, has_flag};
use super::{Files, key_of};
use crate::nodes::Node;
use crate::nodes::file_draft::Purpose;
use crate::nodes::pages::PageAction;
use tidegate_engine::{Object, OpenOptions};
use tidegate_plan::{ETag, RangeSpec};

/// Objects up to this size come whole with the request that opens them; of a larger one only a chunk comes. A program
/// that reads only beginnings, as a library's scan does, costs a chunk a file.
pub(super) const WHOLE_READ_SIZE: u64 = 1 << 20;

/// The time that bytes that came with an open wait to be read.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(5);

/// The flag of an open that is for running the file (Linux, include/linux/fs.h, `FMODE_EXEC`). It stays with the program
/// until that ends.
const RUN_FLAG: i32 = 0x20;

impl Files {
    /// Opens a file on the version that it has now, or on its draft; `caller` is the calling thread, and its user.
    ///
    /// The kernel opens a file that it believes is there. If it is not, the answer `ESTALE` makes the kernel look
    /// again; it then finds nothing, or creates the file if the program asked for that.
    pub(crate) async fn open(
        &self,
        ino: u64,
        flags: OpenFlags,
        caller: (u32, u32),
    ) -> Result<(u64, FopenFlags), Errno> {
        let opened = self.open_there(ino, flags, caller).await;
        opened.map_err(|errno| match errno {
            Errno::ENOENT => Errno::ESTALE,
            other => other,
        })
    }

    async fn open_there(
        &self,
        ino: u64,
        flags: OpenFlags,
        caller: (u32, u32),
    ) -> Result<(u64, FopenFlags), Errno> {
        let node = self.file_node(ino)?;
        if flags.acc_mode() != OpenAccMode::O_RDONLY || has_flag(flags.0, OFlags::TRUNC) {
            return self.open_to_write(&node, flags, caller).await;
        }
        let opened = async {
            match self.open_to_follow(&node, flags, caller.0).await? {
                Some(opened) => Ok(opened),
                None => self.open_to_read(&node, flags, caller.0).await,
            }
        };
        let (handle, reply) = self.bounded(opened).await?;
        // A handle that cannot write has nothing to publish, and closes without a flush.
        Ok((handle, reply | FopenFlags::FOPEN_NOFLUSH))
    }

    /// Opens a file on the version that it has now.
    async fn open_to_read(
        &self,
        node: &Arc<Node>,
        flags: OpenFlags,
        thread: u32,
    ) -> Result<(u64, FopenFlags), Errno> {
        let size = node.pages().size();
        let first = match size {
            Some(0) => None,
            Some(size) if size <= WHOLE_READ_SIZE => Some(size - 1),
            _ => Some(0),
        };
        let first = first.map(|last| RangeSpec::Bounded { first: 0, last });
        let how = OpenOptions {
            first,
            certain: true,
            ..OpenOptions::default()
        };
        let key = node.key();
        let object = self.object(node, how).await?;
        object.release_after(UNREAD_TIMEOUT);
        let _turn = node.turn.lock().await;
        let follows = node.pages().is_draft();
        if !node.is_at(&key) || (follows && self.has_lost_draft(node)) {
            // It has another name by now, or none, or its name has another draft.
            return Err(Errno::ESTALE);
        }
        let past = has_flag(flags.0, OFlags::DIRECT);
        let share = HandleShare::new(node, purpose_of(flags), follows);
        let (handle, reply) = if follows {
            // A writer began meanwhile.
            Handle::following(share, Some(object), None, (past, thread))
        } else {
            let (paged, reply) = self.prepare_pages(node, &object).await?;
            (Handle::on(share, object, paged, thread), reply)
        };
        let reply = match past {
            true => FopenFlags::FOPEN_DIRECT_IO,
            false => reply,
        };
        self.metrics.handles.inc();
        Ok((self.open.open(handle), reply))
    }

    /// Opens a file on its draft, if there is one that is being written or waits to be committed.
    async fn open_to_follow(
        &self,
        node: &Arc<Node>,
        flags: OpenFlags,
        thread: u32,
    ) -> Result<Option<(u64, FopenFlags)>, Errno> {
        let Some(writable) = &self.writable else {
            return Ok(None);
        };
        let mut locks = (None, node.turn.lock().await);
        if self.has_lost_draft(node) {
            // A rename that is under way gives the draft its new name before the node.
            drop(locks);
            let named = (self.use_node(node).await?, node.naming.read().await);
            locks = (Some(named), node.turn.lock().await);
            if self.has_lost_draft(node) {
                return Err(self.replaced(node));
            }
        }
        self.settle(node, 0, false).await;
        let share = if node.pages().is_draft() {
            HandleShare::new(node, purpose_of(flags), true)
        } else {
            let key = key_of(node)?;
            let writers = &writable.writers;
            let pending = writers.snapshot(&self.source, &key);
            let Some(writer) = pending.and_then(|_| writers.find(&self.source, &key)) else {
                return Ok(None);
            };
            self.begin(node, &Arc::new(writer), purpose_of(flags))
                .await?
        };
        self.metrics.handles.inc();
        let past = has_flag(flags.0, OFlags::DIRECT);
        let (handle, reply) = Handle::following(share, None, None, (past, thread));
        let opened = (self.open.open(handle), reply);
        drop(locks);
        Ok(Some(opened))
    }

    /// Ensures that the kernel's pages are of this version. The turn is held.
    async fn prepare_pages(
        &self,
        node: &Arc<Node>,
        object: &Object,
    ) -> Result<(PageUse, FopenFlags), Errno> {
        self.follow_same_bytes(node, object).await;
        let facts = object.facts();
        let opening = node.pages().open(object.id(), &facts);
        if opening == PageAction::Elsewhere {
            return Err(self.replaced(node));
        }
        let paged = PageUse(node.clone());
        // Counted before the handle is there: the next open that finds the file open keeps the pages.
        let right = opening == PageAction::Keep || self.drop_pages(node).await;
        let flags = match right {
            true => FopenFlags::FOPEN_KEEP_CACHE,
            false => FopenFlags::empty(),
        };
        Ok((paged, flags))
    }

    /// Gives a file that is held open the identity of `now`, if that has the same bytes: it is the open version after a purge,
    /// or a copy of it with other metadata that this process has made. Waits for such a copy that is under way. The turn is
    /// held.
    pub(super) async fn follow_same_bytes(&self, node: &Node, now: &Object) {
        let Some((from, held)) = node.pages().held() else {
            return;
        };
        if from == now.id() {
            return;
        }
        let facts = now.facts();
        let size = node.pages().pinned().map(|held| held.size);
        if held.strong_eq(&now.version().etag) && size == Some(facts.size) {
            node.pages().purged(from, now.id(), &facts);
        } else if held != now.version().etag && self.is_own_copy(&held, now).await {
            node.pages().moved(from, now.id(), &facts);
        } else {
            return;
        }
        node.file_draft().moved(from, now.clone());
    }

    async fn is_own_copy(&self, held: &ETag, now: &Object) -> bool {
        let tags = (held, &now.version().etag);
        let found = self.engine.is_self_copy(&self.source, now.key(), tags);
        found.await
    }

    /// Unlinks the node because its name has another version by now; open handles stay on theirs. Returns the error
    /// that makes the kernel look again, and find another node. The turn is held.
    pub(crate) fn replaced(&self, node: &Node) -> Errno {
        // Those that write go on with their draft, and so do its readers.
        if !node.pages().is_draft() {
            let left = node.file_draft().release();
            drop(left);
        }
        self.nodes.unlink_node(node);
        Errno::ESTALE
    }

    /// Closes a handle whose last descriptor is closed. Uncommitted bytes are committed in the background.
    pub(crate) async fn close(&self, handle: u64) {
        let Some(handle) = self.open.close(handle) else {
            return;
        };
        self.metrics.handles.dec();
        if self.is_writable() {
            let node = handle.share.node.clone();
            let _turn = node.turn.lock().await;
            let leaving = u32::from(handle.write_handle.is_some());
            let wrote = handle.write_handle.as_ref().is_some_and(WriteHandle::wrote);
            // Bytes that only another mount has written are for that mount's close.
            let wrote = wrote && node.file_draft().has_unpublished();
            self.settle(&node, leaving, wrote).await;
            drop(handle);
        }
    }
}

/// Returns the purpose of an open that does not write.
fn purpose_of(flags: OpenFlags) -> Purpose {
    match flags.0 & RUN_FLAG {
        0 => Purpose::Read,
        _ => Purpose::Run,
    }
}
