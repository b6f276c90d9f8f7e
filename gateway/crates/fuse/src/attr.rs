//! The attributes that `stat` shows.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};

use crate::nodes::Node;
use crate::settings::{AttributeUse, Settings};
use tidegate_engine::names::Facts;
use tidegate_plan::attributes::{Attributes, UnixTime};
use tidegate_write::DraftSnapshot;

/// The read size that programs are advised to use: the kernel's own step in a plain file system.
const READ_BLOCK_SIZE: u32 = 128 << 10;

/// The write size that programs are advised to use: as much as one request of the kernel carries.
const WRITE_BLOCK_SIZE: u32 = 1 << 20;

/// The mode of a file that has none of its own, before the mount's umask.
const FILE_MODE: u16 = 0o666;

/// The mode of a folder that has none of its own.
const FOLDER_MODE: u16 = 0o777;

/// Returns a file's attributes.
pub(crate) fn file(settings: &Settings, ino: u64, facts: &Facts) -> FileAttr {
    let blocks = facts.size.div_ceil(512);
    let time = facts.modified.map_or(UNIX_EPOCH, SystemTime::from);
    let attr = FileAttr {
        size: facts.size,
        blocks,
        ctime: facts.changed.map_or(time, SystemTime::from),
        ..plain(settings, ino, FileType::RegularFile, FILE_MODE, time)
    };
    with(settings, attr, &facts.attributes.unwrap_or_default())
}

/// Returns the attributes of a file that is being written.
pub(crate) fn drafted(settings: &Settings, ino: u64, drafted: &DraftSnapshot) -> FileAttr {
    let time = drafted.modified.into();
    // No program writes to a link, which is the same once it is published.
    let blksize = match drafted.attributes.is_link() {
        true => READ_BLOCK_SIZE,
        false => WRITE_BLOCK_SIZE,
    };
    let attr = FileAttr {
        size: drafted.size,
        blocks: drafted.size.div_ceil(512),
        blksize,
        ctime: drafted.changed.into(),
        ..plain(settings, ino, FileType::RegularFile, FILE_MODE, time)
    };
    with(settings, attr, &drafted.attributes)
}

/// Returns the attributes of a node: without a link if its name is gone, and a handle holds it.
pub(crate) fn of_name(node: &Node, attr: FileAttr) -> FileAttr {
    match node.is_linked() {
        true => attr,
        false => FileAttr { nlink: 0, ..attr },
    }
}

/// Returns a folder's attributes. `facts` are those of its marker; without a time there, the first mount's is used.
pub(crate) fn folder(settings: &Settings, ino: u64, facts: &FolderFacts) -> FileAttr {
    let time = facts.modified.unwrap_or(settings.mounted);
    let attr = FileAttr {
        ctime: facts.changed.unwrap_or(time),
        ..plain(settings, ino, FileType::Directory, FOLDER_MODE, time)
    };
    with(settings, attr, &facts.attributes)
}

/// The facts known about a folder.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FolderFacts {
    /// The time of the last change of a name in it.
    pub(crate) modified: Option<SystemTime>,
    /// The time of the last change of its attributes or of a name in it.
    pub(crate) changed: Option<SystemTime>,
    /// The attributes of its marker.
    pub(crate) attributes: Attributes,
}

fn plain(settings: &Settings, ino: u64, kind: FileType, mode: u16, time: SystemTime) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino),
        size: 0,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm: mode & !settings.umask,
        // For a folder, 1 says that it does not count the folders in it (`find` relies on that).
        nlink: 1,
        uid: settings.uid,
        gid: settings.gid,
        rdev: 0,
        blksize: READ_BLOCK_SIZE,
        flags: 0,
    }
}

/// Returns the attributes, changed by those that are kept.
fn with(settings: &Settings, attr: FileAttr, kept: &Attributes) -> FileAttr {
    if settings.attributes == AttributeUse::None {
        return attr;
    }
    let is_link = attr.kind != FileType::Directory && kept.is_link();
    let perm = kept.permissions().and_then(|bits| u16::try_from(bits).ok());
    let mtime = kept.modified.map_or(attr.mtime, kernel_time);
    FileAttr {
        kind: if is_link {
            FileType::Symlink
        } else {
            attr.kind
        },
        perm: if is_link {
            0o777
        } else {
            perm.unwrap_or(attr.perm)
        },
        uid: kept.uid.unwrap_or(attr.uid),
        gid: kept.gid.unwrap_or(attr.gid),
        atime: kept.accessed.map_or(mtime, kernel_time),
        mtime,
        ..attr
    }
}

/// Returns a time for the kernel; one that the system cannot tell is that of 1970.
fn kernel_time(time: UnixTime) -> SystemTime {
    let whole = Duration::from_secs(time.secs().unsigned_abs());
    let whole = match time.secs() < 0 {
        true => UNIX_EPOCH.checked_sub(whole),
        false => UNIX_EPOCH.checked_add(whole),
    };
    let fraction = Duration::from_nanos(time.nanos().into());
    let time = whole.and_then(|whole| whole.checked_add(fraction));
    time.unwrap_or(UNIX_EPOCH)
}

/// Returns the seconds and nanoseconds that the kernel has sent. The library makes a time of them that counts the
/// nanoseconds backwards before 1970.
pub(crate) fn sent_time(time: SystemTime) -> UnixTime {
    let (length, is_before) = match time.duration_since(UNIX_EPOCH) {
        Ok(length) => (length, false),
        Err(before) => (before.duration(), true),
    };
    let secs = i64::try_from(length.as_secs()).unwrap_or(i64::MAX);
    UnixTime::new(if is_before { -secs } else { secs }, length.subsec_nanos())
}

/// Returns the seconds and nanoseconds of a time that was shown.
#[cfg(test)]
pub(crate) fn shown_time(time: SystemTime) -> UnixTime {
    match time.duration_since(UNIX_EPOCH) {
        Ok(_) => sent_time(time),
        Err(before) => {
            let length = before.duration();
            let secs = -i64::try_from(length.as_secs()).expect("a time of a test");
            match length.subsec_nanos() {
                0 => UnixTime::new(secs, 0),
                nanos => UnixTime::new(secs - 1, 1_000_000_000 - nanos),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_those_of_the_kernel() {
        for (secs, nanos) in [(0, 0), (5, 7), (-1, 0), (-2, 500_000_000), (1 << 40, 1)] {
            let time = UnixTime::new(secs, nanos);
            assert_eq!(shown_time(kernel_time(time)), time);
        }
        let decoded = UNIX_EPOCH - Duration::new(2, 500_000_000);
        assert_eq!(sent_time(decoded), UnixTime::new(-2, 500_000_000));
    }
}
