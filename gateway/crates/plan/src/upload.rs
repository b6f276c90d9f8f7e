//! The state of an object that is being written: the place of its bytes, the next part to send, and the bytes that may
//! leave the spool.
//!
//! A [`Draft`] is an object on its way from one version, its *base* (or from nothing), to the next. Each of its bytes
//! is one of four kinds: written and in the spool; the base's; never written, and so zero; or *gone*. A gone byte was
//! sent in a whole part and has left the spool; it cannot be read before the upload is complete. The object is cut into
//! parts by [`PartSizes`], and each part is
//!
//! - *clean*: all of it is the base's; it will be copied on the server,
//! - *dirty*: it must be sent, and its bytes that are the base's are read first,
//! - *sending* or *sent*: this ends if a write or a new length changes the part,
//! - *evicted*: sent, and its bytes are gone.
//!
//! Revisions show whether a part changed while it was sent. Every change gives the part a new one, and bytes sent under
//! another revision do not count. A write is announced before its bytes go into the spool ([`Draft::begin_write`]) and
//! ended after, so that its parts are not sent meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{ByteRange, ETag, Extents, PartSizes};

mod copying;
mod part_state;
mod pieces;
mod recall;
mod sending;
mod writing;

pub use pieces::{ByteSource, Piece, Pieces};

/// The number of first and of last bytes that never leave the spool while a draft is open, because writers of some
/// formats go back to a head or index.
pub const MAX_KEPT_END: u64 = 64 << 20;

/// Returns the same for a spool of `size` bytes. In a small spool it is less, so that there is room for the rest of a
/// larger object.
#[must_use]
pub fn kept_end(size: u64) -> u64 {
    MAX_KEPT_END.min(size / 8)
}

/// The number of part lengths by which writing must be past a part with holes before the part is sent.
const LEFT_BEHIND_PARTS: u32 = 4;

/// The error of an operation that needs bytes of this part, counted from 0, that are gone or not sent yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the bytes of part {} have left the spool", .0 + 1)]
pub struct GonePart(pub u32);

/// The occasion of a search for parts to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOccasion {
    /// The object is being written: parts that look finished are sent.
    Writing,
    /// The spool is short of space: parts that were sent before and changed since are sent too.
    Pressed,
    /// Writing has ended: all parts that differ from their sent state are sent.
    Closing,
}

/// A part to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartJob {
    /// The part, counted from 0.
    pub index: u32,
    /// Its bytes.
    pub range: ByteRange,
    /// The ranges of it that are the base's and not in the spool.
    pub fill: Vec<ByteRange>,
    /// The revision under which it is sent.
    pub revision: u64,
}

/// A part as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentPart {
    /// The tag in the store's answer.
    pub etag: ETag,
    /// The number of its bytes.
    pub length: u64,
    revision: u64,
    /// Its position in the order of sending.
    order: u64,
}

#[derive(Debug, Clone, Default)]
struct PartState {
    revision: u64,
    /// The number of writes into it whose bytes are on their way into the spool.
    busy: u32,
    /// Whether it differs from the base.
    changed: bool,
    sending: bool,
    sent: Option<SentPart>,
    evicted: bool,
    /// Whether all of it was written anew after its bytes had gone.
    replaces_gone: bool,
}

/// The state of an object that is being written; see the module.
#[derive(Debug, Clone)]
pub struct Draft {
    sizes: PartSizes,
    kept: u64,
    size: u64,
    base: u64,
    local: Extents,
    parts: BTreeMap<u32, PartState>,
    /// Parts that changed and were not sent in their present state.
    unsent: BTreeSet<u32>,
    counter: u64,
    /// The revision of parts without an entry, since the object was truncated last.
    floor: u64,
    frontier: u64,
    in_order: bool,
    /// The end of the last write.
    last: u64,
    /// The parts within which the writer turned back to earlier bytes, in that order. Together they are at most `kept`
    /// bytes long, because they are sent at the close.
    turned_back: VecDeque<u32>,
}

impl Draft {
    /// Creates an object that begins as the first `base` bytes of a version; 0 means empty.
    #[must_use]
    pub fn new(sizes: PartSizes, base: u64) -> Self {
        Self {
            sizes,
            kept: MAX_KEPT_END,
            size: base,
            base,
            local: Extents::default(),
            parts: BTreeMap::new(),
            unsent: BTreeSet::new(),
            counter: 0,
            floor: 0,
            frontier: 0,
            in_order: true,
            last: 0,
            turned_back: VecDeque::new(),
        }
    }

    /// Returns the same that keeps `kept` bytes at both ends instead of [`MAX_KEPT_END`].
    #[must_use]
    pub fn with_kept_ends(self, kept: u64) -> Self {
        Self { kept, ..self }
    }

    /// Returns the next draft of the object, which begins as the first `base` bytes of another version. Jobs begun for
    /// this draft do not count for the next.
    #[must_use]
    pub fn successor(&self, base: u64) -> Self {
        let mut next = Self {
            counter: self.counter,
            ..Self::new(self.sizes, base).with_kept_ends(self.kept)
        };
        next.floor = next.next_counter();
        next
    }

    /// Returns its present length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of first bytes that are the base's unless they were written.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Returns whether it is sent in one request at the end.
    #[must_use]
    pub fn is_one_part(&self) -> bool {
        self.size <= self.sizes.first()
    }

    /// Returns whether none of its bytes can leave the spool, because the kept ends are all of it. To send parts of it ahead
    /// makes no room.
    #[must_use]
    pub fn is_kept_whole(&self) -> bool {
        self.size <= self.kept.saturating_mul(2)
    }

    /// Returns the end of the last write; 0 if nothing was written.
    #[must_use]
    pub fn last_write_end(&self) -> u64 {
        self.last
    }

    /// Returns its part sizes.
    #[must_use]
    pub fn sizes(&self) -> PartSizes {
        self.sizes
    }

    /// Returns the bytes in the spool.
    #[must_use]
    pub fn local(&self) -> &Extents {
        &self.local
    }

    /// Returns whether no write touched a part that was already sent, except at the two kept ends. A writer in order
    /// hardly ever needs gone bytes back.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        self.in_order
    }

    /// Returns whether sending the part replaces bytes that only the store has. Once it is sent, the bytes promised
    /// before are lost.
    #[must_use]
    pub fn replaces_gone(&self, index: u32) -> bool {
        self.part(index).is_some_and(|part| part.replaces_gone)
    }

    /// Returns whether bytes of it are gone.
    #[must_use]
    pub fn has_gone_bytes(&self) -> bool {
        self.parts.values().any(|part| part.evicted)
    }
}

#[cfg(test)]
mod tests;
