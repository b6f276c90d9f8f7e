//! A cursor: the position in one version from which readers go on.
//!
//! A cursor belongs to the version and not to the connection, because players and proxies send a new request for each
//! step: a reader that begins near a cursor takes it over with its window. When the last reader leaves, the cursor
//! stays for [`GRACE_PERIOD`]; fetches under way may land, and no new ones start. [`ReadAhead`] makes the decisions;
//! `read_ahead` carries them out.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::origin_rate::OriginRate;
use super::part::{FetchSource, Lease, Part};
use crate::budget::Budget;
use tidegate_plan::ByteRange;
use tidegate_plan::readahead::{LONG_PART, Limits, MAX_HEADER, ReadAhead};
use tidegate_telemetry::locks::Recover as _;

/// The time that a cursor outlives its last reader: the pause of players between two requests.
const GRACE_PERIOD: Duration = Duration::from_secs(10);

/// The part of that time for which read-ahead is held for the next reader. The memory tier may lack it: a
/// scan-resistant tier rightly evicts first the chunks that no reader has used. The hold is short, because others want
/// its share of the budget: as long as a client pauses between requests.
const HOLD_PERIOD: Duration = Duration::from_secs(2);

/// The time for which a reader that had to wait counts as taking bytes at once.
const EAGER_PERIOD: Duration = Duration::from_secs(1);

/// The share of the free budget that a grant may be: many cold readers must not take it all for what they may not read.
const GRANT_SHARE: u64 = 8;

/// The share of the whole budget that stays free of what is fetched beyond windows: the windows themselves need it.
const WINDOWS_SHARE: u64 = 2;

/// The maximum number of cursors of one version; further readers get no read-ahead.
const MAX_CURSORS: usize = 16;

/// A position in a version. See the module's head.
#[derive(Debug)]
pub(crate) struct Cursor {
    state: Mutex<CursorState>,
    epoch: Instant,
}

#[derive(Debug)]
pub(super) struct CursorState {
    pub(super) plan: ReadAhead,
    /// Whether the beginning of the sequence was cached when it was read: most likely, a scan was here before, and this is
    /// none.
    is_return: bool,
    /// The number of readers now, and of all readers so far.
    pub(super) readers: usize,
    pub(super) requests: usize,
    /// The end of the farthest range that a reader asked for. Nothing is fetched beyond it before a second request has
    /// shown that more will follow.
    pub(super) asked: u64,
    /// The first chunks not provided for: from a disk, and from the origin.
    pub(super) on_disk: u32,
    pub(super) missing: u32,
    pub(super) holes: Holes,
    /// The leases on read-ahead that the readers have not passed.
    pub(super) ahead: Vec<Lease>,
    /// The time of the last wait since the last look, and of the last one before. A new cursor counts as one that waited.
    pub(super) waited: Option<Instant>,
    pub(super) last_wait: Option<Instant>,
    /// The time at which the last reader left, and whether a task takes care of the rest.
    pub(super) left: Instant,
    pub(super) kept: bool,
}

/// The chunks that were fetched ahead and are gone before their reader comes. They are fetched ahead once more, unless such
/// chunks were gone again: memory does not hold as much, and each reader fetches what it needs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Holes {
    /// The end of the chunks that are fetched once more.
    until: u32,
    /// Whether they were gone again.
    is_tight: bool,
}

impl Holes {
    /// Returns the first chunk not provided for, after a hole at `index`; `missing` is the one before.
    fn go_back(&mut self, index: u32, missing: u32) -> u32 {
        let was_ahead = index < missing;
        self.is_tight |= was_ahead && index < self.until;
        match was_ahead && !self.is_tight {
            true => {
                self.until = missing;
                index
            }
            false => missing,
        }
    }
}

/// The read-ahead of a cursor, for display.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CursorProgress {
    /// The bytes that may be fetched ahead.
    pub(crate) window: u64,
    /// The bytes that are fetched or under way.
    pub(crate) bytes: u64,
    /// Requests to the origin that carry a body.
    pub(crate) in_flight: u32,
}

/// The cursors of one version.
#[derive(Debug, Default)]
pub(crate) struct Cursors(Mutex<Vec<Weak<Cursor>>>);

impl Cursors {
    /// Returns the cursor that a reader of `range`, now at byte `at`, takes over; otherwise a new one within `limits`,
    /// if given, whose sequence began at `from`.
    pub(crate) fn join(
        &self,
        range: ByteRange,
        (from, at): (u64, u64),
        limits: Option<Limits>,
    ) -> Option<Arc<Cursor>> {
        let mut cursors = self.0.lock().recover();
        cursors.retain(|cursor| cursor.strong_count() > 0);
        let near = cursors
            .iter()
            .filter_map(Weak::upgrade)
            .find(|cursor| cursor.join(range, at));
        if near.is_some() || cursors.len() >= MAX_CURSORS {
            return near;
        }
        let cursor = Arc::new(Cursor::new(range, (from, at), limits?));
        cursors.push(Arc::downgrade(&cursor));
        Some(cursor)
    }
}

