//! The way of finished spans to a collector: in batches, and never in the way of a request.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::otlp::{self, Resource};
use super::span::FinishedSpan;
use crate::names;

/// The most spans of one batch.
const MAX_BATCH: usize = 512;

/// The time that a batch waits for more spans.
const LINGER: Duration = Duration::from_secs(1);

/// The counts of spans, by what became of them.
#[derive(Debug, Clone)]
pub(super) struct TraceMetrics {
    all: Family<[(&'static str, &'static str); 1], Counter>,
    pub(super) dropped: Counter,
    sent: Counter,
    failed: Counter,
}

impl Default for TraceMetrics {
    fn default() -> Self {
        let all = Family::<[(&'static str, &'static str); 1], Counter>::default();
        let of = |result| all.get_or_create_owned(&[("result", result)]);
        Self {
            dropped: of("dropped"),
            sent: of("sent"),
            failed: of("failed"),
            all,
        }
    }
}

/// A collector of spans.
pub trait Collector: Send {
    /// Delivers a batch in bounded time. Returns whether the collector took it.
    fn deliver(&self, batch: Vec<u8>) -> impl Future<Output = bool> + Send;
}

/// The end of the queue of finished spans.
#[derive(Debug)]
pub struct Exporter {
    queue: mpsc::Receiver<FinishedSpan>,
    metrics: TraceMetrics,
}

impl Exporter {
    pub(super) fn new(queue: mpsc::Receiver<FinishedSpan>, metrics: TraceMetrics) -> Self {
        Self { queue, metrics }
    }

    /// Registers the counts of spans.
    pub fn register(&self, registry: &mut Registry) {
        names::TRACE_SPANS.register(registry, self.metrics.all.clone());
    }

    /// Delivers spans until `stop` ends, and then those that are queued, in one batch. A batch that the collector does not
    /// take is dropped: spans are no news after a while, and the next ones need the room.
    pub async fn run(
        mut self,
        resource: Resource,
        collector: impl Collector,
        stop: impl Future<Output = ()>,
    ) {
        let mut stop = std::pin::pin!(stop);
        let mut batch = Vec::with_capacity(MAX_BATCH);
        let mut stopped = false;
        while !stopped {
            tokio::select! {
                () = &mut stop => stopped = true,
                first = self.queue.recv() => match first {
                    Some(span) => batch.push(span),
                    None => stopped = true,
                },
            }
            let end = Instant::now() + LINGER;
            while !stopped && batch.len() < MAX_BATCH {
                let room = MAX_BATCH - batch.len();
                tokio::select! {
                    () = &mut stop => stopped = true,
                    () = sleep_until(end) => break,
                    _ = self.queue.recv_many(&mut batch, room) => {}
                }
            }
            while batch.len() < MAX_BATCH
                && let Ok(span) = self.queue.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                continue;
            }
            let count = batch.len() as u64;
            let taken = collector.deliver(otlp::encode(&resource, &batch)).await;
            match taken {
                true => self.metrics.sent.inc_by(count),
                false => self.metrics.failed.inc_by(count),
            };
            batch.clear();
        }
    }
}
