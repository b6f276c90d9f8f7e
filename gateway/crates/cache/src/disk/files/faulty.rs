//! A file system over the real one that fails as it is told, for tests of the layers above.
//!
//! It writes through the file cache and syncs nothing, which is quick. It remembers the unsynced
//! ranges, and [`FaultyFiles::lose_power`] takes them away.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rustix::io::Errno;

use super::{FileAccess, FileStat, Files, LogFile, RealFiles, Space};

use tidegate_telemetry::locks::Recover as _;

/// The faults to produce. The default: none.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::disk) struct FileFaults {
    /// Reads give this error.
    pub(in crate::disk) read: Option<Errno>,
    /// Reads at this offset of any file give an error.
    pub(in crate::disk) bad_offset: Option<u64>,
    /// Writes, and creating files and directories, give this error.
    pub(in crate::disk) write: Option<Errno>,
    /// Syncs give this error.
    pub(in crate::disk) sync: Option<Errno>,
    /// Giving space back gives this error.
    pub(in crate::disk) punch: Option<Errno>,
    /// Opening index files that exist gives this error.
    pub(in crate::disk) open_index: Option<Errno>,
    /// Listing a directory gives this error.
    pub(in crate::disk) list: Option<Errno>,
    /// Giving space back in files of this segment gives an error.
    pub(in crate::disk) bad_segment: Option<u32>,
    /// Bytes that can be written before the file system is full.
    pub(in crate::disk) room: Option<u64>,
    /// Bytes that it says are free.
    pub(in crate::disk) free: Option<u64>,
    /// Reads give half of the requested bytes.
    pub(in crate::disk) short: bool,
    /// Reads do not return until this is taken back.
    pub(in crate::disk) hang: bool,
    /// The next write panics.
    pub(in crate::disk) panic: bool,
}

#[derive(Debug, Default)]
struct FaultState {
    faults: Mutex<FileFaults>,
    changed: Condvar,
    /// The ranges written to a file since its last sync.
    unsynced: Mutex<HashMap<PathBuf, Vec<(u64, u64)>>>,
}

/// The file system. Clones share one state.
#[derive(Debug, Clone, Default)]
pub(in crate::disk) struct FaultyFiles(Arc<FaultState>);

impl FaultyFiles {
    /// Replaces the present faults by these.
    pub(in crate::disk) fn set(&self, faults: FileFaults) {
        *self.0.faults() = faults;
        self.0.changed.notify_all();
    }

    /// Simulates a power cut: unsynced data reads as zeros, and index files end in the middle of an
    /// unsynced range.
    pub(in crate::disk) fn lose_power(&self) {
        for (path, ranges) in self.0.unsynced().drain() {
            let Ok(file) = fs::OpenOptions::new().write(true).open(&path) else {
                continue;
            };
            for (offset, len) in ranges {
                if path.extension().is_some_and(|kind| kind == "index") {
                    let cut = offset + len / 2;
                    if file.metadata().expect("open").len() > cut {
                        file.set_len(cut).expect("cut");
                    }
                } else {
                    let zeros = vec![0; usize::try_from(len).expect("small")];
                    file.write_all_at(&zeros, offset).expect("written");
                }
            }
        }
    }
}

impl FaultState {
    fn faults(&self) -> MutexGuard<'_, FileFaults> {
        self.faults.lock().recover()
    }

    fn unsynced(&self) -> MutexGuard<'_, HashMap<PathBuf, Vec<(u64, u64)>>> {
        self.unsynced.lock().recover()
    }

    fn writable(&self) -> io::Result<()> {
        self.faults()
            .write
            .map_or(Ok(()), |errno| Err(errno.into()))
    }
}

impl Files for FaultyFiles {
    fn make_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.writable()?;
        RealFiles.make_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        if let Some(errno) = self.0.faults().list {
            return Err(errno.into());
        }
        RealFiles.list(dir)
    }

    fn open(&self, path: &Path, access: FileAccess) -> io::Result<Arc<dyn LogFile>> {
        if access != FileAccess::Existing && !path.exists() {
            self.0.writable()?;
        }
        let is_index = path.extension().is_some_and(|kind| kind == "index");
        if let (FileAccess::Existing, true, Some(errno)) =
            (access, is_index, self.0.faults().open_index)
        {
            return Err(errno.into());
        }
        let access = match access {
            FileAccess::Direct => FileAccess::Cached,
            access => access,
        };
        Ok(Arc::new(FaultyFile {
            file: RealFiles.open(path, access)?,
            path: path.to_path_buf(),
            shared: Arc::clone(&self.0),
        }))
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.0.writable()?;
        RealFiles.unlink(path)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        let sync = self.0.faults().sync;
        sync.map_or(Ok(()), |errno| Err(errno.into()))
    }

    fn space(&self, dir: &Path) -> io::Result<Space> {
        let space = RealFiles.space(dir)?;
        let free = self.0.faults().free.unwrap_or(space.free);
        Ok(Space { free, ..space })
    }
}

#[derive(Debug)]
struct FaultyFile {
    file: Arc<dyn LogFile>,
    path: PathBuf,
    shared: Arc<FaultState>,
}

impl LogFile for FaultyFile {
    fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let hangs = |faults: &mut FileFaults| faults.hang;
        let faults = self.shared.changed.wait_while(self.shared.faults(), hangs);
        let faults = *faults.recover();
        let bad = faults.bad_offset.filter(|bad| *bad == offset);
        match faults.read.or(bad.map(|_| Errno::IO)) {
            Some(errno) => Err(errno.into()),
            None if faults.short => self.file.read_at(offset, len / 2),
            None => self.file.read_at(offset, len),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let len = u64::try_from(bytes.len()).expect("small");
        let mut faults = self.shared.faults();
        assert!(!std::mem::take(&mut faults.panic), "told to panic");
        if let Some(errno) = faults.write {
            return Err(errno.into());
        }
        if let Some(room) = &mut faults.room {
            *room = room.checked_sub(len).ok_or(Errno::NOSPC)?;
        }
        drop(faults);
        let mut unsynced = self.shared.unsynced();
        let ranges = unsynced.entry(self.path.clone()).or_default();
        ranges.push((offset, len));
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        if let Some(errno) = self.shared.faults().sync {
            return Err(errno.into());
        }
        self.shared.unsynced().remove(&self.path);
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        let faults = *self.shared.faults();
        let name = self.path.file_stem().and_then(|stem| stem.to_str());
        let number = name.and_then(|name| name.parse().ok());
        let bad = faults.bad_segment.filter(|bad| number == Some(*bad));
        let bad = bad.map(|_| Errno::IO);
        if let Some(errno) = faults.punch.or(faults.write).or(bad) {
            return Err(errno.into());
        }
        self.file.punch(offset, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.shared.writable()?;
        self.file.truncate(len)
    }

    fn drop_cached(&self, offset: u64, len: u64) {
        self.file.drop_cached(offset, len);
    }

    fn stat(&self) -> io::Result<FileStat> {
        self.file.stat()
    }
}
