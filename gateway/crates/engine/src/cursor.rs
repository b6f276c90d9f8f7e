//! A cursor: the position in one version from which readers go on, and the read-ahead after it.
//!
//! A cursor belongs to the version and not to the connection, because players and proxies send a new request for each
//! step: a reader that begins near a cursor takes it over with its window. When the last reader leaves, the cursor
//! stays for [`GRACE`]; fetches under way may land, and no new ones start. [`ReadAhead`] makes the decisions; this
//! module carries them out within the budget.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::board::{Ahead, Wish};
use super::fill::{Fill, Terms};
use super::flight::{Bringer, Lease, Part};
use tidegate_plan::ByteRange;
use tidegate_plan::readahead::{Limits, MAX_STEP_BACK, ReadAhead};
use tidegate_plan::tiering;

/// The time that a cursor outlives its last reader: the pause of players between two requests.
const GRACE: Duration = Duration::from_secs(10);

/// The part of that time for which read-ahead is held for the next reader. The memory tier may lack it: a
/// scan-resistant tier rightly evicts first the chunks that no reader has used. The hold is short, because others want
/// its share of the budget: as long as a client pauses between requests.
const HELD: Duration = Duration::from_secs(2);

/// The time for which a reader that had to wait counts as taking bytes at once.
const EAGER: Duration = Duration::from_secs(1);

/// The maximum number of cursors of one version; further readers get no read-ahead.
const MOST: usize = 16;

/// The size up to which objects come whole with the first request or two.
pub(super) const THRESHOLD: u64 = super::resolve::FIRST;

/// A position in a version. See the module's head.
#[derive(Debug)]
pub(super) struct Cursor {
    state: Mutex<State>,
    epoch: Instant,
}

#[derive(Debug)]
struct State {
    plan: ReadAhead,
    /// The number of readers now, and of all readers so far.
    readers: usize,
    requests: usize,
    /// The end of the farthest range that a reader asked for. Nothing is fetched beyond it before a second request has
    /// shown that more will follow.
    asked: u64,
    /// The first chunks not provided for: from a disk, and from the origin.
    on_disk: u32,
    missing: u32,
    /// The leases on read-ahead that the readers have not passed.
    ahead: Vec<Lease>,
    /// Whether a reader has waited since the last look, and the time of the last wait.
    waited: bool,
    last_wait: Option<Instant>,
    /// The time at which the last reader left, and whether a task takes care of the rest.
    left: Instant,
    kept: bool,
}

/// The cursors of one version.
#[derive(Debug, Default)]
pub(super) struct Cursors(Mutex<Vec<Weak<Cursor>>>);

