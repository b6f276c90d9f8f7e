//! The requests that change a file or folder.

use std::ffi::OsStr;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    Errno, FileHandle, INodeNo, RenameFlags, ReplyAttr, ReplyCreate, ReplyEmpty, ReplyEntry,
    ReplyWrite, TimeOrNow,
};
use rustix::fs::OFlags;

use super::adapter::until_answered;
use super::reply::{self, empty, entry};
use super::{Adapter, GENERATION};
use crate::attr;
use crate::files::{CopyEnd, Creator, Hold, SetAttr};
use crate::metrics::Operation;
use tidegate_plan::attributes::UnixTime;

/// Converts a time of utimensat(2).
pub(crate) fn time(time: TimeOrNow) -> UnixTime {
    attr::sent_time(match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    })
}

impl Adapter {
    pub(crate) fn created(
        &self,
        (parent, name): (INodeNo, &OsStr),
        flags: i32,
        creator: Creator,
        reply: ReplyCreate,
    ) {
        let (files, name) = (self.files.clone(), name.to_owned());
        let held = self.files.hold_folder(parent.0, Hold::Alone);
        let work = async move { files.create(parent.0, name, flags, creator).await };
        let reply = |done| match done {
            Ok(((attr, fresh), handle, flags)) => {
                ReplyCreate::created(reply, &fresh, &attr, GENERATION, FileHandle(handle), flags);
            }
            Err(errno) => reply.error(errno),
        };
        self.answer_long(Operation::Create, work, until_answered(held, reply));
    }

    pub(crate) fn written(
        &self,
        ino: INodeNo,
        (handle, thread): (FileHandle, u32),
        (offset, clears): (u64, bool),
        data: &[u8],
        flags: i32,
        reply: ReplyWrite,
    ) {
        let append = i32::try_from(OFlags::APPEND.bits()).is_ok_and(|bit| flags & bit != 0);
        {
            let _entered = self.runtime.enter();
            if !append && !clears && self.files.write_now((handle.0, thread), offset, data) {
                self.files.metrics.done(Operation::Write, &Ok(()));
                return reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX));
            }
        }
        // The kernel holds a page that it has only a part of.
        let held = self.files.hold_pages(ino.0);
        let (files, data) = (self.files.clone(), self.files.copy(data));
        let work = async move {
            if clears {
                files.clear_bits_of(handle.0).await?;
            }
            files.write((handle.0, thread), offset, data, append).await
        };
        let reply = |done| match done {
            Ok(length) => ReplyWrite::written(reply, length),
            Err(errno) => reply.error(errno),
        };
        self.answer_long(Operation::Write, work, until_answered(held, reply));
    }

    pub(crate) fn flushed(&self, handle: FileHandle, thread: u32, reply: ReplyEmpty) {
        let files = self.files.clone();
        let work = async move { files.flush(handle.0, thread).await };
        self.answer_long(Operation::Flush, work, empty(reply));
    }

    pub(crate) fn synced(&self, ino: INodeNo, handle: FileHandle, reply: ReplyEmpty) {
        let files = self.files.clone();
        let work = async move { files.fsync(ino.0, handle.0).await };
        self.answer_long(Operation::Fsync, work, empty(reply));
    }

    pub(crate) fn folder_synced(&self, ino: INodeNo, reply: ReplyEmpty) {
        let files = self.files.clone();
        let work = async move { files.fsync_folder(ino.0).await };
        self.answer_long(Operation::Fsync, work, empty(reply));
    }

    pub(crate) fn set(&self, ino: INodeNo, set: SetAttr, reply: ReplyAttr) {
        let files = self.files.clone();
        let held = self.files.hold_folder(ino.0, Hold::Alone);
        let work = async move { files.setattr(ino.0, set).await };
        let reply = reply::attr(reply);
        self.answer_long(Operation::SetAttr, work, until_answered(held, reply));
    }

    pub(crate) fn allocated(
        &self,
        (handle, clears): (FileHandle, bool),
        (offset, length): (u64, u64),
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let files = self.files.clone();
        let work = async move {
            if clears {
                files.clear_bits_of(handle.0).await?;
            }
            files.allocate(handle.0, offset, length, mode).await
        };
        self.answer_long(Operation::Allocate, work, empty(reply));
    }

    pub(crate) fn copied(
        &self,
        (from, from_offset): (FileHandle, u64),
        (to, to_offset): (FileHandle, u64),
        (thread, clears): (u32, bool),
        length: u64,
        reply: ReplyWrite,
    ) {
        let files = self.files.clone();
        let from = CopyEnd {
            handle: from.0,
            offset: from_offset,
        };
        let to = CopyEnd {
            handle: to.0,
            offset: to_offset,
        };
        let work = async move {
            if clears {
                files.clear_bits_of(to.handle).await?;
            }
            files.copy_range(from, (to, thread), length).await
        };
        self.answer_long(Operation::Copy, work, |done| match done {
            Ok(length) => reply.written(length),
            Err(errno) => reply.error(errno),
        });
    }

    pub(crate) fn unlinked(&self, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (files, name) = (self.files.clone(), name.to_owned());
        let reply = until_answered(self.files.hold_folder(parent.0, Hold::Alone), empty(reply));
        let work = async move { files.unlink(parent.0, name).await };
        self.answer_long(Operation::Unlink, work, reply);
    }

    pub(crate) fn linked(
        &self,
        (parent, name): (INodeNo, &OsStr),
        target: &Path,
        creator: Creator,
        reply: ReplyEntry,
    ) {
        let (files, name) = (self.files.clone(), name.to_owned());
        let target = target.to_owned();
        let held = self.files.hold_folder(parent.0, Hold::Alone);
        let work = async move { files.symlink((parent.0, name), target, creator).await };
        let reply = entry(reply);
        self.answer(Operation::SymLink, work, until_answered(held, reply));
    }

    pub(crate) fn folder_made(
        &self,
        (parent, name): (INodeNo, &OsStr),
        creator: Creator,
        reply: ReplyEntry,
    ) {
        let (files, name) = (self.files.clone(), name.to_owned());
        let held = self.files.hold_folder(parent.0, Hold::Alone);
        let work = async move { files.mkdir(parent.0, name, creator).await };
        let reply = entry(reply);
        self.answer(Operation::MkDir, work, until_answered(held, reply));
    }

    pub(crate) fn folder_removed(&self, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let reply = until_answered(self.files.hold_name(parent.0, name), empty(reply));
        let (files, name) = (self.files.clone(), name.to_owned());
        let work = async move { files.rmdir(parent.0, name).await };
        self.answer(Operation::RmDir, work, reply);
    }

    pub(crate) fn renamed(
        &self,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
            return reply.error(Errno::EINVAL);
        }
        let held = [from, to].map(|(parent, name)| self.files.hold_name(parent.0, name));
        let files = self.files.clone();
        let from = (from.0.0, from.1.to_owned());
        let to = (to.0.0, to.1.to_owned());
        let keep = !flags.is_empty();
        let work = async move { files.rename(from, to, keep).await };
        self.answer_long(Operation::Rename, work, until_answered(held, empty(reply)));
    }
}
