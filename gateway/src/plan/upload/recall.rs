//! What was sent: to be told, and to be taken up again from a journal.

use super::{Draft, Sent};
use crate::plan::ETag;

impl Draft {
    /// The parts that were sent and still count, with their tags.
    pub fn sent(&self) -> impl Iterator<Item = (u32, &Sent)> {
        let parts = self.parts.iter();
        parts.filter_map(|(index, part)| Some((*index, self.sent_as_it_is(*index, part)?)))
    }

    /// Takes up what a journal tells: a part was sent as it was then.
    pub fn recall_sent(&mut self, index: u32, length: u64, etag: ETag) {
        let order = self.tick();
        let part = self.parts.entry(index).or_default();
        part.changed = true;
        part.sent = Some(Sent {
            etag,
            length,
            revision: part.revision,
            order,
        });
        self.unsent.remove(&index);
    }

    /// Takes up what a journal tells: the bytes of a part are gone.
    pub fn recall_evicted(&mut self, index: u32) {
        let range = self.sizes.range(index, u64::MAX);
        if let Some(part) = self.parts.get_mut(&index) {
            part.evicted = true;
            self.local.remove(range);
        }
    }
}
