//! Eviction: two clocks over the segments. Freed space is given back in place.
//!
//! A segment is first on trial, and is proven once the hand has passed it. Each hand is at the segment
//! that was begun, or passed, longest ago. A chunk that was read since the hand's last visit stays,
//! and is marked unread. All others leave the index, and their space is given back to the file system,
//! neighbours in one call. The segment then goes to the end of the proven ones with its remaining
//! chunks.
//!
//! While more than an eighth of the capacity is on trial, room is made there. So a scan, of which
//! nothing is read twice, evicts itself and not the proven chunks (as the small queue of S3-FIFO does;
//! Yang et al., SOSP 2023). Every eighth turn takes a proven segment all the same, so that formerly
//! popular chunks leave in the end.
//!
//! Segments are too many if they are more than twice as many as the capacity would fill. Then the
//! chunks of those with less than an eighth of their size left are written again into the current one,
//! and the old files are deleted. So there are never more than eight segments for each that the
//! capacity would fill.
//!
//! A pinned chunk stays as if it were always read, up to half of the capacity. After two rounds of the
//! hands, all other chunks are gone. If even that was not enough (other files fill the file system),
//! pins hold no longer, so that the search always ends.
//!
//! A tombstone goes into the index file before space is given back, so that no restart resurrects the
//! chunk. A torn tombstone does no harm: a chunk that reads as zeros fails its checksum.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;

use tracing::info;

use super::append::{Chunk, From};
use super::entry::{ENTRY, Place, decode_all, encode};
use super::files::{Access, LogFile, is_unsupported};
use super::index::Verdict;
use super::refusal::Fault;
use super::segment::Segment;
use super::writer::Writer;
use crate::ChunkKey;

/// The share (1/n) of its size below which a segment is sparse. If there are too many segments, it is
/// rewritten.
const SPARSE: u64 = 8;

/// Segments for each that the capacity would fill, above which there are too many.
const ENOUGH: u64 = 2;

/// The share (1/n) of the capacity that may be on trial before room is made there first.
const TRIAL: u64 = 8;

/// Every n-th turn takes a proven segment.
const AGEING: u64 = 8;

/// Full segments, in the order in which the hands pass them. See the module's head.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    trial: VecDeque<u32>,
    proven: VecDeque<u32>,
    turn: u64,
}

impl Clocks {
    /// Adds a segment that was just filled.
    pub(super) fn enter(&mut self, segment: u32) {
        self.trial.push_back(segment);
    }

    /// Adds a segment that was filled before all others that are there.
    pub(super) fn enter_first(&mut self, segment: u32) {
        self.trial.push_front(segment);
    }

    /// Adds a segment that the hand has passed.
    fn prove(&mut self, segment: u32) {
        self.proven.push_back(segment);
    }

    /// Removes all segments.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    fn is_empty(&self) -> bool {
        self.trial.is_empty() && self.proven.is_empty()
    }

    /// Takes the segment under the hand: one on trial, if these hold more than their share.
    fn next(&mut self, holds_more: impl Fn(&VecDeque<u32>) -> bool) -> Option<u32> {
        self.turn = self.turn.wrapping_add(1);
        let is_theirs = !self.turn.is_multiple_of(AGEING) && holds_more(&self.trial);
        let (first, second) = if is_theirs {
            (&mut self.trial, &mut self.proven)
        } else {
            (&mut self.proven, &mut self.trial)
        };
        first.pop_front().or_else(|| second.pop_front())
    }
}

impl Writer {
    /// Evicts until `need` more bytes fit the capacity. `false`: nothing is left to evict.
    pub(super) fn make_room(&mut self, need: u64) -> io::Result<bool> {
        let mut found = true;
        while found && self.log.segments.taken() + need > self.log.capacity() {
            found = !self.is_hopeless() && self.evict_one()?;
        }
        self.hunt = 0;
        Ok(found)
    }

