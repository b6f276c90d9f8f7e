//! Bytes: creating files, writing, syncing, truncating.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use fuser::{Errno, FopenFlags, OpenAccMode, OpenFlags};
use http::HeaderValue;
use rustix::fs::{FallocateFlags, OFlags};

use super::super::attr;
use super::super::nodes::Node;
use super::super::process::Users;
use super::super::settings::Modified;
use super::change::key;
use super::draft::Writing;
use super::open::Handle;
use super::{Files, Shown};
use tidegate_engine::names::Entry;
use tidegate_write::OpenMode;
use tidegate_write::Writer;

/// The writing half of a handle, beside its share in the node.
#[derive(Debug)]
pub(super) struct Pen {
    pub(super) writer: Arc<Writer>,
    /// The file's count of given times when this handle wrote last.
    dated: AtomicU64,
    /// The processes whose closes count.
    users: Users,
    /// Another handle was writing when this one was opened, and this one has written nothing yet: the bytes to publish
    /// are not its own.
    idle: AtomicBool,
}

impl Pen {
    /// Notes that a process writes through it.
    fn writes(&self, thread: u32) {
        self.users.add(thread);
        self.idle.store(false, Ordering::Relaxed);
    }

    /// Returns whether it has bytes of its own to publish.
    pub(super) fn wrote(&self) -> bool {
        !self.idle.load(Ordering::Relaxed)
    }
}

/// The attributes that `setattr` is to change; mode and owner are accepted, and not kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetAttr {
    pub(crate) size: Option<u64>,
    pub(crate) modified: Option<SystemTime>,
    pub(crate) handle: Option<u64>,
}

/// Returns whether a flag of open(2) is set.
pub(super) fn has(flags: i32, flag: OFlags) -> bool {
    i32::try_from(flag.bits()).is_ok_and(|bits| flags & bits == bits)
}

impl Files {
    /// Creates a file, or opens the one that is there, and opens it for writing.
    pub(crate) async fn create(
        &self,
        folder: u64,
        name: OsString,
        flags: i32,
        thread: u32,
    ) -> Result<(Shown, u64, FopenFlags), Errno> {
        if !self.is_writable() {
            return Err(Errno::EROFS);
        }
        let (folder, path, _used) = self.use_name(&(folder, name)).await?;
        key(&path)?;
        let exclusive = has(flags, OFlags::EXCL);
        let meaning = self.bounded(self.meaning(&path)).await?;
        let how = match meaning.entry {
            Entry::Folder => return Err(Errno::EISDIR),
            Entry::File(_) if exclusive => return Err(Errno::EEXIST),
            Entry::File(_) if !has(flags, OFlags::TRUNC) => OpenMode::Change,
            Entry::Missing if exclusive => OpenMode::CreateNew,
            Entry::File(_) | Entry::Missing => OpenMode::Create,
        };
        let node = self.nodes.tell(folder, &path, false);
        let idle = how == OpenMode::Change && self.is_unfinished(&node);
        match self.enter(&node, how, self.may_pass(flags)).await {
            Ok(writing) => {
                let (handle, reply) = self.open_writing(writing, thread, idle);
                let shown = self.show_draft(&node).ok_or(Errno::EIO)?;
                Ok((shown, handle, reply))
            }
            Err(error) => {
                self.nodes.forget(node.ino, 1);
                Err(error)
            }
        }
    }

    /// Opens an existing file for writing.
    pub(super) async fn open_to_write(
        &self,
        node: &Arc<Node>,
        flags: OpenFlags,
        thread: u32,
    ) -> Result<(u64, FopenFlags), Errno> {
        let how = match has(flags.0, OFlags::TRUNC) {
            true => OpenMode::Create,
            false => OpenMode::Change,
        };
        let _used = self.use_node(node).await?;
        let idle = how == OpenMode::Change && self.is_unfinished(node);
        let writing = self.enter(node, how, self.may_pass(flags.0)).await?;
        Ok(self.open_writing(writing, thread, idle))
    }

    /// Returns whether a handle that writes can do without the kernel's pages.
    fn may_pass(&self, flags: i32) -> bool {
        let only_writes = OpenFlags(flags).acc_mode() == OpenAccMode::O_WRONLY;
        only_writes || self.maps.load(Ordering::Relaxed)
    }

