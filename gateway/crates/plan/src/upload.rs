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

mod judge;
mod pieces;
mod recall;

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
        Self {
            counter: self.counter + 1,
            floor: self.counter + 1,
            ..Self::new(self.sizes, base).with_kept_ends(self.kept)
        }
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

    /// Returns whether it equals the base, byte for byte. The base has `whole` bytes.
    #[must_use]
    pub fn is_unchanged(&self, whole: u64) -> bool {
        self.base == whole && self.size == whole && self.parts.values().all(|part| !part.changed)
    }

    /// Returns the number of bytes that a write would add to the spool.
    #[must_use]
    pub fn growth(&self, range: ByteRange) -> u64 {
        let held: u64 = self.local.within(range).map(ByteRange::len).sum();
        range.len() - held
    }

    /// Announces a write. Until [`Draft::end_write`] no part that it touches is sent.
    ///
    /// # Errors
    /// The write changes some bytes of a part whose others are gone.
    pub fn begin_write(&mut self, range: ByteRange) -> Result<(), GonePart> {
        let span = self.sizes.span(range);
        for index in span.clone() {
            let whole = self.sizes.range(index, self.size.max(range.end));
            let covers = range.intersect(whole) == Some(whole);
            if self.is_evicted(index) && !covers {
                return Err(GonePart(index));
            }
        }
        for index in span {
            self.note_order(index);
            self.change(index).busy += 1;
        }
        Ok(())
    }

    /// Records that the bytes of an announced write are in the spool; returns how many are new there.
    pub fn end_write(&mut self, range: ByteRange) -> u64 {
        for index in self.sizes.span(range) {
            let part = self.change(index);
            part.busy = part.busy.saturating_sub(1);
        }
        self.note_turn_back(range);
        self.size = self.size.max(range.end);
        self.frontier = self.frontier.max(range.end);
        self.local.insert(range)
    }

    /// Records that an announced write failed. Its bytes are undefined, as after any failed write.
    pub fn fail_write(&mut self, range: ByteRange) {
        for index in self.sizes.span(range) {
            let part = self.change(index);
            part.busy = part.busy.saturating_sub(1);
        }
    }

    /// Records that bytes of the base were read into the spool, which does not change the object. Returns how many are
    /// new there.
    pub fn record_fill(&mut self, range: ByteRange) -> u64 {
        self.local.insert(range)
    }

    /// Sets the length: bytes beyond it are dropped, and new bytes are zero. Returns the number of bytes that left the
    /// spool. No write may be under way.
    ///
    /// # Errors
    /// The new end cuts through a part whose bytes are gone.
    pub fn truncate(&mut self, size: u64) -> Result<u64, GonePart> {
        if size < self.size {
            let cut = self.sizes.index(size);
            let within = size > self.sizes.start(cut);
            if within && self.is_evicted(cut) {
                return Err(GonePart(cut));
            }
            let first = if within { cut + 1 } else { cut };
            self.forget_from(first);
            if within {
                self.change(cut);
            }
        } else if size > self.size && self.is_evicted(self.sizes.index(self.size)) {
            return Err(GonePart(self.sizes.index(self.size)));
        }
        // Jobs of forgotten parts must not count for later parts.
        self.floor = self.next_counter();
        self.base = self.base.min(size);
        self.size = size;
        self.frontier = self.frontier.min(size);
        Ok(self.local.remove(ByteRange::new(size, u64::MAX)))
    }

    /// Forgets parts. The entry of a part under way stays: the store keeps the part that arrives last, so it must not
    /// be sent again before.
    fn forget_from(&mut self, first: u32) {
        self.unsent.split_off(&first);
        self.turned_back.retain(|index| *index < first);
        for (index, part) in self.parts.split_off(&first) {
            if part.sending {
                let sending = PartState {
                    sending: true,
                    revision: self.next_counter(),
                    ..PartState::default()
                };
                self.parts.insert(index, sending);
            }
        }
    }

    /// Returns a part to send now, if there is one.
    #[must_use]
    pub fn next_job(&self, when: SendOccasion) -> Option<PartJob> {
        let index = match when {
            SendOccasion::Closing => {
                (0..self.sizes.count(self.size)).find(|i| self.must_be_sent(*i))
            }
            _ => self.unsent.iter().copied().find(|i| self.is_ripe(*i, when)),
        }?;
        let range = self.range(index);
        Some(PartJob {
            index,
            range,
            fill: self.fill_of(range),
            revision: self.part(index).map_or(self.floor, |part| part.revision),
        })
    }

    /// Returns whether a job's part is unchanged since the job was made.
    #[must_use]
    pub fn is_current(&self, job: &PartJob) -> bool {
        let revision = self
            .part(job.index)
            .map_or(self.floor, |part| part.revision);
        revision == job.revision && self.range(job.index) == job.range
    }

    /// Records that a job is under way.
    pub fn begin_send(&mut self, job: &PartJob) {
        let untouched = PartState {
            revision: self.floor,
            ..PartState::default()
        };
        self.parts.entry(job.index).or_insert(untouched).sending = true;
    }

    /// Records that a job has ended, with its tag if it was sent. Returns whether that counts: it does not if the part
    /// was written to meanwhile.
    pub fn end_send(&mut self, job: &PartJob, etag: Option<ETag>) -> bool {
        let order = self.next_counter();
        let range = self.range(job.index);
        let Some(part) = self.parts.get_mut(&job.index) else {
            return false;
        };
        part.sending = false;
        let counts = part.revision == job.revision && range == job.range;
        let Some(etag) = etag.filter(|_| counts) else {
            return false;
        };
        part.sent = Some(SentPart {
            etag,
            length: job.range.len(),
            revision: job.revision,
            order,
        });
        self.unsent.remove(&job.index);
        true
    }

    /// Evicts the bytes of the part that was sent first, but none at the ends. Returns the part, its range, and the
    /// number of bytes that left the spool.
    pub fn evict(&mut self) -> Option<(u32, ByteRange, u64)> {
        let end = self.size.saturating_sub(self.kept);
        let may_go = |(index, part): (&u32, &PartState)| {
            let range = self.range(*index);
            let inside = range.start >= self.kept && range.end <= end;
            let idle = part.busy == 0 && !part.evicted && !part.sending;
            let sent = self
                .sent_as_it_is(*index, part)
                .filter(|_| inside && idle)?;
            Some((sent.order, *index))
        };
        let (_, index) = self.parts.iter().filter_map(may_go).min()?;
        let range = self.range(index);
        let part = self.parts.get_mut(&index)?;
        (part.evicted, part.replaces_gone) = (true, false);
        Some((index, range, self.local.remove(range)))
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

    /// Forgets all sent parts, because the upload is another one. No bytes may be gone.
    pub fn forget_sent(&mut self) {
        debug_assert!(!self.has_gone_bytes(), "what is gone cannot be sent anew");
        for (index, part) in &mut self.parts {
            part.sent = None;
            if part.changed {
                self.unsent.insert(*index);
            }
            self.counter += 1;
            part.revision = self.counter;
        }
    }
}

#[cfg(test)]
mod tests;
