//! The settings of a mount.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::nodes::numbers::NumberTable;
use tidegate_telemetry::trace::Tracer;
use tidegate_write::Commit;
use tidegate_write::Writers;

/// The mount's folder, its files' owner and mode, and its time limits.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder to mount on.
    pub path: PathBuf,
    /// The prefix of its files' keys.
    pub prefix: String,
    /// The owner of the files.
    pub uid: u32,
    /// Their group.
    pub gid: u32,
    /// Permissions that are taken away from `rw-rw-rw-` for files and `rwxrwxrwx` for folders.
    pub umask: u16,
    /// Whether users other than the one that mounts may use it.
    pub allow_other: bool,
    /// Whether modes, owners, set times and symbolic links are kept.
    pub attributes: AttributeUse,
    /// Threads that take the kernel's requests; at least one.
    pub threads: usize,
    /// The size that `statfs` reports, in bytes. `None`: that of the spool.
    pub size: Option<u64>,
    /// The deadline of every request.
    pub deadline: Duration,
    /// The time of folders without a marker: that of the first mount ([`crate::first_mount()`]).
    pub mounted: SystemTime,
    /// The inode numbers of renamed files, which all mounts of a process share.
    pub numbers: Arc<NumberTable>,
    /// Traces some of the kernel's requests.
    pub tracer: Option<Arc<Tracer>>,
}

/// The use of attributes in objects' metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttributeUse {
    /// They are shown, and kept when they are changed.
    Kept,
    /// All files have the mount's mode and owner, and the time of their object; changes are accepted and forgotten.
    None,
}

/// The access that programs have to a mount.
#[derive(Debug, Clone)]
pub enum Access {
    /// Files can be read.
    Read,
    /// Files can be written, too.
    Write(WriteSettings),
}

/// The settings of a writable mount.
#[derive(Debug, Clone)]
pub struct WriteSettings {
    /// The drafts that this process writes.
    pub writers: Writers,
    /// When a close returns.
    pub commit: Commit,
    /// Before a file is opened for writing, the bucket is asked, unless it answered within this time.
    pub probe: Option<Duration>,
    /// The most objects of a folder that can be renamed; 0: no folder can.
    pub rename_limit: usize,
}
