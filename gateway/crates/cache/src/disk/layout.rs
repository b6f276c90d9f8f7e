//! The layout of a cache directory, and the checks whether it may be used.
//!
//! ```text
//! <path>/lock                          held while a process uses the directory
//! <path>/speed                         the measurements of the disk, in one line
//! <path>/log-v2-<chunk>/NNNNNNNN.data    chunks, one after the other
//! <path>/log-v2-<chunk>/NNNNNNNN.index   the positions of the chunks in it
//! ```
//!
//! A change that would make old bytes unreadable changes the name, so another version or chunk size
//! never meets them: they are left alone, and reported. The size of a segment is not part of the
//! name: a log is read whatever its segments' sizes, so that it keeps its chunks at another
//! capacity.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, warn};

use super::files::{Files, PAGE_SIZE, Space};
use crate::{DiskSettings, StoreError, private_files};
use tidegate_plan::Geometry;
use tidegate_telemetry::locks::Recover as _;

/// Smallest good segment. A segment is a 1024th of the capacity, but not below this: each is an open
/// file, and a new one costs a sync of the directory.
const MIN_PREFERRED_SEGMENT: u64 = 64 << 20;

/// Largest segment: a single eviction may take most of one.
const MAX_SEGMENT: u64 = 1 << 30;

/// Segments that a capacity is divided into.
const TARGET_SEGMENTS: u64 = 1024;

/// Fewest segments, so that eviction has a choice.
const MIN_SEGMENTS: u64 = 4;

/// Segments that a small capacity is still divided into, if its chunks allow.
const PREFERRED_SEGMENTS: u64 = 16;

/// Open files to expect for each segment's worth of capacity. At most there are eight, because a
/// segment with less than an eighth left is removed.
const FILES_PER_SEGMENT: u64 = 2;

/// An empty file that marks a log closed in order. It is only logged, to explain missing chunks to
/// an operator.
pub(super) const CLEAN_MARKER: &str = "clean";

/// The directory of one cache disk, locked.
#[derive(Debug)]
pub(super) struct Layout {
    /// The directory of the log's files.
    pub(super) dir: PathBuf,
    /// Bytes of the longest chunk.
    pub(super) chunk: u64,
    /// Bytes of a segment.
    pub(super) segment: u64,
    /// The error of a disk that takes no writes at the start.
    pub(super) fault: Option<StoreError>,
    path: PathBuf,
    lock: Mutex<DirectoryLock>,
}

/// The lock of a cache directory.
#[derive(Debug)]
enum DirectoryLock {
    /// The lock file, open for as long as the directory is in use.
    Held(#[expect(dead_code, reason = "the system releases the lock at its end")] File),
    /// The disk has not given the lock file: nothing in the directory is read or removed.
    Missing,
    Released,
}

impl Layout {
    /// Locks the directory and makes it ready for use. Blocks.
    ///
    /// # Errors
    /// A fault that only a change of configuration can mend. That of the disk is kept as `fault`.
    pub(super) fn prepare(
        settings: &DiskSettings,
        geometry: Geometry,
        files: &dyn Files,
    ) -> Result<Self, StoreError> {
        let path = &settings.path;
        let chunk = geometry.chunk();
        let segment =
            segment_size(settings.capacity, chunk).ok_or_else(|| too_small(settings, chunk))?;
        let name = format!("log-v2-{chunk}");
        let dir = path.join(&name);
        let mut lock = DirectoryLock::Missing;
        let fault = match take_directory(path, &dir, files, &mut lock) {
            Ok(()) => None,
            Err(error) if error.is_of_disk() => Some(error),
            Err(error) => return Err(error),
        };
        report_other_layouts(path, &name);
        check_space(settings, &dir, files)?;
        raise_file_limit(FILES_PER_SEGMENT * settings.capacity / segment);
        Ok(Self {
            dir,
            chunk,
            segment,
            fault,
            path: path.clone(),
            lock: Mutex::new(lock),
        })
    }

