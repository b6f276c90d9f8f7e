//! The slots of connections, and which connection gives way if none is free.
//!
//! A client whose connection is idle between two requests loses nothing if it ends: both sides may close it at any time
//! (RFC 9112, section 9.8). So idle connections end while another client waits for a slot. Else one client could keep all
//! slots for a request on each in an `idle_timeout`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

/// The time for which a connection is idle before it gives way: a page's next request comes sooner.
pub(super) const MIN_IDLE: Duration = Duration::from_secs(1);

/// The pause between two calls to all connections. Each call wakes all of them.
const CALL_PERIOD: Duration = Duration::from_millis(100);

/// The number of connections that give way at a call. The next clients find their slots then.
const GIVING_WAY: usize = 32;

/// The calls to connections to give way.
#[derive(Debug, Default)]
pub(super) struct Crowding {
    called: Notify,
    /// The number of connections that may still give way.
    wanted: AtomicUsize,
}

impl Crowding {
    /// Takes a slot. While none is free, calls for idle connections to give way.
    pub(super) async fn take(&self, slots: &Arc<Semaphore>) -> OwnedSemaphorePermit {
        if let Ok(slot) = slots.clone().try_acquire_owned() {
            return slot;
        }
        let mut slot = std::pin::pin!(slots.clone().acquire_owned());
        loop {
            self.wanted.store(GIVING_WAY, Relaxed);
            self.called.notify_waiters();
            tokio::select! {
                slot = &mut slot => return slot.expect("the semaphore is never closed"),
                () = sleep(CALL_PERIOD) => {}
            }
        }
    }

    /// Waits for a call.
    pub(super) async fn called(&self) {
        self.called.notified().await;
    }

    /// Returns whether an idle connection is to give way.
    pub(super) fn is_wanted(&self) -> bool {
        let one_less = |wanted: usize| wanted.checked_sub(1);
        self.wanted.fetch_update(Relaxed, Relaxed, one_less).is_ok()
    }
}
