//! The state of a part, and the operations that it permits.

use super::{Draft, LEFT_BEHIND_PARTS, PartState, SendOccasion, SentPart};
use crate::ByteRange;

impl Draft {
    pub(super) fn next_counter(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Gives a part a new revision.
    pub(super) fn change(&mut self, index: u32) -> &mut PartState {
        let revision = self.next_counter();
        self.unsent.insert(index);
        let part = self.parts.entry(index).or_default();
        part.revision = revision;
        part.changed = true;
        part.replaces_gone |= part.evicted;
        part.evicted = false;
        part
    }

    pub(super) fn note_order(&mut self, index: u32) {
        let range = self.range(index);
        let end = self.size.saturating_sub(self.kept);
        let was_sent = self.part(index).is_some_and(|part| part.sent.is_some());
        if was_sent && range.start >= self.kept && range.end <= end {
            self.in_order = false;
        }
    }

    /// Notes that the writer turned back from the object's end. It has put a table there, as disk images have them
    /// every half a gigabyte: the writer notes the table's place in the head and fills the table in later. So the part
    /// waits until it is written again.
    pub(super) fn note_turn_back(&mut self, range: ByteRange) {
        let is_back = range.start < self.frontier;
        if is_back {
            let again = self.sizes.span(range);
            self.turned_back.retain(|index| !again.contains(index));
        }
        let left = self.sizes.index(self.frontier);
        let is_within = self.frontier > self.sizes.start(left);
        if is_back && is_within && self.last == self.frontier {
            self.turned_back.retain(|index| *index != left);
            self.turned_back.push_back(left);
            let length = |index: &u32| self.sizes.range(*index, u64::MAX).len();
            while self.turned_back.iter().map(length).sum::<u64>() > self.kept {
                self.turned_back.pop_front();
            }
        }
        self.last = range.end;
    }

    pub(super) fn part(&self, index: u32) -> Option<&PartState> {
        self.parts.get(&index)
    }

    pub(super) fn range(&self, index: u32) -> ByteRange {
        self.sizes.range(index, self.size)
    }

    pub(super) fn is_evicted(&self, index: u32) -> bool {
        self.part(index).is_some_and(|part| part.evicted)
    }

    /// Returns the sent part, if the part is unchanged since.
    pub(super) fn sent_as_it_is<'a>(
        &self,
        index: u32,
        part: &'a PartState,
    ) -> Option<&'a SentPart> {
        let sent = part.sent.as_ref()?;
        let same = sent.revision == part.revision && sent.length == self.range(index).len();
        same.then_some(sent)
    }

    pub(super) fn fill_of(&self, range: ByteRange) -> Vec<ByteRange> {
        match range.intersect(ByteRange::new(0, self.base)) {
            Some(of_base) => self.local.gaps(of_base),
            None => Vec::new(),
        }
    }

    /// Returns whether all of it is the base's.
    pub(super) fn is_clean(&self, index: u32) -> bool {
        let changed = self.part(index).is_some_and(|part| part.changed);
        !changed && self.range(index).end <= self.base
    }

    /// Returns whether the part must be sent at the end: it is neither clean, sent nor being sent. Gone bytes are lost
    /// and cannot be sent.
    pub(super) fn must_be_sent(&self, index: u32) -> bool {
        if self.is_clean(index) {
            return false;
        }
        self.part(index).is_none_or(|part| {
            let idle = !part.sending && part.busy == 0 && !part.evicted;
            idle && self.sent_as_it_is(index, part).is_none()
        })
    }

    /// Returns whether the part looks finished before the end, or must be sent for space.
    pub(super) fn is_ripe(&self, index: u32, when: SendOccasion) -> bool {
        let Some(part) = self.part(index) else {
            return false;
        };
        let whole = self.sizes.range(index, u64::MAX);
        if part.busy > 0 || part.sending || part.evicted || whole.end > self.size {
            return false;
        }
        if when == SendOccasion::Pressed {
            return self.sent_as_it_is(index, part).is_none();
        }
        // An object of one part is sent in one request at the end. A sent part that changed since will change again, so
        // it waits for the end too.
        if self.is_one_part() {
            return false;
        }
        if self.turned_back.contains(&index) {
            return false;
        }
        let behind = whole.end + LEFT_BEHIND_PARTS as u64 * whole.len() <= self.frontier;
        part.sent.is_none() && (behind || self.local.covers(whole))
    }
}
