//! Retries after transient errors, and the continuation of a broken body from the byte that it
//! reached.
//!
//! A body continues only on its own version (`If-Match`). If the object changed meanwhile, the
//! reader gets an error, and never bytes of two versions. [`Retry`] decides the number and the
//! times of tries. If a body has brought [`MIN_PROGRESS`] since it last broke, the count starts anew.
//! So a long body over a mediocre line ends whole, and one that breaks at every step still ends.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use futures_core::future::BoxFuture;
use tokio::time::Instant;

use super::breaker;
use crate::metrics::Meter;
use crate::{
    Answer, Body, Condition, Content, Get, List, Listing, Origin, OriginError, OriginWrite,
    Priority, Write, WriteOutcome,
};
use tidegate_plan::retry::Retry;
use tidegate_plan::{Bucket, ByteRange, ObjectKey, OriginId, RangeSpec, Version};
use tidegate_telemetry::random::draw;

/// The bytes that a body must bring since it last broke for its retries to count anew. A mebibyte
/// costs several round trips at any distance, so retries stay the smaller part of the work.
const MIN_PROGRESS: u64 = 1 << 20;

/// An origin that retries after a transient failure.
#[derive(Debug)]
pub(crate) struct Resume {
    inner: Arc<dyn Origin>,
    retry: Retry,
    meter: Meter,
}

impl Resume {
    /// Retries requests to `inner` that fail with a transient error.
    pub(crate) fn new(inner: Arc<dyn Origin>, retry: Retry, meter: Meter) -> Self {
        Self {
            inner,
            retry,
            meter,
        }
    }

    async fn retry_request<'a, T>(
        &'a self,
        ask: impl Fn() -> BoxFuture<'a, Result<T, OriginError>>,
    ) -> Result<T, OriginError> {
        let mut tries = RetryState {
            retry: self.retry,
            done: 0,
        };
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => tries.pause_or_fail(error, &self.meter).await?,
            }
        }
    }
}

/// The tries of one request.
struct RetryState {
    retry: Retry,
    done: u32,
}

impl RetryState {
    /// Returns when the pause before the next try is over. If another try is useless, returns the
    /// error at once.
    async fn pause_or_fail(
        &mut self,
        error: OriginError,
        meter: &Meter,
    ) -> Result<(), OriginError> {
        let asked = match &error {
            OriginError::Throttled { retry_after } => *retry_after,
            _ => None,
        };
        let useful = error.is_transient() && error != breaker::BREAKER_OPEN;
        let pause = self.retry.pause(self.done, asked, draw());
        let Some(pause) = pause.filter(|_| useful) else {
            return Err(error);
        };
        tracing::debug!(%error, retry = self.done + 1, ?pause, "trying the origin again");
        meter.count_retry();
        self.done += 1;
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

impl Origin for Resume {
    fn id(&self) -> OriginId {
        self.inner.id()
    }

    fn bucket(&self) -> Bucket {
        self.inner.bucket()
    }

    fn get(&self, request: Get) -> BoxFuture<'_, Result<Answer, OriginError>> {
        Box::pin(async move {
            let answer = match request.priority {
                // One try: no reader waits, and a reader that comes sends its own request.
                Priority::Spare => self.inner.get(request.clone()).await?,
                _ => {
                    self.retry_request(|| self.inner.get(request.clone()))
                        .await?
                }
            };
            Ok(match answer {
                Answer::Content(content) => Answer::Content(self.resume_body(request, content)),
                answer => answer,
            })
        })
    }

    fn head(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>> {
        let key = key.clone();
        Box::pin(async move { self.retry_request(|| self.inner.head(&key)).await })
    }

    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>> {
        let key = key.clone();
        Box::pin(async move { self.retry_request(|| self.inner.peek(&key)).await })
    }

    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>> {
        Box::pin(async move {
            self.retry_request(|| self.inner.list(request.clone()))
                .await
        })
    }

    /// Sends one request: a readiness check repeats anyway.
    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>> {
        self.inner.probe()
    }

    fn last_proof(&self) -> Option<Instant> {
        self.inner.last_proof()
    }
}

impl OriginWrite for Resume {
    /// Repeats a write that may have been carried out only if a repetition does no harm.
    fn write(&self, write: Write) -> BoxFuture<'_, Result<WriteOutcome, OriginError>> {
        Box::pin(async move {
            let mut tries = RetryState {
                retry: self.retry,
                done: 0,
            };
            let mut is_unknown = false;
            loop {
                let error = match self.inner.write(write.clone()).await {
                    Ok(wrote) => return Ok(wrote),
                    Err(error) => error,
                };
                if error == OriginError::Changed && is_unknown && self.is_deleted(&write).await {
                    return Ok(WriteOutcome::Done);
                }
                is_unknown |= !error.proves_undone();
                if !write.is_idempotent() && !error.proves_undone() {
                    return Err(error);
                }
                tries.pause_or_fail(error, &self.meter).await?;
            }
        })
    }
}

impl Resume {
    /// Returns whether the object of a deletion is gone. An earlier try has deleted it then, and a store that keeps versions
    /// compares the next one with the delete marker.
    async fn is_deleted(&self, write: &Write) -> bool {
        match write {
            Write::Delete { key, .. } => self.inner.head(key).await == Err(OriginError::NotFound),
            _ => false,
        }
    }

