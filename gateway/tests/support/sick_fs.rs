//! A FUSE file system over a [`Volatile`] disk that can be told to hang, to fail, and to lose what was
//! not synced.
//!
//! The kernel caches nothing of it: every read and write of a program arrives here. It needs no real disk,
//! and leaves nothing behind. When it is dropped, every call that waits goes on.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    Session, TimeOrNow, WriteFlags,
};
use rustix::mount::UnmountFlags;
use tempfile::TempDir;

use crate::draw::Draw;
use crate::volatile::{Change, Node, PAGE, ROOT, Volatile};

/// Nothing is believed for any time.
const TTL: Duration = Duration::ZERO;

/// Blocks of the disk, and how many of them are free for ever.
const BLOCKS: u64 = 1 << 24;

/// Flags of `fallocate` (linux/falloc.h).
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;

/// How the disk fares.
#[derive(Debug, Default)]
struct Mood {
    hangs: bool,
    /// What every change is answered with.
    fails: Option<Errno>,
    /// Calls that wait while it hangs.
    waiting: u64,
}

#[derive(Debug, Default)]
struct Shared {
    disk: Mutex<Volatile>,
    mood: Mutex<Mood>,
    changed: Condvar,
}

impl Shared {
    fn disk(&self) -> MutexGuard<'_, Volatile> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mood(&self) -> MutexGuard<'_, Mood> {
        self.mood.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for as long as the disk hangs; then the disk.
    fn pass(&self) -> MutexGuard<'_, Volatile> {
        let mut mood = self.mood();
        mood.waiting += u64::from(mood.hangs);
        let waited = self.changed.wait_while(mood, |mood| mood.hangs);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.disk()
    }

    /// The same for a call that changes something.
    fn pass_to_change(&self) -> Result<MutexGuard<'_, Volatile>, Errno> {
        let disk = self.pass();
        match self.mood().fails {
            Some(errno) => Err(errno),
            None => Ok(disk),
        }
    }
}

/// The mounted file system.
pub(crate) struct SickFs {
    shared: Arc<Shared>,
    folder: TempDir,
}

impl SickFs {
    /// Mounts an empty disk with these folders on it, which are durable.
    pub(crate) fn mount(folders: &[&str]) -> Self {
        let shared = Arc::new(Shared::default());
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("sick".to_owned()),
            MountOption::DefaultPermissions,
        ];
        config.n_threads = Some(2);
        let files = Files(Arc::clone(&shared));
        let session = Session::new(files, folder.path(), &config).expect("root, and a /dev/fuse");
        std::thread::spawn(move || session.run());
        let sick = Self { shared, folder };
        for name in folders {
            std::fs::create_dir(sick.path(name)).expect("made");
        }
        sick.shared.disk().sync_all();
        sick
    }

    /// A path on it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Every call waits from now on, until it is released.
    pub(crate) fn hang(&self) {
        self.shared.mood().hangs = true;
    }

    /// Those that wait go on.
    pub(crate) fn release(&self) {
        let mut mood = self.shared.mood();
        (mood.hangs, mood.waiting) = (false, 0);
        self.shared.changed.notify_all();
    }

    /// Calls that wait.
    pub(crate) fn waiting(&self) -> u64 {
        self.shared.mood().waiting
    }

    /// Every change fails like this from now on, or none any more.
    pub(crate) fn fail(&self, errno: Option<Errno>) {
        self.shared.mood().fails = errno;
    }

    /// Cuts the power. Every program that used it must have ended.
    pub(crate) fn cut(&self, draw: &mut Draw) {
        self.shared.disk().cut(draw);
    }
}

impl Drop for SickFs {
    fn drop(&mut self) {
        self.release();
        let _ = rustix::mount::unmount(self.folder.path(), UnmountFlags::DETACH);
    }
}

struct Files(Arc<Shared>);

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
        let mut disk = self.0.pass_to_change()?;
        let node = disk.nodes.get_mut(&node).ok_or(Errno::ENOENT)?;
        node.change(change);
        Ok(())
    }

    fn sync(&self, node: u64) -> Result<(), Errno> {
        self.0.pass_to_change()?.sync(node);
        Ok(())
    }

    fn unlink(&self, folder: u64, name: &OsStr) -> Result<(), Errno> {
        match self.0.pass_to_change()?.unlink(folder, name) {
            true => Ok(()),
            false => Err(Errno::ENOENT),
        }
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
        match self.0.pass_to_change() {
            Ok(mut disk) => {
                let made = disk.find(parent.0, name);
                let made = made.unwrap_or_else(|| disk.make(parent.0, name, false));
                let attr = attr(&disk, made).expect("just made");
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
        let disk = self.0.pass();
        match disk.nodes.get(&ino.0) {
            Some(node) => reply.data(&node.now.read(offset, u64::from(size))),
            None => reply.error(Errno::EIO),
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
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.change(ino.0, Change::Write(offset, data.to_vec())) {
            Ok(()) => reply.written(u32::try_from(data.len()).expect("small")),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        drop(self.0.pass());
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        empty(reply, self.sync(ino.0));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _data: bool, reply: ReplyEmpty) {
        empty(reply, self.sync(ino.0));
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
