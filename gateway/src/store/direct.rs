//! Files past the operating system's file cache (`O_DIRECT`, open(2)).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// What addresses, offsets and lengths of direct reads and writes are multiples of: no disk has larger
/// sectors.
pub(crate) const PAGE: u64 = 4096;

/// Opens a file past the file cache.
pub(crate) fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let flag = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
    options.clone().custom_flags(flag).open(path)
}

/// Whether the file system does not know how to do that.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL))
}

/// A buffer with room for so many bytes, filled up to where a page begins; and where that is. What is
/// put behind that lies where direct reads and writes take it.
pub(crate) fn buffer(room: usize) -> (Vec<u8>, usize) {
    let page = usize::try_from(PAGE).unwrap_or(usize::MAX);
    let mut bytes: Vec<u8> = Vec::with_capacity(room + page);
    let start = bytes.as_ptr().align_offset(page).min(page);
    bytes.resize(start, 0);
    (bytes, start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_begins_at_a_page_and_stays_there() {
        for room in [0, 1, 5000, 1 << 20] {
            let (mut bytes, start) = buffer(room);
            bytes.resize(start + room, 7);
            assert_eq!(bytes[start..].as_ptr().align_offset(4096), 0, "{room}");
        }
    }
}