    /// Evicts until some space was given back.
    pub(super) fn evict_some(&mut self) -> io::Result<()> {
        let before = self.log.segments.taken();
        self.hunt = 0;
        while self.log.segments.taken() >= before && !self.is_hopeless() && self.evict_one()? {}
        self.hunt = 0;
        Ok(())
    }

    /// Returns whether pins still hold. After two rounds, all chunks that were not read or pinned are
    /// gone, because a read chunk is passed over only once.
    fn do_pins_hold(&self) -> bool {
        self.hunt <= self.twice_around()
    }

    /// Returns whether nothing is left to evict: two more rounds take every chunk.
    fn is_hopeless(&self) -> bool {
        self.hunt > 2 * self.twice_around()
    }

    /// Steps after which both hands have passed everything twice, whichever goes first: a long hunt
    /// takes them in turn.
    fn twice_around(&self) -> usize {
        4 * (self.log.segments.len() + 2)
    }

    /// Moves the hand on by one segment. `false`: there is no segment.
    pub(super) fn evict_one(&mut self) -> io::Result<bool> {
        if self.clocks.is_empty() {
            self.seal()?;
        }
        let Some(number) = self.next_segment() else {
            return Ok(false);
        };
        let Some(segment) = self.log.segments.get(number) else {
            return Ok(true);
        };
        let Ok(entries) = self.entries(&segment) else {
            // Its index file is gone or unreadable, so its content is unknown.
            self.log.index.drop_segment(number);
            self.unlink(number);
            return Ok(true);
        };
        let (mut kept, mut dead) = (Vec::new(), Vec::new());
        self.hunt += 1;
        let pins_hold = self.do_pins_hold();
        for (key, place) in entries {
            match self.log.index.judge(&key, &place, pins_hold) {
                Verdict::Gone => {}
                Verdict::Kept => kept.push((key, place)),
                Verdict::Dropped => dead.push((key, place)),
            }
        }
        let metrics = &self.log.metrics;
        metrics
            .evictions
            .inc_by(u64::try_from(dead.len()).unwrap_or(0));
        if kept.is_empty() {
            self.unlink(number);
            return Ok(true);
        }
        // It goes back under the clock in any case; the hand skips a deleted segment.
        self.clocks.prove(number);
        self.release(&segment, dead)?;
        if !self.punches {
            for (key, place) in kept {
                self.log.index.remove_at(&key, &place);
            }
            self.unlink(number);
        }
        Ok(true)
    }

    fn next_segment(&mut self) -> Option<u32> {
        let (log, hunt) = (&self.log, self.hunt);
        self.clocks.next(|trial| {
            if hunt > log.segments.len() {
                return hunt.is_multiple_of(2);
            }
            let held = trial.iter().filter_map(|number| log.segments.get(*number));
            held.map(|segment| segment.taken()).sum::<u64>() > log.capacity() / TRIAL
        })
    }

    /// Gives back the space of chunks that were removed, moved, or no longer wanted once written.
    pub(super) fn make_holes(&mut self) -> io::Result<()> {
        let mut holes = self.log.take_holes();
        holes.sort_unstable_by_key(|(_, place)| (place.segment, place.offset));
        let mut failed = Ok(());
        for run in holes.chunk_by(|(_, a), (_, b)| a.segment == b.segment) {
            let number = run[0].1.segment;
            let Some(segment) = self.log.segments.get(number) else {
                continue;
            };
            if failed.is_ok() {
                failed = self.release(&segment, run.to_vec());
            }
        }
        failed
    }

