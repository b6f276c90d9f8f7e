//! The way of finished spans to a collector: in batches, and never in the way of a request.

use std::future::pending;
use std::pin::Pin;
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

/// The end of the queue of finished spans. Its drop counts the spans that are left as dropped.
#[derive(Debug)]
pub struct Exporter {
    queue: mpsc::Receiver<FinishedSpan>,
    /// The spans that were taken from the queue and are not counted yet.
    batch: Vec<FinishedSpan>,
    metrics: TraceMetrics,
}

impl Drop for Exporter {
    fn drop(&mut self) {
        // Spans that end from now on are counted by the tracer.
        self.queue.close();
        let left = self.batch.len() + self.queue.len();
        self.metrics.dropped.inc_by(left as u64);
    }
}

impl Exporter {
    pub(super) fn new(queue: mpsc::Receiver<FinishedSpan>, metrics: TraceMetrics) -> Self {
        Self {
            queue,
            batch: Vec::with_capacity(MAX_BATCH),
            metrics,
        }
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
        let mut stopped = false;
        while !stopped {
            stopped = self.fill(stop.as_mut()).await;
            if self.batch.is_empty() {
                continue;
            }
            let count = self.batch.len() as u64;
            let batch = otlp::encode(&resource, &self.batch);
            match collector.deliver(batch).await {
                true => self.metrics.sent.inc_by(count),
                false => self.metrics.failed.inc_by(count),
            };
            self.batch.clear();
        }
    }

    /// Takes spans until a batch is full or has waited for long enough. Returns whether it is the last one: `stop` has
    /// ended, or every tracer is gone.
    async fn fill(&mut self, mut stop: Pin<&mut impl Future<Output = ()>>) -> bool {
        // The first one may come at any time, the others within a while.
        let (mut stopped, mut end) = (false, None);
        while !stopped && self.batch.len() < MAX_BATCH {
            let room = MAX_BATCH - self.batch.len();
            let lingered = async {
                match end {
                    Some(end) => sleep_until(end).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => stopped = true,
                () = lingered => break,
                count = self.queue.recv_many(&mut self.batch, room) => stopped = count == 0,
            }
            end.get_or_insert_with(|| Instant::now() + LINGER);
        }
        while self.batch.len() < MAX_BATCH
            && let Ok(span) = self.queue.try_recv()
        {
            self.batch.push(span);
        }
        stopped
    }
}
