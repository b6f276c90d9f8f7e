//! Answers at once while the origin is known to be down.
//!
//! Closed, requests pass. After so many failures in a row, over some time, it opens: requests are
//! refused for a pause. Then one is let through; its success closes the breaker, its failure opens
//! it again for a longer pause. What any other answer says, a missing object included, is that the
//! origin lives. Bodies are not looked at: an origin whose answers break off is not down.

use std::sync::{Arc, Mutex, MutexGuard};

use futures_core::future::BoxFuture;
use tokio::time::Instant;

use super::metrics::Meter;
use super::random::draw;
use super::settings::Trip;
use super::{Answer, Get, List, Listing, Origin, OriginError, OriginWrite, Phase, Write, Wrote};
use crate::plan::{Bucket, ObjectKey, OriginId, Version};

/// The answer while the breaker is open.
pub const OPEN: OriginError = OriginError::Unavailable("known to be down");

/// An origin that is left alone while it is down.
#[derive(Debug)]
pub struct Breaker {
    inner: Arc<dyn Origin>,
    trip: Trip,
    meter: Meter,
    state: Mutex<State>,
}

/// How an origin was, last we looked.
#[derive(Debug, Clone, Copy)]
enum State {
    /// It answers, or failed only so often in a row, since when.
    Closed { failed: Option<(u32, Instant)> },
    /// It is down; nobody asks before `until`. The how manieth look failed.
    Open { until: Instant, looks: u32 },
    /// One request looks whether it is still down.
    Looking { looks: u32 },
}

/// What an attempt says about the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evidence {
    Alive,
    Down,
    /// It was not asked, or the answer was never waited for.
    None,
}

impl Evidence {
    fn of<T>(result: &Result<T, OriginError>) -> Self {
        match result {
            // Ours, or the origin's: it cannot be told from here.
            Err(OriginError::Throttled { .. } | OriginError::Timeout(Phase::Queue)) => Self::None,
            Err(OriginError::Unavailable(_) | OriginError::Timeout(_)) => Self::Down,
            _ => Self::Alive,
        }
    }
}

impl Breaker {
    /// Watches over `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Origin>, trip: Trip, meter: Meter) -> Self {
        meter.breaker_open(false);
        Self {
            inner,
            trip,
            meter,
            state: Mutex::new(State::Closed { failed: None }),
        }
    }

    async fn guarded<T>(
        &self,
        ask: impl Future<Output = Result<T, OriginError>>,
    ) -> Result<T, OriginError> {
        let mut attempt = self.admit()?;
        let result = ask.await;
        attempt.evidence = Evidence::of(&result);
        result
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Lets a request pass, or refuses it.
    fn admit(&self) -> Result<Attempt<'_>, OriginError> {
        let mut state = self.state();
        let looks = match *state {
            State::Closed { .. } => false,
            State::Open { until, looks } if Instant::now() >= until => {
                *state = State::Looking { looks };
                true
            }
            State::Open { .. } | State::Looking { .. } => return Err(OPEN),
        };
        Ok(Attempt {
            breaker: self,
            looks,
            evidence: Evidence::None,
        })
    }

    fn learn(&self, evidence: Evidence, looked: bool) {
        let now = Instant::now();
        let mut state = self.state();
        match (*state, evidence) {
            (State::Closed { failed }, Evidence::Down) => {
                let (count, since) = failed.map_or((1, now), |(n, since)| (n + 1, since));
                let tripped = count >= self.trip.failures && now - since >= self.trip.span;
                *state = State::Closed {
                    failed: Some((count, since)),
                };
                if tripped {
                    self.open(&mut state, 0);
                }
            }
            (State::Looking { looks }, Evidence::Down) if looked => {
                self.open(&mut state, looks.saturating_add(1));
            }
            // The look told nothing: the next request looks.
            (State::Looking { looks }, Evidence::None) if looked => {
                *state = State::Open { until: now, looks };
            }
            // Also the late success of a request that was let through before.
            (before, Evidence::Alive) => {
                *state = State::Closed { failed: None };
                if !matches!(before, State::Closed { .. }) {
                    tracing::info!("the origin answers again");
                    self.meter.breaker_open(false);
                }
            }
            _ => {}
        }
    }

    fn open(&self, state: &mut State, looks: u32) {
        let pause = self.trip.pause.pause(looks, draw());
        *state = State::Open {
            until: Instant::now() + pause,
            looks,
        };
        tracing::warn!(
            ?pause,
            looks,
            "the origin is down, it is left alone for a while"
        );
        self.meter.breaker_open(true);
    }
}

/// A request on its way; what it found out is told when it ends or is given up.
struct Attempt<'a> {
    breaker: &'a Breaker,
    looks: bool,
    evidence: Evidence,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.breaker.learn(self.evidence, self.looks);
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
        Box::pin(self.guarded(self.inner.get(request)))
    }

    fn head(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>> {
        Box::pin(self.guarded(self.inner.head(key)))
    }

    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>> {
        Box::pin(self.guarded(self.inner.peek(key)))
    }

    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>> {
        Box::pin(self.guarded(self.inner.list(request)))
    }

    /// Always asks, and learns from the answer: who wants to know whether the origin is back must
    /// not be told what is remembered.
    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>> {
        Box::pin(async move {
            let result = self.inner.probe().await;
            self.learn(Evidence::of(&result), false);
            result
        })
    }
}

impl OriginWrite for Breaker {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Wrote, OriginError>> {
        Box::pin(self.guarded(self.inner.write(write)))
    }
}

#[cfg(test)]
mod tests;
