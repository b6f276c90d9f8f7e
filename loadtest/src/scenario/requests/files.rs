//! Programs' file operations on the folder of a mount.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};

use crate::pattern::Pattern;

/// The bytes that programs read and write at once.
const STEP: usize = 64 << 10;
/// The bytes that ffprobe reads at once.
const PROBE: usize = 32 << 10;

/// A folder in which names are looked up.
#[derive(Debug, Clone)]
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Creates or truncates a file, and writes it.
    pub(super) fn write(&self, name: &str, pattern: Pattern) -> Result<()> {
        let path = self.at(name);
        let mut file = File::create(&path).with_context(|| format!("create {name}"))?;
        put(&mut file, pattern).with_context(|| format!("write {name}"))
    }

    /// Writes a file, then writes some of its first bytes again, as a muxer does that learns them only at the end.
    pub(super) fn write_and_patch(&self, name: &str, pattern: Pattern) -> Result<()> {
        let path = self.at(name);
        let mut file = File::create(&path).with_context(|| format!("create {name}"))?;
        put(&mut file, pattern).with_context(|| format!("write {name}"))?;
        let patched = file
            .seek(SeekFrom::Start(32))
            .and_then(|_| file.write_all(&pattern.bytes(32, 16)));
        patched.with_context(|| format!("write into {name}"))
    }

    /// Reads a file to its end, and checks every byte.
    pub(super) fn read(&self, name: &str, pattern: Pattern) -> Result<()> {
        self.part(name, pattern, 0, pattern.len)?;
        let found = fs::metadata(self.at(name))?.len();
        ensure!(found == pattern.len, "{name} has {found} bytes");
        Ok(())
    }

    /// Reads up to `len` bytes from `start` on, and checks them.
    pub(super) fn part(&self, name: &str, pattern: Pattern, start: u64, len: u64) -> Result<()> {
        let mut file = File::open(self.at(name)).with_context(|| format!("open {name}"))?;
        file.seek(SeekFrom::Start(start))?;
        let (mut at, end) = (start, (start + len).min(pattern.len));
        let mut buffer = vec![0; STEP];
        while at < end {
            let want = usize::try_from(end - at).unwrap_or(STEP).min(STEP);
            let read = file.read_exact(&mut buffer[..want]);
            read.with_context(|| format!("read {name} at {at}"))?;
            ensure!(
                pattern.matches(at, &buffer[..want]),
                "wrong bytes in {name} at {at}"
            );
            at += want as u64;
        }
        Ok(())
    }

    /// Opens a file once, and reads up to 32 KiB from each of these places on.
    pub(super) fn probe(&self, name: &str, pattern: Pattern, places: &[u64]) -> Result<()> {
        let mut file = File::open(self.at(name)).with_context(|| format!("open {name}"))?;
        for start in places {
            let len = usize::try_from(pattern.len - start)
                .unwrap_or(PROBE)
                .min(PROBE);
            let mut found = vec![0; len];
            file.seek(SeekFrom::Start(*start))?;
            let read = file.read_exact(&mut found);
            read.with_context(|| format!("read {name} at {start}"))?;
            ensure!(
                pattern.matches(*start, &found),
                "wrong bytes in {name} at {start}"
            );
        }
        Ok(())
    }

    /// Looks up a name that must be there.
    pub(super) fn stat(&self, name: &str) -> Result<()> {
        fs::metadata(self.at(name)).with_context(|| format!("stat {name}"))?;
        Ok(())
    }

    /// Looks up a name that must not be there.
    pub(super) fn is_missing(&self, name: &str) -> Result<()> {
        ensure!(!self.at(name).try_exists()?, "{name} is there");
        Ok(())
    }

    pub(super) fn chmod(&self, name: &str) -> Result<()> {
        let mode = fs::Permissions::from_mode(0o644);
        fs::set_permissions(self.at(name), mode).with_context(|| format!("chmod {name}"))
    }

    pub(super) fn mkdir(&self, name: &str) -> Result<()> {
        fs::create_dir_all(self.at(name)).with_context(|| format!("mkdir {name}"))
    }

    pub(super) fn unlink(&self, name: &str) -> Result<()> {
        fs::remove_file(self.at(name)).with_context(|| format!("unlink {name}"))
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> Result<()> {
        let renamed = fs::rename(self.at(from), self.at(to));
        renamed.with_context(|| format!("rename {from}"))
    }

    /// Truncates an existing file, and writes it anew.
    pub(super) fn overwrite(&self, name: &str, pattern: Pattern) -> Result<()> {
        let open = OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(self.at(name));
        let mut file = open.with_context(|| format!("overwrite {name}"))?;
        put(&mut file, pattern).with_context(|| format!("overwrite {name}"))
    }

    /// Deletes a folder with its contents, as `rm -r` does.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        fs::remove_dir_all(self.at(name)).with_context(|| format!("remove {name}"))
    }

    /// Walks through all folders and looks up each entry; returns the number of files.
    pub(super) fn walk(&self, name: &str) -> Result<usize> {
        let mut files = 0;
        let mut folders = vec![self.at(name)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).with_context(|| format!("list {name}"))? {
                let path = entry?.path();
                let found = fs::metadata(&path)?;
                match found.is_dir() {
                    true => folders.push(path),
                    false => files += 1,
                }
            }
        }
        Ok(files)
    }
}

fn put(file: &mut File, pattern: Pattern) -> Result<()> {
    let mut at = 0;
    while at < pattern.len {
        let len = usize::try_from(pattern.len - at).unwrap_or(STEP).min(STEP);
        file.write_all(&pattern.bytes(at, len))?;
        at += len as u64;
    }
    Ok(())
}
