//! The task of one hook: waits for changes, lets them settle, and calls the receiver.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::client::{Outcome, Transport};
use crate::metrics::{DropReason, HookMetrics};
use crate::settings::HookSettings;
use crate::window_changes::{AddOutcome, Call, Event, WindowChanges};
use tidegate_plan::retry::Backoff;
use tidegate_plan::{FolderChange, KeyChange};
use tidegate_telemetry::locks::Recover as _;
use tidegate_telemetry::random::draw;

/// The pauses between the tries of a call.
const BACKOFF: Backoff = Backoff {
    base: Duration::from_secs(1),
    cap: Duration::from_secs(60),
};

/// The time after which a failed call ends the calls of its window; the rest is dropped.
const MAX_BATCH: Duration = Duration::from_secs(600);

/// One hook.
#[derive(Debug)]
pub(crate) struct Hook {
    pub(crate) name: String,
    present: Mutex<HookTarget>,
    metrics: HookMetrics,
    stop: CancellationToken,
    pending: Mutex<WindowChanges>,
    /// Tells the task that there is a change.
    wake: Notify,
    /// Tells the task that the settings are others.
    changed: Notify,
    /// The calls of the present window that are not done.
    unsent: AtomicU64,
}

/// The settings of a hook, and its way to the receiver.
#[derive(Debug, Clone)]
struct HookTarget {
    settings: Arc<HookSettings>,
    transport: Arc<dyn Transport>,
}

impl Hook {
    pub(crate) fn new(
        settings: HookSettings,
        transport: Arc<dyn Transport>,
        metrics: HookMetrics,
        stop: CancellationToken,
    ) -> Self {
        Self {
            name: settings.name.clone(),
            present: Mutex::new(HookTarget {
                settings: Arc::new(settings),
                transport,
            }),
            metrics,
            stop,
            pending: Mutex::default(),
            wake: Notify::new(),
            changed: Notify::new(),
            unsent: 0.into(),
        }
    }

    /// Puts other settings in force.
    pub(crate) fn replace(&self, settings: HookSettings, transport: Arc<dyn Transport>) {
        let settings = Arc::new(settings);
        *self.present.lock().recover() = HookTarget {
            settings,
            transport,
        };
        self.changed.notify_one();
    }

    fn present(&self) -> HookTarget {
        self.present.lock().recover().clone()
    }

    pub(crate) fn settings(&self) -> Arc<HookSettings> {
        self.present().settings
    }

    /// Counts and logs the calls that are not done, of a task that was ended. Without a reason a reload has taken the hook
    /// away, and its metrics with it.
    pub(crate) fn drop_calls(&self, reason: Option<DropReason>) {
        let each = self.settings().each;
        let waiting = self.pending.lock().recover().take(each);
        self.metrics.pending(0);
        let unsent = self.unsent.load(Ordering::Relaxed);
        let calls = unsent + waiting.len() as u64;
        if calls > 0 {
            if let Some(reason) = reason {
                self.metrics.dropped(reason, calls);
            }
            let (hook, reason) = (
                self.name.as_str(),
                reason.map_or("removed", DropReason::label),
            );
            tracing::warn!(
                hook,
                calls,
                reason,
                "a hook's calls were dropped at its end"
            );
        }
    }

    /// Adds the changes that the hook is called for. Returns at once.
    pub(crate) fn add(&self, origin: &Arc<str>, changes: &[KeyChange]) {
        let settings = self.settings();
        let covered = |change: &&KeyChange| settings.covers(change.kind, change.key.as_str());
        let mut covered = changes.iter().filter(covered).peekable();
        if covered.peek().is_none() {
            return;
        }
        let now = Instant::now();
        let mut pending = self.pending.lock().recover();
        for change in covered {
            if pending.add(origin, change, now) == AddOutcome::Widened {
                self.metrics.widened();
            }
        }
        self.metrics.pending(pending.count());
        drop(pending);
        self.wake.notify_one();
    }

