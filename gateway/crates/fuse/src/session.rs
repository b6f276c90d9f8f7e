//! Mounts and unmounts folders.
//!
//! Root mounts by the system call, other users through `fusermount3`, which is set-uid. Unmounting is lazy: the folder
//! is free at once, and programs keep their open files until they close them or the process ends. A mount that a dead
//! process left behind is removed first.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fuser::{Config, MountOption, Session, SessionACL};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::files::Files;
use crate::kernel::{Adapter, KernelNotifier};
use crate::metrics::Metrics;
use crate::mount_point::{check_at_mount, is_fuse};
use crate::settings::{Access, Settings};
use tidegate_engine::{Engine, InvalidationSubscriber, ReadContext};

/// The kernel's read-ahead, in KiB: a chunk, which is handed over without a copy. The engine reads further ahead, for it
/// knows how fast the bucket is. With 1,024 a program that reads 64 KiB of a file costs 768 KiB and three requests, and
/// files in memory come a fifth slower, for reads of several chunks are joined by a copy.
const KERNEL_READ_AHEAD_KIB: u32 = 256;

/// The name that `mount` and `df` show.
const FILE_SYSTEM_NAME: &str = "tidegate";

/// The time without a change after which programs that hold files open are not waited for.
const QUIET: Duration = Duration::from_secs(1);

/// The time for programs that were just told of an error to close their files.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The reason why a mount failed.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The folder is missing, or is not a folder.
    #[error("cannot mount on {path}: {error}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Another file system is mounted there.
    #[error("cannot mount on {0}: another FUSE file system is mounted there, and alive")]
    Taken(PathBuf),
    /// The system refused.
    #[error(
        "cannot mount on {path}: {error} (is there a /dev/fuse, and for others than root \
         fusermount3; `allow_other` needs `user_allow_other` in /etc/fuse.conf)"
    )]
    Refused {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// A mounted file system. A drop without [`MountSession::stop`], as when the start of the process is interrupted,
/// unmounts it as well.
#[derive(Debug)]
pub struct MountSession {
    files: Arc<Files>,
    path: PathBuf,
    /// Whether this process unmounts it.
    is_stopping: Arc<AtomicBool>,
    /// Turns true when the kernel has let go.
    ended: watch::Receiver<bool>,
}

/// Mounts. Serves requests until [`MountSession::stop`], or until an operator unmounts.
///
/// # Errors
/// If the folder is wrong, or the system refuses.
pub async fn mount(
    settings: Settings,
    engine: Engine,
    source: Arc<ReadContext>,
    access: Access,
    metrics: Metrics,
) -> Result<MountSession, MountError> {
    let files = Files::new(settings, engine.clone(), source, access, metrics);
    let files = Arc::new(files);
    let (runtime, shared) = (Handle::current(), files.clone());
    let begun = tokio::task::spawn_blocking(move || begin(&shared, runtime));
    let mounted = begun.await.unwrap_or_else(|panic| {
        Err(MountError::Refused {
            path: files.settings.path.clone(),
            error: io::Error::other(panic),
        })
    })?;
    let subscriber: Arc<dyn InvalidationSubscriber> = files;
    engine.subscribe(Arc::downgrade(&subscriber));
    Ok(mounted)
}

fn begin(files: &Arc<Files>, runtime: Handle) -> Result<MountSession, MountError> {
    let path = clear(&files.settings.path)?;
    let refused = |error| MountError::Refused {
        path: path.clone(),
        error,
    };
    warn_of_mount_point(&path, files);
    let adapter = Adapter::new(files.clone(), runtime);
    let session = Session::new(
        adapter,
        &path,
        &options(&files.settings, files.is_writable()),
    )
    .map_err(refused)?;
    files.attach(Arc::new(KernelNotifier(session.notifier())));
    let (told, ended) = watch::channel(false);
    let is_stopping = Arc::new(AtomicBool::new(false));
    let (stopping, place) = (is_stopping.clone(), path.display().to_string());
    let run = move || {
        match session.run() {
            Err(error) => tracing::error!(path = place, %error, "a mount ended badly"),
            Ok(()) if stopping.load(Ordering::Relaxed) => {}
            Ok(()) => tracing::warn!(path = place, "a folder was unmounted from outside"),
        }
        told.send_replace(true);
    };
    let thread = std::thread::Builder::new().name("mount".to_owned());
    // Detached: programs may use files of the mount until the process ends.
    drop(thread.spawn(run).map_err(refused)?);
    if let Err(error) = raise_kernel_read_ahead(&path) {
        tracing::debug!(%error, "the kernel's read-ahead stays as it is");
    }
    tracing::info!(path = %path.display(), "mounted");
    Ok(MountSession {
        files: files.clone(),
        path,
        is_stopping,
        ended,
    })
}

fn warn_of_mount_point(path: &Path, files: &Files) {
    let writer = (files.settings.uid, files.settings.gid);
    let writer = files.is_writable().then_some(writer);
    for found in check_at_mount(path, writer, rustix::process::geteuid()) {
        match found.root_only {
            true => tracing::info!("{}", found.text),
            false => tracing::warn!("{}", found.text),
        }
    }
}

fn options(settings: &Settings, writable: bool) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        if writable {
            MountOption::RW
        } else {
            MountOption::RO
        },
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoAtime,
        MountOption::DefaultPermissions,
        MountOption::FSName(FILE_SYSTEM_NAME.to_owned()),
        MountOption::Subtype(FILE_SYSTEM_NAME.to_owned()),
    ];
    config.acl = match settings.allow_other {
        true => SessionACL::All,
        false => SessionACL::Owner,
    };
    config.n_threads = Some(settings.threads.max(1));
    config.clone_fd = true;
    config
}

