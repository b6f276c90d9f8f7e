//! Chunks of an object that is sent in parts, until its completion is answered.
//!
//! They are cut while a part is sent. The memory tier holds them under an address that no reader
//! can name. It may evict them at any time, so they take no memory that a reader needs more. A part
//! that is sent again replaces its earlier chunks. In the end only the parts of the completion
//! count.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use super::cutter::Cutter;
use super::{Filing, FilingCause, is_kept};
use crate::Core;
use crate::budget::Charge;
use tidegate_cache::{Admit, ChunkKey};
use tidegate_origin::{CompletedPart, RunningSum, Sums};
use tidegate_plan::{ByteRange, ETag, Geometry, Profile, VersionId};
use tidegate_telemetry::locks::Recover as _;

/// The divisor of the budget for chunks of one upload: one half at most. The first chunks are kept,
/// because they are read first, and the rest need not be copied.
const BUDGET_DIVISOR: u64 = 2;

/// See the module documentation.
pub struct PartChunks {
    core: Arc<Core>,
    address: VersionId,
    state: Mutex<PartsState>,
}

impl fmt::Debug for PartChunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartChunks").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct PartsState {
    parts: BTreeMap<u32, HeldPart>,
    /// Bytes of the parts that are held or being sent.
    bytes: u64,
}

/// The chunks of a part, and the tag of the answer to it.
struct HeldPart {
    etag: ETag,
    chunks: Range<u32>,
    bytes: u64,
}

impl PartChunks {
    /// Creates the chunks of one object that is being written.
    pub fn new(core: &Arc<Core>) -> Self {
        let random = || u128::from(RandomState::new().hash_one(()));
        Self {
            core: core.clone(),
            address: VersionId(random() << 64 | random()),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, PartsState> {
        self.state.lock().recover()
    }

    /// Prepares to send a part, in place of an earlier one of its number. `None`: its chunks are
    /// not kept.
    pub fn begin(
        self: &Arc<Self>,
        profile: &Profile,
        number: u32,
        range: ByteRange,
    ) -> Option<Arc<PartCopy>> {
        self.forget(number);
        if profile.bulk || !is_kept(profile) {
            return None;
        }
        let length = range.len();
        {
            let mut state = self.lock();
            if state.bytes + length > self.core.budget.total() / BUDGET_DIVISOR {
                return None;
            }
            state.bytes += length;
        }
        let reserved = PartReservation(self.clone(), length);
        let charge = self.core.budget.ahead(length)?;
        Some(Arc::new(PartCopy {
            number,
            range,
            sent: Mutex::new(SendAttempt::default()),
            room: Mutex::new(Some((reserved, charge))),
        }))
    }

    /// Keeps the chunks of a part that the store answered with `etag`. `sums` are the checksums
    /// that the store has compared, if the passed bytes could differ from those.
    pub fn keep(&self, copy: &PartCopy, sums: Option<Sums>, etag: ETag) {
        let (chunks, room) = (copy.sent().finish(sums), copy.take_room());
        let (Some(chunks), Some(room)) = (chunks, room) else {
            return;
        };
        let mut held = HeldPart {
            etag,
            chunks: 0..0,
            bytes: 0,
        };
        for (index, bytes) in chunks {
            let version = self.address;
            if held.chunks.is_empty() {
                held.chunks = index..index;
            }
            held.chunks.end = index + 1;
            held.bytes += bytes.len() as u64;
            let key = ChunkKey { version, index };
            self.core.chunks.insert(key, bytes, Admit::Memory);
        }
        let mut state = self.lock();
        state.bytes += held.bytes;
        state.parts.insert(copy.number, held);
        drop(state);
        drop(room);
    }

    /// Drops the chunks of a part.
    pub fn forget(&self, number: u32) {
        let held = self.lock().take(number);
        held.into_iter().for_each(|held| self.remove(&held));
    }

    /// Drops the chunks of all parts.
    pub fn clear(&self) {
        let numbers: Vec<_> = self.lock().parts.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.forget(number));
    }

    fn remove(&self, held: &HeldPart) {
        for index in held.chunks.clone() {
            let version = self.address;
            self.core.chunks.remove(&ChunkKey { version, index });
        }
    }

    /// Files the chunks of the parts that a version was completed from.
    pub fn file(&self, filing: &Filing, completed: &[CompletedPart]) {
        for part in completed {
            let held = self.lock().take(part.number);
            let Some(held) = held else { continue };
            for index in held.chunks.clone().filter(|_| held.etag == part.etag) {
                let version = self.address;
                if let Some(bytes) = self.core.chunks.copy_memory(&ChunkKey { version, index }) {
                    filing.put(index, bytes, FilingCause::Part);
                }
            }
            self.remove(&held);
        }
    }
}

impl PartsState {
    fn take(&mut self, number: u32) -> Option<HeldPart> {
        let held = self.parts.remove(&number)?;
        self.bytes -= held.bytes;
        Some(held)
    }
}

impl Drop for PartChunks {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The reserved size of a part among the held ones, released on drop.
struct PartReservation(Arc<PartChunks>, u64);

impl Drop for PartReservation {
    fn drop(&mut self) {
        self.0.lock().bytes -= self.1;
    }
}

/// A part whose bytes are copied while they are sent.
pub struct PartCopy {
    number: u32,
    range: ByteRange,
    sent: Mutex<SendAttempt>,
    room: Mutex<Option<(PartReservation, Charge)>>,
}

impl fmt::Debug for PartCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartCopy").finish_non_exhaustive()
    }
}

