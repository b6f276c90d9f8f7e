//! What of an object that is being written lies where, what is sent next, and what may go.
//!
//! A [`Draft`] is an object on its way from one version, its *base* (or from nothing), to the next.
//! Each byte of it is one of four: written and in the spool; the base's; never written, and so zero;
//! or *gone*: sent as part of a whole part, whose bytes have left the spool and which cannot be read
//! before the upload is complete. The object is cut into parts by [`PartSizes`], and each part is
//!
//! - *clean*: all of it is the base's; it will be copied on the server,
//! - *dirty*: it must be sent, for which its bytes that are the base's are read first,
//! - *sending*, or *sent*: and still so if nothing was written to it since, and its length is the same,
//! - *evicted*: sent, and its bytes are gone.
//!
//! Whether a part changed while it was sent is told by revisions: every change gives the part a new
//! one, and what was sent of another revision does not count. A write is announced before its bytes
//! go into the spool ([`Draft::begin_write`]) and ended after, so that nothing is sent meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::extents::Extents;
use super::parts::PartSizes;
use super::{ByteRange, ETag};

mod judge;
mod pieces;
mod recall;

pub use pieces::{From, Piece, Pieces};

/// What never leaves the spool while a draft is open: so many of its first and of its last bytes, for
/// formats that go back to their head or index.
pub const KEPT: u64 = 64 << 20;

/// The same in a spool of `size` bytes: in a small one less, or it would hold nothing else, and no larger
/// object could be written at all.
#[must_use]
pub fn kept_in(size: u64) -> u64 {
    KEPT.min(size / 8)
}

/// How far writing must have gone on from a part that has holes before it is sent with them.
const LEFT_BEHIND: u32 = 4;

/// Why something cannot be done to a draft: bytes of these parts are gone and would be needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the bytes of part {} have left the spool", .0 + 1)]
pub struct Gone(pub u32);

/// When parts are looked for that want to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// While the object is written: what looks finished.
    Writing,
    /// The spool is short of space: also what was sent before and written to since.
    Pressed,
    /// Nothing more comes: all that is not as it was sent.
    Closing,
}

/// A part to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The part, counted from 0.
    pub index: u32,
    /// Its bytes.
    pub range: ByteRange,
    /// Those of them that are the base's and are not in the spool.
    pub fill: Vec<ByteRange>,
    /// What it is sent as.
    pub revision: u64,
}

/// A part as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The tag it was answered with.
    pub etag: ETag,
    /// How many bytes it had.
    pub length: u64,
    revision: u64,
    /// The how manieth that was sent.
    order: u64,
}

#[derive(Debug, Clone, Default)]
struct Part {
    revision: u64,
    /// Writes into it whose bytes are on their way into the spool.
    busy: u32,
    /// It differs from the base.
    changed: bool,
    sending: bool,
    sent: Option<Sent>,
    evicted: bool,
    /// All of it was written anew after its bytes had gone.
    replaces_gone: bool,
}

/// See the module's head.
#[derive(Debug, Clone)]
pub struct Draft {
    sizes: PartSizes,
    kept: u64,
    size: u64,
    base: u64,
    local: Extents,
    parts: BTreeMap<u32, Part>,
    /// Parts that changed and were not sent as they are.
    unsent: BTreeSet<u32>,
    counter: u64,
    /// The revision of parts that nothing was noted of, since the object was cut last.
    floor: u64,
    frontier: u64,
    in_order: bool,
    /// Where the last write ended.
    last: u64,
    /// Parts in whose midst the writer turned back to what lies before, in that order: no more of it than what
    /// is kept of an end, for it is sent at the close.
    turned: VecDeque<u32>,
}

impl Draft {
    /// An object that begins as the first `base` bytes of a version; 0: as nothing.
    #[must_use]
    pub fn new(sizes: PartSizes, base: u64) -> Self {
        Self {
            sizes,
            kept: KEPT,
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
            turned: VecDeque::new(),
        }
    }

    /// The same that never lets go of so many bytes at both ends, instead of [`KEPT`].
    #[must_use]
    pub fn keeping(self, kept: u64) -> Self {
        Self { kept, ..self }
    }

    /// The next draft of the object: one that begins as the first `base` bytes of another version.
    /// What was begun for this one does not count for that one.
    #[must_use]
    pub fn next_from(&self, base: u64) -> Self {
        Self {
            counter: self.counter + 1,
            floor: self.counter + 1,
            ..Self::new(self.sizes, base).keeping(self.kept)
        }
    }

    /// Its length now.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// How many of the first bytes are the base's where nothing was written.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Whether it goes up in one request, at the end.
    #[must_use]
    pub fn is_one_part(&self) -> bool {
        self.size <= self.sizes.first()
    }

    /// How it is cut.
    #[must_use]
    pub fn sizes(&self) -> PartSizes {
        self.sizes
    }

    /// The bytes in the spool.
    #[must_use]
    pub fn local(&self) -> &Extents {
        &self.local
    }

