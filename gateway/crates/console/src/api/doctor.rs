//! `GET /api/v1/doctor` and `POST /api/v1/doctor`: measurements of the way from the bucket to the client, and their
//! judgement.
//!
//! One run at a time, whose result stays until the next one begins.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use tokio::sync::mpsc;
use utoipa::ToSchema;

use super::ApiError;
use crate::Console;
use crate::gateway::{DoctorOrder, Suggestion, Verdict};
use crate::history::{History, Point};
use tidegate_plan::diagnosis::{Efficiency, Rate};
use tidegate_telemetry::locks::Recover as _;

/// The measurements end after this time in any case.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Lines of progress that are kept.
const MAX_LINES: usize = 200;

/// The last run.
#[derive(Debug, Default)]
pub(crate) struct DoctorRun(Mutex<DoctorState>);

/// The state of the last run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct DoctorState {
    /// Whether it is under way.
    pub running: bool,
    /// Its progress, a line for each measurement; at most 200.
    pub lines: Vec<String>,
    /// Its result.
    pub verdict: Option<Verdict>,
    /// The reason why it has no result, in words.
    pub error: Option<String>,
    /// The bytes that the buckets sent in the busiest 10 s of the last hour, against those that they can give; `null` without
    /// a measurement of each bucket, or if they sent nothing.
    pub efficiency: Option<BucketUse>,
    /// The keys whose suggestion was applied from the page.
    pub applied: Vec<String>,
}

/// The use of the buckets in a period, against the last measurement. Rates are in bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct BucketUse {
    /// The end of the period, in seconds since 1970.
    pub time: f64,
    /// The rate at which the buckets sent.
    pub taken: f64,
    /// The rate that they can give: measured, or sent in this period if that is more.
    pub possible: f64,
    /// The share that was taken, from 0 to 1.
    pub share: f64,
    /// Waits of readers in the period that were longer than 100 ms: without any, readers wanted no more.
    pub stalls: u64,
}

/// A run under way. Dropped without a result, as after a panic, it ends the run with an error.
struct RunGuard(Arc<DoctorRun>);

impl RunGuard {
    /// Ends the run.
    fn end(self, result: Result<Verdict, String>) {
        let mut run = self.0.run();
        match result {
            Ok(verdict) => run.verdict = Some(verdict),
            Err(error) => run.error = Some(error),
        }
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        let mut run = self.0.run();
        run.running = false;
        if run.verdict.is_none() && run.error.is_none() {
            run.error = Some("the measurement broke off: the log says why".to_owned());
        }
    }
}

impl DoctorRun {
    fn run(&self) -> MutexGuard<'_, DoctorState> {
        self.0.lock().recover()
    }

    /// Begins a run; `None`: one is under way.
    fn begin(self: &Arc<Self>) -> Option<RunGuard> {
        let mut run = self.run();
        if run.running {
            return None;
        }
        *run = DoctorState {
            running: true,
            ..DoctorState::default()
        };
        Some(RunGuard(self.clone()))
    }

    /// Returns the state of the last run.
    pub(crate) fn state(&self) -> DoctorState {
        self.run().clone()
    }

    /// Records that the suggestion for a key was applied.
    pub(crate) fn set_applied(&self, key: &str) {
        self.run().applied.push(key.to_owned());
    }

    /// Adds a line of progress.
    fn add(&self, line: String) {
        let mut run = self.run();
        if run.lines.len() < MAX_LINES {
            run.lines.push(line);
        }
    }

    /// Returns what the last run suggests for a key.
    pub(crate) fn suggestion(&self, key: &str) -> Option<Suggestion> {
        let run = self.run();
        let verdict = run.verdict.as_ref()?;
        let found = verdict.suggestions.iter().find(|one| one.key == key);
        found.cloned()
    }
}

/// Begins a run in the background; returns whether none was under way.
pub(crate) fn start(console: &Console, order: DoctorOrder) -> bool {
    let Some(under_way) = console.doctor.begin() else {
        return false;
    };
    tracing::info!(objects = ?order.objects, "the doctor measures");
    tokio::spawn(run(console.clone(), under_way, order));
    true
}

