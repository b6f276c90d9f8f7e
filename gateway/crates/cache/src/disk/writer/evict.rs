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

use std::io;
use std::sync::Arc;

use tracing::{info, warn};

use super::super::entry::DiskLocation;
use super::super::files::{is_shortage, is_unsupported};
use super::super::index::Visit;
use super::super::segment::Segment;
use super::Writer;
use crate::ChunkKey;

/// The share (1/n) of the capacity that may be on trial before room is made there first.
const TRIAL_SHARE: u64 = 8;

impl Writer {
    /// Evicts until `need` more bytes fit the capacity. `false`: nothing is left to evict.
    pub(super) fn make_room(&mut self, need: u64) -> io::Result<bool> {
        let mut found = true;
        while found && self.log.segments.taken() + need > self.log.capacity() {
            found = !self.is_exhausted() && self.evict_one()?;
        }
        self.hand_steps = 0;
        Ok(found)
    }

    /// Evicts until some space was given back.
    pub(super) fn evict_some(&mut self) -> io::Result<()> {
        let before = self.log.segments.taken();
        self.hand_steps = 0;
        while self.log.segments.taken() >= before && !self.is_exhausted() && self.evict_one()? {}
        self.hand_steps = 0;
        Ok(())
    }

    /// Returns whether pins still hold. After two rounds, all chunks that were not read or pinned are
    /// gone, because a read chunk is passed over only once.
    fn pins_hold(&self) -> bool {
        self.hand_steps <= self.two_rounds()
    }

    /// Returns whether nothing is left to evict: two more rounds take every chunk.
    fn is_exhausted(&self) -> bool {
        self.hand_steps > 2 * self.two_rounds()
    }

    /// Steps after which both hands have passed everything twice, whichever goes first: a long search
    /// takes them in turn.
    fn two_rounds(&self) -> usize {
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
        let entries = match self.read_live_entries(&segment) {
            Ok(entries) => entries,
            Err(error) if is_shortage(&error) => {
                self.clocks.push_oldest_trial(number);
                return Err(error);
            }
            Err(error) => {
                let path = self.log.segments.index_path(number);
                warn!(path = %path.display(), %error, "cannot read the index file of a segment; its chunks are known until the next start");
                self.log.index.chunks_of(number)
            }
        };
        let (mut kept, mut dead) = (Vec::new(), Vec::new());
        self.hand_steps += 1;
        let pins_hold = self.pins_hold();
        for (key, location) in entries {
            match self.log.index.visit(&key, &location, pins_hold) {
                Visit::Moved => {}
                Visit::Kept => kept.push((key, location)),
                Visit::Evicted => dead.push((key, location)),
            }
        }
        let metrics = &self.log.metrics;
        let evicted = u64::try_from(dead.len()).unwrap_or(0);
        metrics.evictions.inc_by(evicted);
        metrics
            .tier
            .eviction_age
            .observe_many(segment.age(), evicted);
        if kept.is_empty() {
            self.unlink(number);
            return Ok(true);
        }
        // It goes back under the clock in any case; the hand skips a deleted segment.
        self.clocks.push_proven(number);
        self.release(&segment, dead)?;
        if !self.punches {
            for (key, location) in kept {
                self.log.index.remove_at(&key, &location);
            }
            self.unlink(number);
        }
        Ok(true)
    }

    fn next_segment(&mut self) -> Option<u32> {
        let (log, hand_steps) = (&self.log, self.hand_steps);
        self.clocks.next(|trial| {
            if hand_steps > log.segments.len() {
                return hand_steps.is_multiple_of(2);
            }
            let held = trial.iter().filter_map(|number| log.segments.get(*number));
            held.map(|segment| segment.taken()).sum::<u64>() > log.capacity() / TRIAL_SHARE
        })
    }

    /// Gives back the space of chunks that were removed, moved, or no longer wanted once written. After a failure the
    /// holes of other segments wait for the next attempt.
    pub(super) fn punch_holes(&mut self) -> io::Result<()> {
        let mut holes = self.log.take_holes();
        holes.sort_unstable_by_key(|(_, location)| (location.segment, location.offset));
        let mut rest = &holes[..];
        while let Some((_, first)) = rest.first() {
            let same = |(_, location): &(ChunkKey, DiskLocation)| location.segment == first.segment;
            let (run, others) = rest.split_at(rest.partition_point(same));
            rest = others;
            let Some(segment) = self.log.segments.get(first.segment) else {
                continue;
            };
            if let Err(error) = self.release(&segment, run.to_vec()) {
                self.log.put_back_holes(rest);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Gives back the space of chunks of one segment. Space that cannot be given back counts until the segment goes.
    fn release(
        &mut self,
        segment: &Arc<Segment>,
        mut dead: Vec<(ChunkKey, DiskLocation)>,
    ) -> io::Result<()> {
        if dead.is_empty() || !self.punches {
            return Ok(());
        }
        dead.sort_unstable_by_key(|(_, location)| location.offset);
        // A failed tombstone is like a missing one: see the head of this module.
        let _ = self.write_tombstones(segment, &dead);
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
        self.check_sparse(segment);
        Ok(())
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

/// Returns the ranges that chunks take up, neighbours merged. The chunks must be in order.
fn runs(chunks: &[(ChunkKey, DiskLocation)]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (_, location) in chunks {
        match runs.last_mut() {
            Some((offset, len)) if *offset + *len == location.offset => *len += location.taken(),
            _ => runs.push((location.offset, location.taken())),
        }
    }
    runs
}
