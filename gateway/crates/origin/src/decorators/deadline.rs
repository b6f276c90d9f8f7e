//! Deadlines for every wait for an answer: its head, each piece of its body, and all of it.
//!
//! Only time in which a reader waits counts. A reader that pauses between two pieces delays the
//! origin, not the other way round.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_core::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::payload::Payload;
use crate::settings::Deadlines;
use crate::{
    Answer, Body, Content, Get, List, Listing, Origin, OriginError, OriginWrite, Phase, Write,
    WriteOutcome,
};
use tidegate_plan::{Bucket, ObjectKey, OriginId, Version};

/// An origin whose every wait ends. The HTTP client has the deadline for connections (`s3`).
#[derive(Debug)]
pub(crate) struct Deadline {
    inner: Arc<dyn Origin>,
    deadlines: Deadlines,
}

impl Deadline {
    /// Bounds the waits of `inner`.
    pub(crate) fn new(inner: Arc<dyn Origin>, deadlines: Deadlines) -> Self {
        Self { inner, deadlines }
    }

    async fn await_head<T>(
        &self,
        answer: impl Future<Output = Result<T, OriginError>>,
    ) -> Result<T, OriginError> {
        let bound = self.deadlines.first_byte.min(self.deadlines.total);
        timeout(bound, answer)
            .await
            .unwrap_or(Err(OriginError::Timeout(Phase::FirstByte)))
    }
}

impl Origin for Deadline {
    fn id(&self) -> OriginId {
        self.inner.id()
    }

    fn bucket(&self) -> Bucket {
        self.inner.bucket()
    }

    fn get(&self, request: Get) -> BoxFuture<'_, Result<Answer, OriginError>> {
        Box::pin(async move {
            let begun = Instant::now();
            let answer = self.await_head(self.inner.get(request)).await?;
            let Answer::Content(content) = answer else {
                return Ok(answer);
            };
            let left = self.deadlines.total.saturating_sub(begun.elapsed());
            Ok(Answer::Content(Content {
                body: Box::pin(DeadlineBody::new(content.body, self.deadlines.stall, left)),
                ..content
            }))
        })
    }

    fn head(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>> {
        Box::pin(self.await_head(self.inner.head(key)))
    }

    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>> {
        Box::pin(self.await_head(self.inner.peek(key)))
    }

    /// Bounds the head alone: a page has no separate body.
    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>> {
        Box::pin(self.await_head(self.inner.list(request)))
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>> {
        Box::pin(self.await_head(self.inner.probe()))
    }
}

/// The bytes of payload for which the first byte's deadline grows by a second. A store that checks
/// and syncs before it answers may take that long.
const SETTLE_BYTES_PER_SECOND: u64 = 1 << 20;

impl Deadline {
    /// Sends a payload. While bytes are sent, the wait for each is bounded. The answer after them
    /// may take the first byte's deadline, and longer for more bytes.
    async fn send_payload(
        &self,
        mut write: Write,
        payload: Payload,
    ) -> Result<WriteOutcome, OriginError> {
        let length = payload.len();
        let (taken, mut seen) = watch::channel(0_u64);
        let observed = payload.observed(move |bytes| {
            taken.send_modify(|taken| *taken += bytes as u64);
        });
        if let Some(payload) = write.payload_mut() {
            *payload = observed;
        }
        let settle =
            self.deadlines.first_byte + Duration::from_secs(length / SETTLE_BYTES_PER_SECOND);
        let settle = settle.min(self.deadlines.total.max(self.deadlines.first_byte));
        let mut answer = self.inner.write(write);
        loop {
            let all = *seen.borrow_and_update() >= length;
            let (bound, phase) = match all {
                true => (settle, Phase::FirstByte),
                false => (
                    self.deadlines.stall.max(self.deadlines.first_byte),
                    Phase::Stall,
                ),
            };
            tokio::select! {
                answer = &mut answer => return answer,
                // The sender is dropped with the request; then the answer is the next event.
                Ok(()) = seen.changed(), if !all => {}
                () = tokio::time::sleep(bound) => return Err(OriginError::Timeout(phase)),
            }
        }
    }
}

impl OriginWrite for Deadline {
    /// Allows the total time for server-side copies and completions.
    fn write(&self, mut write: Write) -> BoxFuture<'_, Result<WriteOutcome, OriginError>> {
        Box::pin(async move {
            if let Some(payload) = write.payload_mut().cloned() {
                return self.send_payload(write, payload).await;
            }
            let bound = match write {
                Write::CopyPart { .. } | Write::Copy { .. } | Write::Complete { .. } => {
                    self.deadlines.total
                }
                _ => self.deadlines.first_byte.min(self.deadlines.total),
            };
            timeout(bound, self.inner.write(write))
                .await
                .unwrap_or(Err(OriginError::Timeout(Phase::FirstByte)))
        })
    }
}

/// A body with deadlines.
struct DeadlineBody {
    /// `None` once the body has ended, with or without error.
    body: Option<Body>,
    stall: Duration,
    /// The rest of the total time.
    left: Duration,
    /// The time since which the reader waits for the next piece.
    waiting: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl DeadlineBody {
    fn new(body: Body, stall: Duration, left: Duration) -> Self {
        Self {
            body: Some(body),
            stall,
            left,
            waiting: None,
            timer: None,
        }
    }

    /// Ends the wait and charges it to the total.
    fn restart_stall(&mut self) {
        if let Some(since) = self.waiting.take() {
            self.left = self.left.saturating_sub(since.elapsed());
        }
    }

    /// Completes when the current wait has taken too long.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Phase> {
        if self.waiting.is_none() {
            let now = Instant::now();
            let until = now + self.stall.min(self.left);
            self.waiting = Some(now);
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(until),
                None => self.timer = Some(Box::pin(sleep_until(until))),
            }
        }
        let timer = self.timer.as_mut().expect("set just above");
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(if self.left < self.stall {
            Phase::Total
        } else {
            Phase::Stall
        })
    }
}

impl Stream for DeadlineBody {
    type Item = Result<Bytes, OriginError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        // The body is polled before the clock: a piece that is there is never too late.
        if let Poll::Ready(item) = body.as_mut().poll_next(cx) {
            self.restart_stall();
            if !matches!(item, Some(Ok(_))) {
                self.body = None;
            }
            return Poll::Ready(item);
        }
        let phase = ready!(self.poll_deadline(cx));
        self.body = None;
        Poll::Ready(Some(Err(OriginError::Timeout(phase))))
    }
}

#[cfg(test)]
mod tests;
