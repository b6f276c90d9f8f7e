//! The check behind `/readyz`, made in the background while a client of the console asks for its result.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use tidegate_admin::Control;
use tidegate_telemetry::locks::Recover as _;

/// The time between two checks, and the time that one may take.
const CHECK_PERIOD: Duration = Duration::from_secs(5);

/// The age from which a result says nothing of the present. While clients ask, none gets older than two periods.
const MAX_AGE: Duration = Duration::from_secs(15);

/// The last check.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<ReadinessCheck>);

#[derive(Debug, Default)]
struct ReadinessCheck {
    /// The time at which the last check began; a check that is under way counts.
    begun: Option<Instant>,
    /// The end of the last check, and the missing parts.
    result: Option<(Instant, Vec<String>)>,
}

/// The result of the last check.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LastCheck {
    /// The missing parts; `None`: not known, because no check has ended in the last 15 s.
    pub(crate) missing: Option<Vec<String>>,
    /// The time since its end, in seconds; `None`: none has ended.
    pub(crate) age: Option<f64>,
}

impl Readiness {
    /// Returns the last result, and begins a check if the last one began more than 5 s ago.
    pub(crate) fn look(self: &Arc<Self>, control: &Arc<dyn Control>) -> LastCheck {
        let mut checked = self.0.lock().recover();
        let is_due = |begun: Instant| begun.elapsed() >= CHECK_PERIOD;
        if checked.begun.is_none_or(is_due) {
            checked.begun = Some(Instant::now());
            let (this, control) = (self.clone(), control.clone());
            tokio::spawn(async move {
                let result = timeout(CHECK_PERIOD, control.ready()).await;
                let missing = match result {
                    Ok(result) => result.err().unwrap_or_default(),
                    Err(_) => vec!["the check takes longer than 5 s".to_owned()],
                };
                this.0.lock().recover().result = Some((Instant::now(), missing));
            });
        }
        let Some((ended, missing)) = &checked.result else {
            return LastCheck::default();
        };
        LastCheck {
            missing: (ended.elapsed() <= MAX_AGE).then(|| missing.clone()),
            age: Some(ended.elapsed().as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use futures_core::future::BoxFuture;
    use tidegate_admin::place::PlaceError;
    use tidegate_admin::{Purge, PurgeError, PurgeResult, ResolvedPurge};
    use tokio::task::yield_now;
    use tokio::time::advance;

    /// A gateway whose bucket is missing.
    struct WithoutBucket;

    impl Control for WithoutBucket {
        fn ready(&self) -> BoxFuture<'_, Result<(), Vec<String>>> {
            Box::pin(async { Err(vec!["the bucket".to_owned()]) })
        }

        fn notes(&self) -> Vec<String> {
            Vec::new()
        }

        fn work(&self) -> Vec<String> {
            Vec::new()
        }

        fn resolve(&self, _: &Purge) -> Result<ResolvedPurge, PlaceError> {
            Err(PlaceError::NoRoute)
        }

        fn purge<'a>(
            &'a self,
            _: &'a ResolvedPurge,
        ) -> BoxFuture<'a, Result<PurgeResult, PurgeError>> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_that_is_too_old_is_not_known() {
        let readiness = Arc::<Readiness>::default();
        let control: Arc<dyn Control> = Arc::new(WithoutBucket);
        assert_eq!(readiness.look(&control), LastCheck::default());
        yield_now().await;
        let missing = Some(vec!["the bucket".to_owned()]);
        let found = |age| LastCheck {
            missing: missing.clone(),
            age: Some(age),
        };
        assert_eq!(readiness.look(&control), found(0.0));
        // No client asks for an hour; the next one begins a check.
        advance(Duration::from_secs(3600)).await;
        let stale = LastCheck {
            missing: None,
            age: Some(3600.0),
        };
        assert_eq!(readiness.look(&control), stale);
        yield_now().await;
        assert_eq!(readiness.look(&control), found(0.0));
    }
}