    /// Gives back the space of chunks of one segment.
    fn release(
        &mut self,
        segment: &Arc<Segment>,
        mut dead: Vec<(ChunkKey, Place)>,
    ) -> io::Result<()> {
        if dead.is_empty() || !self.punches {
            return Ok(());
        }
        dead.sort_unstable_by_key(|(_, place)| place.offset);
        // A failed tombstone is like a missing one: see the head of this module.
        let _ = self.bury(segment, &dead);
        for (offset, len) in runs(&dead) {
            match segment.data.punch(offset, len) {
                Ok(()) => segment.shrink(len),
                Err(error) if is_unsupported(&error) => {
                    self.punches = false;
                    let path = self.log.dir.display();
                    info!(%path, "the file system takes back whole files only: eviction is by segment");
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.look_if_sparse(segment);
        Ok(())
    }

    /// Writes tombstones.
    fn bury(&self, segment: &Segment, dead: &[(ChunkKey, Place)]) -> io::Result<()> {
        let tombstone = |(key, place): &(ChunkKey, Place)| (*key, Place { len: 0, ..*place });
        self.note(segment, dead.iter().map(tombstone))
    }

    /// Writes down the new pins of chunks that were assigned to another pin, or to none, since their
    /// writing.
    pub(super) fn make_marks(&mut self) -> io::Result<()> {
        let mut marks = self.log.take_marks();
        marks.sort_by_key(|(_, place)| place.segment);
        for run in marks.chunk_by(|(_, a), (_, b)| a.segment == b.segment) {
            if let Some(segment) = self.log.segments.get(run[0].1.segment) {
                let stays =
                    |(key, place): &&(ChunkKey, Place)| self.log.index.find(key) == Some(*place);
                self.note(&segment, run.iter().filter(stays).copied())?;
            }
        }
        Ok(())
    }

    /// Appends entries of chunks to a segment's index file.
    fn note(
        &self,
        segment: &Segment,
        entries: impl Iterator<Item = (ChunkKey, Place)>,
    ) -> io::Result<()> {
        let bytes: Vec<u8> = entries
            .flat_map(|(key, place)| encode(&key, &place))
            .collect();
        if bytes.is_empty() {
            return Ok(());
        }
        let index = self.index_file(segment)?;
        index.write_at(&bytes, segment.index_len())?;
        segment.grow(bytes.len() / ENTRY, 0);
        let written = u64::try_from(bytes.len()).unwrap_or(0);
        self.log.metrics.written.inc_by(written);
        Ok(())
    }

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

    /// Reads the entries of a segment's index file, without those that tombstones cancel.
    fn entries(&self, segment: &Segment) -> io::Result<Vec<(ChunkKey, Place)>> {
        let index = self.index_file(segment)?;
        let len = usize::try_from(segment.index_len()).unwrap_or(usize::MAX);
        let bytes = index.read_at(0, len)?;
        if bytes.len() < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let entries = decode_all(&bytes, segment.number);
        if entries.len() * ENTRY < len {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(living(entries))
    }

    fn index_file(&self, segment: &Segment) -> io::Result<Arc<dyn LogFile>> {
        match &self.current {
            Some(current) if current.segment.number == segment.number => {
                Ok(Arc::clone(&current.index))
            }
            _ => {
                let path = self.log.segments.index_path(segment.number);
                self.log.files.open(&path, Access::Existing)
            }
        }
    }

    fn is_current(&self, number: u32) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| current.segment.number == number)
    }

    /// Deletes a segment that no entry of the index refers to. A read under way can finish.
    pub(super) fn unlink(&mut self, number: u32) {
        let segments = &self.log.segments;
        segments.remove(number);
        for path in [segments.data_path(number), segments.index_path(number)] {
            // The next start finds a file that cannot be deleted.
            let _ = self.log.files.unlink(&path);
        }
    }
}

/// Returns the last entry of each offset, without the tombstones.
pub(super) fn living(entries: Vec<(ChunkKey, Place)>) -> Vec<(ChunkKey, Place)> {
    let mut seen = HashSet::with_capacity(entries.len());
    let newest_first = entries.into_iter().rev();
    let living = newest_first.filter(|(_, place)| seen.insert(place.offset) && place.len > 0);
    let mut living: Vec<_> = living.collect();
    living.reverse();
    living
}

/// Returns the ranges that chunks take up, neighbours merged. The chunks must be in order.
fn runs(chunks: &[(ChunkKey, Place)]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (_, place) in chunks {
        match runs.last_mut() {
            Some((offset, len)) if *offset + *len == place.offset => *len += place.taken(),
            _ => runs.push((place.offset, place.taken())),
        }
    }
    runs
}
