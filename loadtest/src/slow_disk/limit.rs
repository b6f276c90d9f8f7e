//! A limit on a disk's rate.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, ensure};

use super::{Volume, need_root};

const V1: &str = "/sys/fs/cgroup/blkio";
const V2: &str = "/sys/fs/cgroup";

static MADE: AtomicU32 = AtomicU32::new(0);

/// Rates in bytes per second; `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rates {
    /// Reads.
    pub read: Option<u64>,
    /// Writes past the file cache, and syncs.
    pub write: Option<u64>,
}

impl Rates {
    /// Returns the same rate for both, in MB (10⁶ bytes) per second.
    #[must_use]
    pub const fn mb(rate: u64) -> Self {
        let rate = Some(rate * 1_000_000);
        Self {
            read: rate,
            write: rate,
        }
    }
}

/// A group of processes that a disk serves at limited rates. Drop it after its processes have
/// ended. A rate belongs to the device's numbers, which the next volume may get again. So only a
/// group of its own protects a volume from an old limit.
#[derive(Debug)]
pub struct Limit {
    dir: PathBuf,
    is_v1: bool,
}

impl Limit {
    /// Makes a group without a limit.
    ///
    /// # Errors
    /// If this machine does not allow it; the error says why.
    pub fn new() -> Result<Self> {
        need_root("holding a disk to a rate")?;
        let is_v1 = Path::new(V1)
            .join("blkio.throttle.read_bps_device")
            .exists();
        let handed_down = || {
            let controllers = std::fs::read_to_string(Path::new(V2).join("cgroup.subtree_control"));
            controllers.is_ok_and(|list| list.split_whitespace().any(|name| name == "io"))
        };
        ensure!(
            is_v1 || handed_down(),
            "no disk can be held to a rate here: there is neither {V1}/blkio.throttle.* nor a \
             controller `io` in {V2}/cgroup.subtree_control"
        );
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-loadtest-{}-{number}", std::process::id());
        let dir = Path::new(if is_v1 { V1 } else { V2 }).join(name);
        std::fs::create_dir(&dir)
            .with_context(|| format!("no control group can be made here: {}", dir.display()))?;
        Ok(Self { dir, is_v1 })
    }

    /// Limits the group's processes to these rates on this volume, from now on.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn hold(&self, volume: &Volume, rates: Rates) -> Result<()> {
        let numbers = volume.numbers()?;
        if self.is_v1 {
            for (file, rate) in [
                ("blkio.throttle.read_bps_device", rates.read),
                ("blkio.throttle.write_bps_device", rates.write),
            ] {
                // 0 removes a limit.
                self.write(file, &format!("{numbers} {}", rate.unwrap_or(0)))?;
            }
            return Ok(());
        }
        let rate =
            |rate: Option<u64>| rate.map_or_else(|| "max".to_owned(), |rate| rate.to_string());
        let (read, write) = (rate(rates.read), rate(rates.write));
        self.write("io.max", &format!("{numbers} rbps={read} wbps={write}"))
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let file = self.dir.join(file);
        std::fs::write(&file, text)
            .with_context(|| format!("the kernel refused `{text}` in {}", file.display()))
    }

    /// Returns the file through which a process joins the group, by writing its id there.
    #[must_use]
    pub fn door(&self) -> PathBuf {
        self.dir.join("cgroup.procs")
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir(&self.dir) {
            eprintln!("   cannot undo: {}: {error}", self.dir.display());
        }
    }
}
