//! The folder beneath a mount point. If the mount is missing, programs write there to the local disk, and the next
//! mount hides those files.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::IFlags;

use super::session::is_fuse;

/// Names that a warning lists.
const NAMES: usize = 3;

/// A problem of a folder that is mounted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beneath {
    /// The problem, in one sentence.
    pub text: String,
    /// Whether only root's programs could do harm.
    pub root_only: bool,
}

/// Checks the folder beneath a mount point. Finds nothing if the folder is missing, or is mounted on now, for then the
/// mount hides it. `writer`: user and group of the programs that write to the mount, if it is writable.
#[must_use]
pub fn beneath(path: &Path, writer: Option<(u32, u32)>) -> Vec<Beneath> {
    let Ok(path) = &fs::canonicalize(path) else {
        return vec![];
    };
    let folder = match fs::metadata(path) {
        Ok(folder) if folder.is_dir() && !is_fuse(path) => folder,
        _ => return vec![],
    };
    let writable = writer.and_then(|writer| writable(path, &folder, writer));
    files(path).into_iter().chain(writable).collect()
}

fn files(path: &Path) -> Option<Beneath> {
    let mut names: Vec<_> = fs::read_dir(path)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    let more = names.len().saturating_sub(NAMES);
    let shown: Vec<_> = names
        .iter()
        .take(NAMES)
        .map(|name| name.escape_debug().to_string())
        .collect();
    let (path, shown) = (path.display(), shown.join(", "));
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| Beneath {
        text: format!(
            "there are files beneath the mount point {path}, which a mount hides: {shown}{more}; \
             unmount, and move them away or copy them into the mount"
        ),
        root_only: false,
    })
}

fn writable(path: &Path, folder: &fs::Metadata, (uid, gid): (u32, u32)) -> Option<Beneath> {
    let flags = fs::File::open(path)
        .ok()
        .and_then(|folder| rustix::fs::ioctl_getflags(folder).ok());
    if flags.is_some_and(|flags| flags.contains(IFlags::IMMUTABLE)) {
        return None;
    }
    let mode = folder.mode();
    let granted = match (folder.uid() == uid, folder.gid() == gid) {
        (true, _) => mode & 0o200,
        (false, true) => mode & 0o020,
        (false, false) => mode & 0o002,
    };
    let root_only = granted == 0 && uid != 0;
    // If the file system has no such flag, nothing keeps root from it.
    if root_only && flags.is_none() {
        return None;
    }
    let shown = path.display();
    let (who, cure) = match root_only {
        true => ("root's programs".to_owned(), format!("`chattr +i {shown}`")),
        false => (
            format!("programs of the user {uid}"),
            format!("`chown root {shown}`, `chmod 0555 {shown}` and `chattr +i {shown}`"),
        ),
    };
    Some(Beneath {
        text: format!(
            "while {shown} is not mounted, {who} could write beneath it, onto the local disk: {cure} \
             keep them from it"
        ),
        root_only,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn says_who_could_write_beneath_and_what_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = |mode| {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(folder.path(), mode).expect("ours");
        };
        let own = fs::metadata(folder.path()).expect("there");
        let (uid, gid) = (own.uid(), own.gid());
        let stranger = (uid + 1, gid + 1);
        mode(0o755);
        let found = beneath(folder.path(), Some((uid, gid)));
        let [one] = &found[..] else {
            panic!("{found:?}")
        };
        assert!(!one.root_only && one.text.contains("chmod 0555"), "{one:?}");
        for (bits, who) in [(0o757, stranger), (0o775, (uid + 1, gid))] {
            mode(bits);
            let found = beneath(folder.path(), Some(who));
            assert!(matches!(&found[..], [one] if !one.root_only), "{found:?}");
        }
        mode(0o755);
        let found = beneath(folder.path(), Some(stranger));
        assert!(found.iter().all(|one| one.root_only), "{found:?}");
        assert_eq!(beneath(folder.path(), None), []);
        assert_eq!(beneath(&folder.path().join("none"), Some(stranger)), []);
        for name in ["d", "b", "a", "c"] {
            fs::write(folder.path().join(name), "x").expect("written");
        }
        let found = beneath(folder.path(), None);
        assert!(
            matches!(&found[..], [one] if one.text.contains(": a, b, c and 1 more;")),
            "{found:?}"
        );
    }
}
