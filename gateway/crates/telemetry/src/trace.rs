//! Traces: the steps of one request, as spans that a collector shows.
//!
//! A frontend begins a trace for some of its requests ([`Tracer::begin`]). The task that carries the request knows its
//! present span ([`current`]); each step that is worth a line makes a child of it ([`span()`]) and runs within it
//! ([`within`]). A task that is spawned knows nothing of it unless [`carry`] hands it over. Without a trace, a step makes
//! no span and reads no clock.
//!
//! A finished span goes into a bounded queue, or is dropped and counted: no request waits for a collector. [`export`]
//! empties the queue.

pub mod export;
pub mod otlp;
mod span;
pub mod traceparent;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use tokio::sync::mpsc;

use crate::random;
use export::{Exporter, TraceMetrics};
pub use span::{FinishedSpan, Kind, Span, Value};
use traceparent::Traceparent;

tokio::task_local! {
    static CURRENT: Option<Context>;
}

/// The most spans of one trace. A film has thousands of parts; the first of them tell the story.
const MAX_SPANS: u32 = 256;

/// The most finished spans that wait for the exporter: some megabytes.
const MAX_QUEUE: usize = 4096;

/// Begins traces.
#[derive(Debug)]
pub struct Tracer {
    /// The share of requests that are traced.
    sample: f64,
    /// Whether the sampled flag of a `traceparent` decides instead.
    follow_parent: bool,
    spans: mpsc::Sender<FinishedSpan>,
    metrics: TraceMetrics,
}

impl Tracer {
    /// Returns a tracer of the share `sample` of all requests, and the exporter of its spans.
    #[must_use]
    pub fn new(sample: f64, follow_parent: bool) -> (Arc<Self>, Exporter) {
        let (spans, queue) = mpsc::channel(MAX_QUEUE);
        let metrics = TraceMetrics::default();
        let tracer = Self {
            sample,
            follow_parent,
            spans,
            metrics: metrics.clone(),
        };
        (Arc::new(tracer), Exporter::new(queue, metrics))
    }

    /// Begins the trace of a request, if it is one of those that are traced. `parent` is its header `traceparent`.
    #[must_use]
    pub fn begin(self: &Arc<Self>, name: &'static str, parent: Option<&str>) -> Option<Span> {
        let parent = parent.and_then(Traceparent::parse);
        let is_traced = match parent {
            Some(parent) if self.follow_parent => parent.sampled,
            // An outsider chooses neither by the flag nor by the id.
            _ => random::draw() < self.sample,
        };
        if !is_traced {
            return None;
        }
        let trace = parent.map_or_else(
            || u128::from(id()) << 64 | u128::from(id()),
            |parent| parent.trace,
        );
        let context = Context {
            tracer: self.clone(),
            trace,
            span: id(),
            left: Arc::new(AtomicU32::new(MAX_SPANS)),
        };
        let parent = parent.map(|parent| parent.span);
        Some(Span::new(context, parent, name, Kind::Server))
    }

    /// Queues a finished span, unless too many wait.
    fn finish(&self, span: FinishedSpan) {
        if self.spans.try_send(span).is_err() {
            self.metrics.dropped.inc();
        }
    }
}

/// A place in a trace: its present span.
#[derive(Debug, Clone)]
pub struct Context {
    tracer: Arc<Tracer>,
    trace: u128,
    span: u64,
    /// The spans that the trace may still have.
    left: Arc<AtomicU32>,
}

impl Context {
    /// Returns the header that hands the trace on to another server.
    #[must_use]
    pub fn traceparent(&self) -> String {
        let (trace, span) = (self.trace, self.span);
        Traceparent {
            trace,
            span,
            sampled: true,
        }
        .to_string()
    }
}

/// Returns the place in a trace of the polled task; `None`: it is not traced.
#[must_use]
pub fn current() -> Option<Context> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

/// Begins a step of the polled task's trace. `None`: it is not traced, or has too many spans already.
#[must_use]
pub fn span(name: &'static str, kind: Kind) -> Option<Span> {
    let is_traced = CURRENT.try_with(Option::is_some);
    if !is_traced.unwrap_or(false) {
        return None;
    }
    Span::child(&current()?, name, kind)
}

/// Runs work within a step, so that further steps are below it. Without one, the work runs where the task is.
pub async fn within<T>(span: Option<&Span>, work: impl Future<Output = T>) -> T {
    let Some(span) = span else {
        return work.await;
    };
    CURRENT.scope(Some(span.context().clone()), work).await
}

/// Calls `work` within a step; see [`within`].
pub fn call_within<T>(span: &Span, work: impl FnOnce() -> T) -> T {
    CURRENT.sync_scope(Some(span.context().clone()), work)
}

/// Hands the place of the polled task over to work that another task will run.
pub fn carry<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    CURRENT.scope(current(), work)
}

/// Returns a random id: none is 0.
fn id() -> u64 {
    random::number().max(1)
}

#[cfg(test)]
mod tests;
