//! Hedging: a second request for bytes with which the first is late while a reader waits.
//!
//! A connection sometimes stalls while others run on. If a reader waits for a part three times as long as first bytes
//! usually take, its rest is requested again, and the first answer wins. The cost is bounded by a share of all fetched
//! bytes, so that an origin in trouble does not get twice the load.

use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::{Instant, sleep_until};

use super::fetch::Fetch;
use tidegate_origin::{Answer, Body, Get, OriginError, Priority};
use tidegate_plan::ByteRange;

/// The factor on the usual time from which an answer counts as late.
const LATE: u32 = 3;

/// The minimum wait. Shorter ones are as often due to the scheduler or the disk as to the network.
const AT_LEAST: Duration = Duration::from_millis(50);

/// The hedged share: one of this many fetched bytes, and a number of bytes allowed from the start.
const SHARE: u64 = 100;
const AT_ONCE: u64 = 1 << 20;

/// Bytes that an abandoned connection sent and that were never read: they sit in the buffers of both sides, which grow
/// to some mebibytes. A second request costs this much, or the missing bytes if they are fewer.
const BUFFERED: u64 = 4 << 20;

impl Fetch {
    /// Sends the request, and a second one if the answer is late.
    pub(super) async fn ask_twice(&self, get: Get) -> Result<Answer, OriginError> {
        let (origin, asked) = (&self.fill.origin, Instant::now());
        let first = origin.get(get.clone());
        tokio::pin!(first);
        let answer = tokio::select! {
            biased;
            answer = &mut first => answer,
            () = self.late() => {
                let again = origin.get(Get { priority: Priority::Demand, ..get });
                tokio::select! {
                    answer = first => answer,
                    Ok(answer) = again => Ok(answer),
                }
            }
        };
        if answer.is_ok() {
            self.fill.pace.answered(asked.elapsed());
        }
        answer
    }

    /// Returns the next piece of a body; if the body stalls, of a second request's body.
    pub(super) async fn next_frame(&self, body: &mut Body) -> Option<Result<Bytes, OriginError>> {
        tokio::select! {
            biased;
            frame = body.next() => frame,
            () = self.late() => {
                let replaced = tokio::select! {
                    frame = body.next() => return frame,
                    rest = self.rest() => rest,
                };
                *body = replaced;
                body.next().await
            }
        }
    }

    /// Requests the missing rest of the part again. Never returns if that fails: then the first body must do.
    async fn rest(&self) -> Body {
        let end = self.end_byte();
        let range = ByteRange::new(end - self.coming, end);
        match self
            .fill
            .origin
            .get(self.question(range, Priority::Demand))
            .await
        {
            Ok(Answer::Content(content)) if content.range == range => content.body,
            _ => pending().await,
        }
    }

    pub(super) fn is_awaited(&self) -> bool {
        self.flights
            .front()
            .is_some_and(|flight| flight.is_awaited())
    }

    /// Returns when the wait for the origin is late, a reader waits, and the hedged share allows another request.
    async fn late(&self) {
        let Some(usual) = self.fill.pace.first_byte() else {
            return pending().await;
        };
        let metrics = &self.fill.core.metrics;
        let late = (usual * LATE).max(AT_LEAST);
        let cost = self.coming.min(BUFFERED);
        loop {
            let due = Instant::now() + late;
            sleep_until(due).await;
            // A late timer shows that this machine is busy, not that the origin is.
            let is_busy = due.elapsed() > late / 4;
            let allowed = AT_ONCE + metrics.fetched.get() / SHARE;
            if self.is_awaited() && !is_busy && metrics.hedged.get() + cost <= allowed {
                metrics.hedges.inc();
                metrics.hedged.inc_by(cost);
                return;
            }
        }
    }
}
