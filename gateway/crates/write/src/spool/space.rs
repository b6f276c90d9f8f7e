//! The used room of the spool, and the writers that wait for some.

use std::sync::{Mutex, MutexGuard};

use tidegate_telemetry::locks::Recover as _;
use tokio::sync::watch;

/// The bytes of a spool.
#[derive(Debug)]
pub(crate) struct Space {
    size: u64,
    used: Mutex<u64>,
    /// The signal that room was released.
    freed: watch::Sender<()>,
}

impl Space {
    pub(super) fn new(size: u64) -> Self {
        Self {
            size,
            used: Mutex::new(0),
            freed: watch::Sender::new(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.used.lock().recover()
    }

    /// Returns the maximum size, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the used bytes.
    pub(crate) fn used(&self) -> u64 {
        *self.lock()
    }

    /// Takes bytes if they fit, or if nothing is taken at all: the largest write must fit into the
    /// smallest spool.
    pub(crate) fn try_take(&self, bytes: u64) -> bool {
        let mut used = self.lock();
        let fits = *used == 0 || used.saturating_add(bytes) <= self.size;
        if fits {
            *used += bytes;
        }
        fits
    }

    /// Takes bytes even if they do not fit, for work that releases more afterwards.
    pub(crate) fn take(&self, bytes: u64) {
        *self.lock() += bytes;
    }

    /// Releases bytes.
    pub(crate) fn give(&self, bytes: u64) {
        if bytes > 0 {
            let mut used = self.lock();
            *used = used.saturating_sub(bytes);
            drop(used);
            self.freed.send_replace(());
        }
    }

    /// Makes all waiting writers check again.
    pub(crate) fn nudge(&self) {
        self.freed.send_replace(());
    }

    /// Returns a channel that changes whenever bytes are released, or may be.
    pub(crate) fn freed(&self) -> watch::Receiver<()> {
        self.freed.subscribe()
    }
}
