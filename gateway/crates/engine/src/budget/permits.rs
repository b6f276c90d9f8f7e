//! Permits whose number can change while some of them are taken.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use tidegate_telemetry::locks::Recover as _;

/// A number of permits, which can be changed.
///
/// If it falls below the permits that are taken, the difference is *owed*: permits that are given back pay for it first,
/// and only the others are free again. So a smaller number never takes a permit from its holder.
#[derive(Debug)]
pub(super) struct Permits {
    free: Arc<Semaphore>,
    total: AtomicUsize,
    owed: AtomicUsize,
    /// Held while the number changes.
    resizing: Mutex<()>,
    /// Told to those that wait for permits, because they may wait for more than there are now.
    resized: Notify,
}

/// Permits that are taken; given back when dropped.
#[derive(Debug)]
pub(super) struct TakenPermits {
    permit: OwnedSemaphorePermit,
    of: Arc<Permits>,
}

/// Pays what is owed when dropped. A waiter that ends early gives its permits back to the semaphore, which owes nothing.
struct Repay<'a>(&'a Arc<Permits>);

impl Drop for Repay<'_> {
    fn drop(&mut self) {
        self.0.repay();
    }
}

impl Permits {
    /// Returns `total` permits, or as many as there can be.
    pub(super) fn new(total: usize) -> Arc<Self> {
        let total = total.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            free: Arc::new(Semaphore::new(total)),
            total: AtomicUsize::new(total),
            owed: AtomicUsize::new(0),
            resizing: Mutex::default(),
            resized: Notify::new(),
        })
    }

    /// Returns the number of permits.
    pub(super) fn total(&self) -> usize {
        self.total.load(Ordering::SeqCst)
    }

    /// Returns the permits that can be taken now.
    pub(super) fn free(&self) -> usize {
        self.free.available_permits()
    }

    /// Returns the permits that are taken. They may be more than [`Permits::total`].
    pub(super) fn taken(&self) -> usize {
        let given_out = self.total() + self.owed.load(Ordering::SeqCst);
        given_out.saturating_sub(self.free())
    }

    /// Takes `count` permits, or all if there are fewer, at once or not at all.
    pub(super) fn try_take(self: &Arc<Self>, count: usize) -> Option<TakenPermits> {
        let permit = self.free.clone().try_acquire_many_owned(self.cut(count));
        Some(self.of_permit(permit.ok()?))
    }

    /// Waits for `count` permits, or for all if there are fewer.
    pub(super) async fn take(self: &Arc<Self>, count: usize) -> TakenPermits {
        let _repay = Repay(self);
        loop {
            let mut resized = pin!(self.resized.notified());
            // Before the total is read, so that no change is missed.
            resized.as_mut().enable();
            self.repay();
            let permit = self.free.clone().acquire_many_owned(self.cut(count));
            tokio::select! {
                permit = permit => return self.of_permit(permit.expect("the semaphore is never closed")),
                () = resized => {}
            }
        }
    }

    /// Changes the number of permits, to `total` or as many as there can be.
    pub(super) fn resize(self: &Arc<Self>, total: usize) {
        let total = total.min(Semaphore::MAX_PERMITS);
        let _resizing = self.resizing.lock().recover();
        let before = self.total();
        match total.checked_sub(before) {
            Some(more) => {
                self.free.add_permits(more - self.pay(more));
                self.total.store(total, Ordering::SeqCst);
            }
            None => {
                self.total.store(total, Ordering::SeqCst);
                self.owed.fetch_add(before - total, Ordering::SeqCst);
                self.repay();
            }
        }
        self.resized.notify_waiters();
    }

    /// Pays with up to `count` permits for what is owed; returns how many.
    fn pay(&self, count: usize) -> usize {
        if self.owed.load(Ordering::SeqCst) == 0 {
            return 0;
        }
        let left = |owed: usize| Some(owed.saturating_sub(count));
        let owed = self
            .owed
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        owed.unwrap_or_else(|owed| owed).min(count)
    }

    /// Pays with free permits for what is owed.
    fn repay(self: &Arc<Self>) {
        loop {
            let count = self.owed.load(Ordering::SeqCst).min(self.free());
            if count == 0 {
                return;
            }
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            if let Ok(permit) = self.free.clone().try_acquire_many_owned(count) {
                drop(self.of_permit(permit));
            }
        }
    }

    fn of_permit(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> TakenPermits {
        TakenPermits {
            permit,
            of: self.clone(),
        }
    }

    /// Returns the permits to take for `count`, at most all of them: a larger request would wait for ever.
    fn cut(&self, count: usize) -> u32 {
        u32::try_from(count.min(self.total())).unwrap_or(u32::MAX)
    }
}

impl TakenPermits {
    /// Splits off `count` permits, or the rest if there are fewer.
    pub(super) fn split(&mut self, count: usize) -> Self {
        let part = self.permit.split(count.min(self.permit.num_permits()));
        self.of.of_permit(part.expect("no more than there are"))
    }
}

impl Drop for TakenPermits {
    fn drop(&mut self) {
        let paid = self.of.pay(self.permit.num_permits());
        if let Some(paid) = self.permit.split(paid) {
            paid.forget();
        }
    }
}
