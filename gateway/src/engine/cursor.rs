//! A cursor: a place in one version that somebody reads on from, and what is fetched ahead of it.
//!
//! Cursors belong to the version and not to the connection, because players and proxies send a new
//! request for each step: a reader that begins near a cursor takes it up, window and all. When the
//! last reader leaves, the cursor stays for [`GRACE`]; what is on its way may land, and nothing new
//! is started. The deciding is done by [`ReadAhead`]; here it is carried out, within the budget.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::fill::{Ahead, Fill, Terms};
use super::flight::Lease;
use crate::plan::ByteRange;
use crate::plan::readahead::{Limits, ReadAhead};

/// How long a cursor outlives its last reader: the pause that players make between two requests.
const GRACE: Duration = Duration::from_secs(10);

/// For how much of that what was fetched ahead is held for the next reader. Memory need not have it:
/// a scan-resistant memory tier is right to push out first what nobody has asked for yet. The budget
/// it takes is wanted by others, so it is not held for longer than a client takes between requests.
const HELD: Duration = Duration::from_secs(2);

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
    /// The first chunk not yet provided for.
    frontier: u32,
    /// What was fetched ahead and not yet passed.
    ahead: VecDeque<Lease>,
    /// A reader had to wait since the last look.
    waited: bool,
    /// When the last reader left.
    left: Instant,
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
            frontier: 0,
            ahead: VecDeque::new(),
            waited: true,
            left: Instant::now(),
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
        let passed = |lease: &Lease| geometry.start(lease.part().chunks.end).min(size) <= position;
        while state.ahead.front().is_some_and(passed) {
            state.ahead.pop_front();
        }
        if state.readers == 0 {
            state.let_go_of_landed();
            return;
        }
        if window == 0 || position >= size {
            return;
        }
        let waited = std::mem::take(&mut state.waited);
        let streams = state.plan.streams(fill.pace.rate(), waited);
        let part = ReadAhead::part(window, state.plan.limits().streams) / geometry.chunk();
        let part = u32::try_from(part.max(1)).unwrap_or(1);
        let cap = if state.requests > 1 {
            fill.version.size
        } else {
            state.asked
        };
        let is_last = position + window >= cap;
        let end = if is_last {
            geometry.count(cap)
        } else {
            geometry.index(position + window)
        };
        state.frontier = state.frontier.max(here);
        let mut busy = state.busy();
        while state.frontier < end && busy < streams {
            let whole = state.frontier.saturating_add(part);
            if whole > end && !is_last {
                break;
            }
            match fill.ahead(state.frontier..whole.min(end), terms, self) {
                Ahead::OnItsWay(lease) => {
                    state.frontier = lease.part().chunks.end.max(state.frontier + 1);
                    state.ahead.push_back(lease);
                    busy += 1;
                }
                Ahead::Cached(until) => state.frontier = until,
                Ahead::NoRoom => break,
            }
        }
    }

    /// A reader leaves. The last one leaves the cursor behind, for who comes next.
    pub(super) fn leave(self: Arc<Self>, fill: &Arc<Fill>) {
        let mut state = self.state();
        state.readers -= 1;
        state.left = Instant::now();
        drop(state);
        let (fill, core) = (fill.clone(), fill.core.clone());
        let stop = core.stop.clone();
        core.tasks.spawn(async move {
            let grace = async {
                sleep(HELD).await;
                self.state().let_go_of_landed();
                sleep(GRACE - HELD).await;
            };
            tokio::select! {
                () = grace => {}
                () = stop.cancelled() => {}
            }
            drop((self, fill));
        });
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

    /// Streams that still carry a body.
    fn busy(&self) -> u32 {
        let busy = self
            .ahead
            .iter()
            .filter(|lease| lease.part().is_busy())
            .count();
        u32::try_from(busy).unwrap_or(u32::MAX)
    }
}
