//! The byte budget: everything the engine holds in memory apart from the memory tier.
//!
//! Chunks that are still arriving, what was read ahead and waits for its reader: all of it is charged
//! here. What clients pin of chunks on their way to them is charged to a purse of the frontend's.
//! Demand waits in line when nothing is left, the clients in turn, so it goes on however tight it gets;
//! read-ahead takes only what demand leaves over, so it shrinks to nothing first.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::line::Line;
use super::Error;

mod line;

/// Bytes per permit. Semaphores count in `u32`, and charges need not be exact to the byte.
const UNIT: u64 = 1024;

/// The share kept for demand: read-ahead may not take the last quarter.
const KEPT_FOR_DEMAND: usize = 4;

/// How long demand waits for memory before the request is shed. Memory comes back as fast as other
/// readers are served, so a longer wait means that the budget is too small for the load.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module's head.
#[derive(Debug, Clone)]
pub struct Budget {
    free: Arc<Semaphore>,
    line: Arc<Line>,
    total: usize,
}

/// Bytes taken from the budget; given back when dropped.
#[derive(Debug)]
pub struct Charge(OwnedSemaphorePermit);

impl Budget {
    /// A budget of `bytes`, rounded down to KiB.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        let total = usize::try_from(bytes / UNIT)
            .unwrap_or(usize::MAX)
            .min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(total)),
            line: Arc::default(),
            total,
        }
    }

    /// A purse beside this one, with one `part` of its bytes: for those who may not take all of it.
    #[must_use]
    pub fn share(&self, part: u64) -> Self {
        Self::new(self.total() / part)
    }

    /// Takes `bytes` for a reader that waits for them, in turn.
    ///
    /// # Errors
    /// [`Error::Overloaded`] when it did not come to its turn in bounded time.
    pub async fn demand(&self, bytes: u64) -> Result<Charge, Error> {
        let taken = tokio::time::timeout(PATIENCE, self.in_turn(bytes)).await;
        taken.map_err(|_| Error::Overloaded {
            retry_after: Some(Duration::from_secs(1)),
        })
    }

    /// Takes `bytes` in turn, however long that takes: for what is carried out in the end, and whose
    /// caller bounds the wait.
    pub async fn in_turn(&self, bytes: u64) -> Charge {
        if let Some(charge) = self.try_demand(bytes) {
            return charge;
        }
        let _turn = self.line.turn().await;
        let permits = self.permits(bytes);
        let permit = self.free.clone().acquire_many_owned(permits).await;
        Charge(permit.expect("the semaphore is never closed"))
    }

    /// Takes `bytes` at once or not at all, for demand that can do with less. Overtakes no request in line.
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

    /// Takes `bytes` for something that nobody waits for, if enough is left over for demand.
    #[must_use]
    pub fn ahead(&self, bytes: u64) -> Option<Charge> {
        let permits = self.permits(bytes);
        let left = self
            .free
            .available_permits()
            .checked_sub(permits as usize)?;
        (left >= self.total / KEPT_FOR_DEMAND)
            .then(|| self.try_demand(bytes))
            .flatten()
    }

    /// Bytes taken at the moment.
    #[must_use]
    pub fn used(&self) -> u64 {
        (self.total - self.free.available_permits().min(self.total)) as u64 * UNIT
    }

    /// Bytes in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total as u64 * UNIT
    }

    /// No single charge may be larger than the whole: it would wait for ever.
    fn permits(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT).min(self.total as u64)).unwrap_or(u32::MAX)
    }
}

impl Charge {
    /// Splits off a charge of `bytes`, or of what is left.
    #[must_use]
    pub fn split(&mut self, bytes: u64) -> Self {
        let permits = usize::try_from(bytes.div_ceil(UNIT)).unwrap_or(usize::MAX);
        let part = self.0.split(permits.min(self.0.num_permits()));
        Self(part.expect("no more than there is"))
    }
}

#[cfg(test)]
mod tests {
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
