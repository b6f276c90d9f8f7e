//! Directories and files that only the gateway's own user may read: cached objects may be private in the
//! bucket.
//!
//! New ones are created so, whatever the umask. Those that an earlier version left open to others are
//! closed if the gateway's user owns them. A configured directory that holds other files than the gateway's
//! keeps its permissions, since it may be `/var/cache` itself; the gateway's files in it are closed all the
//! same.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

/// Permissions of a directory.
const DIR_MODE: u32 = 0o700;

/// Permissions of a file.
const FILE_MODE: u32 = 0o600;

/// Creates a directory and its missing parents, durably. An existing one is closed to others, if the
/// gateway's user owns it and it holds nothing else. Blocks.
///
/// # Errors
/// The directory cannot be created; a failure to close it is only logged.
pub(crate) fn make_dir(dir: &Path) -> io::Result<()> {
    let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let missing: Vec<&Path> = dir.ancestors().take_while(is_missing).collect();
    DirBuilder::new()
        .recursive(true)
        .mode(DIR_MODE)
        .create(dir)?;
    for dir in missing {
        // Otherwise a power cut may take it, and everything that was synced inside.
        if let Err(error) = sync_name(dir) {
            tracing::warn!(path = %dir.display(), %error, "the name of the directory may not outlive a power cut");
        }
    }
    let closed = fs::metadata(dir).and_then(|found| {
        let is_open = found.uid() == geteuid().as_raw() && found.mode() & 0o077 != 0;
        if is_open && holds_only_ours(dir)? {
            fs::set_permissions(dir, Permissions::from_mode(DIR_MODE))?;
            tracing::info!(path = %dir.display(), "the directory is closed to other users");
        }
        Ok(())
    });
    if let Err(error) = closed {
        tracing::warn!(path = %dir.display(), %error, "the directory stays open to other users");
    }
    Ok(())
}

/// Returns options that create a file for the gateway's user alone. They open no link: what a link in the gateway's folder
/// points at is no file of the gateway, which cuts and closes its own.
pub fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .mode(FILE_MODE)
        .custom_flags(flags(OFlags::NOFOLLOW));
    options
}

/// Opens a file with options that [`file_options`] has begun. A link is an error that says so. Blocks.
///
/// # Errors
/// Those of the system.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(any(test, feature = "testing"))]
    if leads_to_own_handle(path) {
        return options.clone().custom_flags(0).open(path);
    }
    options.open(path).map_err(|error| {
        if Errno::from_io_error(&error) != Some(Errno::LOOP) {
            return error;
        }
        let path = path.display();
        let text = format!("{path} is a symbolic link, which is not followed");
        io::Error::new(error.kind(), text)
    })
}

/// Opens a file to read it. A link is an error that says so. Blocks.
///
/// # Errors
/// Those of the system.
pub fn open_to_read(path: &Path) -> io::Result<File> {
    open(file_options().read(true), path)
}

/// Reads a file whole. A link is an error that says so. Blocks.
///
/// # Errors
/// Those of the system.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_to_read(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns whether a link leads to a file that this process has open: tests have files there that no disk would give.
#[cfg(any(test, feature = "testing"))]
fn leads_to_own_handle(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|target| target.starts_with("/proc/self/fd"))
}

/// Returns flags in the form of [`OpenOptions::custom_flags`].
pub(crate) fn flags(flags: OFlags) -> i32 {
    i32::try_from(flags.bits()).unwrap_or(0)
}

/// Makes the name of a file or directory durable. Blocks.
pub(crate) fn sync_name(path: &Path) -> io::Result<()> {
    match path.parent() {
        None => Ok(()),
        Some(dir) if dir.as_os_str().is_empty() => File::open(".")?.sync_all(),
        Some(dir) => File::open(dir)?.sync_all(),
    }
}

/// Closes an open file to other users if the gateway's user owns it. A failure is only logged. Blocks.
pub(crate) fn close_to_others(file: &File, path: &Path) {
    let closed = file.metadata().and_then(|found| {
        if found.uid() == geteuid().as_raw() && found.mode() & 0o077 != 0 {
            file.set_permissions(Permissions::from_mode(FILE_MODE))?;
        }
        Ok(())
    });
    if let Err(error) = closed {
        tracing::warn!(path = %path.display(), %error, "the file stays open to other users");
    }
}

/// Returns whether a directory holds no other files than the gateway's.
fn holds_only_ours(dir: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        if !name.to_str().is_some_and(is_ours) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether the gateway creates files of this name in a cache or state directory, or in one inside
/// (`00000001.data`); `lost+found` belongs to the file system.
fn is_ours(name: &str) -> bool {
    const OWN_NAMES: [&str; 8] = [
        "acme",
        "clean",
        "lock",
        "speed",
        "state",
        "spool",
        "lost+found",
        "overrides.toml",
    ];
    const OWN_PREFIXES: [&str; 5] = [
        "log-v",
        "chunks-",
        "console-history.json",
        "first-mount-",
        "meta-v",
    ];
    OWN_NAMES.contains(&name)
        || OWN_PREFIXES.iter().any(|start| name.starts_with(start))
        || (name.starts_with(|first: char| first.is_ascii_digit())
            && (name.ends_with(".data") || name.ends_with(".index")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("there").mode() & 0o777
    }

    fn open_to_all(path: &Path) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
    }

    #[test]
    fn a_directory_is_for_us_alone_unless_it_is_shared() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("a/b");
        make_dir(&dir).expect("made");
        assert_eq!((mode(&dir), mode(&folder.path().join("a"))), (0o700, 0o700));
        for name in ["lock", "meta-v1.redb", "log-v2-262144", "00000001.data"] {
            fs::write(dir.join(name), "").expect("written");
        }
        open_to_all(&dir);
        make_dir(&dir).expect("there");
        assert_eq!(mode(&dir), 0o700, "left by an earlier version");
        fs::write(dir.join("somebody-elses"), "").expect("written");
        open_to_all(&dir);
        make_dir(&dir).expect("there");
        assert_eq!(mode(&dir), 0o755, "shared with others");
    }

    #[test]
    fn links_are_not_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "not ours").expect("written");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        let mut options = file_options();
        options.read(true).write(true);
        for error in [open(&options, &link).map(drop), read(&link).map(drop)] {
            let error = error.expect_err("a link").to_string();
            assert!(
                error.ends_with("is a symbolic link, which is not followed"),
                "{error}"
            );
        }
        assert_eq!(read(&target).expect("there"), b"not ours");
        assert!(crate::direct::open(&options, &link).is_err());
        assert!(options.truncate(true).create(true).open(&link).is_err());
        assert_eq!(fs::read(&target).expect("there"), b"not ours");
    }

    #[test]
    fn files_are_for_us_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("f");
        let file = file_options()
            .write(true)
            .create(true)
            .open(&path)
            .expect("made");
        assert_eq!(mode(&path), 0o600);
        open_to_all(&path);
        close_to_others(&file, &path);
        assert_eq!(mode(&path), 0o600);
    }
}