/// One try to send a part.
#[derive(Default)]
struct SendAttempt {
    number: u64,
    passed: Option<(Cutter, RunningSum)>,
}

impl SendAttempt {
    /// Begins the next try, and drops the bytes of the last one.
    fn start(&mut self, geometry: Geometry, range: ByteRange) -> u64 {
        self.number += 1;
        self.passed = Some((Cutter::new(geometry, range), RunningSum::default()));
        self.number
    }

    fn pass(&mut self, number: u64, piece: &Bytes) {
        if self.number == number
            && let Some((cutter, sum)) = &mut self.passed
        {
            sum.update(piece);
            cutter.push(piece, false);
        }
    }

    /// Returns the chunks, if all bytes passed and their checksum matches `sums`.
    fn finish(&mut self, sums: Option<Sums>) -> Option<Vec<(u32, Bytes)>> {
        let (cutter, sum) = self.passed.take()?;
        if sums.is_some_and(|sums| sum.crc32c() != sums.crc32c) {
            return None;
        }
        cutter.finish()
    }
}

impl PartCopy {
    fn sent(&self) -> MutexGuard<'_, SendAttempt> {
        self.sent.lock().recover()
    }

    /// Begins a try from the part's first byte. Returns the number of the try.
    pub fn start(&self, core: &Core) -> u64 {
        self.sent().start(core.geometry, self.range)
    }

    /// Takes the next bytes of a try.
    pub fn pass(&self, number: u64, piece: &Bytes) {
        self.sent().pass(number, piece);
    }

    /// Takes all bytes of the part at once, each piece in memory of its own.
    pub fn pass_all(&self, core: &Core, pieces: &[Bytes]) {
        let mut sent = self.sent();
        sent.start(core.geometry, self.range);
        if let Some((cutter, _)) = &mut sent.passed {
            pieces.iter().for_each(|piece| cutter.push(piece, true));
        }
    }

    /// Takes its reservations, once.
    fn take_room(&self) -> Option<(PartReservation, Charge)> {
        let room = self.room.lock();
        room.recover().take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that returns other bytes than the summed ones, and a try that an earlier one
    /// disturbs.
    #[test]
    fn only_what_was_compared_is_kept_and_only_of_the_last_try() {
        let geometry = Geometry::default();
        let range = ByteRange::new(0, 8);
        let sums = Some(Sums::of(b"12345678"));
        let mut sent = SendAttempt::default();
        let mut tries = |pieces: &[(u64, &'static str)]| {
            let first = sent.start(geometry, range);
            sent.pass(first, &"1234".into());
            let second = sent.start(geometry, range);
            for (late, piece) in pieces {
                sent.pass(second - late, &Bytes::from_static(piece.as_bytes()));
            }
            let kept = sent.finish(sums);
            kept.map(|chunks| {
                chunks
                    .into_iter()
                    .map(|(_, bytes)| bytes)
                    .collect::<Vec<_>>()
            })
        };
        let whole = Some(vec![Bytes::from_static(b"12345678")]);
        assert_eq!(tries(&[(0, "1234"), (0, "5678")]), whole);
        assert_eq!(tries(&[(0, "1234"), (1, "5678"), (0, "5678")]), whole);
        assert_eq!(tries(&[(0, "1234"), (0, "5679")]), None);
        assert_eq!(tries(&[(0, "1234")]), None);
        assert_eq!(tries(&[(0, "1234"), (0, "56789")]), None);
    }
}
