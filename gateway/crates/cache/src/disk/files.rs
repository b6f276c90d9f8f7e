//! The file system operations of the log, behind a trait: the real ones, and in tests ones that
//! fail.
//!
//! Everything here blocks, and may hang for as long as the disk does.

#[cfg(test)]
pub(super) mod faulty;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::direct::PageBuffer;
use crate::{direct, private_files};

/// The way in which a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileAccess {
    /// The file exists. For reading, and for writing if the file system allows it.
    Existing,
    /// The file is created if it is missing, and written through the file cache.
    Cached,
    /// The file is created if it is missing, and written past the file cache: lengths, offsets and
    /// addresses of writes are multiples of [`PAGE_SIZE`].
    Direct,
}

pub(super) use crate::direct::{PAGE_SIZE, is_unsupported};
pub(super) use crate::space::Space;

/// A file system.
pub(super) trait Files: Send + Sync + fmt::Debug {
    /// Creates a directory and those above it, unless they exist.
    fn make_dir(&self, dir: &Path) -> io::Result<()>;
    /// Returns the names in a directory, in no order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Opens a file.
    fn open(&self, path: &Path, access: FileAccess) -> io::Result<Arc<dyn LogFile>>;
    /// Removes a name; open files stay readable.
    fn unlink(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Returns the total and the free space.
    fn space(&self, dir: &Path) -> io::Result<Space>;
}

/// An open file.
pub(super) trait LogFile: Send + Sync + fmt::Debug {
    /// Reads up to `len` bytes from `offset` on; fewer only if the file ends.
    fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>>;
    /// Reads as [`read_at`](Self::read_at) does into `buffer`, which has room for all pages of the bytes. The read goes past
    /// the file cache if `direct` says so and it is possible.
    fn read_into(
        &self,
        _buffer: PageBuffer,
        _direct: bool,
        offset: u64,
        len: usize,
    ) -> io::Result<Bytes> {
        Ok(self.read_at(offset, len)?.into())
    }
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the written bytes durable.
    fn sync(&self) -> io::Result<()>;
    /// Gives a range back to the file system: it takes no space any more, and reads as zeros.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Cuts the file off at `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Drops a range from the file cache, so that its next read comes from the disk itself.
    fn drop_cached(&self, offset: u64, len: u64);
    /// Returns the present size and state of the file.
    fn stat(&self) -> io::Result<FileStat>;
}

/// The size and state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStat {
    /// The length in bytes.
    pub(super) len: u64,
    /// Bytes that it takes up.
    pub(super) allocated: u64,
    /// Whether it still has a name.
    pub(super) linked: bool,
    /// The time of its creation, if the file system keeps it.
    pub(super) created: Option<SystemTime>,
}

/// Returns whether the file system, or Tidegate's quota on it, is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    is_one_of(error, &[Errno::NOSPC, Errno::DQUOT])
}

/// Returns whether the process or the system is short of descriptors or memory: that says nothing about a file.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    is_one_of(error, &[Errno::MFILE, Errno::NFILE, Errno::NOMEM])
}

fn is_one_of(error: &io::Error, errnos: &[Errno]) -> bool {
    let code = error.raw_os_error();
    errnos
        .iter()
        .any(|errno| code == Some(errno.raw_os_error()))
}

/// The file system of this machine.
#[derive(Debug)]
pub(super) struct RealFiles;

impl Files for RealFiles {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        private_files::make_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
        };
        fs::read_dir(dir)?.map(name).collect()
    }

    fn open(&self, path: &Path, access: FileAccess) -> io::Result<Arc<dyn LogFile>> {
        let mut options = private_files::file_options();
        options.read(true).write(true);
        let opened = match access {
            FileAccess::Existing => options
                .open(path)
                .or_else(|_| private_files::file_options().read(true).open(path)),
            FileAccess::Cached => options.create(true).open(path),
            FileAccess::Direct => {
                options.create(true);
                match direct::open(&options, path) {
                    Err(error) if is_unsupported(&error) => options.open(path),
                    opened => opened,
                }
            }
        };
        let file = opened?;
        if access == FileAccess::Existing {
            private_files::close_to_others(&file, path);
        }
        Ok(Arc::new(RealFile::new(file, path, access)?))
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        Space::of(dir)
    }
}

