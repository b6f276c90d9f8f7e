//! Bytes: creating files, writing, syncing, truncating.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use fuser::{Errno, FopenFlags, OpenAccMode, OpenFlags};
use http::HeaderValue;
use rustix::fs::{FallocateFlags, OFlags};

use super::change::key;
use super::draft::OpenDraft;
use super::handle::{Handle, WriteHandle, has_flag};
use super::{Files, TimedAttr};
use crate::handle_users::HandleUsers;
use crate::nodes::Node;
use crate::settings::Modified;
use crate::{attr, errno};
use tidegate_engine::names::NameKind;
use tidegate_plan::ByteRange;
use tidegate_write::OpenMode;
use tidegate_write::Writer;

/// The attributes that `setattr` is to change; mode and owner are accepted, and not kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetAttr {
    pub(crate) size: Option<u64>,
    pub(crate) modified: Option<SystemTime>,
    pub(crate) handle: Option<u64>,
}

impl Files {
    /// Creates a file, or opens the one that is there, and opens it for writing.
    pub(crate) async fn create(
        &self,
        folder: u64,
        name: OsString,
        flags: i32,
        thread: u32,
    ) -> Result<(TimedAttr, u64, FopenFlags), Errno> {
        if !self.is_writable() {
            return Err(Errno::EROFS);
        }
        let (folder, path, _used) = self.use_name(&(folder, name)).await?;
        key(&path)?;
        let exclusive = has_flag(flags, OFlags::EXCL);
        let meaning = self.bounded(self.resolve(&path)).await?;
        let how = match meaning.entry {
            NameKind::Folder => return Err(Errno::EISDIR),
            NameKind::File(_) if exclusive => return Err(Errno::EEXIST),
            NameKind::File(_) if !has_flag(flags, OFlags::TRUNC) => OpenMode::Change,
            NameKind::Missing if exclusive => OpenMode::CreateNew,
            NameKind::File(_) | NameKind::Missing => OpenMode::Create,
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
    pub(crate) async fn open_to_write(
        &self,
        node: &Arc<Node>,
        flags: OpenFlags,
        thread: u32,
    ) -> Result<(u64, FopenFlags), Errno> {
        let how = match has_flag(flags.0, OFlags::TRUNC) {
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
    fn open_writing(&self, writing: OpenDraft, thread: u32, idle: bool) -> (u64, FopenFlags) {
        self.metrics.handles.inc();
        let users = HandleUsers::default();
        users.add(thread);
        let write_handle = WriteHandle {
            writer: writing.writer,
            dated: AtomicU64::new(u64::MAX),
            users,
            idle: AtomicBool::new(idle),
        };
        let (handle, reply) = Handle::following(writing.share, None, Some(write_handle), false);
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
        let given = handle.share.node.file_draft().times_given();
        let write_handle = handle.write_handle.as_ref();
        let write_handle =
            write_handle.filter(|write_handle| write_handle.dated.load(Ordering::Relaxed) == given);
        write_handle.is_some_and(|write_handle| {
            write_handle.writes(thread);
            write_handle.writer.write_now(offset, data)
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
        let write_handle = handle.write_handle.as_ref().ok_or(Errno::EBADF)?;
        write_handle.writes(thread);
        let length = u32::try_from(data.len()).map_err(|_| Errno::EINVAL)?;
        let work = async {
            self.date(&handle.share.node, write_handle).await;
            match append {
                true => write_handle.writer.append(data).await,
                false => write_handle
                    .writer
                    .write_at(offset, data)
                    .await
                    .map(|()| offset),
            }
        };
        let at = self.progressing(&write_handle.writer, work).await?;
        if at != offset {
            // The kernel put the bytes where it believed the end was. It holds those pages until it has its answer.
            self.drop_pages_later(handle.share.node.ino);
        }
        Ok(length)
    }

    /// Updates the time of a file that was given one, because it is written to later.
    pub(super) async fn date(&self, node: &Node, write_handle: &WriteHandle) {
        let given = node.file_draft().times_given();
        if write_handle.dated.swap(given, Ordering::Relaxed) == given {
            return;
        }
        if write_handle
            .writer
            .snapshot()
            .header(&attr::MTIME_HEADER)
            .is_some()
        {
            let now = attr::kept(SystemTime::now());
            write_handle
                .writer
                .set_header(attr::MTIME_HEADER, now)
                .await;
        }
    }

    /// Handles the close of one descriptor of a handle by a process.
    pub(crate) async fn flush(&self, handle: u64, thread: u32) -> Result<(), Errno> {
        let handle = self.open.get(handle).ok_or(Errno::EBADF)?;
        let Some(write_handle) = &handle.write_handle else {
            return Ok(());
        };
        if !write_handle.wrote() {
            return Ok(());
        }
        // A shell duplicates a descriptor and closes the first before any write. The empty file is committed when the
        // handle goes.
        if !write_handle.writer.is_dirty()
            || write_handle.writer.snapshot().blank
            || !write_handle.users.have(thread)
        {
            return Ok(());
        }
        self.commit(&write_handle.writer).await
    }

    /// Publishes the written bytes, or queues them for it.
    pub(crate) async fn commit(&self, writer: &Writer) -> Result<(), Errno> {
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
    pub(crate) async fn setattr(&self, ino: u64, set: SetAttr) -> Result<TimedAttr, Errno> {
        let node = self.nodes.get(ino).ok_or(Errno::ESTALE)?;
        if !self.is_writable() {
            return Err(Errno::EROFS);
        }
        if !node.is_linked() {
            self.set_without_name(&node, set).await?;
            return self.bounded(self.getattr(ino)).await;
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
        if let Some(write_handle) = handle
            .as_ref()
            .and_then(|handle| handle.write_handle.as_ref())
        {
            write_handle.idle.store(false, Ordering::Relaxed);
            return self.cut(&write_handle.writer, size).await;
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

    /// Changes a file that has no name any more, through the draft that its handles hold.
    async fn set_without_name(&self, node: &Arc<Node>, set: SetAttr) -> Result<(), Errno> {
        let Some(writer) = node.file_draft().writer() else {
            return match set.size {
                Some(_) => Err(Errno::ESTALE),
                None => Ok(()),
            };
        };
        if let Some(size) = set.size {
            self.cut(&writer, size).await?;
        }
        match set.modified {
            Some(time) => self.set_kept(node, &writer, attr::kept(time)).await,
            None => Ok(()),
        }
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
        if let Some(write_handle) = handle
            .as_ref()
            .and_then(|handle| handle.write_handle.as_ref())
        {
            return self.set_kept(node, &write_handle.writer, value).await;
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
            writer.set_header(attr::MTIME_HEADER, value).await;
            node.file_draft().give_time();
            Ok(())
        };
        self.progressing(writer, set).await
    }

    /// Grows a file, sets room in the spool aside, or makes a range zero (fallocate(2)). A file that grows has no room
    /// set aside: it may become larger than the spool.
    pub(crate) async fn allocate(
        &self,
        handle: u64,
        offset: u64,
        length: u64,
        mode: i32,
    ) -> Result<(), Errno> {
        let handle = self.open.get(handle).ok_or(Errno::EBADF)?;
        let write_handle = handle.write_handle.as_ref().ok_or(Errno::EBADF)?;
        let mode = u32::try_from(mode).map_err(|_| Errno::EOPNOTSUPP)?;
        let mode = FallocateFlags::from_bits(mode).ok_or(Errno::EOPNOTSUPP)?;
        let end = offset.checked_add(length).ok_or(Errno::EFBIG)?;
        let (writer, range) = (&write_handle.writer, ByteRange::new(offset, end));
        let keeps = mode.contains(FallocateFlags::KEEP_SIZE);
        let zeroes = match mode - FallocateFlags::KEEP_SIZE {
            FallocateFlags::PUNCH_HOLE if keeps => true,
            FallocateFlags::ZERO_RANGE => true,
            rest if rest.is_empty() => false,
            _ => return Err(Errno::EOPNOTSUPP),
        };
        if keeps && !zeroes {
            let set_aside = writer.set_aside(range);
            return set_aside.map_err(|error| errno::written(&error, writer.key().as_str()));
        }
        write_handle.idle.store(false, Ordering::Relaxed);
        if zeroes {
            self.progressing(writer, writer.zero(range)).await?;
        }
        match !keeps && end > writer.size() {
            true => self.cut(writer, end).await,
            false => Ok(()),
        }
    }
}
