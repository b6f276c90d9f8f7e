//! The operations of the kernel, carried out on the disk.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::{Call, Shared};
use crate::volatile::{Change, Node, PAGE, ROOT, Volatile};

/// The kernel may believe nothing for any time.
const TTL: Duration = Duration::ZERO;

/// Number of blocks of the disk, always all of them free.
const BLOCKS: u64 = 1 << 24;

/// Flags of `fallocate` (linux/falloc.h).
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;

/// `O_DIRECT` (fcntl.h).
const DIRECT: i32 = 0o40_000;

/// The files of a disk.
pub(super) struct Files(pub(super) Arc<Shared>);

fn attr(disk: &Volatile, number: u64) -> Option<FileAttr> {
    let node: &Node = disk.nodes.get(&number)?;
    let time = SystemTime::UNIX_EPOCH;
    Some(FileAttr {
        ino: INodeNo(number),
        size: node.now.len,
        blocks: node.now.allocated() / 512,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: kind(node),
        perm: if node.is_folder { 0o755 } else { 0o644 },
        nlink: match node.is_folder {
            true => 2,
            false => disk.links(number),
        },
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    })
}

fn kind(node: &Node) -> FileType {
    match node.is_folder {
        true => FileType::Directory,
        false => FileType::RegularFile,
    }
}

fn empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn entry(reply: ReplyEntry, attr: Option<FileAttr>) {
    match attr {
        Some(attr) => reply.entry(&TTL, &attr, Generation(0)),
        None => reply.error(Errno::ENOENT),
    }
}

impl Files {
    fn change(&self, node: u64, change: Change) -> Result<(), Errno> {
        let direct = matches!(change, Change::Direct(..));
        let (what, at, len, zeros) = match &change {
            Change::Write(at, bytes) | Change::Direct(at, bytes) => {
                let zeros = bytes.iter().all(|byte| *byte == 0);
                ("write", *at, bytes.len() as u64, zeros)
            }
            Change::Resize(len) => ("ftruncate", *len, 0, false),
            Change::Grow(len) => ("fallocate", *len, 0, false),
            Change::Zero(at, len) => ("fallocate", *at, *len, true),
        };
        let call = Call {
            at,
            len,
            zeros,
            direct,
            ..self.0.call(what, node)
        };
        // A full disk has taken some of the bytes.
        let some = match &change {
            Change::Write(at, bytes) | Change::Direct(at, bytes) => {
                Change::Write(*at, bytes.slice(..bytes.len() / 2))
            }
            _ => Change::Grow(0),
        };
        let changed = self.0.carry_out(call, node, |disk| {
            let node = disk.nodes.get_mut(&node)?;
            node.change(change);
            Some(())
        });
        if changed == Err(Errno::ENOSPC)
            && let Some(node) = self.0.disk().nodes.get_mut(&node)
        {
            node.change(some);
        }
        changed?.ok_or(Errno::ENOENT)
    }

    fn sync(&self, node: u64, what: &'static str) -> Result<(), Errno> {
        let call = self.0.call(what, node);
        self.0.carry_out(call, node, |disk| disk.sync(node))
    }

    fn unlink(&self, folder: u64, name: &OsStr) -> Result<(), Errno> {
        let call = named("unlink", name);
        match self
            .0
            .carry_out(call, 0, |disk| disk.unlink(folder, name))?
        {
            true => Ok(()),
            false => Err(Errno::ENOENT),
        }
    }

    fn create(&self, folder: u64, name: &OsStr) -> Result<FileAttr, Errno> {
        let call = named("create", name);
        self.0.carry_out(call, 0, |disk| {
            let made = disk.find(folder, name);
            let made = made.unwrap_or_else(|| disk.make(folder, name, false));
            attr(disk, made).expect("just made")
        })
    }
}

fn named(what: &'static str, name: &OsStr) -> Call {
    let name = name.to_string_lossy().into_owned();
    Call {
        what,
        name,
        ..Call::default()
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let disk = self.0.pass();
        let found = disk.find(parent.0, name);
        entry(reply, found.and_then(|node| attr(&disk, node)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match attr(&self.0.pass(), ino.0) {
            Some(attr) => reply.attr(&TTL, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let resized = size.map_or(Ok(()), |size| self.change(ino.0, Change::Resize(size)));
        match resized.map(|()| attr(&self.0.disk(), ino.0)) {
            Ok(Some(attr)) => reply.attr(&TTL, &attr),
            Ok(None) => reply.error(Errno::ENOENT),
            Err(errno) => reply.error(errno),
        }
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        match self.0.pass_to_change() {
            Ok(mut disk) => {
                let made = disk.make(parent.0, name, true);
                entry(reply, attr(&disk, made));
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, Files::unlink(self, parent.0, name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, Files::unlink(self, parent.0, name));
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
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let moved = self.0.pass_to_change();
        let moved = moved.map(|mut disk| disk.rename((parent.0, name), (newparent.0, newname)));
        match moved {
            Ok(true) => reply.ok(),
            Ok(false) => reply.error(Errno::ENOENT),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        drop(self.0.pass());
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        match Files::create(self, parent.0, name) {
            Ok(attr) => {
                let flags = FopenFlags::FOPEN_DIRECT_IO;
                reply.created(&TTL, &attr, Generation(0), FileHandle(0), flags);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let call = Call {
            at: offset,
            len: u64::from(size),
            ..self.0.call("read", ino.0)
        };
        let read = self.0.carry_out(call, ino.0, |disk| {
            let node = disk.nodes.get(&ino.0)?;
            Some(node.now.read(offset, u64::from(size)))
        });
        match read {
            Ok(Some(bytes)) => reply.data(&bytes),
            Ok(None) => reply.error(Errno::EIO),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let bytes = Bytes::copy_from_slice(data);
        let change = match flags.0 & DIRECT {
            0 => Change::Write(offset, bytes),
            _ => Change::Direct(offset, bytes),
        };
        match self.change(ino.0, change) {
            Ok(()) => reply.written(u32::try_from(data.len()).expect("small")),
            Err(errno) => reply.error(errno),
        }
    }

    /// Refuses the call once, after which the kernel no longer sends it: a close needs nothing from a disk. Otherwise a
    /// process that ends with a file of its own mount open would wait for itself.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        empty(reply, self.sync(ino.0, "fsync"));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _data: bool, reply: ReplyEmpty) {
        empty(reply, self.sync(ino.0, "fsyncdir"));
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let disk = self.0.pass();
        let own = [(".".into(), ino.0), ("..".into(), ROOT)];
        let names = own.into_iter().chain(disk.list(ino.0));
        for (at, (name, node)) in names
            .enumerate()
            .skip(usize::try_from(offset).expect("few"))
        {
            let kind = disk.nodes.get(&node).map_or(FileType::RegularFile, kind);
            if reply.add(INodeNo(node), at as u64 + 1, kind, &name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        drop(self.0.pass());
        let size = u32::try_from(PAGE).expect("small");
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, BLOCKS, BLOCKS, size, 255, size);
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let change = match mode {
            0 => Change::Grow(offset + length),
            KEEP_SIZE => Change::Grow(0),
            mode if mode == PUNCH_HOLE | KEEP_SIZE => Change::Zero(offset, length),
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        empty(reply, self.change(ino.0, change));
    }
}