    /// Makes the body continue after it breaks.
    fn resume_body(&self, request: Get, content: Content) -> Content {
        let rest = RemainingRead {
            origin: self.inner.clone(),
            meter: self.meter.clone(),
            request: Get {
                condition: Condition::Match {
                    etag: content.version.etag.clone(),
                    version_id: content.version.version_id.clone(),
                },
                // A request under way may have a reader by now.
                priority: request.priority.min(Priority::Ahead),
                ..request
            },
            version: content.version.clone(),
            tries: RetryState {
                retry: self.retry,
                done: 0,
            },
            left: content.range,
            since: content.range.start,
        };
        Content {
            body: Box::pin(ResumedBody {
                state: Some(ResumeState::Body(content.body, Box::new(rest))),
            }),
            ..content
        }
    }
}

/// The state that a broken body needs to continue.
struct RemainingRead {
    origin: Arc<dyn Origin>,
    meter: Meter,
    /// The request, except for its range.
    request: Get,
    /// The version that the bytes are of.
    version: Arc<Version>,
    tries: RetryState,
    /// The bytes not yet handed out.
    left: ByteRange,
    /// The offset at which the present body began.
    since: u64,
}

impl RemainingRead {
    fn advance(&mut self, bytes: u64) {
        self.left.start += bytes;
        if self.left.start - self.since >= MIN_PROGRESS {
            self.tries.done = 0;
        }
    }

    /// Requests the remaining bytes until they come or another try is useless.
    async fn reopen(
        mut self: Box<Self>,
        mut error: OriginError,
    ) -> Result<ReopenedBody, OriginError> {
        if self.left.is_empty() {
            return Err(error);
        }
        loop {
            self.tries.pause_or_fail(error, &self.meter).await?;
            let mut request = self.request.clone();
            request.range = Some(RangeSpec::Bounded {
                first: self.left.start,
                last: self.left.end - 1,
            });
            error = match self.origin.get(request).await {
                Ok(Answer::Content(content))
                    if !self.version.can_have_bytes_of(&content.version) =>
                {
                    return Err(OriginError::Changed);
                }
                Ok(Answer::Content(content)) if content.range == self.left => {
                    self.since = self.left.start;
                    return Ok((content.body, self));
                }
                Ok(_) => OriginError::BadAnswer("another range than asked for"),
                Err(error) => error,
            };
        }
    }
}

type ReopenedBody = (Body, Box<RemainingRead>);

/// The state of a body.
enum ResumeState {
    /// The body delivers bytes.
    Body(Body, Box<RemainingRead>),
    /// The body broke, and the rest is being requested.
    Broken(BoxFuture<'static, Result<ReopenedBody, OriginError>>),
}

/// A body that continues after it breaks.
struct ResumedBody {
    /// `None` once the body has ended, with or without error.
    state: Option<ResumeState>,
}

impl Stream for ResumedBody {
    type Item = Result<Bytes, OriginError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match &mut self.state {
                None => return Poll::Ready(None),
                Some(ResumeState::Body(body, rest)) => match ready!(body.as_mut().poll_next(cx)) {
                    Some(Ok(frame)) => {
                        rest.advance(frame.len() as u64);
                        return Poll::Ready(Some(Ok(frame)));
                    }
                    Some(Err(error)) => {
                        let Some(ResumeState::Body(broken, rest)) = self.state.take() else {
                            unreachable!("matched just above");
                        };
                        drop(broken);
                        self.state = Some(ResumeState::Broken(Box::pin(rest.reopen(error))));
                    }
                    None => self.state = None,
                },
                Some(ResumeState::Broken(reopening)) => match ready!(reopening.as_mut().poll(cx)) {
                    Ok((body, rest)) => self.state = Some(ResumeState::Body(body, rest)),
                    Err(error) => {
                        self.state = None;
                        return Poll::Ready(Some(Err(error)));
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests;
