//! The circuit breaker: answers at once while the origin is known to be down.
//!
//! While the breaker is closed, requests pass. After a number of failures in a row over some time,
//! it opens: requests are refused for a pause. Then one request passes; its success closes the
//! breaker, and its failure opens it again for a longer pause. If it takes long, as a large write
//! does, another one passes beside it. Any other answer, a missing object
//! included, proves that the origin lives. Bodies do not count: an origin whose answers break off
//! is not down.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_core::future::BoxFuture;
use tokio::time::Instant;

use crate::metrics::Meter;
use crate::settings::Trip;
use crate::{
    Answer, Get, List, Listing, Origin, OriginError, OriginWrite, Phase, Write, WriteOutcome,
};
use tidegate_plan::{Bucket, ObjectKey, OriginId, Version};
use tidegate_telemetry::locks::Recover as _;
use tidegate_telemetry::random::draw;

/// The time after which a trial without a result lets another one pass.
const TRIAL_TIME: Duration = Duration::from_secs(10);

/// The answer while the breaker is open.
pub(crate) const BREAKER_OPEN: OriginError = OriginError::Unavailable("known to be down");

/// An origin that gets no requests while it is down.
#[derive(Debug)]
pub(crate) struct Breaker {
    inner: Arc<dyn Origin>,
    trip: Trip,
    meter: Meter,
    state: Mutex<BreakerState>,
}

/// The last known state of an origin.
#[derive(Debug, Clone, Copy)]
enum BreakerState {
    /// The origin answers. `failed` is the number of failures in a row so far, and the time of the
    /// first.
    Closed { failed: Option<(u32, Instant)> },
    /// The origin is down and gets no request before `until`. `probes` is the number of failed
    /// trials.
    Open { until: Instant, probes: u32 },
    /// One request tries since `since` whether it is still down.
    Looking { probes: u32, since: Instant },
}

/// The evidence of an attempt about the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evidence {
    Alive,
    Down,
    /// The request was not sent, or its answer was not awaited.
    None,
}

impl Evidence {
    fn of<T>(result: &Result<T, OriginError>) -> Self {
        match result {
            // The gateway's own limit or the origin's: the error does not tell which.
            Err(OriginError::Throttled { .. } | OriginError::Timeout(Phase::Queue)) => Self::None,
            Err(OriginError::Unavailable(_) | OriginError::Timeout(_)) => Self::Down,
            _ => Self::Alive,
        }
    }
}

impl Breaker {
    /// Guards `inner`.
    pub(crate) fn new(inner: Arc<dyn Origin>, trip: Trip, meter: Meter) -> Self {
        meter.set_breaker_open(false);
        Self {
            inner,
            trip,
            meter,
            state: Mutex::new(BreakerState::Closed { failed: None }),
        }
    }

    async fn attempt<T>(
        &self,
        ask: impl Future<Output = Result<T, OriginError>>,
    ) -> Result<T, OriginError> {
        let mut attempt = self.admit()?;
        let result = ask.await;
        attempt.evidence = Evidence::of(&result);
        result
    }

    fn state(&self) -> MutexGuard<'_, BreakerState> {
        self.state.lock().recover()
    }

    /// Admits a request or refuses it.
    fn admit(&self) -> Result<BreakerAttempt<'_>, OriginError> {
        let (mut state, now) = (self.state(), Instant::now());
        let (probes, due) = match *state {
            BreakerState::Closed { .. } => return Ok(self.attempt_of(false)),
            BreakerState::Open { until, probes } => (probes, until),
            BreakerState::Looking { probes, since } => (probes, since + TRIAL_TIME),
        };
        if now < due {
            return Err(BREAKER_OPEN);
        }
        *state = BreakerState::Looking { probes, since: now };
        Ok(self.attempt_of(true))
    }

    fn attempt_of(&self, probes: bool) -> BreakerAttempt<'_> {
        BreakerAttempt {
            breaker: self,
            probes,
            evidence: Evidence::None,
        }
    }

    fn record(&self, evidence: Evidence, probed: bool) {
        let now = Instant::now();
        let mut state = self.state();
        match (*state, evidence) {
            (BreakerState::Closed { failed }, Evidence::Down) => {
                let (count, since) = failed.map_or((1, now), |(n, since)| (n + 1, since));
                let tripped = count >= self.trip.failures && now - since >= self.trip.span;
                *state = BreakerState::Closed {
                    failed: Some((count, since)),
                };
                if tripped {
                    self.open(&mut state, 0);
                }
            }
            (BreakerState::Looking { probes, .. }, Evidence::Down) if probed => {
                self.open(&mut state, probes.saturating_add(1));
            }
            // The trial gave no evidence: the next request is the trial.
            (BreakerState::Looking { probes, .. }, Evidence::None) if probed => {
                *state = BreakerState::Open { until: now, probes };
            }
            // The late success of a request that was admitted before counts too.
            (before, Evidence::Alive) => {
                *state = BreakerState::Closed { failed: None };
                if !matches!(before, BreakerState::Closed { .. }) {
                    tracing::info!("the origin answers again");
                    self.meter.set_breaker_open(false);
                }
            }
            _ => {}
        }
    }

    fn open(&self, state: &mut BreakerState, probes: u32) {
        let pause = self.trip.pause.pause(probes, draw());
        *state = BreakerState::Open {
            until: Instant::now() + pause,
            probes,
        };
        tracing::warn!(
            ?pause,
            probes,
            "the origin is down, it is left alone for a while"
        );
        self.meter.set_breaker_open(true);
    }
}

/// A request under way; its evidence is recorded when it ends or is dropped.
struct BreakerAttempt<'a> {
    breaker: &'a Breaker,
    probes: bool,
    evidence: Evidence,
}

impl Drop for BreakerAttempt<'_> {
    fn drop(&mut self) {
        self.breaker.record(self.evidence, self.probes);
    }
}

impl Origin for Breaker {
    fn id(&self) -> OriginId {
        self.inner.id()
    }

    fn bucket(&self) -> Bucket {
        self.inner.bucket()
    }

    fn get(&self, request: Get) -> BoxFuture<'_, Result<Answer, OriginError>> {
        Box::pin(self.attempt(self.inner.get(request)))
    }

    fn head(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>> {
        Box::pin(self.attempt(self.inner.head(key)))
    }

    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>> {
        Box::pin(self.attempt(self.inner.peek(key)))
    }

    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>> {
        Box::pin(self.attempt(self.inner.list(request)))
    }

    /// Always sends the probe and learns from its answer: a readiness check needs the present
    /// state, not the remembered one.
    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>> {
        Box::pin(async move {
            let result = self.inner.probe().await;
            self.record(Evidence::of(&result), false);
            result
        })
    }
}

impl OriginWrite for Breaker {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<WriteOutcome, OriginError>> {
        Box::pin(self.attempt(self.inner.write(write)))
    }
}

#[cfg(test)]
mod tests;
