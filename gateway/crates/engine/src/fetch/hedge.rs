//! Hedging: a second request for bytes with which the first is late while a reader waits.
//!
//! A connection sometimes stalls while others run on. If a reader waits for a part three times as long as first bytes
//! usually take, its rest is requested again, and the first answer wins. The cost is bounded by a share of all fetched
//! bytes, so that an origin in trouble does not get twice the load.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use tokio::time::{Instant, sleep_until};

use super::request::{PartRequest, Request};
use tidegate_origin::cause::run_for;
use tidegate_origin::{Answer, Body, Cause, Get, OriginError, Priority};
use tidegate_plan::ByteRange;

/// The factor on the usual time from which an answer counts as late.
const LATE_FACTOR: u32 = 3;

/// The minimum wait. Shorter ones are as often due to the scheduler or the disk as to the network.
const MIN_WAIT: Duration = Duration::from_millis(50);

/// The hedged share: one of this many fetched bytes, and a number of bytes allowed from the start.
const HEDGED_SHARE: u64 = 100;
const FIRST_ALLOWANCE: u64 = 1 << 20;

/// Bytes that an abandoned connection sent and that were never read: they sit in the buffers of both sides, which grow
/// to some mebibytes. A second request costs this much, or the missing bytes if they are fewer.
const BUFFERED_BYTES: u64 = 4 << 20;

/// Sends a second request if the first is late.
pub(crate) struct HedgedRequest(pub(crate) Arc<dyn Request>);

impl Request for HedgedRequest {
    fn send<'a>(
        &'a self,
        request: &'a PartRequest,
        get: Get,
    ) -> BoxFuture<'a, Result<Answer, OriginError>> {
        let send = async move {
            let (origin, sent) = (&request.fetches.origin, Instant::now());
            let mut first = self.0.send(request, get.clone());
            tokio::select! {
                biased;
                answer = &mut first => answer,
                () = request.late() => {
                    let again = origin.get(Get { priority: Priority::Demand, ..get });
                    let again = run_for(Cause::Hedge, again);
                    tokio::select! {
                        answer = first => answer,
                        Ok(answer) = again => {
                            request.fetches.rate.record_first_byte(sent.elapsed());
                            Ok(answer)
                        }
                    }
                }
            }
        };
        send.boxed()
    }

    fn body(&self, request: PartRequest, body: Body) -> Body {
        let body = self.0.body(request.clone(), body);
        let body = HedgedBody { request, body };
        stream::unfold(body, |mut body| async move {
            let frame = body.next_frame().await?;
            Some((frame, body))
        })
        .boxed()
    }
}

/// The body of a part, or of a second request for its rest.
struct HedgedBody {
    request: PartRequest,
    body: Body,
}

impl HedgedBody {
    /// Returns the next frame; if the body stalls, of a second request's body.
    async fn next_frame(&mut self) -> Option<Result<Bytes, OriginError>> {
        let Self { request, body } = self;
        let frame = tokio::select! {
            biased;
            frame = body.next() => frame,
            () = request.late() => {
                let replaced = tokio::select! {
                    frame = body.next() => Err(frame),
                    rest = request.rest() => Ok(rest),
                };
                match replaced {
                    Err(frame) => frame,
                    Ok(rest) => {
                        *body = rest;
                        body.next().await
                    }
                }
            }
        };
        if let Some(Ok(frame)) = &frame {
            let missing = &mut request.missing;
            missing.start = missing.end.min(missing.start + frame.len() as u64);
        }
        frame
    }
}

impl PartRequest {
    /// Requests the missing rest of the part again. Never returns if that fails: then the first body must do.
    async fn rest(&self) -> Body {
        let range = self.missing;
        let get = self.get(range, Priority::Demand);
        let answer = run_for(Cause::Hedge, self.fetches.origin.get(get)).await;
        match answer.and_then(|answer| self.body_of(answer, range)) {
            Ok(body) => body,
            Err(_) => pending().await,
        }
    }

    /// Returns whether a reader waits for the first missing byte.
    fn is_awaited(&self) -> bool {
        let ByteRange { start, end } = self.missing;
        let index = self.fetches.core.geometry.index(start);
        let flight = self.fetches.flights().get(&index).cloned();
        let own = flight.filter(|flight| start < end && Arc::ptr_eq(&flight.part, &self.part));
        own.is_some_and(|flight| flight.is_awaited())
    }

    /// Returns when the wait for the origin is late, a reader waits, and the hedged share allows another request.
    async fn late(&self) {
        let Some(usual) = self.fetches.rate.first_byte() else {
            return pending().await;
        };
        let metrics = &self.fetches.core.metrics;
        let late = (usual * LATE_FACTOR).max(MIN_WAIT);
        let cost = self.missing.len().min(BUFFERED_BYTES);
        loop {
            let due = Instant::now() + late;
            sleep_until(due).await;
            // A late timer shows that this machine is busy, not that the origin is.
            let is_busy = due.elapsed() > late / 4;
            let allowed = FIRST_ALLOWANCE + metrics.fetched.get() / HEDGED_SHARE;
            if self.is_awaited() && !is_busy && metrics.hedged.get() + cost <= allowed {
                metrics.hedges.inc();
                metrics.hedged.inc_by(cost);
                return;
            }
        }
    }
}
