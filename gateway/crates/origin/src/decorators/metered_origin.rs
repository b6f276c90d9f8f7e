//! Metrics of requests, their results and their bytes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use futures_core::future::BoxFuture;
use tokio::time::Instant;

use crate::metrics::{Meter, word};
use crate::{
    Answer, Body, Cause, Content, Get, List, Listing, Origin, OriginError, OriginWrite, Write,
    WriteOutcome,
};
use tidegate_plan::{Bucket, ObjectKey, OriginId, Version};
use tidegate_telemetry::trace::{self, Kind, Span};

/// An origin that counts requests and received bytes.
#[derive(Debug)]
pub(crate) struct MeteredOrigin {
    inner: Arc<dyn Origin>,
    meter: Meter,
}

impl MeteredOrigin {
    /// Counts the requests to `inner`.
    pub(crate) fn new(inner: Arc<dyn Origin>, meter: Meter) -> Self {
        Self { inner, meter }
    }

    /// Measures a request that has the cause `own`, unless the task carries another one at the first poll.
    async fn measure<T>(
        &self,
        (kind, own): (&'static str, Cause),
        good: impl FnOnce(&T) -> &'static str,
        ask: impl Future<Output = Result<T, OriginError>>,
    ) -> Result<T, OriginError> {
        let cause = Cause::current(own);
        let mut outcome = RequestOutcome {
            meter: &self.meter,
            kind,
            result: "abandoned",
            cause,
        };
        let begun = Instant::now();
        let mut span = self.span(kind, cause);
        let answer = trace::within(span.as_ref(), ask).await;
        outcome.result = answer.as_ref().map_or_else(word, good);
        if let Some(span) = &mut span {
            span.set("tidegate.result", outcome.result);
            if answer.is_err() {
                span.fail();
            }
        }
        if answer.is_ok() {
            self.meter.observe_answer(begun.elapsed());
        }
        answer
    }

    /// Begins the step of a trace that is this request, to the head of its answer.
    fn span(&self, kind: &'static str, cause: Cause) -> Option<Span> {
        let mut span = trace::span("origin request", Kind::Client)?;
        span.set("tidegate.origin", self.meter.name().to_owned());
        span.set("tidegate.kind", kind);
        span.set("tidegate.cause", cause.as_str());
        Some(span)
    }
}

/// A request, counted when it is answered or dropped.
struct RequestOutcome<'a> {
    meter: &'a Meter,
    kind: &'static str,
    result: &'static str,
    cause: Cause,
}

impl Drop for RequestOutcome<'_> {
    fn drop(&mut self) {
        self.meter.count_request(self.kind, self.result, self.cause);
    }
}

impl Origin for MeteredOrigin {
    fn id(&self) -> OriginId {
        self.inner.id()
    }

    fn bucket(&self) -> Bucket {
        self.inner.bucket()
    }

    fn get(&self, request: Get) -> BoxFuture<'_, Result<Answer, OriginError>> {
        let good = |answer: &Answer| match answer {
            Answer::Content(_) => "content",
            Answer::NotModified { .. } => "not_modified",
        };
        Box::pin(async move {
            let cause = Cause::current(request.priority.into());
            let asked = self.inner.get(request);
            let answer = self.measure(("get", cause), good, asked).await?;
            Ok(match answer {
                Answer::Content(content) => Answer::Content(Content {
                    body: Box::pin(CountedBody {
                        body: content.body,
                        meter: self.meter.clone(),
                        cause,
                    }),
                    ..content
                }),
                answer => answer,
            })
        })
    }

    fn head(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>> {
        let good = |_: &Version| "content";
        // Readers and mounts say what they ask for.
        Box::pin(self.measure(("head", Cause::Write), good, self.inner.head(key)))
    }

    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>> {
        let good = |found: &Option<Version>| match found {
            Some(_) => "content",
            None => "not_found",
        };
        Box::pin(self.measure(("head", Cause::Names), good, self.inner.peek(key)))
    }

    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>> {
        let good = |_: &Listing| "content";
        Box::pin(self.measure(("list", Cause::Names), good, self.inner.list(request)))
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>> {
        let good = |(): &()| "content";
        Box::pin(self.measure(("probe", Cause::Probe), good, self.inner.probe()))
    }
}

impl OriginWrite for MeteredOrigin {
    fn write(&self, mut write: Write) -> BoxFuture<'_, Result<WriteOutcome, OriginError>> {
        let kind = write.kind();
        if let Some(payload) = write.payload_mut() {
            let meter = self.meter.clone();
            *payload = payload.clone().observed(move |bytes| meter.sent(bytes));
        }
        Box::pin(async move {
            let mut outcome = RequestOutcome {
                meter: &self.meter,
                kind,
                result: "abandoned",
                cause: Cause::current(Cause::Write),
            };
            let mut span = self.span(kind, outcome.cause);
            let answer = trace::within(span.as_ref(), self.inner.write(write)).await;
            outcome.result = answer.as_ref().map_or_else(word, |_| "written");
            if let Some(span) = &mut span {
                span.set("tidegate.result", outcome.result);
            }
            answer
        })
    }
}

/// A body whose bytes are counted.
struct CountedBody {
    body: Body,
    meter: Meter,
    cause: Cause,
}

impl Stream for CountedBody {
    type Item = Result<Bytes, OriginError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.body.as_mut().poll_next(cx));
        match &item {
            Some(Ok(frame)) => {
                self.meter.received(self.cause, frame.len());
            }
            Some(Err(error)) => self.meter.count_broken_body(error),
            None => {}
        }
        Poll::Ready(item)
    }
}

#[cfg(test)]
mod tests;
