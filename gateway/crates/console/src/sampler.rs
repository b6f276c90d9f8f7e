//! Looks at the metrics every 10 s, for the history and for figures of the present.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use tokio::task::spawn_blocking;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::exposition::Samples;
use crate::figures::{ErrorCount, Figures, Flow, HitShare, Snapshot, errors};
use crate::history::{History, Point};
use tidegate_admin::Admin;
use tidegate_plan::DiskState;
use tidegate_telemetry::locks::Recover as _;

/// The time between two looks.
const PERIOD: Duration = Duration::from_secs(10);

/// The looks between two points of the day, and between two writes of the file.
const PER_DAY_POINT: u64 = 30;

/// The looks of an hour.
const PER_HOUR: usize = 360;

/// The shortest period of figures of the present.
const MIN_PERIOD: f64 = 2.0;

/// The age up to which a look at the metrics is used again: many clients cost no more than one.
const REUSE: Duration = Duration::from_millis(500);

/// The figures of the present.
#[derive(Debug, Clone)]
pub(crate) struct CurrentFigures {
    /// The time of the look, in seconds since 1970.
    pub(crate) time: f64,
    /// The length of the period, in seconds.
    pub(crate) period: f64,
    /// The begin of the period.
    pub(crate) before: Arc<Snapshot>,
    /// Its end.
    pub(crate) after: Arc<Snapshot>,
    /// Its figures.
    pub(crate) figures: Figures,
    /// The failures since the last point of the history.
    pub(crate) latest_errors: Vec<ErrorCount>,
}

/// See the module documentation.
pub(crate) struct Sampler {
    admin: Admin,
    state: Option<PathBuf>,
    started: Instant,
    seen: Mutex<SamplerState>,
}

#[derive(Default)]
struct SamplerState {
    looks: u64,
    /// The last looks, the oldest first.
    recent: VecDeque<Arc<Snapshot>>,
    /// The flow up to each look of the last hour, the oldest first.
    flows: VecDeque<Flow>,
    day_base: Option<Arc<Snapshot>>,
    history: Arc<History>,
    present: Option<(Instant, Arc<CurrentFigures>)>,
    /// The state of each disk, and the time since which it is in it.
    disks: HashMap<PathBuf, (DiskState, f64)>,
}

impl SamplerState {
    /// Counts the flow up to a look.
    fn add_flow(&mut self, snapshot: &Snapshot) {
        let flow = self.flow_up_to(snapshot);
        self.flows.push_back(flow);
        if self.flows.len() > PER_HOUR {
            self.flows.pop_front();
        }
    }

    /// Returns the flow from the first look to this one, which may be a later one than the last.
    fn flow_up_to(&self, snapshot: &Snapshot) -> Flow {
        let known = self.flows.back().copied().unwrap_or_default();
        let before = self.recent.back();
        let since = before.map(|before| Flow::between(&before.samples, &snapshot.samples));
        known.and(since.unwrap_or_default())
    }

    /// Returns the shares of the hour before a flow.
    fn share(&self, flow: Flow) -> Option<HitShare> {
        flow.share(self.flows.front().copied().unwrap_or_default())
    }

    /// Adds the point of the day that has begun, up to the last look.
    fn add_to_day(&mut self, time: f64) {
        let share = self.flows.back().and_then(|flow| self.share(*flow));
        if let (Some(base), Some(last)) = (&self.day_base, self.recent.back()) {
            Arc::make_mut(&mut self.history).add_to_day(Point {
                time,
                figures: Figures::between(base, last, share),
                causes: errors(base, last),
            });
        }
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sampler").finish_non_exhaustive()
    }
}

impl Sampler {
    /// Returns a sampler that keeps its history in a state folder, if there is one.
    pub(crate) fn new(admin: Admin, state: Option<PathBuf>) -> Arc<Self> {
        let sampler = Self {
            admin,
            state,
            started: Instant::now(),
            seen: Mutex::default(),
        };
        sampler.look(unix_time());
        Arc::new(sampler)
    }