    /// Opens the handle. `O_DIRECT` bypasses the pages by itself, and keeps them right.
    fn open_writing(&self, writing: Writing, thread: u32, idle: bool) -> (u64, FopenFlags) {
        self.metrics.handles.inc();
        let users = Users::default();
        users.add(thread);
        let pen = Pen {
            writer: writing.writer,
            dated: AtomicU64::new(u64::MAX),
            users,
            idle: AtomicBool::new(idle),
        };
        let (handle, reply) = Handle::following(writing.share, None, Some(pen), false);
        (self.open.open(handle), reply)
    }

    /// Returns a copy of the bytes that the kernel sent, for it takes them back with the answer.
    pub(crate) fn copy(&self, data: &[u8]) -> Bytes {
        match &self.writable {
            Some(writable) => writable.writers.copy(data),
            None => Bytes::copy_from_slice(data),
        }
    }

    /// Writes at an offset if no wait is needed; `false`: nothing was written.
    pub(crate) fn write_now(&self, (handle, thread): (u64, u32), offset: u64, data: &[u8]) -> bool {
        let Some(handle) = self.open.get(handle) else {
            return false;
        };
        let given = handle.share.node.slot().times_given();
        let pen = handle.pen.as_ref();
        let pen = pen.filter(|pen| pen.dated.load(Ordering::Relaxed) == given);
        pen.is_some_and(|pen| {
            pen.writes(thread);
            pen.writer.write_now(offset, data)
        })
    }

    /// Writes at an offset; `append`: at the end of the file at that moment.
    pub(crate) async fn write(
        &self,
        (handle, thread): (u64, u32),
        offset: u64,
        data: Bytes,
        append: bool,
    ) -> Result<u32, Errno> {
        let handle = self.open.get(handle).ok_or(Errno::EBADF)?;
        let pen = handle.pen.as_ref().ok_or(Errno::EBADF)?;
        pen.writes(thread);
        let length = u32::try_from(data.len()).map_err(|_| Errno::EINVAL)?;
        let work = async {
            self.date(&handle.share.node, pen).await;
            match append {
                true => pen.writer.append(data).await,
                false => pen.writer.write_at(offset, data).await.map(|()| offset),
            }
        };
        let at = self.progressing(&pen.writer, work).await?;
        if at != offset {
            // The kernel put the bytes where it believed the end was. It holds those pages until it has its answer.
            self.drop_pages_later(handle.share.node.ino);
        }
        Ok(length)
    }

    /// Updates the time of a file that was given one, because it is written to later.
    async fn date(&self, node: &Node, pen: &Pen) {
        let given = node.slot().times_given();
        if pen.dated.swap(given, Ordering::Relaxed) == given {
            return;
        }
        if pen.writer.snapshot().header(&attr::KEPT).is_some() {
            let now = attr::kept(SystemTime::now());
            pen.writer.set_header(attr::KEPT, now).await;
        }
    }

    /// Handles the close of one descriptor of a handle by a process.
    pub(crate) async fn flush(&self, handle: u64, thread: u32) -> Result<(), Errno> {
        let handle = self.open.get(handle).ok_or(Errno::EBADF)?;
        let Some(pen) = &handle.pen else {
            return Ok(());
        };
        if !pen.wrote() {
            return Ok(());
        }
        // A shell duplicates a descriptor and closes the first before any write. The empty file is committed when the
        // handle goes.
        if !pen.writer.is_dirty() || pen.writer.snapshot().blank || !pen.users.have(thread) {
            return Ok(());
        }
        self.commit(&pen.writer).await
    }

    /// Publishes the written bytes, or queues them for it.
    pub(super) async fn commit(&self, writer: &Writer) -> Result<(), Errno> {
        let writable = self.writable.as_ref().ok_or(Errno::EROFS)?;
        let commit = writable.commit;
        self.progressing(writer, writer.commit(commit)).await?;
        self.tell_others(writer.key());
        Ok(())
    }

