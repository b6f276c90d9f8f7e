//! The extent and the effect of a purge.

use tidegate_plan::tags::Tag;
use tidegate_plan::{ObjectId, OriginId, Timestamp};

/// The objects that a purge covers, under one identity of their bucket.
#[derive(Debug, Clone, Copy)]
pub enum PurgeScope<'a> {
    /// One key.
    Key(&'a ObjectId),
    /// Every key of a bucket that starts with a text.
    Prefix(OriginId, &'a str),
    /// Every version in a bucket that has a tag.
    Tag(OriginId, &'a Tag),
}

/// The effect of a purge on the versions that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeEffect {
    /// They are forgotten, and their chunks cannot be addressed any more.
    Remove,
    /// A version that was confirmed at this time or earlier is stale, and its chunks stay. Nothing changes for one that
    /// is confirmed or written later.
    Soften(Timestamp),
}
