//! Readiness: whether the origins and the cache index can answer. Its probes are the only requests to an origin that no
//! reader caused.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use tidegate_origin::{Origin, OriginError, Phase};
use tidegate_plan::OriginId;

/// The time for which a probe's result is used again. Several load balancers ask about every second; an origin need not
/// see all of it.
const PROBE_TTL: Duration = Duration::from_secs(5);

/// The timeout of a probe: the caller wants to know whether requests are answered now.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// The origins to probe, with the result of each one's last probe.
#[derive(Debug, Default)]
pub(super) struct Readiness {
    origins: ArcSwap<Vec<Arc<Probed>>>,
}

#[derive(Debug)]
struct Probed {
    name: String,
    origin: Arc<dyn Origin>,
    last: Mutex<Option<(Instant, Result<(), OriginError>)>>,
}

impl Readiness {
    /// Replaces the origins. One that stays keeps its last result.
    pub(super) fn set(&self, origins: Vec<(String, Arc<dyn Origin>)>) {
        let before = self.origins.load();
        let probed = |(name, origin): (String, Arc<dyn Origin>)| {
            let same = |old: &&Arc<Probed>| old.name == name && Arc::ptr_eq(&old.origin, &origin);
            let stays = before.iter().find(same).cloned();
            stays.unwrap_or_else(|| {
                Arc::new(Probed {
                    name,
                    origin,
                    last: Mutex::new(None),
                })
            })
        };
        let all = origins.into_iter().map(probed).collect();
        self.origins.store(Arc::new(all));
    }

    /// Returns one line for each missing part; probes the origins in parallel. `index` is the cache index's state.
    pub(super) async fn check(&self, index: Result<(), String>) -> Result<(), Vec<String>> {
        let mut missing: Vec<String> = index.err().into_iter().collect();
        let origins = self.origins.load_full();
        let probes = origins.iter().map(|probed| async move {
            let error = probed.probe(PROBE_TTL).await.err()?;
            Some(format!("origin `{}`: {error}", probed.name))
        });
        missing.extend(join_all(probes).await.into_iter().flatten());
        if missing.is_empty() {
            Ok(())
        } else {
            Err(missing)
        }
    }
}

impl Readiness {
    /// Returns the result of an origin's last probe if it is younger than `stands`; otherwise probes again.
    pub(super) async fn reachable(
        &self,
        origin: OriginId,
        stands: Duration,
    ) -> Result<(), OriginError> {
        let origins = self.origins.load_full();
        match origins.iter().find(|one| one.origin.id() == origin) {
            Some(probed) => probed.probe(stands).await,
            None => Ok(()),
        }
    }
}

impl Probed {
    /// Probes at most once within `stands`; concurrent callers wait for the probe under way.
    async fn probe(&self, stands: Duration) -> Result<(), OriginError> {
        let mut last = self.last.lock().await;
        if let Some((at, result)) = &*last
            && at.elapsed() < stands
        {
            return result.clone();
        }
        let late = Err(OriginError::Timeout(Phase::Total));
        let result = timeout(PROBE_TIMEOUT, self.origin.probe())
            .await
            .unwrap_or(late);
        *last = Some((Instant::now(), result.clone()));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_origin::fake::{FakeOrigin, Fault};

    #[tokio::test(start_paused = true)]
    async fn names_every_origin_that_does_not_answer_in_bounded_time() {
        let (well, hung, down) = (FakeOrigin::new(), FakeOrigin::new(), FakeOrigin::new());
        hung.set_faults([Fault::Latency(Duration::from_secs(3600))]);
        down.set_faults([Fault::Refuse(OriginError::Unavailable("refused"))]);
        let named = |name: &str, origin: &FakeOrigin| -> (String, Arc<dyn Origin>) {
            (name.to_owned(), Arc::new(origin.clone()))
        };
        let origins = vec![
            named("well", &well),
            named("hung", &hung),
            named("down", &down),
        ];
        let readiness = Readiness::default();
        readiness.set(origins);
        let began = Instant::now();
        let missing = readiness
            .check(Err("loading".to_owned()))
            .await
            .unwrap_err();
        assert_eq!(missing.len(), 3, "{missing:?}");
        assert!(missing[0] == "loading" && missing[1].contains("`hung`"));
        assert!(missing[2].contains("`down`"));
        assert_eq!(began.elapsed(), PROBE_TIMEOUT);
        // Within the time that a result is used again, no origin is asked.
        readiness.check(Ok(())).await.unwrap_err();
        assert_eq!(well.probes(), 1);
        // A caller that wants a newer result causes a new probe.
        let stands = Duration::from_secs(1);
        tokio::time::advance(stands).await;
        assert!(readiness.reachable(well.id(), stands).await.is_ok());
        assert!(readiness.reachable(well.id(), stands).await.is_ok());
        assert_eq!(well.probes(), 2);
        down.set_faults([]);
    }
}
