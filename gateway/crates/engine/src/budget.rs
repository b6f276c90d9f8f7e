//! The byte budget: all memory that the engine holds outside the memory tier.
//!
//! It is charged for chunks that still arrive and for read-ahead that waits for its reader. A budget of the frontend is
//! charged for chunks that clients pin while they are sent. If no bytes are left, demand waits in line, the clients in
//! turn, so it always goes on. Read-ahead only takes bytes that demand leaves free, so it shrinks to nothing first.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::line::Line;
use self::metrics::BudgetMetrics;
use super::Error;

mod line;
mod metrics;

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
    free: Arc<Semaphore>,
    line: Arc<Line>,
    total: usize,
    metrics: BudgetMetrics,
}

/// A reservation of bytes; released when dropped.
#[derive(Debug)]
pub struct Charge(OwnedSemaphorePermit);

impl Budget {
    /// Returns a budget of `bytes`, rounded down to KiB.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let total = usize::try_from(bytes / PERMIT_BYTES)
            .unwrap_or(usize::MAX)
            .min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(total)),
            line: Arc::default(),
            total,
            metrics: BudgetMetrics::default(),
        }
    }

    /// Returns the bytes that are free now.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.total() - self.used()
    }

    /// Creates a separate budget of this one's bytes divided by `part`, to limit one kind of use.
    #[must_use]
    pub fn share(&self, part: u64) -> Self {
        Self::new(self.total() / part)
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
        let permits = self.permits(bytes);
        let permit = self.free.clone().acquire_many_owned(permits).await;
        Charge(permit.expect("the semaphore is never closed"))
    }

    /// Reserves `bytes` at once or not at all, for demand that can do with less. Overtakes no request in line.
    #[must_use]
    pub fn try_demand(&self, bytes: u64) -> Option<Charge> {
        if self.line.is_waited_in() {
            return None;
        }
        self.free
            .clone()
            .try_acquire_many_owned(self.permits(bytes))
            .ok()
            .map(Charge)
    }

    /// Reserves `bytes` for work that no client waits for, if enough is left for demand.
    #[must_use]
    pub fn ahead(&self, bytes: u64) -> Option<Charge> {
        let permits = self.permits(bytes);
        let left = self
            .free
            .available_permits()
            .checked_sub(permits as usize)?;
        (left >= self.total / DEMAND_SHARE)
            .then(|| self.try_demand(bytes))
            .flatten()
    }

    /// Returns the bytes reserved now.
    #[must_use]
    pub fn used(&self) -> u64 {
        (self.total - self.free.available_permits().min(self.total)) as u64 * PERMIT_BYTES
    }

    /// Returns the total bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total as u64 * PERMIT_BYTES
    }

    /// Returns the permits for `bytes`, at most all of them: a larger reservation would wait for ever.
    fn permits(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(PERMIT_BYTES).min(self.total as u64)).unwrap_or(u32::MAX)
    }
}

impl Charge {
    /// Splits off a reservation of `bytes`, or of the rest if that is less.
    #[must_use]
    pub fn split(&mut self, bytes: u64) -> Self {
        let permits = usize::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(usize::MAX);
        let part = self.0.split(permits.min(self.0.num_permits()));
        Self(part.expect("no more than there is"))
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[tokio::test]
    async fn read_ahead_leaves_a_quarter_for_demand() {
        let budget = Budget::new(8 * MIB);
        let ahead = budget
            .ahead(6 * MIB)
            .expect("three quarters are free for it");
        assert!(budget.ahead(1024).is_none());
        let demand = budget.try_demand(2 * MIB).expect("kept for demand");
        assert_eq!(budget.used(), 8 * MIB);
        drop((ahead, demand));
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn demand_waits_its_turn_and_is_shed_in_the_end() {
        let budget = Budget::new(MIB);
        let all = budget.try_demand(MIB).expect("free");
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.demand(1024).await.map(drop) }
        });
        tokio::task::yield_now().await;
        drop(all);
        assert_eq!(waiting.await.expect("no panic"), Ok(()));

        let _all = budget.try_demand(MIB).expect("free again");
        assert!(matches!(
            budget.demand(1024).await,
            Err(Error::Overloaded { .. })
        ));

        let mut registry = Registry::default();
        budget.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        for line in [
            "budget_size_bytes 1048576",
            "budget_used_bytes 1048576",
            "budget_waits_total 2",
            "budget_refused_total 1",
        ] {
            assert!(
                text.lines().any(|it| it == line),
                "{line} is not in\n{text}"
            );
        }
    }

    #[tokio::test]
    async fn a_charge_splits_and_never_exceeds_the_whole() {
        let budget = Budget::new(MIB);
        let mut charge = budget.try_demand(100 * MIB).expect("cut to the whole");
        let half = charge.split(MIB / 2);
        drop(charge);
        assert_eq!(budget.used(), MIB / 2);
        drop(half);
        assert_eq!(budget.used(), 0);
    }
}
