//! Mounts: tidegate's own and common alternatives, each configured as its users tune it. Each is a
//! process of its own that unmounts when it is dropped.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::tidegate::{Home, StartState};
use super::{Origin, Peer};
use crate::measure::{ProcessTree, Usage};
use crate::slow_disk::need_root;

mod other;

pub use other::NAMES;

/// Time limit for mounting, and for ending after the unmount.
const TIMEOUT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The purpose of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Files are only read.
    Reading,
    /// Files are written too.
    Writing,
}

/// A mounted bucket.
#[derive(Debug)]
pub struct Mount {
    path: PathBuf,
    config: String,
    process: Process,
}

#[derive(Debug)]
enum Process {
    /// Unmounts when it is told to stop.
    Tidegate(Peer),
    /// Ends when it is unmounted.
    Other(Child),
}

impl Mount {
    /// Starts tidegate's `serve` with a `[[mount]]`, on the state that its home holds.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn tidegate(home: &Home) -> Result<Self> {
        Self::tidegate_until(home, StartState::Ready).await
    }

    /// Does the same, and waits for no other state than `until`: the bucket may come later.
    ///
    /// # Errors
    /// As [`Mount::tidegate`].
    pub async fn tidegate_until(home: &Home, until: StartState) -> Result<Self> {
        need_root("mounting")?;
        let path = home.dir.join("mount");
        std::fs::create_dir_all(&path)?;
        let mut home = home.clone();
        home.mount = Some(path.clone());
        let peer = home.start(until).await?;
        let mount = Self {
            path,
            config: peer.config().to_owned(),
            process: Process::Tidegate(peer),
        };
        mount.wait_until_there(Instant::now())?;
        Ok(mount)
    }

    /// Mounts another peer by name, with nothing cached and before any look-up in the bucket;
    /// `None` if it is not installed.
    ///
    /// # Errors
    /// If it is installed and does not start, or the name is unknown.
    pub fn other(name: &str, access: Access, dir: &Path, origin: &Origin) -> Result<Option<Self>> {
        Self::other_on(name, access, dir, dir.join("mount"), &[], origin)
    }

    /// Does the same as [`Mount::other`] for reading, by other users as well; the options are those of rclone alone.
    ///
    /// # Errors
    /// As [`Mount::other`].
    pub fn other_shared(name: &str, dir: &Path, origin: &Origin) -> Result<Option<Self>> {
        let path = dir.join("mount");
        Self::other_on(name, Access::Reading, dir, path, &["--allow-other"], origin)
    }

    /// Mounts a peer for writing on the folder `path`, for PHP's user as well; the options are
    /// those of rclone alone.
    ///
    /// # Errors
    /// As [`Mount::other`].
    pub fn other_at(name: &str, dir: &Path, path: &Path, origin: &Origin) -> Result<Option<Self>> {
        const SHARED: [&str; 4] = ["--allow-other", "--uid=33", "--gid=33", "--umask=022"];
        let path = path.to_owned();
        Self::other_on(name, Access::Writing, dir, path, &SHARED, origin)
    }

    fn other_on(
        name: &str,
        access: Access,
        dir: &Path,
        path: PathBuf,
        more: &[&str],
        origin: &Origin,
    ) -> Result<Option<Self>> {
        need_root("mounting")?;
        let cache = dir.join("cache");
        std::fs::create_dir_all(&path)?;
        std::fs::create_dir_all(&cache)?;
        let Some(mut command) = other::command(name, access, &path, &cache, origin)? else {
            return Ok(None);
        };
        command.args(more);
        let config = format!("{command:?}").replace('"', "");
        other::give_keys(&mut command, origin);
        let log = dir.join("mount.log");
        let out = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?);
        let child = command.stderr(out).spawn();
        let mut mount = Self {
            config,
            process: Process::Other(child.with_context(|| format!("cannot start {name}"))?),
            path,
        };
        let since = Instant::now();
        while !mount.is_there()? {
            if mount.has_ended()? || since.elapsed() > TIMEOUT {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                bail!("{name} does not mount:\n{said}");
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(Some(mount))
    }

    /// Returns its configuration or command line.
    #[must_use]
    pub fn config(&self) -> &str {
        &self.config
    }

    /// Returns the path of an object's file, or of the folder of a prefix.
    #[must_use]
    pub fn file(&self, key: &str) -> PathBuf {
        self.path.join(key)
    }

    /// Returns the gateway behind it, if it is tidegate's.
    #[must_use]
    pub fn gateway(&self) -> Option<&Peer> {
        match &self.process {
            Process::Tidegate(peer) => Some(peer),
            Process::Other(_) => None,
        }
    }

    /// Returns the usage of its processes so far.
    ///
    /// # Errors
    /// If it has died.
    pub fn usage(&self) -> Result<Usage> {
        match &self.process {
            Process::Tidegate(peer) => peer.usage(),
            Process::Other(child) => ProcessTree::new(child.id()).usage(),
        }
    }

    fn wait_until_there(&self, since: Instant) -> Result<()> {
        while !self.is_there()? {
            if since.elapsed() > TIMEOUT {
                bail!("{} is no mount after {TIMEOUT:?}", self.path.display());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Tells whether the folder is mounted: it is then on another device than its parent.
    fn is_there(&self) -> Result<bool> {
        let parent = self.path.parent().context("it lies in a folder")?;
        let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev());
        // A mount in the making may answer with an error.
        Ok(device(&self.path).is_ok_and(|own| device(parent).is_ok_and(|outer| own != outer)))
    }

    fn has_ended(&mut self) -> Result<bool> {
        Ok(match &mut self.process {
            Process::Tidegate(_) => false,
            Process::Other(child) => child.try_wait()?.is_some(),
        })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if matches!(self.process, Process::Tidegate(_)) {
            return;
        }
        let unmount = |how: &[&str]| {
            let status = Command::new("umount").args(how).arg(&self.path).status();
            status.is_ok_and(|status| status.success())
        };
        // A mount in use is at least detached; it ends with its last user.
        let _ = unmount(&[]) || unmount(&["-l"]);
        let since = Instant::now();
        while matches!(self.has_ended(), Ok(false)) && since.elapsed() < TIMEOUT {
            std::thread::sleep(POLL_INTERVAL);
        }
        if let Process::Other(child) = &mut self.process {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
