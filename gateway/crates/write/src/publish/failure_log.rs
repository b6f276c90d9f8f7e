//! The log of closed drafts whose publish fails for a passing reason.
//!
//! An outage of the bucket fails the publish of every draft. The log counts them in one line now and then, because a
//! line for each draft and try would bury all others.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::{Drafts, WriteError};
use tidegate_engine::Error;
use tidegate_plan::{LogRate, ObjectKey};
use tidegate_telemetry::locks::Recover as _;

/// The shortest time between two lines about errors of one kind.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The lines of one process about its waiting drafts.
#[derive(Debug)]
pub(crate) struct FailureLog {
    started: Instant,
    failures: Mutex<Failures>,
}

#[derive(Debug, Default)]
struct Failures {
    /// The drafts whose publish has failed, and that are still to be published.
    waiting: usize,
    /// Whether a line has told of one of them.
    is_told: bool,
    lines: HashMap<ErrorKind, LogRate>,
}

/// An error without its details.
type ErrorKind = (Discriminant<WriteError>, Option<Discriminant<Error>>);

impl Default for FailureLog {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            failures: Mutex::default(),
        }
    }
}

/// One draft that waits since its publish has failed. A drop ends its wait.
pub(crate) struct FailedDraft(Arc<Drafts>);

impl FailedDraft {
    /// Counts a draft whose publish has just failed for the first time.
    pub(crate) fn new(drafts: &Arc<Drafts>) -> Self {
        drafts.failure_log.failures.lock().recover().waiting += 1;
        Self(drafts.clone())
    }

    /// Logs that a try has failed and the next one follows after `pause`.
    pub(crate) fn log(&self, error: &WriteError, pause: Duration, key: &ObjectKey) {
        let log = &self.0.failure_log;
        let key = key.as_str();
        tracing::debug!(%error, ?pause, key, "a closed object is not in the bucket yet");
        let waiting = {
            let mut failures = log.failures.lock().recover();
            let rate = failures.lines.entry(kind(error));
            let rate = rate.or_insert_with(|| LogRate::every(LOG_INTERVAL));
            if rate.record(log.started.elapsed()).is_none() {
                return;
            }
            failures.is_told = true;
            failures.waiting
        };
        tracing::warn!(%error, waiting, key, "closed objects are not in the bucket yet");
    }
}

impl Drop for FailedDraft {
    fn drop(&mut self) {
        let is_last = {
            let mut failures = self.0.failure_log.failures.lock().recover();
            failures.waiting -= 1;
            failures.waiting == 0 && std::mem::take(&mut failures.is_told)
        };
        if is_last && !self.0.core.stop.is_cancelled() {
            tracing::info!("no closed object waits for the bucket any more");
        }
    }
}

fn kind(error: &WriteError) -> ErrorKind {
    let of_bucket = match error {
        WriteError::Origin(error) => Some(discriminant(error)),
        _ => None,
    };
    (discriminant(error), of_bucket)
}
