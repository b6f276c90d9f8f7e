//! Takes the kernel's requests and sends the answers: the only file that knows both.
//!
//! A request is begun on the thread that took it. If nothing has to be waited for, it is answered there; else it goes
//! on as a task, and the thread takes the next request.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::files::{Hold, SetAttr};
use crate::folder::FolderPage;
use crate::metrics::Operation;
use tidegate_plan::folder::MAX_NAME;

mod adapter;
mod listing;
mod notifier;
mod reply;
mod writing;

pub(crate) use adapter::Adapter;
use adapter::until_answered;
pub(crate) use listing::names;
use listing::{fill, fill_plus};
pub(crate) use notifier::KernelNotifier;
use reply::{creator, entry, send};

/// Requests that the kernel may have in flight on its own account, mainly read-ahead. Its default of 12 is less than a
/// few readers keep busy.
const MAX_BACKGROUND_REQUESTS: u16 = 64;

/// The most bytes of one write: as much as the kernel sends at once.
const MAX_WRITE: u32 = 1 << 20;

/// Nodes are never reused for another file: a number belongs to a key.
const GENERATION: Generation = Generation(0);

/// The unit in which `statfs` reports sizes, in bytes.
const STATFS_BLOCK_SIZE: u32 = 4096;

/// The numbers of files that `statfs` reports: a bucket has no limit.
const STATFS_FILES: u64 = 1 << 32;

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let mut wanted = InitFlags::FUSE_PARALLEL_DIROPS;
        wanted |= InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO;
        if self.files.is_writable() {
            // A file that is opened to be replaced is never fetched; and the bits that a write clears are cleared here.
            wanted |= InitFlags::FUSE_ATOMIC_O_TRUNC | InitFlags::FUSE_HANDLE_KILLPRIV_V2;
            let _ = config.set_max_write(MAX_WRITE);
            wanted |= InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        } else {
            // With it the pieces of one call come in parallel. Appended pieces must come in order.
            wanted |= InitFlags::FUSE_ASYNC_DIO;
        }
        // Flags that an old kernel lacks are left out.
        let given = wanted & config.capabilities();
        let _ = config.add_capabilities(given);
        let maps = given.contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        self.files.maps.store(maps, Ordering::Relaxed);
        let _ = config.set_max_background(MAX_BACKGROUND_REQUESTS);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (files, name) = (self.files.clone(), name.to_owned());
        let held = self.files.hold_folder(parent.0, Hold::Shared);
        let work = async move { files.look_up(parent.0, name).await };
        let reply = entry(reply);
        self.answer_long(Operation::LookUp, work, until_answered(held, reply));
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        self.files.forget(ino.0, nlookup);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let files = self.files.clone();
        let work = async move { files.getattr(ino.0).await };
        self.answer(Operation::GetAttr, work, reply::attr(reply));
    }

    fn open(&self, of: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (files, caller) = (self.files.clone(), (of.pid(), of.uid()));
        let work = async move { files.open(ino.0, flags, caller).await };
        self.answer_long(Operation::Open, work, |done| match done {
            Ok((handle, flags)) => reply.opened(FileHandle(handle), flags),
            Err(errno) => reply.error(errno),
        });
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let files = self.files.clone();
        let held = self.files.hold_pages(ino.0);
        let work = async move { files.read(handle.0, offset, size).await };
        let reply = |done| match done {
            Ok(data) => ReplyData::data(reply, AsRef::as_ref(&data)),
            Err(errno) => reply.error(errno),
        };
        self.answer_long(Operation::Read, work, until_answered(held, reply));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let files = self.files.clone();
        let work = async move { files.close(handle.0).await };
        let change = self.files.changes.token();
        self.carry_out(work, until_answered(change, |()| reply.ok()));
    }

    fn create(
        &self,
        of: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        self.created((parent, name), flags, creator(of, mode), reply);
    }

    fn write(
        &self,
        of: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let clears = how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        self.written(
            ino,
            (handle, of.pid()),
            (offset, clears),
            data,
            flags.0,
            reply,
        );
    }

    fn flush(&self, of: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.flushed(handle, of.pid(), reply);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        self.synced(ino, handle, reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.folder_synced(ino, reply);
    }

    fn setattr(
        &self,
        of: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetAttr {
            size,
            mode,
            uid,
            gid,
            modified: mtime.map(writing::time),
            accessed: atime.map(writing::time),
            handle: handle.map(|handle| handle.0),
            caller: of.uid(),
        };
        self.set(ino, set, reply);
    }

    fn fallocate(
        &self,
        of: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.allocated((handle, of.uid() != 0), (offset, length), mode, reply);
    }

    fn copy_file_range(
        &self,
        of: &Request,
        _: INodeNo,
        from: FileHandle,
        from_offset: u64,
        _: INodeNo,
        to: FileHandle,
        to_offset: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (from, to) = ((from, from_offset), (to, to_offset));
        self.copied(from, to, (of.pid(), of.uid() != 0), length, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unlinked(parent, name, reply);
    }

    fn mkdir(
        &self,
        of: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        self.folder_made((parent, name), creator(of, mode), reply);
    }

    fn symlink(
        &self,
        of: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.linked((parent, name), target, creator(of, 0o777), reply);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let files = self.files.clone();
        let work = async move { files.readlink(ino.0).await };
        self.answer(Operation::ReadLink, work, |done| match done {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(errno),
        });
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.folder_removed(parent, name, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.renamed((parent, name), (newparent, newname), flags, reply);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn setxattr(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: &[u8],
        _: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EOPNOTSUPP);
    }

    fn removexattr(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EOPNOTSUPP);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.files.open_folder(ino.0) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let files = self.files.clone();
        let held = self.files.hold_folder(ino.0, Hold::Shared);
        let work = async move { names(&files, handle.0, offset).await };
        let files = self.files.clone();
        let reply = move |done: Result<Arc<FolderPage>, Errno>| match done {
            Ok(names) => fill(&files, handle.0, offset, &names, reply),
            Err(errno) => reply.error(errno),
        };
        self.answer_long(Operation::ReadDir, work, until_answered(held, reply));
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let files = self.files.clone();
        let held = self.files.hold_folder(ino.0, Hold::Shared);
        let work = async move { names(&files, handle.0, offset).await };
        let files = self.files.clone();
        let reply = move |done: Result<Arc<FolderPage>, Errno>| match done {
            Ok(names) => fill_plus(&files, handle.0, offset, &names, reply),
            Err(errno) => reply.error(errno),
        };
        self.answer_long(Operation::ReadDir, work, until_answered(held, reply));
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        let _entered = self.runtime.enter();
        self.files.close_folder(handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let files = self.files.clone();
        self.runtime.spawn(async move {
            let (size, free) = files.space().await;
            let unit = u64::from(STATFS_BLOCK_SIZE);
            let name = u32::try_from(MAX_NAME).unwrap_or(u32::MAX);
            reply.statfs(
                size / unit,
                free / unit,
                free / unit,
                STATFS_FILES,
                STATFS_FILES,
                STATFS_BLOCK_SIZE,
                name,
                STATFS_BLOCK_SIZE,
            );
        });
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let (files, name): (_, OsString) = (self.files.clone(), name.to_owned());
        let work = async move { files.getxattr(ino.0, name).await };
        self.answer(Operation::GetXattr, work, move |done| match done {
            Ok(value) => send(&value, size, reply),
            Err(errno) => reply.error(errno),
        });
    }

    fn listxattr(&self, _: &Request, _: INodeNo, size: u32, reply: ReplyXattr) {
        send("", size, reply);
    }
}
