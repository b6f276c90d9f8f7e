//! What a mount is told.

use std::path::PathBuf;
use std::time::Duration;

use crate::engine::Writers;
use crate::engine::upload::Commit;

/// Where a mount is, whose its files are, and how long it may take.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder to mount on.
    pub path: PathBuf,
    /// What the keys of its files begin with.
    pub prefix: String,
    /// Who owns the files.
    pub uid: u32,
    /// Their group.
    pub gid: u32,
    /// Permissions that are taken away from `rw-rw-rw-` for files and `rwxrwxrwx` for folders.
    pub umask: u16,
    /// Other users than the one who mounts may look.
    pub allow_other: bool,
    /// What a file's time of modification is.
    pub modified: Modified,
    /// Threads that take the kernel's requests; at least one.
    pub threads: usize,
    /// Every request is answered by then.
    pub deadline: Duration,
}

/// What a file's time of modification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Modified {
    /// When the object was written (`Last-Modified`).
    #[default]
    Written,
    /// What rclone and others keep in the object's metadata (`x-amz-meta-mtime`), where it is there.
    Metadata,
}

/// What may be done on a mount.
#[derive(Debug, Clone)]
pub enum Access {
    /// Files are read.
    Read,
    /// They are written, too.
    Write(Writable),
}

/// What a mount writes through.
#[derive(Debug, Clone)]
pub struct Writable {
    /// Everything that is written through this process.
    pub writers: Writers,
    /// When a close returns.
    pub commit: Commit,
    /// The bucket must have answered within this time for a file to be opened to be written; it is asked.
    pub probe: Option<Duration>,
    /// The most objects of a folder that is renamed; 0: none is.
    pub rename_limit: usize,
}
