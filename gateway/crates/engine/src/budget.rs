//! The byte budget: all memory that the engine holds outside the memory tier.
//!
//! It is charged for chunks that still arrive and for read-ahead that waits for its reader. A budget of the frontend is
//! charged for chunks that clients pin while they are sent. If no bytes are left, demand waits in line, the clients in
//! turn, so it always goes on. Read-ahead only takes bytes that demand leaves free, so it shrinks to nothing first.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::line::Line;
use self::metrics::BudgetMetrics;
use self::permits::{Permits, Taken};
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
pub struct Charge(Taken);

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

    #[tokio::test]
    async fn a_budget_grows_and_shrinks_under_its_reservations() {
        let budget = Budget::new(8 * MIB);
        let share = budget.share(2);
        let mut held = budget.try_demand(6 * MIB).expect("free");
        budget.resize(4 * MIB);
        let figures = |budget: &Budget| (budget.total(), budget.used(), budget.free());
        assert_eq!(figures(&budget), (4 * MIB, 6 * MIB, 0));
        assert_eq!(share.total(), 2 * MIB);
        assert!(budget.try_demand(1024).is_none());
        // The first 2 MiB that come back are no longer there.
        drop(held.split(2 * MIB));
        assert_eq!(figures(&budget), (4 * MIB, 4 * MIB, 0));
        drop(held.split(MIB));
        assert_eq!(figures(&budget), (4 * MIB, 3 * MIB, MIB));
        budget.resize(2 * MIB);
        budget.resize(16 * MIB);
        assert_eq!(figures(&budget), (16 * MIB, 3 * MIB, 13 * MIB));
        drop(held);
        assert_eq!(figures(&budget), (16 * MIB, 0, 16 * MIB));
        assert_eq!(share.total(), 8 * MIB);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_for_more_than_is_left_gets_all_of_a_smaller_budget() {
        let budget = Budget::new(8 * MIB);
        let held = budget.try_demand(MIB).expect("free");
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.in_turn(8 * MIB).await }
        });
        tokio::task::yield_now().await;
        budget.resize(2 * MIB);
        tokio::task::yield_now().await;
        drop(held);
        let charge = waiting.await.expect("no panic");
        assert_eq!((budget.used(), budget.free()), (2 * MIB, 0));
        drop(charge);
        assert_eq!(budget.used(), 0);
    }

    /// A waiter that gives up must not hand back permits that a smaller budget does not have.
    #[tokio::test(start_paused = true)]
    async fn a_waiter_that_leaves_pays_what_is_owed() {
        let budget = Budget::new(8 * MIB);
        let held = budget.try_demand(4 * MIB).expect("free");
        let waiting = budget.demand(8 * MIB);
        let shrink = async {
            budget.resize(2 * MIB);
            tokio::task::yield_now().await;
            drop(held);
        };
        let (taken, ()) = tokio::join!(waiting, shrink);
        drop(taken);
        assert_eq!((budget.used(), budget.free()), (0, 2 * MIB));
        let all = budget.try_demand(2 * MIB).expect("free");
        assert!(budget.demand(1024).await.is_err());
        drop(all);
        assert_eq!(budget.free(), 2 * MIB);
    }

    /// Reservations of many tasks while the size changes: what is free in the end is the whole, and at no time is more
    /// reserved than the largest size.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn sizes_change_under_load_and_no_byte_is_lost() {
        let budget = Budget::new(8 * MIB);
        let tasks = (0..8_u64).map(|task| {
            let budget = budget.clone();
            tokio::spawn(async move {
                for nth in 0..2_000 {
                    let bytes = (1 + (task * 7 + nth * 13) % 4_096) * 1024;
                    let charge = budget.demand(bytes).await.expect("a turn comes");
                    assert!(budget.used() <= 8 * MIB);
                    if nth.is_multiple_of(3) {
                        tokio::task::yield_now().await;
                    }
                    drop(charge);
                }
            })
        });
        let tasks: Vec<_> = tasks.collect();
        for nth in 0..500 {
            budget.resize((1 + nth % 8) * MIB);
            tokio::task::yield_now().await;
        }
        for task in tasks {
            task.await.expect("no panic");
        }
        budget.resize(8 * MIB);
        assert_eq!((budget.used(), budget.free()), (0, 8 * MIB));
    }
}