    /// Returns whether the directory is locked.
    pub(super) fn is_locked(&self) -> bool {
        matches!(*self.lock.lock().recover(), DirectoryLock::Held(_))
    }

    /// Takes the lock again, after the directory was deleted with the old one in it, or if the disk gave none at the
    /// start. Blocks.
    ///
    /// # Errors
    /// Those of the disk; another process has the directory, or has written chunks into it that were not read.
    pub(super) fn relock(&self) -> Result<(), StoreError> {
        private_files::make_dir(&self.path).map_err(StoreError::io("create", &self.path))?;
        let mut lock = self.lock.lock().recover();
        match *lock {
            DirectoryLock::Held(_) if !self.path.join("lock").exists() => {
                lock_directory(&self.path, &mut lock)
            }
            DirectoryLock::Missing if self.holds_files() => {
                let unread = io::Error::other("its chunks were not read at the start");
                Err(StoreError::io("use", &self.dir)(unread))
            }
            DirectoryLock::Missing => lock_directory(&self.path, &mut lock),
            DirectoryLock::Held(_) | DirectoryLock::Released => Ok(()),
        }
    }

    /// Returns whether the log's directory may have files.
    fn holds_files(&self) -> bool {
        match fs::read_dir(&self.dir) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Releases the directory.
    pub(super) fn unlock(&self) {
        *self.lock.lock().recover() = DirectoryLock::Released;
    }
}

/// Returns the segment size for a capacity: smaller for a small capacity, but large enough for
/// several chunks. `None` if even that leaves eviction no choice.
pub(super) fn segment_size(capacity: u64, chunk: u64) -> Option<u64> {
    let least = least_segment(chunk);
    let good = (capacity / TARGET_SEGMENTS).clamp(MIN_PREFERRED_SEGMENT, MAX_SEGMENT);
    let mut segment = good.max(least) / PAGE_SIZE * PAGE_SIZE;
    while segment / 2 >= least && capacity / segment < PREFERRED_SEGMENTS {
        segment /= 2;
    }
    (capacity / segment >= MIN_SEGMENTS).then_some(segment)
}

fn least_segment(chunk: u64) -> u64 {
    (4 * chunk).max(64 << 10)
}

fn too_small(settings: &DiskSettings, chunk: u64) -> StoreError {
    StoreError::TooSmall {
        path: settings.path.clone(),
        capacity: settings.capacity,
        least: MIN_SEGMENTS * least_segment(chunk),
    }
}

/// Makes and locks a cache directory, and makes that of its log.
fn take_directory(
    path: &Path,
    dir: &Path,
    files: &dyn Files,
    lock: &mut DirectoryLock,
) -> Result<(), StoreError> {
    private_files::make_dir(path).map_err(StoreError::io("create", path))?;
    lock_directory(path, lock)?;
    files.make_dir(dir).map_err(StoreError::io("create", dir))
}

/// Takes `<path>/lock` into `held`, and writes the process id into it for a second process to report. A read-only file
/// system gives the lock too, if it has the file.
///
/// # Errors
/// Another process has it; those of the disk, also after the lock was taken.
fn lock_directory(path: &Path, held: &mut DirectoryLock) -> Result<(), StoreError> {
    let file = path.join("lock");
    let mut options = private_files::file_options();
    let opened = options.read(true).write(true).create(true).open(&file);
    let (mut lock, refused) = match opened {
        Ok(lock) => (lock, None),
        Err(error) => {
            let is_read_only = Errno::from_io_error(&error) == Some(Errno::ROFS);
            match is_read_only.then(|| private_files::open_to_read(&file)) {
                Some(Ok(lock)) => (lock, Some(error)),
                _ => return Err(StoreError::io("open", &file)(error)),
            }
        }
    };
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
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
    let written = match refused {
        Some(error) => Err(error),
        None => name_holder(&mut lock, &file),
    };
    *held = DirectoryLock::Held(lock);
    written.map_err(StoreError::io("write", &file))
}

/// Writes the process id into the lock.
fn name_holder(lock: &mut File, path: &Path) -> io::Result<()> {
    private_files::close_to_others(lock, path);
    lock.set_len(0)?;
    lock.rewind()?;
    lock.write_all(format!("{}\n", std::process::id()).as_bytes())
}

/// Logs the directories whose chunks this process cannot use.
fn report_other_layouts(path: &Path, ours: &str) {
    let Ok(entries) = fs::read_dir(path) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let text = name.to_string_lossy();
        if (text.starts_with("chunks-") || text.starts_with("log-")) && name != ours {
            warn!(
                directory = %entry.path().display(),
                "chunks of another layout or chunk size are left aside; delete them to free their space"
            );
        }
    }
}

/// Checks whether a capacity is large enough for chunks of this size.
pub(crate) fn check_least(settings: &DiskSettings, chunk: u64) -> Result<(), StoreError> {
    let segment = segment_size(settings.capacity, chunk);
    segment.map(drop).ok_or_else(|| too_small(settings, chunk))
}

/// Checks whether the chunk size and the size of the file system allow the capacity in the settings.
/// Blocks.
pub(super) fn check_capacity(
    settings: &DiskSettings,
    chunk: u64,
    files: &dyn Files,
) -> Result<(), StoreError> {
    check_least(settings, chunk)?;
    match files.space(&settings.path) {
        Ok(space) => check_fit(settings, space),
        Err(_) => Ok(()),
    }
}

fn check_fit(settings: &DiskSettings, space: Space) -> Result<(), StoreError> {
    if settings.capacity.saturating_add(settings.min_free) <= space.total {
        return Ok(());
    }
    Err(StoreError::TooLarge {
        path: settings.path.clone(),
        capacity: settings.capacity,
        min_free: settings.min_free,
        total: space.total,
    })
}

/// Refuses a capacity that can never fit, and warns of one that does not fit now: other programs may
/// make room again, and `min_free` holds meanwhile.
fn check_space(settings: &DiskSettings, dir: &Path, files: &dyn Files) -> Result<(), StoreError> {
    let Ok(space) = files.space(dir) else {
        return Ok(());
    };
    check_fit(settings, space)?;
    let wanted = settings.capacity.saturating_add(settings.min_free);
    let available = space.free.saturating_add(allocated_bytes(dir));
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

/// Returns the bytes that the files really take: evicted chunks left holes in them. Blocks.
fn allocated_bytes(dir: &Path) -> u64 {
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

/// Raises the limit of open files as far as possible: every segment is one.
fn raise_file_limit(segments: u64) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if limit.current != limit.maximum && setrlimit(Resource::Nofile, raised).is_err() {
        debug!("cannot raise the limit of open files");
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if allowed < segments.saturating_add(1024) {
        warn!(
            segments,
            allowed, "the limit of open files is low for a cache of this capacity (ulimit -n)"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const GIB: u64 = 1 << 30;

    #[test]
    fn segments_are_few_and_none_too_large_or_small() {
        let chunk = 256 * KIB;
        for (capacity, segment) in [
            (4096 * KIB, Some(1024 * KIB)),
            (64 << 20, Some(4 << 20)),
            (GIB, Some(64 << 20)),
            (64 * GIB, Some(64 << 20)),
            (512 * GIB, Some(512 << 20)),
            (4096 * GIB, Some(GIB)),
            (4095 * KIB, None),
            (0, None),
        ] {
            assert_eq!(segment_size(capacity, chunk), segment, "{capacity}");
        }
        let odd = segment_size(777 * GIB + 12_345, chunk).expect("large");
        assert!(odd.is_multiple_of(PAGE_SIZE) && (777..=1025).contains(&(777 * GIB / odd)));
        assert_eq!(segment_size(GIB, 16 << 20), Some(64 << 20));
    }
}
