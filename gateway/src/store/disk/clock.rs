//! Eviction: a clock over the segments, and the space that comes free given back in place.
//!
//! The hand is at the segment that was begun, or passed, longest ago. What was read since the hand
//! was here last stays, and is marked unread; all else leaves the index, and its space is given back
//! to the file system, neighbours in one call. The segment then goes to the end with what is left.
//! Where segments are twice as many as the capacity would fill, those with less than an eighth of
//! their size left are written anew into the current one, and their files deleted: so there are never
//! more than eight for each that the capacity would fill.
//!
//! A tombstone goes into the index file before space is given back, so that no restart resurrects
//! the chunk. One that is torn does no harm: what reads as zeros fails its checksum.

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
use crate::store::ChunkKey;

/// A segment with less than this share of its size left is done away with, where there are too many.
const SPARSE: u64 = 8;

/// For each segment that the capacity would fill, so many are not too many.
const ENOUGH: u64 = 2;

impl Writer {
    /// Evicts until `need` more bytes fit the capacity. `false`: nothing is left to evict.
    pub(super) fn make_room(&mut self, need: u64) -> io::Result<bool> {
        // Twice around: what was read is passed over once.
        let mut patience = 2 * self.log.segments.len() + 4;
        while self.log.segments.taken() + need > self.log.capacity() {
            if patience == 0 || !self.evict_one()? {
                return Ok(false);
            }
            patience -= 1;
        }
        Ok(true)
    }

    /// Moves the hand on by one segment. `false`: there is none.
    pub(super) fn evict_one(&mut self) -> io::Result<bool> {
        if self.clock.is_empty() {
            self.seal()?;
        }
        let Some(number) = self.clock.pop_front() else {
            return Ok(false);
        };
        let Some(segment) = self.log.segments.get(number) else {
            return Ok(true);
        };
        let Ok(entries) = self.entries(&segment) else {
            // Its index file is gone or unreadable: nobody knows what is in it.
            self.log.index.drop_segment(number);
            self.unlink(number);
            return Ok(true);
        };
        let (mut kept, mut dead) = (Vec::new(), Vec::new());
        for (key, place) in entries {
            match self.log.index.judge(&key, &place) {
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
        // Under the clock whatever comes of it; one that is deleted is skipped.
        self.clock.push_back(number);
        self.release(&segment, dead)?;
        if !self.punches {
            for (key, place) in kept {
                self.log.index.remove_at(&key, &place);
            }
            self.unlink(number);
        }
        Ok(true)
    }

    /// Gives back the space of what was removed, moved, or not wanted any more once written.
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

    /// Gives the space of chunks of one segment back.
    fn release(
        &mut self,
        segment: &Arc<Segment>,
        mut dead: Vec<(ChunkKey, Place)>,
    ) -> io::Result<()> {
        if dead.is_empty() || !self.punches {
            return Ok(());
        }
        dead.sort_unstable_by_key(|(_, place)| place.offset);
        // One that cannot be written is one that is missing: see the head of this module.
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
        let tombstone = |(key, place): &(ChunkKey, Place)| encode(key, &Place { len: 0, ..*place });
        let bytes: Vec<u8> = dead.iter().flat_map(tombstone).collect();
        let index = self.index_file(segment)?;
        index.write_at(&bytes, segment.index_len())?;
        segment.grow(dead.len(), 0);
        let written = u64::try_from(bytes.len()).unwrap_or(0);
        self.log.metrics.written.inc_by(written);
        Ok(())
    }

    /// Does away with a segment that is empty, or soon.
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

    /// Chunks of nearly empty segments, up to `most` bytes of them, to be written anew.
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
            if self.log.index.find(&key) != Some(place) {
                continue;
            }
            match self.log.read(&key, &place) {
                Ok(bytes) => {
                    size += place.taken();
                    let from = From::Place(place);
                    chunks.push(Chunk { key, bytes, from });
                }
                Err(Fault::Error) => {}
                Err(_) => self.log.forget(&key, &place),
            }
        }
        chunks
    }

    /// Lists what is in the next nearly empty segment. `false`: there is none.
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

    /// What a segment's index file says is in it, tombstones considered.
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

    /// Deletes a segment that nothing in the index is in. What reads it still, reads to the end.
    pub(super) fn unlink(&mut self, number: u32) {
        let segments = &self.log.segments;
        segments.remove(number);
        for path in [segments.data_path(number), segments.index_path(number)] {
            // What cannot be deleted is found at the next start.
            let _ = self.log.files.unlink(&path);
        }
    }
}

/// Entries without those that a tombstone follows, and without the tombstones.
pub(super) fn living(entries: Vec<(ChunkKey, Place)>) -> Vec<(ChunkKey, Place)> {
    let dead = |(_, place): &&(ChunkKey, Place)| place.len == 0;
    let mut offsets: Vec<u64> = entries.iter().filter(dead).map(|(_, p)| p.offset).collect();
    if offsets.is_empty() {
        return entries;
    }
    offsets.sort_unstable();
    let lives = |place: &Place| place.len > 0 && offsets.binary_search(&place.offset).is_err();
    entries
        .into_iter()
        .filter(|(_, place)| lives(place))
        .collect()
}

/// The ranges that chunks take up, neighbours in one; they come in order.
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
