//! Tells a supervisor (`sd_notify(3)`) that the gateway is ready, reloads or stops. It also sends signs of life, if the
//! supervisor asks for them (`WatchdogSec`), and tells of long work in a line that the supervisor shows. Without a
//! supervisor (`NOTIFY_SOCKET`) it sends nothing.
//!
//! A thread of its own sends the messages: the socket takes a few that the supervisor has not read, and then a sender waits.

use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use sd_notify::NotifyState;

use tidegate_telemetry::progress::told_every;

/// The shortest time between two signs of life.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// The time between two looks at long work.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// The status while there is no long work.
const SERVING_STATUS: &str = "serving";

/// Tells that the gateway serves, and from then on at half the interval that the supervisor asks for that it is alive.
///
/// The signs of life come from the runtime that answers requests: if that stands still, so do they. They go on while the
/// gateway drains.
pub(in crate::app) fn tell_ready() {
    tell(&[NotifyState::Ready]);
    let Some(interval) = sd_notify::watchdog_enabled() else {
        return;
    };
    let alive = async move {
        let mut turns = tokio::time::interval((interval / 2).max(MIN_INTERVAL));
        loop {
            turns.tick().await;
            tell(&[NotifyState::Watchdog]);
        }
    };
    tokio::spawn(alive);
}

/// Tells that the configuration is read again, until `reload` ends.
pub(in crate::app) async fn tell_reload(reload: impl Future<Output = ()>) {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "there is no clock to tell a reload by"),
    }
    reload.await;
    tell(&[NotifyState::Ready]);
}

/// Tells that the gateway drains.
pub(in crate::app) fn tell_stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells of long work at once and, if it has changed, each second until the process ends.
pub(in crate::app) fn tell_of_work(work: impl Fn() -> Vec<String> + Send + 'static) {
    if !has_supervisor() {
        return;
    }
    tokio::spawn(async move {
        let (mut turns, mut told) = (tokio::time::interval(STATUS_INTERVAL), String::new());
        loop {
            turns.tick().await;
            let status = match work() {
                lines if lines.is_empty() => SERVING_STATUS.to_owned(),
                lines => lines.join("; "),
            };
            if status != told {
                tell(&[NotifyState::Status(&status)]);
                told = status;
            }
        }
    });
}

/// Waits for the start of a part, and tells each second of its progress.
pub(in crate::app) async fn tell_of_start<T>(
    start: impl Future<Output = T>,
    progress: impl Fn() -> String,
) -> T {
    if !has_supervisor() {
        return start.await;
    }
    told_every(STATUS_INTERVAL, start, || {
        tell(&[NotifyState::Status(&progress())]);
    })
    .await
}

fn has_supervisor() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some()
}

/// The most messages that wait for a supervisor which reads none.
const MAX_WAITING: usize = 64;

/// The longest wait of the process's end for a supervisor.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Work of the thread that sends the messages.
type Work = Box<dyn FnOnce() + Send>;

/// The way to the thread that sends the messages; `None`: the system gives no thread.
static SENDER: OnceLock<Option<SyncSender<Work>>> = OnceLock::new();

/// Has a message sent, in its turn. Does not wait: a supervisor that reads none stops no request.
fn tell(state: &[NotifyState<'_>]) {
    if !has_supervisor() {
        return;
    }
    let lines: Vec<_> = state.iter().map(ToString::to_string).collect();
    let send = move || {
        if let Err(error) = sd_notify::notify(&[NotifyState::Custom(&lines.join("\n"))]) {
            tracing::warn!(%error, "the supervisor cannot be told of the gateway's state");
        }
    };
    let sender = SENDER.get_or_init(start_sender).as_ref();
    if sender.is_none_or(|sender| sender.try_send(Box::new(send)).is_err()) {
        tracing::warn!("the supervisor takes no messages: one is left out");
    }
}

/// Waits a bounded time until the supervisor has all messages. Called at the end of the process.
pub(in crate::app) fn flush() {
    if let Some(Some(sender)) = SENDER.get() {
        let (done, all_sent) = sync_channel(1);
        let end = move || {
            let _ = done.send(());
        };
        if sender.try_send(Box::new(end)).is_ok() {
            let _ = all_sent.recv_timeout(END_TIMEOUT);
        }
    }
}

fn start_sender() -> Option<SyncSender<Work>> {
    let (sender, waiting) = sync_channel::<Work>(MAX_WAITING);
    let thread = std::thread::Builder::new().name("supervisor".to_owned());
    let thread = thread.spawn(move || waiting.into_iter().for_each(|work| work()));
    thread.ok().map(|_| sender)
}
