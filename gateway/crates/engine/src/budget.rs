//! The byte budget: all memory that the engine holds outside the memory tier.
//!
//! It is charged for chunks that still arrive and for read-ahead that waits for its reader. A budget of the frontend is
//! charged for chunks that clients pin while they are sent. If no bytes are left, demand waits in line, the clients in
//! turn, so it always goes on. Read-ahead only takes bytes that demand leaves free, so it shrinks to nothing first.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::line::Line;
use self::metrics::BudgetMetrics;
use self::permits::{Permits, TakenPermits};
use super::Error;
use tidegate_telemetry::locks::Recover as _;

mod line;
mod metrics;
mod permits;

/// Bytes per permit. Semaphores count in `u32`, and reservations need not be exact to the byte.
const PERMIT_BYTES: u64 = 1024;

/// The share reserved for demand: read-ahead may not take the last quarter.
const DEMAND_SHARE: usize = 4;

/// The time that demand waits for memory before its request fails. Memory is released as fast as other readers are
/// served, so a longer wait means that the budget is too small for the load.
const DEMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// The byte budget. See the module's head.
#[derive(Debug, Clone)]
pub struct Budget {
    permits: Arc<Permits>,
    line: Arc<Line>,
    /// The budgets made by [`Budget::share`], with their divisors.
    shares: Arc<Mutex<Vec<(u64, Budget)>>>,
    metrics: BudgetMetrics,
}

/// A reservation of bytes; released when dropped.
#[derive(Debug)]
pub struct Charge(TakenPermits);

impl Budget {
    /// Returns a budget of `bytes`, rounded down to KiB.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self {
            permits: Permits::new(whole_permits(bytes)),
            line: Arc::default(),
            shares: Arc::default(),
            metrics: BudgetMetrics::default(),
        }
    }

    /// Changes the size, and that of the shares in proportion. A smaller budget takes no reservation back: until enough of
    /// them are released, nothing more is reserved.
    pub fn resize(&self, bytes: u64) {
        self.permits.resize(whole_permits(bytes));
        for (part, share) in self.shares.lock().recover().iter() {
            share.resize(self.total() / part);
        }
    }

    /// Returns the bytes that are free now.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.total().saturating_sub(self.used())
    }

    /// Creates a separate budget of this one's bytes divided by `part`, to limit one kind of use. It changes its size with
    /// this one, which keeps it.
    #[must_use]
    pub fn share(&self, part: u64) -> Self {
        let mut shares = self.shares.lock().recover();
        let share = Self::new(self.total() / part);
        shares.push((part, share.clone()));
        share
    }

    /// Reserves `bytes`, in turn, for a reader that waits for them.
    ///
    /// # Errors
    /// [`Error::Overloaded`] if its turn did not come in bounded time.
    pub async fn demand(&self, bytes: u64) -> Result<Charge, Error> {
        let taken = tokio::time::timeout(DEMAND_TIMEOUT, self.in_turn(bytes)).await;
        taken.map_err(|_| {
            self.metrics.refused.inc();
            Error::Overloaded {
                retry_after: Some(Duration::from_secs(1)),
            }
        })
    }

    /// Reserves `bytes` in turn, without a timeout: for work that is always carried out, and whose caller bounds the
    /// wait.
    pub async fn in_turn(&self, bytes: u64) -> Charge {
        if let Some(charge) = self.try_demand(bytes) {
            return charge;
        }
        self.metrics.waits.inc();
        let _turn = self.line.turn().await;
        Charge(self.permits.take(permits_for(bytes)).await)
    }

    /// Reserves `bytes` at once or not at all, for demand that can do with less. Overtakes no request in line.
    #[must_use]
    pub fn try_demand(&self, bytes: u64) -> Option<Charge> {
        if self.line.is_waited_in() {
            return None;
        }
        self.permits.try_take(permits_for(bytes)).map(Charge)
    }

    /// Reserves `bytes` for work that no client waits for, if enough is left for demand.
    #[must_use]
    pub fn ahead(&self, bytes: u64) -> Option<Charge> {
        let total = self.permits.total();
        let left = self
            .permits
            .free()
            .checked_sub(permits_for(bytes).min(total))?;
        (left >= total / DEMAND_SHARE)
            .then(|| self.try_demand(bytes))
            .flatten()
    }

    /// Returns the bytes reserved now: more than the total for a while after the budget has become smaller.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.permits.taken() as u64 * PERMIT_BYTES
    }

    /// Returns the total bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.permits.total() as u64 * PERMIT_BYTES
    }
}

/// Returns the permits of a budget.
fn whole_permits(bytes: u64) -> usize {
    usize::try_from(bytes / PERMIT_BYTES).unwrap_or(usize::MAX)
}

/// Returns the permits for a reservation.
fn permits_for(bytes: u64) -> usize {
    usize::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(usize::MAX)
}

impl Charge {
    /// Splits off a reservation of `bytes`, or of the rest if that is less.
    #[must_use]
    pub fn split(&mut self, bytes: u64) -> Self {
        Self(self.0.split(permits_for(bytes)))
    }
}

#[cfg(test)]
mod tests;