    fn seen(&self) -> MutexGuard<'_, SamplerState> {
        self.seen.lock().recover()
    }

    /// Looks every 10 s until `stop`; then looks a last time, and writes the history with the begun point of the day.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        if let Some(state) = self.state.clone() {
            let read = spawn_blocking(move || History::read(&state, unix_time())).await;
            self.seen().history = Arc::new(read.unwrap_or_default());
        }
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = stop.cancelled() => break,
            }
            if self.look(unix_time()) {
                self.keep().await;
            }
        }
        if !self.look(unix_time()) {
            // Before it is complete: a process that lives for minutes would leave none.
            self.seen().add_to_day(unix_time());
        }
        self.keep().await;
    }

    /// Writes the history.
    async fn keep(&self) {
        let Some(state) = self.state.clone() else {
            return;
        };
        let history = self.seen().history.clone();
        let written = spawn_blocking(move || history.write(&state)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "the console's history cannot be written");
        }
    }

    /// Takes a look at the metrics; returns whether a point of the day is complete.
    fn look(&self, time: f64) -> bool {
        let snapshot = Arc::new(self.snapshot());
        let disks = self.admin.tiers.report().disks;
        let mut seen = self.seen();
        let seen = &mut *seen;
        seen.looks += 1;
        seen.disks
            .retain(|path, _| disks.iter().any(|disk| disk.path == *path));
        for disk in disks {
            let known = seen.disks.entry(disk.path).or_insert((disk.state, time));
            if known.0 != disk.state {
                *known = (disk.state, time);
            }
        }
        seen.add_flow(&snapshot);
        let share = seen.flows.back().and_then(|flow| seen.share(*flow));
        if let Some(before) = seen.recent.back() {
            Arc::make_mut(&mut seen.history).add_to_hour(Point {
                time,
                figures: Figures::between(before, &snapshot, share),
                causes: errors(before, &snapshot),
            });
        }
        seen.recent.push_back(snapshot.clone());
        if seen.recent.len() > 3 {
            seen.recent.pop_front();
        }
        if seen.day_base.is_none() {
            seen.day_base = Some(snapshot);
            return false;
        }
        let is_complete = seen.looks.is_multiple_of(PER_DAY_POINT);
        if is_complete {
            seen.add_to_day(time);
            seen.day_base = Some(snapshot);
        }
        is_complete
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            samples: Samples::parse(&(self.admin.metrics)()),
            stalls: self.admin.engine.streams().stalls(),
            at: self.started.elapsed().as_secs_f64(),
        }
    }

    /// Returns the figures of a period that ends now. It begins at least 2 s before, or with the first look.
    pub(crate) fn present(&self) -> Arc<CurrentFigures> {
        if let Some((when, present)) = &self.seen().present
            && when.elapsed() < REUSE
        {
            return present.clone();
        }
        let after = Arc::new(self.snapshot());
        let mut seen = self.seen();
        let mut recent = seen.recent.iter().rev();
        let before = recent.find(|one| one.at <= after.at - MIN_PERIOD);
        let before = before
            .or_else(|| seen.recent.front())
            .unwrap_or(&after)
            .clone();
        let last = seen.recent.back().unwrap_or(&after);
        let present = Arc::new(CurrentFigures {
            latest_errors: errors(last, &after),
            time: unix_time(),
            period: after.at - before.at,
            figures: Figures::between(&before, &after, seen.share(seen.flow_up_to(&after))),
            before,
            after,
        });
        seen.present = Some((Instant::now(), present.clone()));
        present
    }

    /// Returns the last hour and day: another pointer each time that they have changed.
    pub(crate) fn history(&self) -> Arc<History> {
        self.seen().history.clone()
    }

    /// Returns the time since which a disk is in its present state, in seconds since 1970; to 10 s.
    pub(crate) fn disk_since(&self, path: &std::path::Path, state: DiskState) -> Option<f64> {
        let seen = self.seen();
        let (known, since) = seen.disks.get(path)?;
        (*known == state).then_some(*since)
    }
}

/// Returns the time in seconds since 1970.
pub(crate) fn unix_time() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}
