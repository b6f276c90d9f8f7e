//! The streams of an HTTP/2 connection, and the detection of those that their client has stopped reading.
//!
//! A stream lives from the head of its request until its client has taken the last byte of its answer. Only these bytes
//! are progress: hyper and h2 buffer frames, and answer PING and SETTINGS, whatever the client does. [`Outgoing`]
//! counts them, because h2 advances a frame only as far as the peer's windows and the socket take it. The watchdog
//! compares the counts with those of its last check, so that a frame needs no clock.
//!
//! A stalled stream is reset by ending the task that hyper runs it in. If that task has ended, and only h2's buffer
//! holds the rest of the answer, only the connection can be ended.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use bytes::{Buf, Bytes};
use hyper::rt::Executor;
use prometheus_client::metrics::gauge::Gauge;
use tokio::task::AbortHandle;

/// The task of a stream, known a moment after it was begun.
type Task = Arc<OnceLock<AbortHandle>>;

tokio::task_local! {
    /// The running task.
    static CURRENT: Task;
}

/// Runs the streams of HTTP/2 connections, each in a task that can be ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StreamTasks;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamTasks {
    fn execute(&self, stream: F) {
        let own = Task::default();
        let task = tokio::spawn(CURRENT.scope(own.clone(), stream));
        own.get_or_init(|| task.abort_handle());
    }
}

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    /// Bytes of the answer that the client has taken.
    taken: AtomicU64,
    /// Whether it waits for the server, not for its client.
    waits_for_us: AtomicBool,
    task: Option<Task>,
    /// All open streams, of all connections.
    open: Gauge,
}

impl Stream {
    /// Begins the stream of the calling task. It waits for the server.
    pub(super) fn begin(open: &Gauge) -> Arc<Self> {
        open.inc();
        Arc::new(Self {
            taken: AtomicU64::new(0),
            waits_for_us: AtomicBool::new(true),
            task: CURRENT.try_with(Clone::clone).ok(),
            open: open.clone(),
        })
    }

    /// Notes that its wait passes from the client to the server, or back.
    pub(super) fn waits_for_us(&self, for_us: bool) {
        self.waits_for_us.store(for_us, Relaxed);
    }

    /// Ends its task; returns whether there was one.
    fn reset(&self) -> bool {
        let task = self.task.as_ref().and_then(|task| task.get());
        let Some(task) = task.filter(|task| !task.is_finished()) else {
            return false;
        };
        task.abort();
        true
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.open.dec();
    }
}

/// Bytes of an answer that are counted in their stream when the client takes them.
#[derive(Debug)]
pub(super) struct Outgoing {
    bytes: Bytes,
    stream: Option<Arc<Stream>>,
}

impl Outgoing {
    pub(super) fn new(bytes: Bytes, stream: Option<Arc<Stream>>) -> Self {
        Self { bytes, stream }
    }
}

impl Buf for Outgoing {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.bytes.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(stream) = &self.stream {
            stream.taken.fetch_add(count as u64, Relaxed);
        }
    }
}

/// The streams of one connection.
#[derive(Debug, Default)]
pub(super) struct Streams(Mutex<VecDeque<Seen>>);

/// A stream, as the watchdog saw it last.
#[derive(Debug)]
struct Seen {
    stream: Weak<Stream>,
    taken: u64,
    /// When it last moved, in milliseconds.
    since: u64,
}

/// The number of listed streams from which ended ones are removed before the next check.
const MAX_ENDED: usize = 256;

/// The result of a check of the streams.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// Streams that are open, and the stalled ones among them.
    pub(super) open: usize,
    pub(super) stalled: usize,
    /// The stalled streams that could be reset.
    pub(super) reset: usize,
    /// Streams that ended since the last check, and were still listed.
    pub(super) ended: usize,
}

