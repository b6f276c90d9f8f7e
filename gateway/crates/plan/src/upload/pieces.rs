//! The sources of a draft's bytes, and the pieces of the final object.

use super::{Draft, GonePart};
use crate::{ByteRange, ETag};

/// The source of a draft's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteSource {
    /// The spool.
    Spool,
    /// The base, at the same offset.
    Base,
    /// No source: the bytes are zero.
    Zero,
    /// A part that was sent; the bytes cannot be read.
    Gone,
}

/// A part of the final object with its number, from 1 to 10,000.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// The part was sent.
    Sent(u32, ETag),
    /// The part is this range of the base, to be copied on the server.
    Copy(u32, ByteRange),
}

/// The pieces of the final object, in order.
pub type Pieces = Vec<Piece>;

impl Draft {
    /// Returns the sources of a range's bytes, in order, up to the object's end.
    #[must_use]
    pub fn sources(&self, range: ByteRange) -> Vec<(ByteRange, ByteSource)> {
        let Some(range) = range.intersect(ByteRange::new(0, self.size)) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for index in self.sizes.span(range) {
            let here = self.range(index).intersect(range);
            let here = here.expect("a part of the span");
            if self.is_evicted(index) {
                found.push((here, ByteSource::Gone));
                continue;
            }
            let mut at = here.start;
            for held in self.local.within(here) {
                self.beside_the_spool(ByteRange::new(at, held.start), &mut found);
                found.push((held, ByteSource::Spool));
                at = held.end;
            }
            self.beside_the_spool(ByteRange::new(at, here.end), &mut found);
        }
        merge_neighbours(found)
    }

    fn beside_the_spool(&self, range: ByteRange, found: &mut Vec<(ByteRange, ByteSource)>) {
        let border = self.base.clamp(range.start, range.end);
        let pieces = [
            (ByteRange::new(range.start, border), ByteSource::Base),
            (ByteRange::new(border, range.end), ByteSource::Zero),
        ];
        found.extend(pieces.into_iter().filter(|(range, _)| !range.is_empty()));
    }

    /// Returns whether any part may be copied at the end. If not, every part of an object of several parts is sent,
    /// whatever happens to it later.
    #[must_use]
    pub fn may_copy(&self) -> bool {
        self.base >= self.sizes.first()
    }

    /// Returns the runs of parts that are the base's, once all other parts are sent.
    #[must_use]
    pub fn copied_ranges(&self) -> Vec<ByteRange> {
        let copied = |piece| match piece {
            Piece::Copy(_, range) => Some(range),
            Piece::Sent(..) => None,
        };
        let pieces = self.pieces(u64::MAX).unwrap_or_default();
        pieces.into_iter().filter_map(copied).collect()
    }

    /// Returns the pieces of the final object, once all parts are sent that must be. Adjacent clean parts are copied as
    /// one, of at most `most` bytes.
    ///
    /// # Errors
    /// A part still has to be sent.
    pub fn pieces(&self, most: u64) -> Result<Pieces, GonePart> {
        let mut pieces: Pieces = Vec::new();
        for index in 0..self.sizes.count(self.size) {
            let range = self.range(index);
            if self.is_clean(index) {
                match pieces.last_mut() {
                    Some(Piece::Copy(_, run)) if range.end - run.start <= most => {
                        run.end = range.end;
                    }
                    _ => pieces.push(Piece::Copy(index + 1, range)),
                }
                continue;
            }
            let part = self.part(index);
            let sent = part.and_then(|part| self.sent_as_it_is(index, part));
            let sent = sent.ok_or(GonePart(index))?;
            pieces.push(Piece::Sent(index + 1, sent.etag.clone()));
        }
        Ok(pieces)
    }
}

/// Merges neighbours of one source.
fn merge_neighbours(found: Vec<(ByteRange, ByteSource)>) -> Vec<(ByteRange, ByteSource)> {
    let mut joined: Vec<(ByteRange, ByteSource)> = Vec::new();
    for (range, from) in found {
        match joined.last_mut() {
            Some((last, same)) if *same == from && last.end == range.start => last.end = range.end,
            _ => joined.push((range, from)),
        }
    }
    joined
}
