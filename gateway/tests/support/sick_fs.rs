//! A FUSE file system over a [`Volatile`] disk that can be told to hang, to fail, and to lose unsynced bytes.
//!
//! The kernel caches nothing of it: every read and write of a program arrives here. It needs no real disk, and leaves
//! nothing behind. Its drop lets every waiting call go on.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use fuser::{Config, Errno, MountOption, Session};
use rustix::mount::UnmountFlags;
use tempfile::TempDir;

use crate::draw::Draw;
use crate::volatile::Volatile;

#[path = "sick_fs/files.rs"]
mod files;

use files::Files;

/// The condition of the disk.
#[derive(Debug, Default)]
struct Mood {
    hangs: bool,
    /// The error that every change returns.
    fails: Option<Errno>,
    /// Number of calls that wait while it hangs.
    waiting: u64,
}

/// A call that changes the disk, or reads from it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Call {
    /// The operation.
    pub(crate) what: &'static str,
    /// The name of its file or folder.
    pub(crate) name: String,
    /// The offset in the file, and the number of bytes.
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// Whether the bytes are zeros.
    pub(crate) zeros: bool,
    /// Whether the bytes bypass the file cache.
    pub(crate) direct: bool,
}

/// The fate of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It fails.
    Fails(Errno),
    /// It succeeds, and its bytes are lost on their way from the file cache to the disk.
    IsLost,
}

/// The time at which a watch hears of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    After,
}

/// A function that hears of every call, and may decide that it fails.
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

    /// Waits while the disk hangs; then returns the disk.
    fn pass(&self) -> MutexGuard<'_, Volatile> {
        let mut mood = self.mood();
        mood.waiting += u64::from(mood.hangs);
        let waited = self.changed.wait_while(mood, |mood| mood.hangs);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.disk()
    }

    /// Carries a call out, unless the watch fails it. A failed sync loses the unsynced bytes.
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

    /// Does the same for a call that changes the disk.
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

    /// Returns the disk as it is now, with unsynced changes.
    pub(crate) fn disk(&self) -> Volatile {
        self.shared.disk().clone()
    }

    /// Reports every call to `watch` from now on.
    pub(crate) fn watch(&self, watch: Watch) {
        *self
            .shared
            .watch
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(watch);
    }

    /// Returns a path on it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Makes every call wait from now on, until the release.
    pub(crate) fn hang(&self) {
        self.shared.mood().hangs = true;
    }

    /// Lets the waiting calls go on.
    pub(crate) fn release(&self) {
        let mut mood = self.shared.mood();
        (mood.hangs, mood.waiting) = (false, 0);
        self.shared.changed.notify_all();
    }

    /// Returns the number of waiting calls.
    pub(crate) fn waiting(&self) -> u64 {
        self.shared.mood().waiting
    }

    /// Makes every change fail with this error from now on; `None`: no longer.
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
        // The abort comes first: a file that this process still has open is flushed at its end, when no thread answers.
        let _ = rustix::mount::unmount(self.folder.path(), UnmountFlags::FORCE);
        let _ = rustix::mount::unmount(self.folder.path(), UnmountFlags::DETACH);
    }
}
