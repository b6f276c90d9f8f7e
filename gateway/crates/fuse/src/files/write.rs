//! Bytes: creating files, writing, syncing, truncating.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use fuser::{Errno, FopenFlags, OpenAccMode, OpenFlags};
use rustix::fs::{FallocateFlags, OFlags};

use super::attributes::Creator;
use super::change::key;
use super::draft::OpenDraft;
use super::handle::{Handle, WriteHandle, has_flag};
use super::{Files, TimedAttr, key_of};
use crate::errno;
use crate::handle_users::HandleUsers;
use crate::nodes::Node;
use tidegate_engine::names::NameKind;
use tidegate_plan::ByteRange;
use tidegate_plan::attributes::REGULAR;
use tidegate_write::OpenMode;
use tidegate_write::Writer;

impl Files {
    /// Creates a file, or opens the one that is there, and opens it for writing.
    pub(crate) async fn create(
        &self,
        folder: u64,
        name: OsString,
        flags: i32,
        creator: Creator,
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
            NameKind::Missing if exclusive => OpenMode::CreateNew,
            NameKind::File(_) | NameKind::Missing if has_flag(flags, OFlags::TRUNC) => {
                OpenMode::Create
            }
            NameKind::File(_) => OpenMode::Change,
            NameKind::Missing => OpenMode::CreateMissing,
        };
        let is_new = meaning.entry == NameKind::Missing;
        let attributes = match is_new {
            true => self.new_attributes(&creator, folder, REGULAR),
            false => {
                let replaced = (&*path, Some(meaning.entry));
                self.attributes_of_replaced(replaced, creator.uid, how)
                    .await?
            }
        };
        let mut node = self.nodes.tell(folder, &path, false);
        let joins = matches!(how, OpenMode::Change | OpenMode::CreateMissing);
        let may_pass = self.may_pass(flags);
        let enter = async |node: &Arc<Node>| {
            let idle = joins && self.is_unfinished(node);
            (idle, self.enter(node, (how, attributes), may_pass).await)
        };
        let (mut idle, mut entered) = enter(&node).await;
        if entered.as_ref().is_err_and(|it| *it == Errno::ESTALE) && !node.is_linked() {
            // Its handles are of a file that had the name before.
            self.nodes.forget(node.ino, 1);
            node = self.nodes.tell(folder, &path, false);
            (idle, entered) = enter(&node).await;
        }
        match entered {
            Ok(writing) => {
                if is_new {
                    self.touch_folder(folder);
                }
                let empties = how == OpenMode::Create && !is_new;
                let begins = !idle && (is_new || empties);
                let how = (idle, begins, empties);
                let (handle, reply) = self.open_writing(writing, creator.thread, how);
                let shown = self.show_draft(&node).ok_or(Errno::EIO)?;
                Ok((shown, handle, reply))
            }
            Err(error) => {
                self.nodes.forget(node.ino, 1);
                Err(error)
            }
        }
    }

    /// Opens an existing file for writing, or to read it once it is empty.
    ///
    /// Before it asks here, the kernel looks whether the file runs, but not for an open that reads and empties it (Linux,
    /// fs/namei.c, `do_open`): a running program would lose its bytes.
    pub(crate) async fn open_to_write(
        &self,
        node: &Arc<Node>,
        flags: OpenFlags,
        (thread, uid): (u32, u32),
    ) -> Result<(u64, FopenFlags), Errno> {
        let how = match has_flag(flags.0, OFlags::TRUNC) {
            true => OpenMode::Create,
            false => OpenMode::Change,
        };
        if flags.acc_mode() == OpenAccMode::O_RDONLY && node.file_draft().is_run() {
            return Err(Errno::ETXTBSY);
        }
        let _used = self.use_node(node).await?;
        let idle = how == OpenMode::Change && self.is_unfinished(node);
        let attributes = self
            .attributes_of_replaced((&node.key(), None), uid, how)
            .await?;
        let entered = self.enter(node, (how, attributes), self.may_pass(flags.0));
        let writing = entered.await?;
        let empties = how == OpenMode::Create;
        Ok(self.open_writing(writing, thread, (idle, empties, empties)))
    }

    /// Returns whether a handle that writes can do without the kernel's pages.
    fn may_pass(&self, flags: i32) -> bool {
        let only_writes = OpenFlags(flags).acc_mode() == OpenAccMode::O_WRONLY;
        only_writes || self.maps.load(Ordering::Relaxed)
    }

    /// Opens the handle. `O_DIRECT` bypasses the pages by itself, and keeps them right.
    fn open_writing(
        &self,
        writing: OpenDraft,
        thread: u32,
        (idle, begins, empties): (bool, bool, bool),
    ) -> (u64, FopenFlags) {
        self.metrics.handles.inc();
        let users = HandleUsers::default();
        users.add(thread);
        let write_handle = WriteHandle {
            writer: writing.writer,
            users,
            idle: AtomicBool::new(idle),
            empties,
        };
        if begins {
            // Also nothing is content.
            write_handle.changes(&writing.share.node);
        }
        let (handle, reply) =
            Handle::following(writing.share, None, Some(write_handle), (false, thread));
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
        let write_handle = handle.write_handle.as_ref();
        write_handle.is_some_and(|write_handle| {
            write_handle.writes(&handle.share.node, thread);
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
        write_handle.writes(&handle.share.node, thread);
        let length = u32::try_from(data.len()).map_err(|_| Errno::EINVAL)?;
        let work = async {
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

    /// Handles the close of one descriptor of a handle by a process.
    pub(crate) async fn flush(&self, handle: u64, thread: u32) -> Result<(), Errno> {
        let handle = self.open.get(handle).ok_or(Errno::EBADF)?;
        let Some(write_handle) = &handle.write_handle else {
            return Ok(());
        };
        if !write_handle.wrote() {
            return Ok(());
        }
        let ino = handle.share.node.ino;
        if !write_handle.is_complete(thread, ino) {
            // It is committed when the handle goes.
            return Ok(());
        }
        let node = &handle.share.node;
        let changes = node.file_draft().changes();
        if write_handle.writer.is_dirty() {
            self.commit(&write_handle.writer).await?;
            node.file_draft().note_published(changes);
            return Ok(());
        }
        node.file_draft().note_published(changes);
        // Another mount may have committed these bytes: its kernel can have pages from before them.
        self.tell_others(write_handle.writer.key());
        Ok(())
    }

    /// Publishes the written bytes, or queues them for it.
    pub(crate) async fn commit(&self, writer: &Writer) -> Result<(), Errno> {
        let writable = self.writable.as_ref().ok_or(Errno::EROFS)?;
        let commit = writable.commit;
        self.progressing(writer, writer.commit(commit)).await?;
        self.tell_others(writer.key());
        Ok(())
    }

    /// Makes the written bytes and the changed attributes of a file durable here.
    pub(crate) async fn fsync(&self, ino: u64, handle: u64) -> Result<(), Errno> {
        let handle = self.open.get(handle).ok_or(Errno::EBADF)?;
        if let Some(writer) = handle.draft() {
            self.progressing(&writer, writer.sync()).await?;
        }
        let (Ok(writers), Some(node)) = (self.writers(), self.nodes.get(ino)) else {
            return Ok(());
        };
        // Without a name it has nothing that outlives a crash.
        let Ok(key) = key_of(&node) else {
            return Ok(());
        };
        let synced = writers.sync_attributes(&self.source, &key).await;
        synced.map_err(|error| errno::written(&error, key.as_str()))
    }

    /// Makes the names in a folder durable, in the bucket or here.
    pub(crate) async fn fsync_folder(&self, ino: u64) -> Result<(), Errno> {
        let Ok(writers) = self.writers() else {
            return Ok(());
        };
        let prefix = self.folder_node(ino)?.key();
        let work = async {
            let synced = writers.sync_folder(&self.source, &prefix).await;
            synced.map_err(|error| errno::written(&error, &prefix))
        };
        self.bounded(work).await
    }

    /// Sets the length of a draft.
    pub(crate) async fn set_length(
        &self,
        node: &Node,
        writer: &Writer,
        size: u64,
    ) -> Result<(), Errno> {
        node.file_draft().count_change(writer);
        self.progressing(writer, writer.truncate(size)).await
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
        write_handle.changes(&handle.share.node);
        if zeroes {
            self.progressing(writer, writer.zero(range)).await?;
        }
        match keeps {
            true => Ok(()),
            false => self.progressing(writer, writer.grow(end)).await,
        }
    }
}
