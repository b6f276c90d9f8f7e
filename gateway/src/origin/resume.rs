//! Tries again what failed for a passing reason, and carries a broken body on from the byte it
//! reached.
//!
//! A body goes on only on its own version (`If-Match`): if the object changed meanwhile, the
//! reader is told so, and never gets bytes of two versions. How often and when is
//! [`Retry`]'s decision; a body that got on by [`PROGRESS`] since it last broke starts counting
//! anew, so that a long body over a mediocre line ends whole, while one that breaks at every step
//! still ends.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use futures_core::future::BoxFuture;

use super::metrics::Meter;
use super::random::draw;
use super::{
    Answer, Body, Condition, Content, Get, List, Listing, Origin, OriginError, OriginWrite,
    Priority, Write, Wrote, breaker,
};
use crate::plan::retry::Retry;
use crate::plan::{Bucket, ByteRange, ObjectKey, OriginId, RangeSpec, Version};

/// What a body must have brought since it last broke, for its retries to count anew: a mebibyte
/// costs several round trips at any distance, so that retrying stays the smaller part of the work.
const PROGRESS: u64 = 1 << 20;

/// An origin that does not give up at the first failure.
#[derive(Debug)]
pub struct Resume {
    inner: Arc<dyn Origin>,
    retry: Retry,
    meter: Meter,
}

impl Resume {
    /// Retries what `inner` fails at for a passing reason.
    #[must_use]
    pub fn new(inner: Arc<dyn Origin>, retry: Retry, meter: Meter) -> Self {
        Self {
            inner,
            retry,
            meter,
        }
    }

    async fn persist<'a, T>(
        &'a self,
        ask: impl Fn() -> BoxFuture<'a, Result<T, OriginError>>,
    ) -> Result<T, OriginError> {
        let mut tries = Tries {
            retry: self.retry,
            done: 0,
        };
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(error) => tries.again(error, &self.meter).await?,
            }
        }
    }
}

/// Counts the tries of one question.
struct Tries {
    retry: Retry,
    done: u32,
}

impl Tries {
    /// Returns when it is time to try again, or with the error if that is of no use.
    async fn again(&mut self, error: OriginError, meter: &Meter) -> Result<(), OriginError> {
        let asked = match &error {
            OriginError::Throttled { retry_after } => *retry_after,
            _ => None,
        };
        let useful = error.is_transient() && error != breaker::OPEN;
        let pause = self.retry.pause(self.done, asked, draw());
        let Some(pause) = pause.filter(|_| useful) else {
            return Err(error);
        };
        tracing::debug!(%error, retry = self.done + 1, ?pause, "trying the origin again");
        meter.retried();
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
                // Once: nobody waits, and a reader that comes asks for itself.
                Priority::Spare => self.inner.get(request.clone()).await?,
                _ => self.persist(|| self.inner.get(request.clone())).await?,
            };
            Ok(match answer {
                Answer::Content(content) => Answer::Content(self.carry_on(request, content)),
                answer => answer,
            })
        })
    }

    fn head(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>> {
        let key = key.clone();
        Box::pin(async move { self.persist(|| self.inner.head(&key)).await })
    }

    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>> {
        let key = key.clone();
        Box::pin(async move { self.persist(|| self.inner.peek(&key)).await })
    }

    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>> {
        Box::pin(async move { self.persist(|| self.inner.list(request.clone())).await })
    }

    /// Once: who asks for readiness asks again anyway.
    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>> {
        self.inner.probe()
    }
}

impl OriginWrite for Resume {
    /// What may have been carried out already is sent again only where that does no harm.
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Wrote, OriginError>> {
        Box::pin(async move {
            let mut tries = Tries {
                retry: self.retry,
                done: 0,
            };
            loop {
                let error = match self.inner.write(write.clone()).await {
                    Ok(wrote) => return Ok(wrote),
                    Err(error) => error,
                };
                if !write.is_idempotent() && !error.proves_undone() {
                    return Err(error);
                }
                tries.again(error, &self.meter).await?;
            }
        })
    }
}

impl Resume {
    /// Makes the body go on where it breaks.
    fn carry_on(&self, request: Get, content: Content) -> Content {
        let rest = Rest {
            origin: self.inner.clone(),
            meter: self.meter.clone(),
            request: Get {
                condition: Condition::Match {
                    etag: content.version.etag.clone(),
                    version_id: content.version.version_id.clone(),
                },
                // What has begun may have a reader by now.
                priority: request.priority.min(Priority::Ahead),
                ..request
            },
            tries: Tries {
                retry: self.retry,
                done: 0,
            },
            left: content.range,
            since: content.range.start,
        };
        Content {
            body: Box::pin(Resumed {
                state: Some(Flow::Body(content.body, Box::new(rest))),
            }),
            ..content
        }
    }
}

/// What a broken body needs to go on.
struct Rest {
    origin: Arc<dyn Origin>,
    meter: Meter,
    /// The question, but for its range.
    request: Get,
    tries: Tries,
    /// The bytes not yet handed out.
    left: ByteRange,
    /// Where the body began that flows now.
    since: u64,
}

impl Rest {
    fn handed_out(&mut self, bytes: u64) {
        self.left.start += bytes;
        if self.left.start - self.since >= PROGRESS {
            self.tries.done = 0;
        }
    }

    /// Asks for the bytes that are left, until they come or it is of no use.
    async fn reopen(mut self: Box<Self>, mut error: OriginError) -> Result<Reopened, OriginError> {
        if self.left.is_empty() {
            return Err(error);
        }
        loop {
            self.tries.again(error, &self.meter).await?;
            let mut request = self.request.clone();
            request.range = Some(RangeSpec::Bounded {
                first: self.left.start,
                last: self.left.end - 1,
            });
            error = match self.origin.get(request).await {
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

type Reopened = (Body, Box<Rest>);

/// Where a body stands.
enum Flow {
    /// It flows.
    Body(Body, Box<Rest>),
    /// It broke, and the rest is being asked for.
    Broken(BoxFuture<'static, Result<Reopened, OriginError>>),
}

/// A body that goes on where it breaks.
struct Resumed {
    /// `None` once it ended, well or not.
    state: Option<Flow>,
}

impl Stream for Resumed {
    type Item = Result<Bytes, OriginError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match &mut self.state {
                None => return Poll::Ready(None),
                Some(Flow::Body(body, rest)) => match ready!(body.as_mut().poll_next(cx)) {
                    Some(Ok(frame)) => {
                        rest.handed_out(frame.len() as u64);
                        return Poll::Ready(Some(Ok(frame)));
                    }
                    Some(Err(error)) => {
                        let Some(Flow::Body(broken, rest)) = self.state.take() else {
                            unreachable!("matched just above");
                        };
                        drop(broken);
                        self.state = Some(Flow::Broken(Box::pin(rest.reopen(error))));
                    }
                    None => self.state = None,
                },
                Some(Flow::Broken(reopening)) => match ready!(reopening.as_mut().poll(cx)) {
                    Ok((body, rest)) => self.state = Some(Flow::Body(body, rest)),
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
