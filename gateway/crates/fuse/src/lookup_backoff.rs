//! Look-ups that did not finish in time.
//!
//! Of all programs that look up one name, or make files in one folder, the kernel lets one through at a time. If the
//! origin hangs, each would wait a deadline, one after the other, and none of those that wait for their turn can be
//! killed. So a slow failure counts for all of them: for a tenth of the time that it took, look-ups that need the
//! origin are refused at once. Known names are still answered.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tidegate_telemetry::locks::Recover as _;
use tokio::time::Instant;

/// The divisor of a failure's duration that gives the time for which it counts.
const BACKOFF_DIVISOR: u32 = 10;

/// The time until which look-ups are refused.
#[derive(Debug, Default)]
pub(crate) struct LookupBackoff(Mutex<Option<Instant>>);

impl LookupBackoff {
    /// Starts a look-up; the caller settles it once it is answered.
    pub(crate) fn begin(&self) -> PendingLookup<'_> {
        PendingLookup {
            backoff: self,
            since: Instant::now(),
        }
    }

    /// Returns while look-ups are refused, else never.
    pub(crate) async fn refused(&self) {
        let until = *self.until();
        if until.is_none_or(|until| until <= Instant::now()) {
            std::future::pending::<()>().await;
        }
    }

    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().recover()
    }
}

/// A look-up. If it is dropped unsettled, because it failed or was given up, it counts as a failure.
#[derive(Debug)]
pub(crate) struct PendingLookup<'a> {
    backoff: &'a LookupBackoff,
    since: Instant,
}

impl PendingLookup<'_> {
    /// Notes that it was answered, refused, or not needed at all: it is no slow failure.
    pub(crate) fn settle(mut self) {
        self.since = Instant::now();
    }
}

impl Drop for PendingLookup<'_> {
    fn drop(&mut self) {
        let pause = self.since.elapsed() / BACKOFF_DIVISOR;
        if pause > Duration::from_millis(1) {
            *self.backoff.until() = Some(Instant::now() + pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;
    use tokio::time::advance;

    use super::*;

    fn refuses(backoff: &LookupBackoff) -> bool {
        pin!(backoff.refused()).now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_failure_counts_for_a_while_and_a_quick_one_or_a_success_does_not() {
        let backoff = LookupBackoff::default();
        drop(backoff.begin());
        assert!(!refuses(&backoff));
        let lookup = backoff.begin();
        advance(Duration::from_secs(10)).await;
        lookup.settle();
        assert!(!refuses(&backoff));
        let lookup = backoff.begin();
        advance(Duration::from_secs(10)).await;
        drop(lookup);
        assert!(refuses(&backoff));
        advance(Duration::from_secs(1)).await;
        assert!(!refuses(&backoff));
    }
}
