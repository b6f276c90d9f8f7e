//! Writes and changes of the length.

use super::{Draft, GonePart, PartState};
use crate::ByteRange;

impl Draft {
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
}
