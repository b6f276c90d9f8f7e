//! The folder beneath a mount point. If the mount is missing, programs write there to the local disk, and the next
//! mount hides those files.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::IFlags;
use rustix::process::Uid;

/// Names that a warning lists.
const MAX_LISTED_NAMES: usize = 3;

/// A problem of a folder that is mounted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountPointProblem {
    /// The problem, in one sentence.
    pub text: String,
    /// Whether only root's programs could do harm.
    pub root_only: bool,
}

/// Checks the folder beneath a mount point. Finds nothing if the folder is missing, or is mounted on now, for then the
/// mount hides it. `writer`: user and group of the programs that write to the mount, if it is writable.
#[must_use]
pub fn check_mount_point(path: &Path, writer: Option<(u32, u32)>) -> Vec<MountPointProblem> {
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

/// Checks the folder at the moment of mounting. A gateway that is not root's mounts by fusermount3, which refuses a
/// folder that is immutable: what such a folder then lacks is no problem.
pub(crate) fn check_at_mount(
    path: &Path,
    writer: Option<(u32, u32)>,
    gateway: Uid,
) -> Vec<MountPointProblem> {
    let mut found = check_mount_point(path, writer);
    found.retain(|one| gateway.is_root() || !one.root_only);
    found
}

fn files(path: &Path) -> Option<MountPointProblem> {
    let mut names: Vec<_> = fs::read_dir(path)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    let more = names.len().saturating_sub(MAX_LISTED_NAMES);
    let shown: Vec<_> = names
        .iter()
        .take(MAX_LISTED_NAMES)
        .map(|name| name.escape_debug().to_string())
        .collect();
    let (path, shown) = (path.display(), shown.join(", "));
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| MountPointProblem {
        text: format!(
            "there are files beneath the mount point {path}, which a mount hides: {shown}{more}; \
             unmount, and move them away or copy them into the mount"
        ),
        root_only: false,
    })
}

fn writable(
    path: &Path,
    folder: &fs::Metadata,
    (uid, gid): (u32, u32),
) -> Option<MountPointProblem> {
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
    let who = match root_only {
        true => "root's programs".to_owned(),
        false => format!("programs of the user {uid}"),
    };
    let owner = match root_only {
        true => String::new(),
        false => format!("`chown` it to the gateway's own user, `chmod 0755 {shown}`, and "),
    };
    Some(MountPointProblem {
        text: format!(
            "while {shown} is not mounted, {who} could write beneath it, onto the local disk: {owner}\
             `chattr +i {shown}`, which a gateway that is not root's must have taken away to mount"
        ),
        root_only,
    })
}

/// Returns whether a FUSE file system is mounted at this very path (proc_pid_mountinfo(5)).
pub(crate) fn is_fuse(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let wanted = path.to_string_lossy();
    table.lines().any(|line| {
        let place = line.split(' ').nth(4).map(unescaped);
        let kind = line.split_once(" - ").map_or("", |(_, rest)| rest);
        place.as_deref() == Some(&*wanted) && kind.starts_with("fuse")
    })
}

/// Decodes the octal numbers that stand for spaces and the like in the table.
fn unescaped(text: &str) -> String {
    let escapes = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    escapes.iter().fold(text.to_owned(), |text, (code, sign)| {
        text.replace(code, sign)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn says_which_users_could_write_beneath_and_what_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = |mode| {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(folder.path(), mode).expect("ours");
        };
        let own = fs::metadata(folder.path()).expect("there");
        let (uid, gid) = (own.uid(), own.gid());
        let stranger = (uid + 1, gid + 1);
        mode(0o755);
        let found = check_mount_point(folder.path(), Some((uid, gid)));
        let [one] = &found[..] else {
            panic!("{found:?}")
        };
        assert!(!one.root_only && one.text.contains("chmod 0755"), "{one:?}");
        // fusermount3 mounts for a user only where that user may write.
        assert!(!one.text.contains("0555") && !one.text.contains("chown root"));
        for (bits, who) in [(0o757, stranger), (0o775, (uid + 1, gid))] {
            mode(bits);
            let found = check_mount_point(folder.path(), Some(who));
            assert!(matches!(&found[..], [one] if !one.root_only), "{found:?}");
        }
        mode(0o755);
        let found = check_mount_point(folder.path(), Some(stranger));
        assert!(found.iter().all(|one| one.root_only), "{found:?}");
        let at_mount = |gateway| {
            let gateway = Uid::from_raw(gateway);
            check_at_mount(folder.path(), Some(stranger), gateway)
        };
        assert_eq!((at_mount(0), at_mount(1000)), (found, vec![]));
        assert_eq!(check_mount_point(folder.path(), None), []);
        assert_eq!(
            check_mount_point(&folder.path().join("none"), Some(stranger)),
            []
        );
        for name in ["d", "b", "a", "c"] {
            fs::write(folder.path().join(name), "x").expect("written");
        }
        let found = check_mount_point(folder.path(), None);
        assert!(
            matches!(&found[..], [one] if one.text.contains(": a, b, c and 1 more;")),
            "{found:?}"
        );
    }

    #[test]
    fn decodes_the_mount_table() {
        assert_eq!(unescaped("/a\\040b\\134c"), "/a b\\c");
    }
}