impl Cursor {
    fn new(range: ByteRange, (from, at): (u64, u64), limits: Limits) -> Self {
        let is_return = from < range.start;
        // The reads before this one may lie long back.
        let from = from.max(range.start.saturating_sub(MAX_HEADER));
        let state = CursorState {
            plan: ReadAhead::resume(limits, from, at, Duration::ZERO),
            readers: 1,
            // Those that memory served count as one.
            requests: if is_return { 2 } else { 1 },
            is_return,
            asked: range.end,
            on_disk: 0,
            missing: 0,
            holes: Holes::default(),
            ahead: Vec::new(),
            waited: Some(Instant::now()),
            last_wait: None,
            left: Instant::now(),
            kept: false,
        };
        Self {
            state: Mutex::new(state),
            epoch: Instant::now(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, CursorState> {
        self.state.lock().recover()
    }

    fn join(&self, range: ByteRange, at: u64) -> bool {
        let mut state = self.state();
        let near = state.plan.continues(at);
        if near {
            state.readers += 1;
            state.requests += 1;
            state.asked = state.asked.max(range.end);
        }
        near
    }

    /// Records that the reader at `at` has come back to what a scan left, and has gone on there from `from`.
    pub(crate) fn set_return(&self, from: u64, at: u64) {
        let mut state = self.state();
        if state.readers == 1 {
            let limits = state.plan.limits();
            state.plan = ReadAhead::resume(limits, from, at, self.epoch.elapsed());
            state.is_return = true;
        }
    }

    /// Records that a reader has come to a chunk that no tier has and no fetch brings. If it was fetched ahead, read-ahead
    /// goes back there: the fetch has failed, or memory has dropped its chunks.
    pub(crate) fn note_hole(&self, index: u32) {
        let CursorState { missing, holes, .. } = &mut *self.state();
        *missing = holes.go_back(index, *missing);
    }

    /// Returns whether a reader at `at` still belongs to this cursor.
    pub(crate) fn continues(&self, at: u64) -> bool {
        self.state().plan.continues(at)
    }

    /// Records that a reader took `range`, and when it last had to wait for some of it.
    pub(crate) fn record_read(&self, range: ByteRange, waited: Option<Instant>) {
        let now = self.epoch.elapsed();
        let mut state = self.state();
        state.waited = state.waited.max(waited);
        if !range.is_empty() {
            state.plan.record_read(range, now);
        }
    }

    /// Returns the read-ahead beyond a position in chunks of this size, for display; nothing while its state is in use.
    pub(crate) fn progress(&self, position: u64, chunk: u64) -> CursorProgress {
        let Ok(state) = self.state.try_lock() else {
            return CursorProgress::default();
        };
        let beyond = state.ahead.iter().map(|lease| {
            let chunks = &lease.part().chunks;
            let (start, end) = (u64::from(chunks.start), u64::from(chunks.end));
            (end * chunk).saturating_sub((start * chunk).max(position))
        });
        CursorProgress {
            window: state.plan.window(0),
            bytes: beyond.sum(),
            in_flight: state.busy(),
        }
    }

    /// Returns where the chunk of this index was fetched from, if it was fetched ahead for the readers that are in it.
    pub(crate) fn source_ahead(&self, index: u32) -> Option<FetchSource> {
        let state = self.state();
        let mut parts = state.ahead.iter().map(Lease::part);
        let part = parts.find(|part| part.chunks.contains(&index));
        part.map(|part| part.source)
    }

    /// Removes a reader. Returns whether a task already looks after the cursor; otherwise the caller must start one.
    pub(super) fn remove_reader(&self) -> bool {
        let mut state = self.state();
        state.readers -= 1;
        state.left = Instant::now();
        std::mem::replace(&mut state.kept, true)
    }

    /// Returns when no reader has been here for [`GRACE_PERIOD`].
    pub(super) async fn outlive_readers(&self) {
        loop {
            let wait = {
                let mut state = self.state();
                let idle = match state.readers {
                    0 => state.left.elapsed(),
                    _ => Duration::ZERO,
                };
                if idle >= GRACE_PERIOD {
                    state.kept = false;
                    return;
                }
                state.release_landed();
                let next = if idle < HOLD_PERIOD {
                    HOLD_PERIOD
                } else {
                    GRACE_PERIOD
                };
                next - idle
            };
            sleep(wait).await;
        }
    }
}

/// Returns whether a wait tells how the reader takes its bytes now.
fn is_recent(wait: &Instant) -> bool {
    wait.elapsed() < EAGER_PERIOD
}

/// Returns the bytes of the budget that windows do not need.
pub(super) fn spare(budget: &Budget) -> u64 {
    budget.free().saturating_sub(budget.total() / WINDOWS_SHARE)
}

impl CursorState {
    /// Once no reader has come back in time, leaves landed chunks to the store; chunks under way are held until they
    /// land.
    pub(super) fn release_landed(&mut self) {
        if self.readers == 0 && self.left.elapsed() >= HOLD_PERIOD {
            self.ahead.retain(|lease| !lease.part().has_landed());
        }
    }

    /// Returns whether it has a lease on the same part, of another reader's disk read: both walks take one.
    pub(super) fn holds(&self, lease: &Lease) -> bool {
        let part = lease.part();
        let is_same = |held: &Lease| std::ptr::eq(held.part(), part);
        part.source == FetchSource::Disk && self.ahead.iter().any(is_same)
    }

    pub(super) fn frontier(&mut self, source: FetchSource) -> &mut u32 {
        match source {
            FetchSource::Disk => &mut self.on_disk,
            FetchSource::Origin => &mut self.missing,
        }
    }

    /// Returns the bytes that the readers need not have proved byte by byte, with `rest` bytes left to read. A reader has
    /// them that asked for them, or reads on steadily, and takes its bytes at once. One that reads no header has a small
    /// rest. They are few while there is little memory to spare: `free` bytes.
    pub(super) fn grant(&self, origin: &OriginRate, rest: u64, free: u64) -> u64 {
        let reads_on = self.requests == 1 || self.plan.is_steady();
        let has_grant = reads_on && self.takes_at_once();
        let grant = match has_grant {
            true => self.plan.grant(origin.patient_first_byte(), origin.rate()),
            false => 0,
        };
        let has_rest = has_grant || self.is_return || self.plan.is_past_header();
        let small = ReadAhead::small_rest(self.plan.limits().streams, origin.rate());
        let rest = if has_rest && rest <= small { rest } else { 0 };
        grant.max(rest).min(free / GRANT_SHARE)
    }

    /// Returns the bytes beyond the readers' position as far as a part may go: beyond the window if one connection keeps
    /// them fed. Few such bytes are fetched while memory is scarce: windows come first.
    pub(super) fn reach(&self, grant: u64, origin: &OriginRate, budget: &Budget) -> u64 {
        let window = self.plan.window(grant);
        if self.takes_at_once() || !self.plan.is_fed_by_one(origin.rate()) {
            return window;
        }
        let beyond = LONG_PART.min(spare(budget) / GRANT_SHARE);
        self.plan.reach(grant).min(window + beyond)
    }

    /// Returns the number of streams that the reader needs.
    pub(super) fn streams(&mut self, rate: &OriginRate) -> u32 {
        let waited = self.waited.take().filter(is_recent);
        self.last_wait = self.last_wait.max(waited);
        self.plan.streams(rate.rate(), waited.is_some())
    }

    /// Returns whether the reader counts as taking bytes at once.
    pub(super) fn takes_at_once(&self) -> bool {
        self.last_wait
            .max(self.waited)
            .as_ref()
            .is_some_and(is_recent)
    }

    /// Returns the number of streams that still carry a body from the origin.
    pub(super) fn busy(&self) -> u32 {
        let is_busy = |part: &Part| part.source == FetchSource::Origin && part.is_busy();
        let busy = self.ahead.iter().filter(|lease| is_busy(lease.part()));
        u32::try_from(busy.count()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However holes come: each chunk is fetched ahead at most twice before readers fetch it themselves.
    #[test]
    fn a_chunk_is_fetched_ahead_twice_at_most() {
        // A reader goes on chunk by chunk. Those whose bit is set are gone when it comes, each time. Windows are of four.
        for gone in 0_u32..1 << 16 {
            let (mut holes, mut missing) = (Holes::default(), 0);
            let mut fetched = [0; 20];
            for index in 0..16 {
                if gone >> index & 1 == 1 {
                    missing = holes.go_back(index, missing);
                }
                while missing < index + 4 {
                    fetched[missing as usize] += 1;
                    missing += 1;
                }
            }
            let most = fetched.iter().max().expect("some");
            assert!(*most <= 2, "{gone:b}: {fetched:?}");
        }
    }

    #[test]
    fn chunks_that_were_gone_twice_are_left_to_readers() {
        let mut holes = Holes::default();
        assert_eq!(holes.go_back(3, 2), 2, "it was not fetched ahead");
        assert_eq!(holes.go_back(4, 8), 4);
        assert_eq!(holes.go_back(8, 12), 8, "behind those fetched once more");
        assert_eq!(holes.go_back(10, 14), 14, "it was");
        assert_eq!(holes.go_back(20, 24), 24, "memory is tight");
    }
}
