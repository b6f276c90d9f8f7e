//! The removal of nearly empty segments: their last chunks are written again.

use super::super::refusal::Fault;
use super::super::segment::Segment;
use super::Writer;
use super::append::{Chunk, From};

/// The share (1/n) of its size below which a segment is sparse. If there are too many segments, it is
/// rewritten.
const SPARSE: u64 = 8;

/// Segments for each that the capacity would fill, above which there are too many.
const ENOUGH: u64 = 2;

impl Writer {
    /// Deletes a segment that is empty, or queues one that is nearly empty for rewriting.
    pub(super) fn look_if_sparse(&mut self, segment: &Segment) {
        if self.is_current(segment.number) {
            return;
        }
        let left = segment.allocated();
        if left == 0 {
            self.unlink(segment.number);
        } else if left < self.log.segment() / SPARSE && !self.sparse.contains(&segment.number) {
            self.sparse.push_back(segment.number);
        }
    }

    /// Reads chunks of nearly empty segments, at most about `most` bytes, to be written again.
    pub(super) fn moves(&mut self, most: u64) -> Vec<Chunk> {
        let (mut chunks, mut size) = (Vec::new(), 0);
        let there = u64::try_from(self.log.segments.len()).unwrap_or(u64::MAX);
        if there <= ENOUGH * self.log.capacity() / self.log.segment() {
            return chunks;
        }
        while size < most {
            let Some((key, place)) = self.survivors.pop_front() else {
                if self.find_survivors() {
                    continue;
                }
                break;
            };
            // The index knows the present pin.
            let found = self.log.index.find(&key);
            let Some(place) = found.filter(|found| *found == place) else {
                continue;
            };
            match self.log.read(&key, &place, true) {
                Ok(bytes) => {
                    size += place.taken();
                    let (pin, from) = (place.pin, From::Place(place));
                    chunks.push(Chunk {
                        key,
                        bytes,
                        pin,
                        from,
                    });
                }
                Err(Fault::Error) => {}
                Err(_) => self.log.forget(&key, &place),
            }
        }
        chunks
    }

    /// Lists the chunks of the next nearly empty segment. `false`: there is none.
    fn find_survivors(&mut self) -> bool {
        let Some(number) = self.sparse.pop_front() else {
            return false;
        };
        if let Some(segment) = self.log.segments.get(number)
            && let Ok(entries) = self.entries(&segment)
        {
            self.survivors.extend(entries);
        }
        true
    }
}
