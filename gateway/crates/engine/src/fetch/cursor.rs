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
use tidegate_plan::ByteRange;
use tidegate_plan::readahead::{Limits, ReadAhead};
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
    /// The number of readers now, and of all readers so far.
    pub(super) readers: usize,
    pub(super) requests: usize,
    /// The end of the farthest range that a reader asked for. Nothing is fetched beyond it before a second request has
    /// shown that more will follow.
    pub(super) asked: u64,
    /// The first chunks not provided for: from a disk, and from the origin.
    pub(super) on_disk: u32,
    pub(super) missing: u32,
    /// The leases on read-ahead that the readers have not passed.
    pub(super) ahead: Vec<Lease>,
    /// Whether a reader has waited since the last look, and the time of the last wait.
    pub(super) waited: bool,
    pub(super) last_wait: Option<Instant>,
    /// The time at which the last reader left, and whether a task takes care of the rest.
    pub(super) left: Instant,
    pub(super) kept: bool,
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
    /// if given.
    pub(crate) fn join(
        &self,
        range: ByteRange,
        at: u64,
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
        let cursor = Arc::new(Cursor::new(range, at, limits?));
        cursors.push(Arc::downgrade(&cursor));
        Some(cursor)
    }
}

impl Cursor {
    fn new(range: ByteRange, at: u64, limits: Limits) -> Self {
        let mut plan = ReadAhead::new(limits, range.start, Duration::ZERO);
        if at > range.start {
            plan.record_read(
                ByteRange {
                    start: range.start,
                    end: at,
                },
                Duration::ZERO,
            );
        }
        let state = CursorState {
            plan,
            readers: 1,
            requests: 1,
            asked: range.end,
            on_disk: 0,
            missing: 0,
            ahead: Vec::new(),
            waited: true,
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

    /// Returns whether a reader at `at` still belongs to this cursor.
    pub(crate) fn continues(&self, at: u64) -> bool {
        self.state().plan.continues(at)
    }

    /// Records that a reader took `range`, and whether it had to wait for some of it.
    pub(crate) fn record_read(&self, range: ByteRange, waited: bool) {
        let now = self.epoch.elapsed();
        let mut state = self.state();
        state.waited |= waited;
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

    /// Returns the bytes to fetch ahead of the readers. One that asked for them, or reads on steadily, and takes its bytes
    /// at once, need not prove byte by byte that it goes on, while there is memory to spare: `free` bytes.
    pub(super) fn window(&self, origin: &OriginRate, free: u64) -> u64 {
        let reads_on = self.requests == 1 || self.plan.is_steady();
        if !reads_on || !(self.waited || self.takes_at_once()) {
            return self.plan.window(0);
        }
        let grant = self.plan.grant(origin.patient_first_byte(), origin.rate());
        self.plan.window(grant.min(free / GRANT_SHARE))
    }

    /// Returns the number of streams that the reader needs.
    pub(super) fn streams(&mut self, rate: &OriginRate) -> u32 {
        let waited = std::mem::take(&mut self.waited);
        if waited {
            self.last_wait = Some(Instant::now());
        }
        self.plan.streams(rate.rate(), waited)
    }

    /// Returns whether the reader counts as taking bytes at once.
    pub(super) fn takes_at_once(&self) -> bool {
        self.last_wait
            .is_some_and(|last| last.elapsed() < EAGER_PERIOD)
    }

    /// Returns the number of streams that still carry a body from the origin.
    pub(super) fn busy(&self) -> u32 {
        let is_busy = |part: &Part| part.source == FetchSource::Origin && part.is_busy();
        let busy = self.ahead.iter().filter(|lease| is_busy(lease.part()));
        u32::try_from(busy.count()).unwrap_or(u32::MAX)
    }
}