#[derive(Debug)]
struct RealFile {
    file: File,
    /// The file is written with `O_DIRECT`.
    direct: AtomicBool,
    /// Written bytes shall not stay in the file cache, with `O_DIRECT` or without.
    uncached: bool,
    path: PathBuf,
    /// The same file, opened for reads past the file cache; `None`: that is not possible.
    direct_reader: OnceLock<Option<File>>,
    /// The same file, opened for writing after the file system was read-only.
    puncher: OnceLock<File>,
}

impl RealFile {
    fn new(file: File, path: &Path, access: FileAccess) -> io::Result<Self> {
        let flags = fcntl_getfl(&file)?;
        Ok(Self {
            file,
            direct: AtomicBool::new(flags.contains(OFlags::DIRECT)),
            uncached: access == FileAccess::Direct,
            path: path.to_owned(),
            direct_reader: OnceLock::new(),
            puncher: OnceLock::new(),
        })
    }

    /// Returns the file, opened for writing now. It was opened for reads alone on a file system that was read-only then.
    fn puncher(&self) -> io::Result<&File> {
        if let Some(file) = self.puncher.get() {
            return Ok(file);
        }
        let mut options = private_files::file_options();
        let file = options.read(true).write(true).open(&self.path)?;
        Ok(self.puncher.get_or_init(|| file))
    }

    fn direct_reader(&self) -> Option<&File> {
        let open = || direct::open(OpenOptions::new().read(true), &self.path).ok();
        self.direct_reader.get_or_init(open).as_ref()
    }

    /// Writes through the file cache from now on, because the file system refuses direct writes.
    fn disable_direct(&self) -> io::Result<()> {
        let flags = fcntl_getfl(&self.file)?;
        fcntl_setfl(&self.file, flags - OFlags::DIRECT)?;
        self.direct.store(false, Ordering::Relaxed);
        Ok(())
    }
}

impl LogFile for RealFile {
    fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let at = offset + u64::try_from(bytes.len()).unwrap_or(0);
            match rustix::io::pread(&self.file, spare_capacity(&mut bytes), at) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    fn read_into(
        &self,
        mut buffer: PageBuffer,
        direct: bool,
        offset: u64,
        len: usize,
    ) -> io::Result<Bytes> {
        let may_be_direct = direct && offset.is_multiple_of(PAGE_SIZE);
        let reader = may_be_direct.then(|| self.direct_reader()).flatten();
        let whole = len.next_multiple_of(PAGE_SIZE as usize);
        let read = reader.map(|file| direct::read(file, buffer.set_len(whole), offset));
        let done = match read {
            Some(Err(error)) if !is_unsupported(&error) => return Err(error),
            Some(Ok(done)) => done.min(len),
            Some(Err(_)) | None => direct::read_full(&self.file, buffer.set_len(len), offset)?,
        };
        buffer.truncate(done);
        Ok(Bytes::from_owner(buffer))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.file.write_all_at(bytes, offset) {
            Err(error) if self.direct.load(Ordering::Relaxed) && is_unsupported(&error) => {
                self.disable_direct()?;
                self.file.write_all_at(bytes, offset)?;
            }
            written => written?,
        }
        if self.uncached && !self.direct.load(Ordering::Relaxed) {
            self.file.sync_data()?;
            self.drop_cached(offset, u64::try_from(bytes.len()).unwrap_or(0));
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, mode, offset, len) {
            Err(Errno::BADF) => Ok(fallocate(self.puncher()?, mode, offset, len)?),
            punched => Ok(punched?),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn drop_cached(&self, offset: u64, len: u64) {
        // Advice: if the kernel ignores it, the cache is a little fuller.
        let _ = fadvise(
            &self.file,
            offset,
            std::num::NonZeroU64::new(len),
            Advice::DontNeed,
        );
    }

    fn stat(&self) -> io::Result<FileStat> {
        let meta = self.file.metadata()?;
        Ok(FileStat {
            len: meta.len(),
            allocated: meta.blocks() * 512,
            linked: meta.nlink() > 0,
            created: meta.created().ok(),
        })
    }
}

#[cfg(test)]
mod tests;
