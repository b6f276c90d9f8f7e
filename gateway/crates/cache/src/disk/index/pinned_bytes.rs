//! The count of one disk's pinned bytes: at most half of its capacity in all, so that there is
//! always something to evict.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::pins::{PinId, SharedPins};
use tidegate_plan::locks::Recover as _;

/// The pinned bytes of one disk, by pin.
#[derive(Debug)]
pub(in crate::disk) struct Ledger {
    pins: SharedPins,
    used: Mutex<HashMap<PinId, u64>>,
    /// The most bytes that may be pinned in all.
    most: AtomicU64,
}

impl Ledger {
    /// Creates the count for a disk of this capacity.
    pub(in crate::disk) fn new(pins: &SharedPins, capacity: u64) -> Self {
        Self {
            pins: Arc::clone(pins),
            used: Mutex::default(),
            most: AtomicU64::new(capacity / 2),
        }
    }

    /// Sets another capacity.
    pub(in crate::disk) fn resize(&self, capacity: u64) {
        self.most.store(capacity / 2, Ordering::Relaxed);
    }

    /// Counts bytes as pinned. `false`: they are not, because the pin is gone or a limit is
    /// reached.
    pub(in crate::disk) fn take(&self, pin: PinId, bytes: u64) -> bool {
        if pin.is_none() {
            return false;
        }
        let mut used = self.used();
        let most = self.most.load(Ordering::Relaxed);
        if self.sum(&used) + bytes > most || !self.pins.take(pin, bytes) {
            return false;
        }
        *used.entry(pin).or_default() += bytes;
        true
    }

    /// Stops counting bytes as pinned.
    pub(in crate::disk) fn give(&self, pin: PinId, bytes: u64) {
        if pin.is_none() {
            return;
        }
        let mut used = self.used();
        if let Some(own) = used.get_mut(&pin) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                used.remove(&pin);
            }
        }
        self.pins.give(pin, bytes);
    }

    /// Returns whether the chunks of `pin` are to be kept: the pin exists, and no limit is
    /// exceeded.
    pub(in crate::disk) fn keeps(&self, pin: PinId) -> bool {
        !pin.is_none() && self.pins.holds(pin) && self.pinned() <= self.most.load(Ordering::Relaxed)
    }

    /// Returns the pinned bytes.
    pub(in crate::disk) fn pinned(&self) -> u64 {
        self.sum(&self.used())
    }

    /// Stops counting all pinned bytes.
    pub(in crate::disk) fn clear(&self) {
        for (pin, bytes) in self.used().drain() {
            self.pins.give(pin, bytes);
        }
    }

    fn sum(&self, used: &HashMap<PinId, u64>) -> u64 {
        let living = used.iter().filter(|(pin, _)| self.pins.lives(**pin));
        living.map(|(_, bytes)| bytes).sum()
    }

    fn used(&self) -> MutexGuard<'_, HashMap<PinId, u64>> {
        self.used.lock().recover()
    }
}

impl Drop for Ledger {
    /// The disk is taken out, so its pinned bytes no longer count.
    fn drop(&mut self) {
        self.clear();
    }
}
