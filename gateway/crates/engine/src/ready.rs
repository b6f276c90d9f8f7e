//! Readiness: whether the origins and the cache index can answer. Its probes are the only requests to an origin that no
//! reader caused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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

/// The time and the result of the last probe.
type LastProbe = Option<(Instant, Result<(), OriginError>)>;

#[derive(Debug)]
struct Probed {
    name: String,
    origin: Arc<dyn Origin>,
    last: Mutex<LastProbe>,
    /// Whether a probe ahead of an open is under way.
    is_ahead: AtomicBool,
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
                    is_ahead: AtomicBool::new(false),
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
    /// Returns whether the origin has answered any request within `stands`; if it has not, probes it. A probe that failed
    /// within `stands` is not repeated.
    pub(super) async fn reachable(
        &self,
        origin: OriginId,
        stands: Duration,
    ) -> Result<(), OriginError> {
        let origins = self.origins.load_full();
        match origins.iter().find(|one| one.origin.id() == origin) {
            Some(probed) => probed.reachable(stands).await,
            None => Ok(()),
        }
    }
}

impl Readiness {
    /// Does the same for an open that may come, unless a probe is under way. It leaves no failure behind: the open, if it
    /// comes, probes for itself.
    pub(super) async fn reach_ahead(&self, origin: OriginId, stands: Duration) {
        let origins = self.origins.load_full();
        if let Some(probed) = origins.iter().find(|one| one.origin.id() == origin) {
            probed.reach_ahead(stands).await;
        }
    }
}

impl Probed {
    /// See [`Readiness::reach_ahead`]. It keeps no other caller waiting.
    async fn reach_ahead(&self, stands: Duration) {
        let knows = |last: &LastProbe| matches!(last, Some((at, _)) if at.elapsed() < stands);
        if self.last.try_lock().map_or(true, |last| knows(&last)) {
            return;
        }
        let proof = self.origin.last_proof();
        if proof.is_some_and(|at| at.elapsed() < stands) || self.is_ahead.swap(true, Relaxed) {
            return;
        }
        let probed = timeout(PROBE_TIMEOUT, self.origin.probe()).await;
        if let (Ok(Ok(())), Ok(mut last)) = (probed, self.last.try_lock()) {
            *last = Some((Instant::now(), Ok(())));
        }
        self.is_ahead.store(false, Relaxed);
    }

    /// See [`Readiness::reachable`].
    async fn reachable(&self, stands: Duration) -> Result<(), OriginError> {
        let mut last = self.last.lock().await;
        let failed = match &*last {
            Some((at, Err(_))) => Some(*at),
            _ => None,
        };
        let proof = self.origin.last_proof();
        if proof.is_some_and(|at| at.elapsed() < stands && Some(at) > failed) {
            return Ok(());
        }
        self.probe_locked(&mut last, stands).await
    }

    /// Probes at most once within `stands`; concurrent callers wait for the probe under way.
    async fn probe(&self, stands: Duration) -> Result<(), OriginError> {
        let mut last = self.last.lock().await;
        self.probe_locked(&mut last, stands).await
    }

    async fn probe_locked(
        &self,
        last: &mut LastProbe,
        stands: Duration,
    ) -> Result<(), OriginError> {
        if let Some((at, result)) = last
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
    use tidegate_origin::{List, Metrics, Settings, stack};
    use tidegate_plan::ObjectKey;
    use tokio::time::advance;

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

    #[tokio::test(start_paused = true)]
    async fn a_probe_ahead_of_an_open_counts_if_it_succeeds_and_keeps_no_open_waiting() {
        let fake = FakeOrigin::new();
        let metrics = Metrics::default();
        let origin = stack(Arc::new(fake.clone()), &Settings::new("m", "m"), &metrics);
        let readiness = Readiness::default();
        readiness.set(vec![("m".to_owned(), origin)]);
        let stands = Duration::from_secs(1);
        let ahead = || readiness.reach_ahead(fake.id(), stands);
        let reachable = || readiness.reachable(fake.id(), stands);
        fake.set_faults([Fault::Refuse(OriginError::Forbidden)]);
        ahead().await;
        assert_eq!(fake.probes(), 1);
        fake.set_faults([]);
        ahead().await;
        assert_eq!((reachable().await, fake.probes()), (Ok(()), 2));
        advance(stands).await;
        fake.set_faults([Fault::Latency(Duration::from_secs(3600))]);
        let begun = Instant::now();
        let (_, _, found) = tokio::join!(ahead(), ahead(), reachable());
        assert!(found.is_err());
        assert_eq!((begun.elapsed(), fake.probes()), (PROBE_TIMEOUT, 4));
        // The open that has just failed would fail at once: no look-up asks again.
        ahead().await;
        assert_eq!(fake.probes(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn any_good_answer_counts_as_a_probe_until_a_request_fails() {
        let fake = FakeOrigin::new();
        fake.put("k", "bytes");
        let metrics = Metrics::default();
        let origin = stack(Arc::new(fake.clone()), &Settings::new("m", "m"), &metrics);
        let readiness = Readiness::default();
        readiness.set(vec![("m".to_owned(), origin.clone())]);
        let stands = Duration::from_secs(1);
        let reachable = async || readiness.reachable(fake.id(), stands).await;
        let key = ObjectKey::new("k").expect("a key");
        for _ in 0..10 {
            origin.head(&key).await.expect("a version");
            advance(stands / 2).await;
            assert_eq!(reachable().await, Ok(()));
        }
        assert_eq!(fake.probes(), 0, "an answer of half a second ago counts");
        advance(stands / 2).await;
        assert_eq!(reachable().await, Ok(()));
        assert_eq!(fake.probes(), 1, "the answer is too old");
        let gone = OriginError::Unavailable("not reached");
        fake.set_faults([Fault::Refuse(gone.clone())]);
        origin.head(&key).await.expect_err("down");
        advance(stands).await;
        assert_eq!(reachable().await, Err(gone.clone()));
        assert_eq!(reachable().await, Err(gone));
        assert_eq!(fake.probes(), 2, "a failed probe is not repeated");
        fake.set_faults([]);
        // Longer than the breaker's pause.
        advance(Duration::from_secs(60)).await;
        origin.list(page()).await.expect("a page");
        assert_eq!(reachable().await, Ok(()));
        assert_eq!(fake.probes(), 2, "an answer since the failed probe counts");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_before_a_probe_that_failed_does_not_count() {
        let fake = FakeOrigin::new();
        let metrics = Metrics::default();
        let origin = stack(Arc::new(fake.clone()), &Settings::new("m", "m"), &metrics);
        let readiness = Readiness::default();
        readiness.set(vec![("m".to_owned(), origin.clone())]);
        origin.list(page()).await.expect("a page");
        fake.set_faults([Fault::Latency(Duration::from_secs(3600))]);
        readiness.check(Ok(())).await.unwrap_err();
        let late = OriginError::Timeout(Phase::Total);
        let stands = PROBE_TIMEOUT * 2;
        assert_eq!(readiness.reachable(fake.id(), stands).await, Err(late));
        assert_eq!(fake.probes(), 1);
    }

    fn page() -> List {
        List {
            prefix: String::new(),
            delimiter: true,
            after: None,
            limit: 1,
        }
    }
}
