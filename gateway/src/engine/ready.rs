//! Whether everything is there that answers need: the one thing asked of an origin that no reader
//! caused.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::origin::{Origin, OriginError, Phase};
use crate::plan::OriginId;

/// How long a probe's result stands. Load balancers ask every second or so, and several of them; an
/// origin need not hear all of it.
const STANDS: Duration = Duration::from_secs(5);

/// How long a probe may take: who asks wants to know whether requests are answered now.
const PATIENCE: Duration = Duration::from_secs(3);

/// The origins to be probed, with what the last probe said.
#[derive(Debug)]
pub(super) struct Readiness {
    origins: Vec<Probed>,
}

#[derive(Debug)]
struct Probed {
    name: String,
    origin: Arc<dyn Origin>,
    last: Mutex<Option<(Instant, Result<(), OriginError>)>>,
}

impl Readiness {
    pub(super) fn new(origins: Vec<(String, Arc<dyn Origin>)>) -> Self {
        let probed = |(name, origin)| Probed {
            name,
            origin,
            last: Mutex::new(None),
        };
        Self {
            origins: origins.into_iter().map(probed).collect(),
        }
    }

    /// All that is missing, one line each, origins side by side; `index` is what the cache index says.
    pub(super) async fn check(&self, index: Result<(), String>) -> Result<(), Vec<String>> {
        let mut missing: Vec<String> = index.err().into_iter().collect();
        let probes = self.origins.iter().map(|probed| async move {
            let error = probed.probe(STANDS).await.err()?;
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
    /// What the last probe of an origin said, if it was within `stands`, else what another one says.
    pub(super) async fn reachable(
        &self,
        origin: OriginId,
        stands: Duration,
    ) -> Result<(), OriginError> {
        let probed = self.origins.iter().find(|one| one.origin.id() == origin);
        match probed {
            Some(probed) => probed.probe(stands).await,
            None => Ok(()),
        }
    }
}

impl Probed {
    /// Asks at most once in a while; who comes in between waits for the answer under way.
    async fn probe(&self, stands: Duration) -> Result<(), OriginError> {
        let mut last = self.last.lock().await;
        if let Some((at, result)) = &*last
            && at.elapsed() < stands
        {
            return result.clone();
        }
        let late = Err(OriginError::Timeout(Phase::Total));
        let result = timeout(PATIENCE, self.origin.probe()).await.unwrap_or(late);
        *last = Some((Instant::now(), result.clone()));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::fake::{FakeOrigin, Fault};

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
        let readiness = Readiness::new(origins);
        let began = Instant::now();
        let missing = readiness
            .check(Err("loading".to_owned()))
            .await
            .unwrap_err();
        assert_eq!(missing.len(), 3, "{missing:?}");
        assert!(missing[0] == "loading" && missing[1].contains("`hung`"));
        assert!(missing[2].contains("`down`"));
        assert_eq!(began.elapsed(), PATIENCE);
        // Asked again within the time that a result stands, nobody is bothered.
        readiness.check(Ok(())).await.unwrap_err();
        assert_eq!(well.probes(), 1);
        // Who wants a newer result has it asked for.
        let stands = Duration::from_secs(1);
        tokio::time::advance(stands).await;
        assert!(readiness.reachable(well.id(), stands).await.is_ok());
        assert!(readiness.reachable(well.id(), stands).await.is_ok());
        assert_eq!(well.probes(), 2);
        down.set_faults([]);
    }
}