    /// Whether nothing was written, before what is kept of its end, to a part that was sent already.
    /// Who writes in order hardly ever needs bytes back that are gone.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        self.in_order
    }

    /// Whether it is the base, byte for byte, of which `whole` bytes there are.
    #[must_use]
    pub fn is_unchanged(&self, whole: u64) -> bool {
        self.base == whole && self.size == whole && self.parts.values().all(|part| !part.changed)
    }

    /// How many bytes a write would add to the spool.
    #[must_use]
    pub fn growth(&self, range: ByteRange) -> u64 {
        let held: u64 = self.local.within(range).map(ByteRange::len).sum();
        range.len() - held
    }

    /// Announces a write. Until [`Draft::end_write`] nothing that it touches is sent.
    ///
    /// # Errors
    /// It changes some bytes of a part whose others are gone.
    pub fn begin_write(&mut self, range: ByteRange) -> Result<(), Gone> {
        let span = self.sizes.span(range);
        for index in span.clone() {
            let whole = self.sizes.range(index, self.size.max(range.end));
            let covers = range.intersect(whole) == Some(whole);
            if self.is_evicted(index) && !covers {
                return Err(Gone(index));
            }
        }
        for index in span {
            self.note_order(index);
            self.change(index).busy += 1;
        }
        Ok(())
    }

    /// The bytes of an announced write are in the spool; says how many it had not held before.
    pub fn end_write(&mut self, range: ByteRange) -> u64 {
        for index in self.sizes.span(range) {
            let part = self.change(index);
            part.busy = part.busy.saturating_sub(1);
        }
        self.note_turn(range);
        self.size = self.size.max(range.end);
        self.frontier = self.frontier.max(range.end);
        self.local.insert(range)
    }

    /// An announced write did not take place: its bytes are undefined, as after any failed write.
    pub fn fail_write(&mut self, range: ByteRange) {
        for index in self.sizes.span(range) {
            let part = self.change(index);
            part.busy = part.busy.saturating_sub(1);
        }
    }

    /// Bytes of the base were brought into the spool, which changes nothing; says how many it had
    /// not held before.
    pub fn filled(&mut self, range: ByteRange) -> u64 {
        self.local.insert(range)
    }

    /// Gives it another length: what is beyond is forgotten, what is new is zero. Says how many bytes
    /// left the spool. No write may be under way.
    ///
    /// # Errors
    /// It cuts through a part whose bytes are gone.
    pub fn truncate(&mut self, size: u64) -> Result<u64, Gone> {
        if size < self.size {
            let cut = self.sizes.index(size);
            let within = size > self.sizes.start(cut);
            if within && self.is_evicted(cut) {
                return Err(Gone(cut));
            }
            let first = if within { cut + 1 } else { cut };
            self.forget_from(first);
            if within {
                self.change(cut);
            }
        } else if size > self.size && self.is_evicted(self.sizes.index(self.size)) {
            return Err(Gone(self.sizes.index(self.size)));
        }
        // What was begun of parts that are forgotten here does not count for those to come.
        self.floor = self.tick();
        self.base = self.base.min(size);
        self.size = size;
        self.frontier = self.frontier.min(size);
        Ok(self.local.remove(ByteRange::new(size, u64::MAX)))
    }

    /// Forgets parts. Of one that is on its way that much is kept: the store has whichever comes last,
    /// so it is not sent anew before.
    fn forget_from(&mut self, first: u32) {
        self.unsent.split_off(&first);
        self.turned.retain(|index| *index < first);
        for (index, part) in self.parts.split_off(&first) {
            if part.sending {
                let sending = Part {
                    sending: true,
                    revision: self.tick(),
                    ..Part::default()
                };
                self.parts.insert(index, sending);
            }
        }
    }

    /// A part to be sent now, if one wants to be.
    #[must_use]
    pub fn next(&self, when: When) -> Option<Job> {
        let index = match when {
            When::Closing => (0..self.sizes.count(self.size)).find(|i| self.must_be_sent(*i)),
            _ => self.unsent.iter().copied().find(|i| self.is_ripe(*i, when)),
        }?;
        let range = self.range(index);
        Some(Job {
            index,
            range,
            fill: self.fill_of(range),
            revision: self.part(index).map_or(self.floor, |part| part.revision),
        })
    }

    /// Whether nothing was written to a job's part since it was made.
    #[must_use]
    pub fn is_current(&self, job: &Job) -> bool {
        let revision = self
            .part(job.index)
            .map_or(self.floor, |part| part.revision);
        revision == job.revision && self.range(job.index) == job.range
    }

    /// A job is under way.
    pub fn begin_send(&mut self, job: &Job) {
        let untouched = Part {
            revision: self.floor,
            ..Part::default()
        };
        self.parts.entry(job.index).or_insert(untouched).sending = true;
    }

    /// A job is done: `Some` tag if it was sent. Says whether that counts, for what is written to
    /// meanwhile does not.
    pub fn end_send(&mut self, job: &Job, etag: Option<ETag>) -> bool {
        let order = self.tick();
        let range = self.range(job.index);
        let Some(part) = self.parts.get_mut(&job.index) else {
            return false;
        };
        part.sending = false;
        let counts = part.revision == job.revision && range == job.range;
        let Some(etag) = etag.filter(|_| counts) else {
            return false;
        };
        part.sent = Some(Sent {
            etag,
            length: job.range.len(),
            revision: job.revision,
            order,
        });
        self.unsent.remove(&job.index);
        true
    }

    /// Lets go of the bytes of one sent part: the one sent first, but none at the ends. Says which
    /// bytes left the spool, and how many those were.
    pub fn evict(&mut self) -> Option<(u32, ByteRange, u64)> {
        let end = self.size.saturating_sub(self.kept);
        let may_go = |(index, part): (&u32, &Part)| {
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

    /// Whether sending a part replaces bytes that are nowhere but in the store: of what was promised of
    /// them nothing is left once it was sent.
    #[must_use]
    pub fn replaces_gone(&self, index: u32) -> bool {
        self.part(index).is_some_and(|part| part.replaces_gone)
    }

    /// Whether bytes of it are gone.
    #[must_use]
    pub fn has_gone(&self) -> bool {
        self.parts.values().any(|part| part.evicted)
    }

    /// What was sent must be sent anew: the upload is another one. Nothing may be gone.
    pub fn forget_sent(&mut self) {
        debug_assert!(!self.has_gone(), "what is gone cannot be sent anew");
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
#[path = "upload/tests.rs"]
mod tests;