    /// Makes the written bytes durable here.
    pub(crate) async fn fsync(&self, handle: u64) -> Result<(), Errno> {
        let handle = self.open.get(handle).ok_or(Errno::EBADF)?;
        let Some(writer) = handle.draft() else {
            return Ok(());
        };
        self.progressing(&writer, writer.sync()).await
    }

    /// Changes attributes, and returns the new ones.
    pub(crate) async fn setattr(&self, ino: u64, set: SetAttr) -> Result<Shown, Errno> {
        let node = self.nodes.get(ino).ok_or(Errno::ESTALE)?;
        if !self.is_writable() {
            return Err(Errno::EROFS);
        }
        if let Some(size) = set.size {
            let node = self.file_node(ino)?;
            self.set_size(&node, size, set.handle).await?;
        }
        if let (Some(time), false) = (set.modified, node.is_folder) {
            self.set_time(&node, time, set.handle).await?;
        }
        self.bounded(self.getattr(ino)).await
    }

    async fn set_size(
        &self,
        node: &Arc<Node>,
        size: u64,
        handle: Option<u64>,
    ) -> Result<(), Errno> {
        let handle = handle.and_then(|handle| self.open.get(handle));
        if let Some(pen) = handle.as_ref().and_then(|handle| handle.pen.as_ref()) {
            pen.idle.store(false, Ordering::Relaxed);
            return self.cut(&pen.writer, size).await;
        }
        let how = if size == 0 {
            OpenMode::Create
        } else {
            OpenMode::Change
        };
        let used = self.use_node(node).await?;
        let unfinished = self.is_unfinished(node);
        let writing = self.enter(node, how, false).await?;
        drop(used);
        let mut done = self.cut(&writing.writer, size).await;
        if done.is_ok() && !unfinished {
            done = self.commit(&writing.writer).await;
        }
        self.leave(writing, !unfinished).await;
        done
    }

    async fn cut(&self, writer: &Writer, size: u64) -> Result<(), Errno> {
        self.progressing(writer, writer.truncate(size)).await
    }

    /// Gives a file a time. It is kept in the object's metadata: always for a file that is being written, for others
    /// only if the mount shows such times.
    async fn set_time(
        &self,
        node: &Arc<Node>,
        time: SystemTime,
        handle: Option<u64>,
    ) -> Result<(), Errno> {
        let value = attr::kept(time);
        let handle = handle.and_then(|handle| self.open.get(handle));
        if let Some(pen) = handle.as_ref().and_then(|handle| handle.pen.as_ref()) {
            return self.set_kept(node, &pen.writer, value).await;
        }
        if self.settings.modified == Modified::Written && self.draft_of(node).is_none() {
            return Ok(());
        }
        let used = self.use_node(node).await?;
        let unfinished = self.is_unfinished(node);
        let writing = self.enter(node, OpenMode::Change, false).await?;
        drop(used);
        let mut done = self.set_kept(node, &writing.writer, value).await;
        if done.is_ok() && !unfinished {
            done = self.commit(&writing.writer).await;
        }
        self.leave(writing, !unfinished).await;
        done
    }

    /// Sets the kept time. If the file is just being published, waits as long as that makes progress.
    async fn set_kept(
        &self,
        node: &Node,
        writer: &Writer,
        value: HeaderValue,
    ) -> Result<(), Errno> {
        let set = async {
            writer.set_header(attr::KEPT, value).await;
            node.slot().give_time();
            Ok(())
        };
        self.progressing(writer, set).await
    }

    /// Grows a file, or only accepts the request (fallocate(2)): space is not reserved.
    pub(crate) async fn allocate(
        &self,
        handle: u64,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<(), Errno> {
        let handle = self.open.get(handle).ok_or(Errno::EBADF)?;
        let pen = handle.pen.as_ref().ok_or(Errno::EBADF)?;
        let keep = i32::try_from(FallocateFlags::KEEP_SIZE.bits()).unwrap_or(1);
        match mode {
            0 => {}
            mode if mode == keep => return Ok(()),
            _ => return Err(Errno::EOPNOTSUPP),
        }
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        pen.idle.store(false, Ordering::Relaxed);
        match end > pen.writer.size() {
            true => self.cut(&pen.writer, end).await,
            false => Ok(()),
        }
    }
}