    /// Adds changes below a folder, as far as the hook is called for them. Returns at once.
    pub(crate) fn add_folder(&self, origin: &Arc<str>, changes: &FolderChange) {
        let settings = self.settings();
        let kinds = changes.kinds.iter().copied();
        let event = Event::of(kinds.filter(|kind| settings.on.contains(kind)));
        let folder = settings.covered_folder(&changes.folder);
        let (Some(event), Some(folder)) = (event, folder) else {
            return;
        };
        let call = Call {
            bucket: changes.bucket.clone(),
            key: folder.to_owned(),
            event,
            count: changes.count,
        };
        let mut pending = self.pending.lock().recover();
        pending.add_folder(origin, &call, Instant::now());
        self.metrics.pending(pending.count());
        drop(pending);
        self.wake.notify_one();
    }

    /// Runs until it is told to stop; then sends what waits, each call once.
    pub(crate) async fn run(self: Arc<Self>) {
        while let Some(calls) = self.next_calls().await {
            self.send_all(calls).await;
        }
    }

    /// Waits until changes are due, and takes them. `None`: it stops, and nothing waits.
    async fn next_calls(&self) -> Option<Vec<Call>> {
        loop {
            let settings = self.settings();
            let (debounce, max_delay) = (settings.debounce, settings.max_delay);
            let due = self.pending.lock().recover().due(debounce, max_delay);
            let is_stopping = self.stop.is_cancelled();
            match due {
                None if is_stopping => return None,
                None => tokio::select! {
                    () = self.wake.notified() => {}
                    () = self.stop.cancelled() => {}
                },
                Some(due) if is_stopping || due <= Instant::now() => return Some(self.take()),
                Some(due) => tokio::select! {
                    () = sleep_until(due) => {}
                    () = self.changed.notified() => {}
                    () = self.stop.cancelled() => {}
                },
            }
        }
    }

    fn take(&self) -> Vec<Call> {
        let each = self.settings().each;
        let mut pending = self.pending.lock().recover();
        let calls = pending.take(each);
        self.metrics.pending(0);
        self.unsent.store(calls.len() as u64, Ordering::Relaxed);
        calls
    }

    /// Sends the calls of one window, one after the other. Drops the rest of them if a receiver does not answer.
    async fn send_all(&self, calls: Vec<Call>) {
        let begun = Instant::now();
        for call in calls {
            let outcome = self.send(&call).await;
            let left = self
                .unsent
                .fetch_sub(1, Ordering::Relaxed)
                .saturating_sub(1);
            if outcome.is_none_or(|outcome| outcome == Outcome::Done) {
                continue;
            }
            self.metrics.dropped(DropReason::Failed, 1);
            let is_silent = outcome.is_some_and(Outcome::is_silent);
            if left > 0 && (is_silent || begun.elapsed() > MAX_BATCH) {
                self.unsent.store(0, Ordering::Relaxed);
                self.metrics.dropped(DropReason::Silent, left);
                let hook = self.name.as_str();
                tracing::warn!(hook, calls = left, "further calls of a hook were dropped");
                return;
            }
        }
    }

    /// Sends a call until it succeeds, is refused, or has had its tries. `None`: its URL is none.
    async fn send(&self, call: &Call) -> Option<Outcome> {
        let hook = self.name.as_str();
        let mut failures = 0;
        loop {
            let HookTarget {
                settings,
                transport,
            } = self.present();
            let request = match settings.request(call) {
                Ok(request) => request,
                // The configuration was checked, and values are escaped.
                Err(error) => {
                    tracing::error!(hook, %error, "a hook has no request");
                    self.metrics.dropped(DropReason::Failed, 1);
                    return None;
                }
            };
            let outcome = transport.send(request, settings.timeout).await;
            self.metrics.answered(outcome);
            if outcome == Outcome::Done {
                return Some(outcome);
            }
            let (result, status) = (outcome.label(), outcome.status());
            if !outcome.may_pass() || failures >= settings.retries || self.stop.is_cancelled() {
                let tries = failures + 1;
                tracing::warn!(hook, result, status, tries, "a hook's call was given up");
                return Some(outcome);
            }
            tracing::debug!(hook, result, status, "a hook's call is repeated");
            // A stop ends the pause: the call is tried once more.
            tokio::select! {
                () = sleep(BACKOFF.pause(failures, draw())) => {}
                () = self.stop.cancelled() => {}
            }
            failures += 1;
        }
    }
}
