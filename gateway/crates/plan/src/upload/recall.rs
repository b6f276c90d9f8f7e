//! The sent parts: their list, and their recovery from a journal.

use super::{Draft, SentPart};
use crate::{ByteRange, ETag};

impl Draft {
    /// Returns the parts that were sent and still count, with their tags.
    pub fn sent_parts(&self) -> impl Iterator<Item = (u32, &SentPart)> {
        let parts = self.parts.iter();
        parts.filter_map(|(index, part)| Some((*index, self.sent_as_it_is(*index, part)?)))
    }

    /// Returns the parts whose bytes are gone.
    pub fn gone_parts(&self) -> impl Iterator<Item = (u32, ByteRange)> {
        let gone = self.parts.iter().filter(|(_, part)| part.evicted);
        gone.map(|(index, _)| (*index, self.range(*index)))
    }

    /// Recovers from the journal that a part was sent in its state at that point.
    pub fn recall_sent(&mut self, index: u32, length: u64, etag: ETag) {
        let order = self.next_counter();
        let part = self.parts.entry(index).or_default();
        part.changed = true;
        part.sent = Some(SentPart {
            etag,
            length,
            revision: part.revision,
            order,
        });
        self.unsent.remove(&index);
    }

    /// Returns the range of a part that was sent, still counts, and is in the spool.
    #[must_use]
    pub fn sent_range(&self, index: u32) -> Option<ByteRange> {
        let part = self.part(index).filter(|part| !part.evicted)?;
        self.sent_as_it_is(index, part).map(|_| self.range(index))
    }

    /// Marks a part as unsent because its sent bytes are not the right ones.
    pub fn mark_unsent(&mut self, index: u32) {
        if let Some(part) = self.parts.get_mut(&index) {
            part.sent = None;
            self.unsent.insert(index);
        }
    }

    /// Does the same for all sent parts that are in the spool.
    pub fn mark_local_unsent(&mut self) {
        let sent = Vec::from_iter(self.parts.keys().copied());
        for index in sent {
            if self.sent_range(index).is_some() {
                self.mark_unsent(index);
            }
        }
    }

    /// Recovers from the journal that the draft was not written in order.
    pub fn recall_scattered(&mut self) {
        self.in_order = false;
    }

    /// Ends the recovery. Sent parts whose bytes were not durable do not count.
    pub fn end_recall(&mut self) {
        let count = self.sizes.count(self.size);
        self.parts.split_off(&count);
        self.unsent.split_off(&count);
        let lengths: Vec<_> = self
            .parts
            .keys()
            .map(|it| (*it, self.range(*it).len()))
            .collect();
        for (index, length) in lengths {
            let part = &self.parts[&index];
            if part.sent.as_ref().is_some_and(|sent| sent.length != length) {
                self.mark_unsent(index);
            }
        }
    }

    /// Recovers from the journal that the bytes of a part are gone.
    pub fn recall_evicted(&mut self, index: u32) {
        let range = self.sizes.range(index, u64::MAX);
        if let Some(part) = self.parts.get_mut(&index) {
            part.evicted = true;
            self.local.remove(range);
        }
    }
}
