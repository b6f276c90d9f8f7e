//! A second request for what a reader waits for and the first is late with.
//!
//! Connections stall now and then while others run on. When the part at the head of the line keeps
//! a reader waiting for three times as long as first bytes usually take, the rest of it is asked for
//! once more, and whichever comes first is taken. What that may cost is bounded, as a share of all
//! that is fetched, so that an origin in trouble does not get twice the load.

use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::{Instant, sleep_until};

use super::fetch::Fetch;
use crate::origin::{Answer, Body, Get, OriginError, Priority};
use crate::plan::ByteRange;

/// How much later than usual is late.
const LATE: u32 = 3;

/// Waits shorter than this are the scheduler's and the disk's as often as the network's.
const AT_LEAST: Duration = Duration::from_millis(50);

/// One byte in so many that are fetched may be fetched for a second request, and these at once.
const SHARE: u64 = 100;
const AT_ONCE: u64 = 1 << 20;

/// What a connection that is given up has sent beyond what was read: it sits in the buffers of both
/// sides, which grow to some mebibytes. A second request costs that much, or what is still to come if that
/// is less.
const BUFFERED: u64 = 4 << 20;

impl Fetch {
    /// Asks, and asks again when the answer is late.
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

    /// The next piece of a body, from a second request when the first one stalls.
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

    /// What is still missing of the part, asked for anew. Never ends where that fails: then the
    /// first body has to do.
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

    /// Ends when the wait for the origin has become late, a reader waits, and another request may
    /// be spent on it.
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
            // A timer that is late itself says that this machine is busy, not that the origin is.
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