async fn run(console: Console, under_way: RunGuard, order: DoctorOrder) {
    let (tell, mut lines) = mpsc::unbounded_channel();
    let gateway = console.gateway.clone();
    let examine = async {
        tokio::select! {
            result = tokio::time::timeout(TIMEOUT, gateway.examine(order, tell)) => {
                result.unwrap_or_else(|_| Err("it took longer than five minutes".to_owned()))
            }
            () = console.admin.draining.cancelled() => Err("the gateway stops".to_owned()),
        }
    };
    let listen = async {
        while let Some(line) = lines.recv().await {
            console.doctor.add(line);
        }
    };
    let (result, ()) = tokio::join!(examine, listen);
    under_way.end(result);
}

/// Returns the state of the last run, with what its result says of the last hour.
pub(crate) fn collect(console: &Console) -> DoctorState {
    let mut state = console.doctor.state();
    let measured = state.verdict.as_ref().and_then(|one| one.buckets_rate);
    let history = console.sampler.history();
    state.efficiency = measured.and_then(|measured| bucket_use(&history, measured));
    state
}

fn bucket_use(history: &History, measured: f64) -> Option<BucketUse> {
    let rate = |point: &&Point| point.figures.fetched_bytes_per_second;
    let points = history.hour.iter();
    let busiest = points.max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let found = Efficiency::new(Rate(rate(&busiest)), Rate(measured))?;
    Some(BucketUse {
        time: busiest.time,
        taken: found.taken.0,
        possible: found.possible.0,
        share: found.share(),
        stalls: busiest.figures.stalls,
    })
}

/// Answers `GET /api/v1/doctor`.
#[utoipa::path(
    get,
    path = "/api/v1/doctor",
    operation_id = "get_doctor",
    responses((status = 200, body = DoctorState))
)]
pub(crate) async fn show(State(console): State<Console>) -> Json<DoctorState> {
    Json(collect(&console))
}

/// Answers `POST /api/v1/doctor`.
#[utoipa::path(
    post,
    path = "/api/v1/doctor",
    operation_id = "start_doctor",
    request_body = DoctorOrder,
    responses((status = 202), (status = 409, body = ApiError))
)]
pub(crate) async fn order(
    State(console): State<Console>,
    Json(order): Json<DoctorOrder>,
) -> Result<StatusCode, ApiError> {
    match start(&console, order) {
        true => Ok(StatusCode::ACCEPTED),
        false => Err(ApiError::new(StatusCode::CONFLICT, "it runs already")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::figures::Figures;

    #[test]
    fn the_use_is_that_of_the_bucket_and_not_of_memory() {
        let point = |time, fetched| Point {
            time,
            figures: Figures {
                // Most bytes came from memory.
                bytes_per_second: 900e6,
                fetched_bytes_per_second: fetched,
                stalls: time as u64,
                ..Figures::default()
            },
            causes: Vec::new(),
        };
        let mut history = History::default();
        assert_eq!(bucket_use(&history, 56e6), None);
        history.add_to_hour(point(10.0, 0.0));
        assert_eq!(bucket_use(&history, 56e6), None, "nothing was sent");
        history.add_to_hour(point(20.0, 28e6));
        history.add_to_hour(point(30.0, 1e6));
        let expected = BucketUse {
            time: 20.0,
            taken: 28e6,
            possible: 56e6,
            share: 0.5,
            stalls: 20,
        };
        assert_eq!(bucket_use(&history, 56e6), Some(expected));
    }

    #[tokio::test]
    async fn a_run_that_panics_or_is_dropped_is_over() {
        let doctor = Arc::<DoctorRun>::default();
        let under_way = doctor.begin().expect("none runs");
        assert!(doctor.begin().is_none(), "one at a time");
        let panics = tokio::spawn(async move {
            let _under_way = under_way;
            panic!("of a measurement");
        });
        assert!(panics.await.is_err());
        let run = doctor.state();
        assert!(!run.running && run.error.is_some());
        let under_way = doctor.begin().expect("it is over");
        let never = async move {
            std::future::pending::<()>().await;
            under_way.end(Err(String::new()));
        };
        drop(never);
        assert!(!doctor.state().running);
        let last = doctor.begin().expect("it is over");
        assert_eq!(
            doctor.state().error,
            None,
            "nothing is left of the last one"
        );
        last.end(Err("in words".to_owned()));
        let run = doctor.state();
        assert_eq!(
            (run.running, run.error),
            (false, Some("in words".to_owned()))
        );
    }
}
