//! Disks in a file: small, slow, full, failing or hung, and removed at the end of the run.
//!
//! - [`Volume`] is an ext4 file system in a file of its own, mounted over a loop device, with its
//!   possible faults.
//! - [`Limit`] is a blkio group: its processes read and write a volume at a given rate at most.
//!   Reads, direct writes and syncs are limited; the kernel's later write-back is not.
//!
//! Everything needs root and loop devices. A limit also needs a kernel with `blkio` throttling
//! (version 1 of control groups, or version 2 with the controller `io` enabled at the root). If one
//! is missing, the error says so. A drop undoes all mounts, devices and files made here, and
//! touches nothing else.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

pub mod limit;
pub mod volume;

pub use limit::{Limit, Rates};
pub use volume::Volume;

/// Debian's directories for root's programs.
const SBIN: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Checks that this process is root's.
///
/// # Errors
/// If it is not.
pub fn need_root(what: &str) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "{what} needs root, and this process has user id {}",
        rustix::process::geteuid().as_raw()
    );
    Ok(())
}

/// Runs a program of the system, and returns its output.
fn system<A: AsRef<OsStr>>(program: &str, arguments: &[A]) -> Result<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain(SBIN.map(Into::into))
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
        .with_context(|| format!("the program `{program}` is missing"))?;
    let out = Command::new(found)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{program} failed: {}", said.trim());
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// Empties the file cache: later reads come from the disk.
///
/// # Errors
/// If this process is not root's, or the kernel refuses.
pub fn drop_file_cache() -> Result<()> {
    need_root("emptying the file cache")?;
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3").context("the kernel keeps its file cache")
}
