//! Tells a supervisor (`sd_notify(3)`) that the gateway is ready, reloads or stops. It also sends signs of life, if the
//! supervisor asks for them (`WatchdogSec`). Without a supervisor (`NOTIFY_SOCKET`) it sends nothing.

use std::time::Duration;

use sd_notify::NotifyState;

/// The shortest time between two signs of life.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

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

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the supervisor cannot be told of the gateway's state");
    }
}
