//! What lies where in a cache directory, and whether it may be used.
//!
//! ```text
//! <path>/lock                          held while a process uses the directory
//! <path>/chunks-v1-<chunk>-<block>/    foyer's block files, for this layout, chunk and block size
//! ```
//!
//! Whatever would make old bytes unreadable is part of the name, so another version, chunk or block
//! size never meets them: it is left alone, and said.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

use super::value::on_disk;
use crate::plan::Geometry;
use crate::store::{DiskSettings, StoreError};

/// Size of a block, the unit of eviction and one file: large, because foyer keeps every file open.
const BLOCK: u64 = 64 << 20;

/// Blocks at least, for eviction to have a choice; foyer writes one and keeps one clean.
const MIN_BLOCKS: u64 = 4;

/// Blocks that a small capacity is still cut into, if its chunks allow.
const GOOD_BLOCKS: u64 = 16;

/// The directory of one cache disk, locked.
#[derive(Debug)]
pub(super) struct Layout {
    /// Where foyer keeps its files.
    pub(super) dir: PathBuf,
    /// Bytes of a block.
    pub(super) block: u64,
    /// Number of blocks.
    pub(super) blocks: u64,
    /// Held for as long as the directory is in use.
    _lock: File,
}

impl Layout {
    /// Locks the directory and makes it ready for use. Blocks.
    pub(super) fn prepare(settings: &DiskSettings, geometry: Geometry) -> Result<Self, StoreError> {
        let path = &settings.path;
        let block = block_size(settings, geometry)?;
        fs::create_dir_all(path).map_err(StoreError::io("create", path))?;
        let lock = lock(path)?;
        let blocks = settings.capacity / block;
        let name = format!("chunks-v1-{}-{}", geometry.chunk(), block);
        let dir = path.join(&name);
        fs::create_dir_all(&dir).map_err(StoreError::io("create", &dir))?;
        report_others(path, &name);
        drop_surplus(&dir, blocks).map_err(StoreError::io("tidy up", &dir))?;
        check_space(settings, &dir)?;
        allow_files(blocks);
        Ok(Self {
            dir,
            block,
            blocks,
            _lock: lock,
        })
    }
}

/// Smaller blocks for a small capacity, but never so small that few chunks fit one.
fn block_size(settings: &DiskSettings, geometry: Geometry) -> Result<u64, StoreError> {
    let least = (4 * geometry.chunk()).max(64 << 10);
    let mut block = BLOCK.max(least);
    while block > least && settings.capacity / block < GOOD_BLOCKS {
        block /= 2;
    }
    if settings.capacity / block < MIN_BLOCKS {
        return Err(StoreError::TooSmall {
            path: settings.path.clone(),
            capacity: settings.capacity,
            least: MIN_BLOCKS * least,
        });
    }
    debug_assert!(on_disk(usize::try_from(geometry.chunk()).unwrap_or(0)) < block);
    Ok(block)
}

/// Takes `<path>/lock`, and leaves our process id in it for whoever comes second.
fn lock(path: &Path) -> Result<File, StoreError> {
    let file = path.join("lock");
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&file)
        .map_err(StoreError::io("open", &file))?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            let holder = lock
                .read_to_string(&mut holder)
                .ok()
                .and_then(|_| holder.trim().parse().ok());
            return Err(StoreError::InUse {
                path: path.to_path_buf(),
                holder,
            });
        }
        Err(error) => return Err(StoreError::io("lock", &file)(error.into())),
    }
    let written = lock
        .set_len(0)
        .and_then(|()| lock.rewind())
        .and_then(|()| lock.write_all(format!("{}\n", std::process::id()).as_bytes()));
    written.map_err(StoreError::io("write", &file))?;
    Ok(lock)
}

/// Says which directories hold chunks that this process cannot use.
fn report_others(path: &Path, ours: &str) {
    let Ok(entries) = fs::read_dir(path) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("chunks-") && name != ours {
            warn!(
                directory = %entry.path().display(),
                "chunks of another layout, chunk size or block size are left aside; delete them to free their space"
            );
        }
    }
}

/// Deletes the block files that a smaller capacity no longer uses: foyer would leave them.
fn drop_surplus(dir: &Path, blocks: u64) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.rsplit('-').next())
            .and_then(|number| number.parse::<u64>().ok());
        if number.is_some_and(|number| number >= blocks) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Refuses what can never fit, warns of what does not fit now: other programs may make room again,
/// and `min_free` holds meanwhile.
fn check_space(settings: &DiskSettings, dir: &Path) -> Result<(), StoreError> {
    let Some(space) = space(dir) else {
        return Ok(());
    };
    let wanted = settings.capacity.saturating_add(settings.min_free);
    if wanted > space.total {
        return Err(StoreError::TooLarge {
            path: settings.path.clone(),
            capacity: settings.capacity,
            min_free: settings.min_free,
            total: space.total,
        });
    }
    let available = space.free.saturating_add(allocated(dir));
    if wanted > available {
        warn!(
            path = %settings.path.display(),
            capacity = settings.capacity,
            min_free = settings.min_free,
            available,
            "the file system has not enough room for the cache now; what does not fit is refused"
        );
    }
    Ok(())
}

/// Bytes of a file system.
#[derive(Debug, Clone, Copy)]
pub(super) struct Space {
    /// In all.
    pub(super) total: u64,
    /// Left for us (not for root alone).
    pub(super) free: u64,
}

/// How much room there is; `None` when the file system does not say. Blocks.
pub(super) fn space(dir: &Path) -> Option<Space> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(Space {
        total: stat.f_blocks.saturating_mul(stat.f_frsize),
        free: stat.f_bavail.saturating_mul(stat.f_frsize),
    })
}

/// Bytes that the block files really take (they are sparse until written). Blocks.
pub(super) fn allocated(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|meta| meta.blocks() * 512)
        .sum()
}

/// Raises the limit of open files as far as it goes: every block is one, and the usual soft limit
/// of 1,024 ends at 64 GiB.
fn allow_files(blocks: u64) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if limit.current != limit.maximum && setrlimit(Resource::Nofile, raised).is_err() {
        debug!("cannot raise the limit of open files");
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if allowed < blocks.saturating_add(1024) {
        warn!(
            blocks,
            allowed, "the limit of open files is low for a cache of this capacity (ulimit -n)"
        );
    }
}
