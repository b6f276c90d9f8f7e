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
    origins: ArcSwap<Vec<Arc<ProbedOrigin>>>,
}

/// The time and the result of the last probe.
type LastProbe = Option<(Instant, Result<(), OriginError>)>;

#[derive(Debug)]
struct ProbedOrigin {
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
            let same =
                |old: &&Arc<ProbedOrigin>| old.name == name && Arc::ptr_eq(&old.origin, &origin);
            let stays = before.iter().find(same).cloned();
            stays.unwrap_or_else(|| {
                Arc::new(ProbedOrigin {
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
    fn of(&self, origin: OriginId) -> Option<Arc<ProbedOrigin>> {
        let origins = self.origins.load();
        let own = origins.iter().find(|one| one.origin.id() == origin);
        own.cloned()
    }

    /// Returns whether the origin has answered any request within `stands`; if it has not, probes it. A probe that failed
    /// within `stands` is not repeated.
    pub(super) async fn reachable(
        &self,
        origin: OriginId,
        stands: Duration,
    ) -> Result<(), OriginError> {
        match self.of(origin) {
            Some(probed) => probed.reachable(stands).await,
            None => Ok(()),
        }
    }

    /// Does the same for an open that may come, unless a probe is under way. It leaves no failure behind: the open, if it
    /// comes, probes for itself.
    pub(super) async fn reach_ahead(&self, origin: OriginId, stands: Duration) {
        if let Some(probed) = self.of(origin) {
            probed.reach_ahead(stands).await;
        }
    }
}

impl ProbedOrigin {
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
mod tests;
