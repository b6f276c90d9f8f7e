//! A cursor: a place in one version that somebody reads on from, and what is fetched ahead of it.
//!
//! Cursors belong to the version and not to the connection, because players and proxies send a new
//! request for each step: a reader that begins near a cursor takes it up, window and all. When the
//! last reader leaves, the cursor stays for [`GRACE`]; what is on its way may land, and nothing new
//! is started. The deciding is done by [`ReadAhead`]; here it is carried out, within the budget.

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::board::{Ahead, Wish};
use super::fill::{Fill, Terms};
use super::flight::{Bringer, Lease, Part};
use crate::plan::ByteRange;
use crate::plan::readahead::{LATE, Limits, ReadAhead};
use crate::plan::tiering;

/// How long a cursor outlives its last reader: the pause that players make between two requests.
const GRACE: Duration = Duration::from_secs(10);

/// For how much of that what was fetched ahead is held for the next reader. Memory need not have it:
/// a scan-resistant memory tier is right to push out first what nobody has asked for yet. The budget
/// it takes is wanted by others, so it is not held for longer than a client takes between requests.
const HELD: Duration = Duration::from_secs(2);

/// For how long a reader that had to wait counts as one that takes what it gets at once.
const EAGER: Duration = Duration::from_secs(1);

/// The most cursors of one version; beyond it readers get what they ask for, and nothing ahead.
const MOST: usize = 16;

/// Objects up to this size come whole with the first request or two.
pub(super) const THRESHOLD: u64 = super::resolve::FIRST;

/// A place in a version. See the module's head.
#[derive(Debug)]
pub(super) struct Cursor {
    state: Mutex<State>,
    epoch: Instant,
}

#[derive(Debug)]
struct State {
    plan: ReadAhead,
    /// How many readers are at it now, and how many ever were.
    readers: usize,
    requests: usize,
    /// The farthest byte that a reader asked for: nothing is fetched beyond it before a second
    /// request has shown that there will be more.
    asked: u64,
    /// The first chunk not yet provided for, of those that a disk has, and of those that only the
    /// origin has.
    on_disk: u32,
    missing: u32,
    /// What was fetched ahead and not yet passed.
    ahead: Vec<Lease>,
    /// A reader had to wait since the last look; and when one last had to.
    waited: bool,
    last_wait: Option<Instant>,
    /// When the last reader left, and whether somebody sees to what it left behind.
    left: Instant,
    kept: bool,
}

/// The cursors of a version.
#[derive(Debug, Default)]
pub(super) struct Cursors(Mutex<Vec<Weak<Cursor>>>);

impl Cursors {
    /// The cursor that a reader of `range`, at byte `at` of it, takes up; or a new one within
    /// `limits`, if any are given.
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
            plan.took(
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

    /// Whether a reader at `at` still belongs here.
    pub(super) fn continues(&self, at: u64) -> bool {
        self.state().plan.continues(at)
    }

    /// A reader took `range`, and had to wait for some of it or not.
    pub(super) fn took(&self, range: ByteRange, waited: bool) {
        let now = self.epoch.elapsed();
        let mut state = self.state();
        state.waited |= waited;
        if !range.is_empty() {
            state.plan.took(range, now);
        }
    }

    /// Starts what the window has room for. Called when the reader moved on, and when a part is
    /// about to end.
    pub(super) fn pump(self: &Arc<Self>, fill: &Arc<Fill>, terms: Terms) {
        let mut state = self.state();
        let (window, position) = (state.plan.window(), state.plan.position());
        let geometry = fill.core.geometry;
        let here = geometry.index(position);
        let size = fill.version.size;
        // What still flies may be wanted by a reader that comes late.
        let passed = |lease: &Lease| {
            let end = geometry.start(lease.part().chunks.end).min(size);
            end <= position && (lease.part().has_landed() || end + LATE <= position)
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
        // The disks first: what they bring needs no stream.
        for bringer in [Bringer::Disk, Bringer::Origin] {
            self.provide(&mut state, bringer, &mut wish, fill, terms);
        }
    }

    /// Walks through what the window has room for, as far as `bringer` keeps up.
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

    /// A reader leaves. The last one leaves the cursor behind, for who comes next. However many
    /// come and go (a mount's every read is one), one task sees to it.
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

    /// Returns when nobody has been here for [`GRACE`].
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
    /// Once nobody has come back for it, what has landed is left to the store; what still flies is
    /// held until it lands.
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

    /// How many streams the reader needs, and by how many bytes a second it comes nearer.
    fn demand(&mut self, fill: &Fill, disk: Option<f64>) -> (u32, f64) {
        let waited = std::mem::take(&mut self.waited);
        if waited {
            self.last_wait = Some(Instant::now());
        }
        let takes_at_once = self.last_wait.is_some_and(|last| last.elapsed() < EAGER);
        let each = fill.pace.rate();
        // One that was not measured yet is counted on for a single connection.
        let all = match each {
            Some(each) => each * f64::from(self.plan.limits().streams),
            None => fill.pace.connection().rate,
        };
        (
            self.plan.streams(each, waited),
            tiering::speed(self.plan.rate(), takes_at_once, disk, Some(all)),
        )
    }

    /// Streams that still carry a body from the origin.
    fn busy(&self) -> u32 {
        let is_busy = |part: &Part| part.bringer == Bringer::Origin && part.is_busy();
        let busy = self.ahead.iter().filter(|lease| is_busy(lease.part()));
        u32::try_from(busy.count()).unwrap_or(u32::MAX)
    }
}
