//! The attributes that `stat` shows.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use http::{HeaderName, HeaderValue};

use crate::nodes::Node;
use crate::settings::{Modified, Settings};
use tidegate_engine::names::Facts;
use tidegate_write::DraftSnapshot;

/// The read size that programs are advised to use: the kernel's own step in a plain file system.
const READ_BLOCK_SIZE: u32 = 128 << 10;

/// The write size that programs are advised to use: as much as one request of the kernel carries.
const WRITE_BLOCK_SIZE: u32 = 1 << 20;

/// The metadata in which rclone, s3fs and others keep a file's time, in seconds with a fraction.
pub(crate) const MTIME_HEADER: HeaderName = HeaderName::from_static("x-amz-meta-mtime");

/// Returns a file's attributes.
pub(crate) fn file(settings: &Settings, ino: u64, facts: &Facts) -> FileAttr {
    let blocks = facts.size.div_ceil(512);
    let time = modified(settings.modified, facts);
    FileAttr {
        size: facts.size,
        blocks,
        ctime: facts.changed.map_or(time, SystemTime::from),
        ..plain(settings, ino, FileType::RegularFile, 0o666, time)
    }
}

/// Returns the attributes of a file that is being written.
pub(crate) fn drafted(settings: &Settings, ino: u64, drafted: &DraftSnapshot) -> FileAttr {
    let kept = match settings.modified {
        Modified::Metadata => drafted.header(&MTIME_HEADER).and_then(seconds),
        Modified::Written => None,
    };
    let time = kept.unwrap_or_else(|| drafted.modified.into());
    FileAttr {
        size: drafted.size,
        blocks: drafted.size.div_ceil(512),
        blksize: WRITE_BLOCK_SIZE,
        ctime: drafted.changed.into(),
        ..plain(settings, ino, FileType::RegularFile, 0o666, time)
    }
}

/// Returns the attributes of a node: without a link if its name is gone, and a handle holds it.
pub(crate) fn of_name(node: &Node, attr: FileAttr) -> FileAttr {
    match node.is_linked() {
        true => attr,
        false => FileAttr { nlink: 0, ..attr },
    }
}

/// Formats a time as other programs keep it.
pub(crate) fn kept(time: SystemTime) -> HeaderValue {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = match since.subsec_nanos() {
        0 => since.as_secs().to_string(),
        nanos => format!("{}.{nanos:09}", since.as_secs()),
    };
    HeaderValue::try_from(text).expect("digits are a header")
}

/// Returns a folder's attributes. A bucket has no times of folders: the mount's time is used.
pub(crate) fn folder(settings: &Settings, ino: u64, mounted: SystemTime) -> FileAttr {
    plain(settings, ino, FileType::Directory, 0o777, mounted)
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

fn modified(what: Modified, facts: &Facts) -> SystemTime {
    let kept = || {
        let version = facts.version.as_ref()?;
        seconds(version.header(&MTIME_HEADER)?)
    };
    let kept = match what {
        Modified::Metadata => kept(),
        Modified::Written => None,
    };
    kept.or(facts.modified.map(SystemTime::from))
        .unwrap_or(UNIX_EPOCH)
}

/// Reads `1700000000.25`: seconds since 1970, to the nanosecond.
fn seconds(text: &str) -> Option<SystemTime> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) {
        return None;
    }
    let nanos = format!("{fraction:0<9}");
    let time = Duration::new(whole.parse().ok()?, nanos[..9].parse().ok()?);
    UNIX_EPOCH.checked_add(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_times_that_others_keep() {
        let at = |text| {
            let time = seconds(text)?.duration_since(UNIX_EPOCH).expect("later");
            Some((time.as_secs(), time.subsec_nanos()))
        };
        assert_eq!(at("1700000000"), Some((1_700_000_000, 0)));
        assert_eq!(at("1700000000.25"), Some((1_700_000_000, 250_000_000)));
        assert_eq!(at("1.1234567891"), Some((1, 123_456_789)));
        for bad in ["", ".5", "-1", "1e9", "soon", "1.-5"] {
            assert_eq!(at(bad), None, "{bad}");
        }
        assert_eq!(at("99999999999999999999"), None);
        for (nanos, text) in [(0, "1700000000"), (1, "1700000000.000000001")] {
            let time = UNIX_EPOCH + Duration::new(1_700_000_000, nanos);
            assert_eq!(kept(time), text);
            assert_eq!(seconds(text), Some(time));
        }
    }
}
