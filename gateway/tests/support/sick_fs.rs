//! A FUSE file system over a [`Volatile`] disk that can be told to hang, to fail, and to lose what was
//! not synced.
//!
//! The kernel caches nothing of it: every read and write of a program arrives here. It needs no real disk,
//! and leaves nothing behind. When it is dropped, every call that waits goes on.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
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

/// A call that changes the disk, or reads from it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Call {
    /// What it does.
    pub(crate) what: &'static str,
    /// The name of the file or folder that it does that to.
    pub(crate) name: String,
    /// Where in the file, and to how many bytes.
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// They are zeros.
    pub(crate) zeros: bool,
    /// They go past the file cache.
    pub(crate) direct: bool,
}

/// How a call fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It fails.
    Fails(Errno),
    /// It returns well, and what it wrote is lost on its way from the file cache to the disk.
    IsLost,
}

/// When a watch is told of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    After,
}

/// Is told of every call, and says how it fails, if it does.
pub(crate) type Watch = Box<dyn FnMut(Moment, &Call, &Volatile) -> Option<Fate> + Send>;

#[derive(Default)]
struct Shared {
    disk: Mutex<Volatile>,
    mood: Mutex<Mood>,
    changed: Condvar,
    watch: Mutex<Option<Watch>>,
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

    /// Carries a call out, unless the watch fails it. What fails to be made durable is lost.
    fn carry_out<T>(
        &self,
        call: Call,
        node: u64,
        work: impl FnOnce(&mut Volatile) -> T,
    ) -> Result<T, Errno> {
        let mut disk = match call.what {
            "read" => self.pass(),
            _ => self.pass_to_change()?,
        };
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut told =
            |moment, disk: &Volatile| watch.as_mut().and_then(|it| it(moment, &call, disk));
        let fate = told(Moment::Before, &disk);
        if let Some(Fate::Fails(errno)) = fate {
            if call.what == "fsync" {
                disk.lose(node);
            }
            return Err(errno);
        }
        if call.what == "fsync" && disk.has_lost(node) {
            return Err(Errno::EIO);
        }
        let done = work(&mut disk);
        if fate == Some(Fate::IsLost) {
            disk.lose_last(node);
        }
        told(Moment::After, &disk);
        Ok(done)
    }

    fn call(&self, what: &'static str, node: u64) -> Call {
        let name = self.disk().name_of(node).to_string_lossy().into_owned();
        Call {
            what,
            name,
            ..Call::default()
        }
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
        let sick = Self::over(Volatile::default());
        for name in folders {
            std::fs::create_dir(sick.path(name)).expect("made");
        }
        sick.shared.disk().sync_all();
        sick
    }

    /// Mounts this disk.
    pub(crate) fn over(disk: Volatile) -> Self {
        let shared = Arc::new(Shared {
            disk: Mutex::new(disk),
            ..Shared::default()
        });
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
        Self { shared, folder }
    }

    /// The disk as it is now, with what was not synced.
    pub(crate) fn disk(&self) -> Volatile {
        self.shared.disk().clone()
    }

    /// From now on every call is told to this.
    pub(crate) fn watch(&self, watch: Watch) {
        *self
            .shared
            .watch
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(watch);
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
        // Aborted first: a file that this process has open still is flushed at its end, when no thread answers.
        let _ = rustix::mount::unmount(self.folder.path(), UnmountFlags::FORCE);
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

/// `O_DIRECT` (fcntl.h).
const DIRECT: i32 = 0o40_000;

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
        // A disk that is full has taken some of it.
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

    /// A close asks nothing of a disk, and this says so once and for all. Else a process that ends with a file
    /// of its own mount open would wait for itself.
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