impl Cursors {
    /// Returns the cursor that a reader of `range`, now at byte `at`, takes over; otherwise a new one within `limits`,
    /// if given.
    pub(super) fn at(
        &self,
        range: ByteRange,
        at: u64,
        limits: Option<Limits>,
    ) -> Option<Arc<Cursor>> {
        let mut cursors = self
            .0
            .lock()
            .expect("no code panics while it holds this lock");
        cursors.retain(|cursor| cursor.strong_count() > 0);
        let near = cursors
            .iter()
            .filter_map(Weak::upgrade)
            .find(|cursor| cursor.take_up(range, at));
        if near.is_some() || cursors.len() >= MOST {
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
        let state = State {
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no code panics while it holds this lock")
    }

    fn take_up(&self, range: ByteRange, at: u64) -> bool {
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
    pub(super) fn continues(&self, at: u64) -> bool {
        self.state().plan.continues(at)
    }

    /// Records that a reader took `range`, and whether it had to wait for some of it.
    pub(super) fn took(&self, range: ByteRange, waited: bool) {
        let now = self.epoch.elapsed();
        let mut state = self.state();
        state.waited |= waited;
        if !range.is_empty() {
            state.plan.record_read(range, now);
        }
    }

    /// Starts the fetches for which the window has room. Called when the reader moves on, and when a part is about to
    /// end.
    pub(super) fn pump(self: &Arc<Self>, fill: &Arc<Fill>, terms: Terms) {
        let mut state = self.state();
        let (window, position) = (state.plan.window(), state.plan.position());
        let geometry = fill.core.geometry;
        let here = geometry.index(position);
        let size = fill.version.size;
        // A late reader may still want a chunk that is under way.
        let passed = |lease: &Lease| {
            let end = geometry.start(lease.part().chunks.end).min(size);
            end <= position && (lease.part().has_landed() || end + MAX_STEP_BACK <= position)
        };
        state.ahead.retain(|lease| !passed(lease));
        if state.readers == 0 {
            state.let_go_of_landed();
            return;
        }
        if window == 0 || position >= size {
            return;
        }
        // Once for the whole walk.
        let disk_rate = fill.core.chunks.disk_rate();
        let (streams, speed) = state.demand(fill, disk_rate);
        let cap = if state.requests > 1 {
            size
        } else {
            state.asked
        };
        let until = geometry.count(cap);
        let end = if position + window >= cap {
            until
        } else {
            geometry.index(position + window)
        };
        let mut wish = Wish {
            chunks: here..end,
            window,
            streams: state.plan.limits().streams,
            until,
            position,
            speed,
            disk_rate,
            free: streams.saturating_sub(state.busy()),
            on_disk: 0,
        };
        // The disks first: their reads need no stream.
        for bringer in [Bringer::Disk, Bringer::Origin] {
            self.provide(&mut state, bringer, &mut wish, fill, terms);
        }
    }

    /// Walks through the window, as far as the source keeps up.
    fn provide(
        self: &Arc<Self>,
        state: &mut State,
        bringer: Bringer,
        wish: &mut Wish,
        fill: &Arc<Fill>,
        terms: Terms,
    ) {
        let here = fill.core.geometry.index(wish.position);
        let mut frontier = (*state.frontier(bringer)).max(here);
        while frontier < wish.chunks.end {
            wish.chunks.start = frontier;
            let outcome = match bringer {
                Bringer::Disk => fill.ahead_of_disk(wish, terms, self),
                Bringer::Origin => fill.ahead_of_origin(wish, terms, self),
            };
            match outcome {
                Ahead::OnItsWay(lease) => {
                    frontier = lease.part().chunks.end.max(frontier + 1);
                    if lease.part().bringer == Bringer::Origin {
                        wish.free = wish.free.saturating_sub(1);
                    }
                    state.ahead.push(lease);
                }
                Ahead::Passed(until) => frontier = until,
                Ahead::Later | Ahead::NoRoom => break,
            }
        }
        *state.frontier(bringer) = frontier;
        wish.on_disk = state.on_disk;
    }

    /// Removes a reader. The last one leaves the cursor to the next reader. One task looks after it, however many
    /// readers come and go (each read of a mount is one).
    pub(super) fn leave(self: Arc<Self>, fill: &Arc<Fill>) {
        let mut state = self.state();
        state.readers -= 1;
        state.left = Instant::now();
        if std::mem::replace(&mut state.kept, true) {
            return;
        }
        drop(state);
        let (fill, core) = (fill.clone(), fill.core.clone());
        let stop = core.stop.clone();
        core.tasks.spawn(async move {
            tokio::select! {
                () = self.keep() => {}
                () = stop.cancelled() => {}
            }
            drop((self, fill));
        });
    }

    /// Returns when no reader has been here for [`GRACE`].
    async fn keep(&self) {
        loop {
            let wait = {
                let mut state = self.state();
                let idle = match state.readers {
                    0 => state.left.elapsed(),
                    _ => Duration::ZERO,
                };
                if idle >= GRACE {
                    state.kept = false;
                    return;
                }
                state.let_go_of_landed();
                let next = if idle < HELD { HELD } else { GRACE };
                next - idle
            };
            sleep(wait).await;
        }
    }
}

impl State {
    /// Once no reader has come back in time, leaves landed chunks to the store; chunks under way are held until they
    /// land.
    fn let_go_of_landed(&mut self) {
        if self.readers == 0 && self.left.elapsed() >= HELD {
            self.ahead.retain(|lease| !lease.part().has_landed());
        }
    }

    fn frontier(&mut self, bringer: Bringer) -> &mut u32 {
        match bringer {
            Bringer::Disk => &mut self.on_disk,
            Bringer::Origin => &mut self.missing,
        }
    }

    /// Returns the number of streams that the reader needs, and the bytes a second by which it advances.
    fn demand(&mut self, fill: &Fill, disk: Option<f64>) -> (u32, f64) {
        let waited = std::mem::take(&mut self.waited);
        if waited {
            self.last_wait = Some(Instant::now());
        }
        let takes_at_once = self.last_wait.is_some_and(|last| last.elapsed() < EAGER);
        let each = fill.pace.rate();
        // An origin without a measured rate counts as a single connection.
        let all = match each {
            Some(each) => each * f64::from(self.plan.limits().streams),
            None => fill.pace.connection().rate,
        };
        (
            self.plan.streams(each, waited),
            tiering::approach_rate(self.plan.rate(), takes_at_once, disk, Some(all)),
        )
    }

    /// Returns the number of streams that still carry a body from the origin.
    fn busy(&self) -> u32 {
        let is_busy = |part: &Part| part.bringer == Bringer::Origin && part.is_busy();
        let busy = self.ahead.iter().filter(|lease| is_busy(lease.part()));
        u32::try_from(busy.count()).unwrap_or(u32::MAX)
    }
}
