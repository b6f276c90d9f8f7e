//! Folders whose mounts other processes see.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};

/// A folder whose mounts all processes see, in any namespace. Dropping it unmounts it.
#[derive(Debug)]
pub struct SharedFolder(PathBuf);

impl SharedFolder {
    /// Makes the folder one.
    ///
    /// # Errors
    /// If this process is not root's.
    pub fn new(dir: &Path) -> Result<Self> {
        mount_bind(dir, dir)?;
        let shared = Self(dir.to_owned());
        mount_change(dir, MountPropagationFlags::SHARED)?;
        Ok(shared)
    }
}

impl Drop for SharedFolder {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}
