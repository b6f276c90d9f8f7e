//! Small conversions of requests and replies.

use fuser::{Errno, ReplyXattr, Request};

use crate::files::Creator;

/// Returns the user who makes a file of this mode.
pub(super) fn creator(of: &Request, mode: u32) -> Creator {
    Creator {
        uid: of.uid(),
        gid: of.gid(),
        mode,
        thread: of.pid(),
    }
}

/// Sends a value, or its length if the caller asks with a size of 0 (getxattr(2)).
pub(super) fn send(value: &str, size: u32, reply: ReplyXattr) {
    let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    match size {
        0 => reply.size(length),
        size if size < length => reply.error(Errno::ERANGE),
        _ => reply.data(value.as_bytes()),
    }
}
