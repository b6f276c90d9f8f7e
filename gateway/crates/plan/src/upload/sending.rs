//! Sends, evictions, and a change of the upload.

use super::{Draft, PartJob, PartState, SendOccasion, SentPart};
use crate::{ByteRange, ETag};

impl Draft {
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
