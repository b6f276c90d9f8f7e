//! The messages that wait to be sent: a bounded queue, in which purges that follow each other share a message.

use std::collections::VecDeque;

use super::message::{Content, Extent, FleetChange};

/// The most messages that wait, at their sender and at a receiver. Beyond it they are dropped, and the receivers confirm
/// everything.
pub(crate) const MAX_WAITING: usize = 4096;

/// The most bytes of the purges in one message, as JSON. The longest key takes half of them.
const MAX_PURGE_BYTES: usize = 12 << 10;

/// The bytes of one of several purges beside its key, prefix or tag: `{"prefix":""},`.
const PURGE_OVERHEAD: usize = 14;

/// The queue of messages to the fleet.
#[derive(Debug, Default)]
pub(super) struct OutgoingQueue(VecDeque<QueuedMessage>);

#[derive(Debug)]
struct QueuedMessage {
    at: u64,
    content: Content,
    /// The bytes of its purges; 0 if it has none.
    bytes: usize,
}

impl OutgoingQueue {
    /// Adds what happened at `at`. Returns whether there was room for it.
    pub(super) fn push(&mut self, at: u64, content: Content) -> bool {
        let bytes = purge_bytes(&content);
        let last = self.0.back_mut();
        let last = last.filter(|last| last.bytes + bytes <= MAX_PURGE_BYTES);
        let content = match last {
            Some(last) => match joined(&mut last.content, content) {
                Some(other) => other,
                None => {
                    last.bytes += bytes;
                    return true;
                }
            },
            None => content,
        };
        let has_room = self.0.len() < MAX_WAITING;
        if has_room {
            self.0.push_back(QueuedMessage { at, content, bytes });
        }
        has_room
    }

    /// Removes the message that has waited longest; returns it with the time of what it tells.
    pub(super) fn pop(&mut self) -> Option<(u64, Content)> {
        let QueuedMessage { at, content, .. } = self.0.pop_front()?;
        Some((at, content))
    }
}

/// Adds purges to those of the same bucket and kind; returns what is not of them.
fn joined(last: &mut Content, next: Content) -> Option<Content> {
    match (last, next) {
        (
            Content::Change(FleetChange::Purged {
                bucket,
                extents,
                soft,
            }),
            Content::Change(FleetChange::Purged {
                bucket: other,
                extents: more,
                soft: kind,
            }),
        ) if *bucket == other && *soft == kind => {
            extents.extend(more);
            None
        }
        (_, next) => Some(next),
    }
}

/// Returns the bytes that the purges of a message take; 0 if it has none.
fn purge_bytes(content: &Content) -> usize {
    let Content::Change(FleetChange::Purged { extents, .. }) = content else {
        return 0;
    };
    let bytes = |extent: &Extent| {
        let json = match extent {
            Extent::Key(key) => serde_json::to_string(key.as_str()),
            Extent::Prefix(prefix) => serde_json::to_string(prefix),
            Extent::Tag(tag) => serde_json::to_string(&tag.to_string()),
        };
        json.map_or(MAX_PURGE_BYTES, |json| json.len() + PURGE_OVERHEAD)
    };
    extents.iter().map(bytes).sum()
}
