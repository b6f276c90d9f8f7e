//! A file system in a file.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;

use super::{need_root, system};

/// The bytes written at once by a program that fills the disk.
const PIECE: usize = 1 << 20;

/// An ext4 file system of its own on a loop device; unmounted, detached and deleted when dropped.
#[derive(Debug)]
pub struct Volume {
    /// The directory of the file and the mount point.
    dir: TempDir,
    device: Option<String>,
    mounted: bool,
    size: u64,
}

/// A file system on which all writes wait, until this is dropped.
#[derive(Debug)]
pub struct FreezeGuard {
    mount: PathBuf,
}

impl Volume {
    /// Makes a volume of `mib` MiB below `dir`, fully allocated.
    ///
    /// # Errors
    /// If this machine does not allow it; the error says why.
    pub fn new(dir: &Path, mib: u64) -> Result<Self> {
        need_root("a file system of our own on a loop device")?;
        let dir = tempfile::Builder::new().prefix("volume-").tempdir_in(dir)?;
        std::fs::create_dir(dir.path().join("mount"))?;
        let mut volume = Self {
            dir,
            device: None,
            mounted: false,
            size: mib << 20,
        };
        let file = File::create(volume.file())?;
        // A sparse file would also measure allocation in the file system below.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, volume.size)
            .context("no room for the file of a volume")?;
        let quick = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
        let file = text(&volume.file())?;
        system(
            "mkfs.ext4",
            &["-q", "-F", "-m", "0", "-b", "4096", "-E", quick, &file],
        )?;
        volume.attach(&file)?;
        volume.mount()?;
        Ok(volume)
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("file")
    }

    /// Returns the mount point.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("mount")
    }

    fn attach(&mut self, file: &str) -> Result<()> {
        // Direct I/O bypasses the file cache of the file system below, which would hide the disk.
        let direct = system("losetup", &["--find", "--show", "--direct-io=on", file]);
        let device = match direct {
            Ok(device) => device,
            Err(_) => system("losetup", &["--find", "--show", file])
                .context("no loop device can be had; in a container it has to be privileged")?,
        };
        self.device = Some(device);
        Ok(())
    }

    fn mount(&mut self) -> Result<()> {
        let options = "errors=remount-ro,noatime";
        let (device, path) = (self.device()?.to_owned(), text(&self.path())?);
        system("mount", &["-t", "ext4", "-o", options, &device, &path])
            .context("the kernel does not let us mount; in a container it has to be privileged")?;
        self.mounted = true;
        Ok(())
    }

    fn device(&self) -> Result<&str> {
        self.device.as_deref().context("the volume was pulled")
    }

    fn device_name(&self) -> Result<&str> {
        Ok(self.device()?.trim_start_matches("/dev/"))
    }

    /// Returns its device's numbers, `MAJOR:MINOR`.
    ///
    /// # Errors
    /// If it has been pulled.
    pub fn numbers(&self) -> Result<String> {
        let file = format!("/sys/block/{}/dev", self.device_name()?);
        let numbers = std::fs::read_to_string(&file).with_context(|| format!("no {file}"))?;
        Ok(numbers.trim().to_owned())
    }

    /// Fills it to the last byte, as another program would, and returns the path of the file.
    ///
    /// # Errors
    /// If another error than lack of space ends that.
    pub fn fill(&self) -> Result<PathBuf> {
        let path = self.path().join("somebody-elses");
        let mut file = File::create(&path)?;
        let mut piece = PIECE;
        let zeros = vec![0; PIECE];
        while piece > 0 {
            match file.write(&zeros[..piece]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => piece /= 2,
                Err(error) => return Err(error).context("filling the volume"),
            }
        }
        // Delayed allocations count too.
        let synced = file.sync_all();
        ensure!(
            synced.is_ok() || synced.is_err_and(|error| error.kind() == ErrorKind::StorageFull),
            "the full volume cannot be synced"
        );
        Ok(path)
    }

    /// Makes the file system report an error, so that it turns read-only under all open files.
    ///
    /// # Errors
    /// If this kernel cannot do that.
    pub fn turn_read_only(&self) -> Result<()> {
        let knob = format!("/sys/fs/ext4/{}/trigger_fs_error", self.device_name()?);
        let mut file = OpenOptions::new()
            .write(true)
            .open(&knob)
            .with_context(|| format!("this kernel cannot be told to find an error: no {knob}"))?;
        file.write_all(b"loadtest")?;
        let Err(error) = File::create(self.path().join("probe")) else {
            bail!("{knob} was written, and the volume is not read-only");
        };
        ensure!(
            error.kind() == ErrorKind::ReadOnlyFilesystem || error.raw_os_error().is_some(),
            "the volume fails in an unexpected way: {error}"
        );
        Ok(())
    }

    /// Cuts its device short: reads and writes past the first `mib` MiB give EIO.
    ///
    /// # Errors
    /// If the kernel keeps the old size.
    pub fn cut_short(&self, mib: u64) -> Result<()> {
        OpenOptions::new()
            .write(true)
            .open(self.file())?
            .set_len(mib << 20)?;
        system("losetup", &["--set-capacity", self.device()?])?;
        Ok(())
    }

    /// Takes the disk away while it is in use: its path is an empty directory, and open files get
    /// EIO.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn pull(&mut self) -> Result<()> {
        system("umount", &["--lazy", &text(&self.path())?])?;
        self.mounted = false;
        self.cut_short(0)
    }

    /// Removes the files below `dir` from the file cache, except unwritten pages, so that reads of
    /// them go to the disk again. Other files are unaffected.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn forget_cached(dir: &Path) -> Result<()> {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                Self::forget_cached(&entry.path())?;
            } else if let Ok(file) = File::open(entry.path()) {
                // This is only advice: a file that keeps its pages is read from memory, and hides a
                // fault.
                let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            }
        }
        Ok(())
    }

    /// Freezes it: all writes wait.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn freeze(&self) -> Result<FreezeGuard> {
        let mount = self.path();
        system("fsfreeze", &["--freeze", &text(&mount)?])?;
        Ok(FreezeGuard { mount })
    }
}

impl Drop for FreezeGuard {
    fn drop(&mut self) {
        if let Ok(mount) = text(&self.mount) {
            complain(system("fsfreeze", &["--unfreeze", &mount]));
        }
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if self.mounted
            && let Ok(path) = text(&self.path())
            && system("umount", &[&path]).is_err()
        {
            // A process that has it open keeps it, but its path is gone.
            complain(system("umount", &["--lazy", &path]));
        }
        if let Some(device) = self.device.take() {
            complain(system("losetup", &["--detach", &device]));
        }
    }
}

/// Prints an error: a destructor cannot return one.
fn complain(result: Result<String>) {
    if let Err(error) = result {
        eprintln!("   cannot undo: {error:#}");
    }
}

fn text(path: &Path) -> Result<String> {
    let text = path.to_str().context("a path that is no text")?;
    Ok(text.to_owned())
}