impl Streams {
    fn seen(&self) -> MutexGuard<'_, VecDeque<Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a stream that begins now.
    pub(super) fn add(&self, stream: &Arc<Stream>, now: u64) {
        let mut seen = self.seen();
        if seen.len() >= MAX_ENDED {
            seen.retain(|seen| seen.stream.strong_count() > 0);
        }
        seen.push_back(Seen {
            stream: Arc::downgrade(stream),
            taken: 0,
            since: now,
        });
    }

    /// Returns whether more than `count` are open.
    pub(super) fn exceed(&self, count: usize) -> bool {
        let seen = self.seen();
        let open = |seen: &&Seen| seen.stream.strong_count() > 0;
        seen.len() > count && seen.iter().filter(open).nth(count).is_some()
    }

    /// Resets the streams whose client took no bytes for `limit` milliseconds, though they wait for it.
    pub(super) fn look(&self, now: u64, limit: u64) -> Look {
        let mut seen = self.seen();
        let (before, mut look) = (seen.len(), Look::default());
        seen.retain_mut(|seen| {
            let Some(stream) = seen.stream.upgrade() else {
                return false;
            };
            look.open += 1;
            let taken = stream.taken.load(Relaxed);
            if taken != seen.taken || stream.waits_for_us.load(Relaxed) {
                (seen.taken, seen.since) = (taken, now);
            } else if now.saturating_sub(seen.since) >= limit {
                look.stalled += 1;
                look.reset += usize::from(stream.reset());
            }
            true
        });
        look.ended = before - seen.len();
        look
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handed(streams: &Streams, open: &Gauge, now: u64) -> (Arc<Stream>, Outgoing) {
        let stream = Stream::begin(open);
        streams.add(&stream, now);
        stream.waits_for_us(false);
        let bytes = Outgoing::new(Bytes::from_static(&[7; 100]), Some(stream.clone()));
        (stream, bytes)
    }

    #[test]
    fn only_bytes_that_are_taken_are_progress() {
        let (streams, open) = (Streams::default(), Gauge::default());
        let (stream, mut bytes) = handed(&streams, &open, 0);
        let look = |now| streams.look(now, 30);
        assert_eq!((look(29).stalled, look(30).stalled), (0, 1));
        bytes.advance(1);
        assert_eq!((look(31).stalled, look(60).stalled), (0, 0));
        assert_eq!(look(61).stalled, 1);
        stream.waits_for_us(true);
        assert_eq!(look(1000).stalled, 0, "we are slow, not the client");
        stream.waits_for_us(false);
        assert_eq!((look(1029).stalled, look(1030).stalled), (0, 1));
        drop(stream);
        assert_eq!(look(1030).open, 1, "the client has not taken the rest");
        drop(bytes);
        let ended = Look {
            ended: 1,
            ..Look::default()
        };
        assert_eq!((look(1031), look(1032)), (ended, Look::default()));
    }

    #[test]
    fn ended_streams_are_forgotten_and_open_ones_counted() {
        let (streams, open) = (Streams::default(), Gauge::default());
        let kept: Vec<_> = (0..3).map(|_| handed(&streams, &open, 0)).collect();
        for _ in 0..10 * MAX_ENDED {
            handed(&streams, &open, 0);
        }
        assert!(streams.seen().len() <= MAX_ENDED);
        assert_eq!(open.get(), 3);
        assert!(streams.exceed(2) && !streams.exceed(3));
        drop(kept);
        assert!(!streams.exceed(0));
    }

    #[tokio::test]
    async fn a_stalled_stream_is_reset_with_its_task() {
        let (streams, open) = (Arc::new(Streams::default()), Gauge::default());
        let (begun, begins) = tokio::sync::oneshot::channel();
        let of_task = streams.clone();
        StreamTasks.execute(async move {
            let stream = handed(&of_task, &open, 0);
            begun.send(open).expect("it is waited for");
            std::future::pending::<()>().await;
            drop(stream);
        });
        let open = begins.await.expect("it runs");
        let look = streams.look(30, 30);
        assert_eq!((look.stalled, look.reset), (1, 1));
        while open.get() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(streams.look(30, 30).open, 0);
    }
}
