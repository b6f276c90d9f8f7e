//! A rate that a disk is held to.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, ensure};

use super::{Volume, need_root};

const V1: &str = "/sys/fs/cgroup/blkio";
const V2: &str = "/sys/fs/cgroup";

static MADE: AtomicU32 = AtomicU32::new(0);

/// Bytes in a second; `None`: as fast as it goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rates {
    /// Read.
    pub read: Option<u64>,
    /// Written past the file cache, or synced.
    pub write: Option<u64>,
}

impl Rates {
    /// The same for both, in MB (10⁶ bytes) a second.
    #[must_use]
    pub const fn mb(rate: u64) -> Self {
        let rate = Some(rate * 1_000_000);
        Self {
            read: rate,
            write: rate,
        }
    }
}

/// A group of processes that a disk serves at given rates only; gone when dropped, after the
/// processes in it. A rate belongs to the device's numbers, and the next volume may get the same:
/// what held one does not hold another only where each has a group of its own.
#[derive(Debug)]
pub struct Limit {
    dir: PathBuf,
    is_v1: bool,
}

impl Limit {
    /// Makes a group without a limit.
    ///
    /// # Errors
    /// In a sentence, what this machine does not let us do.
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

    /// Holds what runs in the group to these rates at this volume, from now on.
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
                // 0 takes a limit away.
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

    /// The file that a process joins the group by: it writes its id into it.
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
