//! Names that could not be found out in time.
//!
//! Of all who ask for one name, or make files in one folder, the kernel lets one through at a time.
//! With an origin that hangs each would wait a deadline, one after the other, and none of those that
//! wait for their turn can be killed. So a failure that took long reaches them all: for a tenth of the
//! time that it took, what would have to be asked is refused at once. What is known is answered.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// For how much of the time that it took a failure counts.
const SHARE: u32 = 10;

/// Until when nothing is asked.
#[derive(Debug, Default)]
pub(super) struct Late(Mutex<Option<Instant>>);

impl Late {
    /// Somebody asks; to be told of a success.
    pub(super) fn ask(&self) -> Asking<'_> {
        Asking {
            late: self,
            since: Instant::now(),
        }
    }

    /// Returns while nothing is asked, else never.
    pub(super) async fn refused(&self) {
        let until = *self.until();
        if until.is_none_or(|until| until <= Instant::now()) {
            std::future::pending::<()>().await;
        }
    }

    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question. Dropped without an answer, because it failed or was given up, it counts as a failure.
#[derive(Debug)]
pub(super) struct Asking<'a> {
    late: &'a Late,
    since: Instant,
}

impl Asking<'_> {
    /// It was answered, or was not asked at all.
    pub(super) fn settled(mut self) {
        self.since = Instant::now();
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let pause = self.since.elapsed() / SHARE;
        if pause > Duration::from_millis(1) {
            *self.late.until() = Some(Instant::now() + pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;
    use tokio::time::advance;

    use super::*;

    fn refuses(late: &Late) -> bool {
        pin!(late.refused()).now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_failure_counts_for_a_while_and_a_quick_one_or_a_success_does_not() {
        let late = Late::default();
        drop(late.ask());
        assert!(!refuses(&late));
        let asking = late.ask();
        advance(Duration::from_secs(10)).await;
        asking.settled();
        assert!(!refuses(&late));
        let asking = late.ask();
        advance(Duration::from_secs(10)).await;
        drop(asking);
        assert!(refuses(&late));
        advance(Duration::from_secs(1)).await;
        assert!(!refuses(&late));
    }
}
