//! The removal of nearly empty segments: their last chunks are written again.

use super::super::refusal::Fault;
use super::super::segment::Segment;
use super::Writer;
use super::append::{ChunkOrigin, ChunkWrite};

/// The share (1/n) of its size below which a segment is sparse. If there are too many segments, it is
/// rewritten.
const SPARSE_SHARE: u64 = 8;

/// Segments for each that the capacity would fill, above which there are too many.
const MAX_SEGMENT_EXCESS: u64 = 2;

impl Writer {
    /// Deletes a segment that is empty, or queues one that is nearly empty for rewriting.
    pub(super) fn check_sparse(&mut self, segment: &Segment) {
        if self.is_current(segment.number) {
            return;
        }
        let left = segment.allocated();
        if left == 0 {
            self.unlink(segment.number);
        } else if left < self.log.segment() / SPARSE_SHARE && !self.sparse.contains(&segment.number)
        {
            self.sparse.push_back(segment.number);
        }
    }

    /// Reads chunks of nearly empty segments, at most about `most` bytes, to be written again.
    pub(super) fn read_survivors(&mut self, most: u64) -> Vec<ChunkWrite> {
        let (mut chunks, mut size) = (Vec::new(), 0);
        let there = u64::try_from(self.log.segments.len()).unwrap_or(u64::MAX);
        if there <= MAX_SEGMENT_EXCESS * self.log.capacity() / self.log.segment() {
            return chunks;
        }
        while size < most {
            let Some((key, location)) = self.survivors.pop_front() else {
                if self.list_survivors() {
                    continue;
                }
                break;
            };
            // The index knows the present pin.
            let found = self.log.index.find(&key);
            let Some(location) = found.filter(|found| *found == location) else {
                continue;
            };
            match self.log.read(&key, &location, true) {
                Ok(bytes) => {
                    size += location.taken();
                    let (pin, from) = (location.pin, ChunkOrigin::Segment(location));
                    chunks.push(ChunkWrite {
                        key,
                        bytes,
                        pin,
                        from,
                    });
                }
                Err(Fault::Error) => {}
                Err(_) => self.log.forget(&key, &location),
            }
        }
        chunks
    }

    /// Lists the chunks of the next nearly empty segment. `false`: there is none.
    fn list_survivors(&mut self) -> bool {
        let Some(number) = self.sparse.pop_front() else {
            return false;
        };
        if let Some(segment) = self.log.segments.get(number)
            && let Ok(entries) = self.read_live_entries(&segment)
        {
            self.survivors.extend(entries);
        }
        true
    }
}