/// Returns the folder's canonical path, free to be mounted on.
fn clear(path: &Path) -> Result<PathBuf, MountError> {
    let folder = |error| MountError::Folder {
        path: path.to_owned(),
        error,
    };
    // Its server is gone, so no program can use it. `statvfs` asks for the space, because the kernel may remember the
    // attributes.
    if matches!(rustix::fs::statvfs(path), Err(Errno::NOTCONN)) {
        tracing::warn!(path = %path.display(), "removing the mount of a process that has ended");
        detach(path).map_err(folder)?;
    }
    let whole = std::fs::canonicalize(path).map_err(folder)?;
    if !whole.is_dir() {
        return Err(folder(io::ErrorKind::NotADirectory.into()));
    }
    match is_fuse(&whole) {
        true => Err(MountError::Taken(whole)),
        false => Ok(whole),
    }
}

/// Unmounts, even if files are in use.
fn detach(path: &Path) -> io::Result<()> {
    match rustix::mount::unmount(path, UnmountFlags::DETACH) {
        Err(Errno::PERM) => {}
        done => return Ok(done?),
    }
    let mut command = Command::new("fusermount3");
    let done = command.args(["-u", "-z", "--"]).arg(path).output()?;
    match done.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(
            String::from_utf8_lossy(&done.stderr).trim().to_owned(),
        )),
    }
}

/// Unmounts a folder of this process, even if files are in use. A failure is logged.
fn unmount(path: &Path) {
    if let Err(error) = detach(path) {
        tracing::warn!(path = %path.display(), %error, "cannot unmount");
    }
}

/// Raises the kernel's read-ahead: else reads come 128 KiB at a time. Only root may do so.
///
/// The folder's attributes are not asked for, only its device. This process would have to answer, and a thread that waits for
/// its own process cannot be killed: it would hold the mount, and each program in it, for ever.
fn raise_kernel_read_ahead(path: &Path) -> io::Result<()> {
    let folder = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::empty())?;
    let (major, minor) = (folder.stx_dev_major, folder.stx_dev_minor);
    let file = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    std::fs::write(file, KERNEL_READ_AHEAD_KIB.to_string())
}

impl MountSession {
    /// Returns the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a check, usable at any time, whether the mount is gone from its folder. Programs with open files of it
    /// may go on.
    pub fn is_gone(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let (ended, path) = (self.ended.clone(), self.path.clone());
        move || *ended.borrow() || !is_fuse(&path)
    }

    /// Waits until the mount has ended.
    pub async fn ended(&mut self) {
        let _ = self.ended.wait_for(|ended| *ended).await;
    }

    /// Unmounts. Programs that write may go on to their close: they are waited for until all files are closed, or nothing
    /// was changed for [`QUIET`]. Then all waiting requests are answered with an error, and files that are still open return
    /// errors until the process has ended. Takes no longer than `patience`, or two seconds.
    pub async fn stop(mut self, patience: Duration) {
        self.is_stopping.store(true, Ordering::Relaxed);
        if !*self.ended.borrow() {
            let (path, files) = (self.path.clone(), self.files.clone());
            let work = async {
                let _ = tokio::task::spawn_blocking(move || unmount(&path)).await;
                until_quiet(self.ended(), || files.changes()).await;
            };
            let patience = patience.saturating_sub(2 * CLOSE_TIMEOUT);
            let _ = timeout(patience, work).await;
        }
        self.files.stop.cancel();
        let path = self.path.display().to_string();
        if timeout(CLOSE_TIMEOUT, self.ended()).await.is_err() {
            tracing::warn!(%path, "files of the mount are still held open, and fail from now on");
        }
        // What the kernel had no time to report closed is closed when the last of this goes.
        if timeout(CLOSE_TIMEOUT, self.files.closed()).await.is_err() {
            tracing::warn!(%path, "closes of files of the mount have not ended");
        }
    }
}

/// Returns when the mount has ended, or no change is under way and none has come for [`QUIET`]. `changes` returns the number of
/// changes so far, and whether one is under way.
async fn until_quiet(ended: impl Future<Output = ()>, changes: impl Fn() -> (u64, bool)) {
    let mut ended = std::pin::pin!(ended);
    loop {
        let (before, _) = changes();
        if timeout(QUIET, &mut ended).await.is_ok() {
            return;
        }
        if changes() == (before, false) {
            return;
        }
    }
}

impl Drop for MountSession {
    fn drop(&mut self) {
        // Also of a stop that is cut short: a request without an answer may hold a notification within the kernel.
        self.files.stop.cancel();
        let was_stopping = self.is_stopping.swap(true, Ordering::Relaxed);
        if was_stopping || *self.ended.borrow() {
            return;
        }
        unmount(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::pending;

    use futures_util::FutureExt as _;
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_program_that_writes_is_waited_for() {
        let (count, is_under_way) = (Cell::new(0), Cell::new(false));
        let mut quiet = Box::pin(until_quiet(pending(), || (count.get(), is_under_way.get())));
        for _ in 0..3 {
            assert_eq!(quiet.as_mut().now_or_never(), None);
            count.set(count.get() + 1);
            advance(QUIET).await;
        }
        // One change takes longer.
        is_under_way.set(true);
        let long = timeout(100 * QUIET, quiet.as_mut()).await;
        assert!(long.is_err());
        is_under_way.set(false);
        timeout(2 * QUIET, quiet).await.expect("nothing is written");
        until_quiet(async {}, || (0, true)).await;
    }

    #[test]
    fn says_what_is_wrong_with_a_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, "x").expect("written");
        for path in [folder.path().join("none"), file] {
            let wrong = clear(&path).expect_err("no folder");
            assert!(matches!(wrong, MountError::Folder { .. }), "{wrong}");
        }
        assert!(clear(folder.path()).is_ok());
    }
}
