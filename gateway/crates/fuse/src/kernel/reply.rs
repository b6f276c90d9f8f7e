//! Small conversions of requests and replies.

use fuser::{Errno, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyXattr, Request};

use super::GENERATION;
use crate::files::{Creator, TimedAttr};

/// Returns an answer of nothing but success.
pub(super) fn empty(reply: ReplyEmpty) -> impl FnOnce(Result<(), Errno>) + Send + 'static {
    |done| match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

/// Returns an answer with the attributes of a node.
pub(super) fn attr(reply: ReplyAttr) -> impl FnOnce(Result<TimedAttr, Errno>) + Send + 'static {
    |done| match done {
        Ok((attr, fresh)) => reply.attr(&fresh, &attr),
        Err(errno) => reply.error(errno),
    }
}

/// Returns an answer with the node of a name.
pub(super) fn entry(reply: ReplyEntry) -> impl FnOnce(Result<TimedAttr, Errno>) + Send + 'static {
    |done| match done {
        Ok((attr, fresh)) => reply.entry(&fresh, &attr, GENERATION),
        Err(errno) => reply.error(errno),
    }
}

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
