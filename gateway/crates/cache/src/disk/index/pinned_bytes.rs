//! The count of one disk's pinned bytes: at most half of its capacity in all, so that there is
//! always something to evict.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::pins::{PinId, SharedPins};
use tidegate_telemetry::locks::Recover as _;

/// The pinned bytes of one disk, by pin.
#[derive(Debug)]
pub(in crate::disk) struct PinnedBytes {
    pins: SharedPins,
    by_pin: Mutex<HashMap<PinId, u64>>,
    /// The most bytes that may be pinned in all.
    limit: AtomicU64,
}

impl PinnedBytes {
    /// Creates the count for a disk of this capacity.
    pub(in crate::disk) fn new(pins: &SharedPins, capacity: u64) -> Self {
        Self {
            pins: Arc::clone(pins),
            by_pin: Mutex::default(),
            limit: AtomicU64::new(capacity / 2),
        }
    }

    /// Sets another capacity.
    pub(in crate::disk) fn resize(&self, capacity: u64) {
        self.limit.store(capacity / 2, Ordering::Relaxed);
    }

    /// Counts bytes as pinned. `false`: they are not, because the pin is gone or a limit is
    /// reached.
    pub(in crate::disk) fn reserve(&self, pin: PinId, bytes: u64) -> bool {
        if pin.is_none() {
            return false;
        }
        let mut by_pin = self.by_pin();
        let limit = self.limit.load(Ordering::Relaxed);
        if self.sum(&by_pin) + bytes > limit || !self.pins.reserve(pin, bytes) {
            return false;
        }
        *by_pin.entry(pin).or_default() += bytes;
        true
    }

    /// Stops counting bytes as pinned.
    pub(in crate::disk) fn release(&self, pin: PinId, bytes: u64) {
        if pin.is_none() {
            return;
        }
        let mut by_pin = self.by_pin();
        if let Some(own) = by_pin.get_mut(&pin) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                by_pin.remove(&pin);
            }
        }
        self.pins.release(pin, bytes);
    }

    /// Returns whether the chunks of `pin` are to be kept: the pin exists, and no limit is
    /// exceeded.
    pub(in crate::disk) fn keeps(&self, pin: PinId) -> bool {
        !pin.is_none()
            && self.pins.is_within_limit(pin)
            && self.total() <= self.limit.load(Ordering::Relaxed)
    }

    /// Returns the pinned bytes.
    pub(in crate::disk) fn total(&self) -> u64 {
        self.sum(&self.by_pin())
    }

    /// Stops counting all pinned bytes.
    pub(in crate::disk) fn clear(&self) {
        for (pin, bytes) in self.by_pin().drain() {
            self.pins.release(pin, bytes);
        }
    }

    fn sum(&self, by_pin: &HashMap<PinId, u64>) -> u64 {
        let live = by_pin.iter().filter(|(pin, _)| self.pins.exists(**pin));
        live.map(|(_, bytes)| bytes).sum()
    }

    fn by_pin(&self) -> MutexGuard<'_, HashMap<PinId, u64>> {
        self.by_pin.lock().recover()
    }
}

impl Drop for PinnedBytes {
    /// The disk is switched off, so its pinned bytes no longer count.
    fn drop(&mut self) {
        self.clear();
    }
}
